"""`orcstream convert`: texts that cannot be read do not come into errors where they are to be hidden."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orcstream.cli.main import main

# What no error may show, in texts of which something else, too, makes sense.
SECRET = "471147"
CASES = [
    ("x.csv", f"a,b\n1,{SECRET}x\n", "struct<a:string,b:int>"),
    ("x.csv", f"a,b\n1,{SECRET}\n", "struct<a:string,b:tinyint>"),
    ("x.csv", f"a,b\n1,{SECRET}-01-01\n", "struct<a:string,b:date>"),
    ("x.csv", f"a,b\n1,{SECRET}\n", "struct<a:string,b:timestamp>"),
    ("x.csv", f"a,b\n1,{SECRET}\n", "struct<a:string,b:timestamp with local time zone>"),
    ("x.csv", f"a,b\n1,{SECRET}.123\n", "struct<a:string,b:decimal(10,2)>"),
    ("x.csv", f"a,b\n1,{SECRET},3\n", None),
    ("x.csv", f"a,b\n{SECRET}\n", None),
    ("x.csv", f"a,b\n1,{SECRET}\udcff\n", None),
    ("x.csv", "a,b\n" + "1,2\n" * (1 << 19) + f"1,{SECRET}x\n", None),
    ("x.jsonl", f'{{"a":"x","b":"{SECRET}"}}\n', "struct<a:string,b:int>"),
    ("x.jsonl", f'{{"a":"x","b":{SECRET}}}\n', "struct<a:string,b:tinyint>"),
    ("x.jsonl", f'{{"a":"x","b":{SECRET}}}\n', "struct<a:string,b:date>"),
    ("x.jsonl", f'{{"a":"x","b":"{SECRET}"}}\n', "struct<a:string,b:timestamp>"),
    ("x.jsonl", f'{{"a":"x","b":{SECRET}}}\n', "struct<a:string,b:map<string,int>>"),
    ("x.jsonl", f'{{"a":"x","b":[{SECRET}]}}\n', "struct<a:string,b:array<struct<c:int>>>"),
    ("x.jsonl", f'{{"a":"x","b":{SECRET}.5}}\n', "struct<a:string,b:int>"),
    ("x.jsonl", f'{{"a":"x","b":{SECRET}x}}\n', None),
    ("x.jsonl", f'{{"a":"x","b":"{SECRET}\udcff"}}\n', None),
    ("x.jsonl", '{"a":"x","b":2}\n' * (1 << 18) + f'{{"a":"x","b":"{SECRET}"}}\n', None),
    ("x.jsonl", '{"a":"x","b":2}\n' * (1 << 18) + f'{{"a":"x","b":{SECRET}.5}}\n', None),
    ("x.json", f'[{{"a":"x","b":"{SECRET}"}}]', "struct<a:string,b:int>"),
    ("x.json", f'[{{"a":"x","b":{SECRET}x}}]', None),
]


@pytest.fixture(params=["pyarrow", "without pyarrow"], autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "pyarrow":
        monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    keys = tmp_path / "keys.json"
    keys.write_text('{"pii": "00112233445566778899aabbccddeeff"}')
    keys.chmod(0o600)
    return tmp_path


def _fails(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["convert", *arguments, "--memory-limit", "64MB"]) in (1, 2, 3)
    printed = capfd.readouterr()
    assert not Path("out.orc").exists()
    assert printed.out == ""
    return printed.err


@pytest.mark.sampled
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("name", "text", "schema"), CASES, ids=range(len(CASES)))
def test_what_is_hidden_is_not_in_errors(
    capfd: pytest.CaptureFixture[str], name: str, text: str, schema: str | None
) -> None:
    Path(name).write_bytes(text.encode("utf-8", "surrogateescape"))
    options = [] if schema is None else ["--schema", schema]
    said = _fails(capfd, name, "out.orc", *options, "--mask", "redact:b")
    assert SECRET not in said
    assert name in said


@pytest.mark.usefixtures("folder")
def test_encrypted_columns_are_hidden(capfd: pytest.CaptureFixture[str]) -> None:
    Path("x.csv").write_text(f"a,b\n1,{SECRET}x\n")
    options = ["--schema", "struct<a:string,b:int>", "--encrypt", "pii:b", "--keys", "keys.json"]
    assert SECRET not in _fails(capfd, "x.csv", "out.orc", *options)


@pytest.mark.usefixtures("folder")
def test_other_columns_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    """Of a CSV file, whose errors say which column it is; and what is read of a hidden one is no secret."""
    Path("x.csv").write_text(f"a,b,c\n1,x,{SECRET}x\n")
    schema = "struct<a:string,b:string,c:int>"
    said = _fails(capfd, "x.csv", "out.orc", "--schema", schema, "--mask", "redact:b")
    assert f"{SECRET}x" in said
    said = _fails(capfd, "x.csv", "out.orc", "--schema", schema, "--mask", "redact:c")
    assert SECRET not in said
    assert "the column 'c'" in said
    assert "int" in said
    assert "(row 0)" in said


@pytest.mark.usefixtures("folder")
def test_fields_of_hidden_structs(capfd: pytest.CaptureFixture[str]) -> None:
    Path("x.jsonl").write_text(f'{{"a":"x","b":{{"c":{{"d":"{SECRET}"}}}}}}\n')
    schema = "struct<a:string,b:struct<c:struct<d:date>>>"
    for column in ("b", "b.c", "b.c.d"):
        said = _fails(capfd, "x.jsonl", "out.orc", "--schema", schema, "--mask", f"redact:{column}")
        assert SECRET not in said
