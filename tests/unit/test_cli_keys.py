"""`orcstream keys` and `mask`, and the options that give other commands keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orcstream import Encrypt, blocking
from orcstream.cli.main import main
from orcstream.io.keys import InMemoryKeyProvider

SECRETS = {"pii": bytes(16), "top": bytes(range(32))}
SCHEMA = "struct<id:bigint,ssn:string,`a.b`:string,n:struct<c:int>>"
ROWS = [{"id": i, "ssn": f"Ab-{i}", "a.b": None if i == 1 else "x", "n": {"c": -i}} for i in range(3)]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """An encrypted file, and one with its keys."""
    store = InMemoryKeyProvider()
    for name, secret in SECRETS.items():
        store.add_key(name, secret)
    place = tmp_path / "people.orc"
    encrypt = [Encrypt("pii", ["ssn", ("a.b",)], "redact"), Encrypt("top", ["n.c"])]
    with blocking.create(place, SCHEMA, encrypt=encrypt, keys=store) as out:
        out.write(ROWS)
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({name: secret.hex() for name, secret in SECRETS.items()}))
    keys.chmod(0o600)
    return str(place), str(keys)


def rows_of(text: str) -> list[object]:
    return [json.loads(line) for line in text.splitlines()]


def test_which_columns_are_encrypted(files: tuple[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    place, keys = files
    assert main(["keys", place]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "keys are in: HADOOP"
    assert [line.split() for line in lines[1:5]] == [
        ["column", "key", "version", "algorithm", "mask", "open"],
        ["ssn", "pii", "0", "AES_CTR_128", "redact", "no"],
        ["a.b", "pii", "0", "AES_CTR_128", "redact", "no"],
        ["n.c", "top", "0", "AES_CTR_256", "nullify", "no"],
    ]
    assert all("no keys were given" in line for line in lines[5:])
    assert len(lines) == 7
    assert main(["keys", place, "--keys", keys, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["key_provider"] == "HADOOP"
    assert [(c["column"], c["is_open"], c["refusal"]) for c in found["columns"]] == [
        (name, True, None) for name in ("ssn", "a.b", "n.c")
    ]


def test_some_keys(files: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    some = tmp_path / "some.json"
    some.write_text(json.dumps({"top": SECRETS["top"].hex()}))
    some.chmod(0o644)
    assert main(["keys", files[0], "--keys", str(some)]) == 0
    printed = capfd.readouterr()
    assert [line.split()[-1] for line in printed.out.splitlines()[2:5]] == ["no", "no", "yes"]
    assert printed.out.splitlines()[5:] == ["there is no version 0 of key 'pii'"]
    assert printed.err == f"orcstream: others can read the keys in {some}: chmod 600\n"
    assert main(["cat", files[0], "--keys", str(some), "--require-keys", "pii"]) == 5
    assert "required key" in capfd.readouterr().err


def test_a_file_that_is_not_encrypted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "plain.orc"
    with blocking.create(place, "struct<a:int>") as out:
        out.write([{"a": 1}])
    assert main(["keys", str(place)]) == 0
    assert capfd.readouterr().out == "no column is encrypted\n"
    assert main(["keys", str(place), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["columns"] == []


def test_rows(files: tuple[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    place, keys = files
    assert main(["cat", place, "--keys", keys, "--require-keys", "all"]) == 0
    printed = capfd.readouterr()
    assert rows_of(printed.out) == ROWS
    assert printed.err == ""
    assert main(["cat", place]) == 0
    printed = capfd.readouterr()
    assert rows_of(printed.out)[0] == {"id": 0, "ssn": "Xx.9", "a.b": "x", "n": {"c": None}}
    assert printed.err == "orcstream: masked, since their keys were not had: ssn, a.b, n.c\n"
    assert main(["count", place, "--where", "ssn = 'Ab-2'", "--keys", keys]) == 0
    assert capfd.readouterr().out == "1\n"
    for given, known in ((["--keys", keys], "Ab-0"), ([], "Xx.9")):
        assert main(["stats", place, "--columns", "ssn", "--stripes", ":", *given, "--json"]) == 0
        (column,) = json.loads(capfd.readouterr().out)["columns"]
        assert column["statistics"]["minimum"] == column["stripes"][0]["statistics"]["minimum"] == known
        assert main(["index", place, "--columns", "ssn", *given, "--json"]) == 0
        (column,) = json.loads(capfd.readouterr().out)["stripes"][0]["columns"]
        assert column["row_groups"][0]["statistics"]["minimum"] == known


def test_masked_copy(files: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place, keys = files
    copy = tmp_path / "copy.orc"
    options = ["--mask", "redact,`__#`,`_`,`0:0`:id,ssn", "--mask", "sha256:`a.b`", "--compression", "lz4"]
    assert main(["mask", place, str(copy), "--keys", keys, "--decrypt", *options]) == 0
    printed = capfd.readouterr()
    assert printed.out.startswith(f"{copy}: 3 rows in 1 stripe, ")
    with blocking.open(copy) as file:
        assert (file.encrypted_columns, file.compression.name) == ((), "LZ4")
        rows = file.read().to_pylist()
    digest = "2D711642B726B04401627CA9FBAC32F5C8530FB1903CC4DB02258717921A4881"
    assert [row["ssn"] for row in rows] == ["Ab.#"] * 3
    assert [row["a.b"] for row in rows] == [digest, None, digest]
    assert [row["n"] for row in rows] == [{"c": 0}, {"c": -1}, {"c": -2}]
    assert b"Ab-" not in copy.read_bytes()


def test_copy_with_other_keys(
    files: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, keys = files
    copy = tmp_path / "copy.orc"
    options = ["--encrypt", "top:ssn,n", "--mask", "nullify:`a.b`", "--mask", "sha256:ssn"]
    assert main(["mask", place, str(copy), "--keys", keys, *options]) == 0
    capfd.readouterr()
    assert main(["keys", str(copy), "--keys", keys]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["ssn", "top"], ["n", "top"]]
    assert main(["cat", str(copy), "--keys", keys]) == 0
    assert rows_of(capfd.readouterr().out) == [{**row, "a.b": None} for row in ROWS]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["mask", "--mask", "nullify:id"], "ssn, a.b, n.c"),
        (["mask", "--mask", "nullify:ssn", "--encrypt", "top:`a.b`"], "n.c"),
        (["mask", "--mask", "nullify:n,ssn", "--columns", "n,ssn,`a.b`"], "a.b"),
        (["convert"], "ssn, a.b, n.c"),
        (["convert", "--columns", "n.c,id"], "n.c"),
        (["convert", "--encrypt", "pii:ssn,`a.b`"], "n.c"),
    ],
)
def test_what_was_encrypted_is_not_written_in_the_clear_unasked(
    files: tuple[str, str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    options: list[str],
    shown: str,
) -> None:
    place, keys = files
    target = tmp_path / "target.orc"
    command = [options[0], place, str(target), "--keys", keys, *options[1:]]
    assert main(command) == 2
    message = capfd.readouterr().err
    assert f"would be written in the clear: {shown}; --encrypt or --mask them" in message
    assert not target.exists()
    assert main([*command, "--decrypt"]) == 0
    assert target.exists()


@pytest.mark.parametrize("options", [["--keys", "KEYS", "--columns", "id"], [], ["--mask", "nullify:ssn"]])
def test_what_is_hidden_or_left_out_needs_no_word(
    files: tuple[str, str], tmp_path: Path, options: list[str]
) -> None:
    given = [files[1] if option == "KEYS" else option for option in options]
    assert main(["convert", files[0], str(tmp_path / "target.orc"), *given]) == 0


def test_converted_and_encrypted(
    files: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "people.csv", tmp_path / "target.orc"
    source.write_text("id,ssn\n1,078-05-1120\n")
    assert main(["convert", str(source), str(target), "--encrypt", "pii:ssn"]) == 2
    assert "--encrypt needs --keys" in capfd.readouterr().err
    assert not target.exists()
    assert main(["convert", str(source), str(target), "--encrypt", "pii:ssn", "--keys", files[1]]) == 0
    assert b"078-05" not in target.read_bytes()
    capfd.readouterr()
    assert main(["cat", str(target), "--keys", files[1]]) == 0
    assert rows_of(capfd.readouterr().out) == [{"id": 1, "ssn": "078-05-1120"}]


def test_new_keys(files: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place, keys = files
    target = str(tmp_path / "target.orc")
    assert main(["merge", target, place, place]) == 3
    assert main(["merge", target, place, place, "--keys", keys, "--new-key", "pii=top"]) == 0
    capfd.readouterr()
    assert main(["keys", target, "--keys", keys]) == 0
    assert [line.split()[1] for line in capfd.readouterr().out.splitlines()[2:]] == ["top"] * 3
    assert main(["cat", target, "--keys", keys]) == 0
    assert rows_of(capfd.readouterr().out) == ROWS * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["mask", "PLACE", "TARGET"], "nothing would be masked"),
        (["mask", "PLACE", "TARGET", "--mask", "redact"], "write NAME:column,column"),
        (["mask", "PLACE", "TARGET", "--mask", ":ssn"], "write NAME:column,column"),
        (["mask", "PLACE", "TARGET", "--mask", "rot13:ssn"], "there is no mask 'rot13'"),
        (["mask", "PLACE", "TARGET", "--mask", "redact:nobody"], "no column 'nobody'"),
        (["merge", "TARGET", "PLACE", "--new-key", "pii"], "old=new"),
        (["merge", "TARGET", "PLACE", "--rekey"], "rekey needs keys"),
        (["keys", "PLACE", "--keys", "ftp://nowhere"], "no key store is named so"),
        (["keys", "PLACE", "--keys", "missing.json"], "cannot be read"),
    ],
)
def test_what_cannot_be(
    files: tuple[str, str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    target = tmp_path / "target.orc"
    named = {"PLACE": files[0], "TARGET": str(target)}
    try:
        status = main([named.get(option, option) for option in options])
    except SystemExit as left:
        status = int(str(left.code))
    assert status == 2
    assert message in capfd.readouterr().err
    assert not target.exists()
