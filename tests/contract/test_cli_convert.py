"""`orcstream convert`: what pyarrow reads from the source, pyarrow and pyorc read from the ORC file."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import json
import lzma
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lz4.frame
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyorc
import pytest
import zstandard
from pyarrow import orc, parquet

from orcstream.cli.arguments import byte_size
from orcstream.cli.main import main
from orcstream.figures import bytes_text
from tests.generators.trips import trips

ROWS = 2_000
SCHEMA = "struct<id:bigint,text:string,real:double,flag:boolean,day:date,at:timestamp>"


@pytest.fixture(params=["pyarrow", "without pyarrow"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "pyarrow":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _convert(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = main(["convert", *arguments])
    printed = capfd.readouterr()
    assert (status, printed.err) == (0, "")
    assert printed.out.count("\n") == 1
    return printed.out


def _fails(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    before = sorted(Path().iterdir())
    status = main(["convert", *arguments, "out.orc"])
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("orcstream: ") and printed.err.count("\n") == 1, printed.err
    assert sorted(Path().iterdir()) == before
    return status, printed.err


def _written(path: str = "out.orc") -> pa.Table:
    """What pyarrow reads, once pyorc has agreed."""
    table = orc.read_table(path)
    with Path(path).open("rb") as file:
        theirs = list(pyorc.Reader(file, struct_repr=pyorc.StructRepr.DICT))
    assert [_plain(row) for row in theirs] == [_plain(row) for row in table.to_pylist()]
    return table


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat()[:26].removesuffix("+00:00")
    return value


def _rows() -> list[dict[str, Any]]:
    """One of each kind, with nulls, empty texts, quotes and line breaks."""
    texts = ["", "plain", 'a "word", quoted', "two\nlines", "zwölf 🙂", None, '""', "a\r\nb"]
    return [
        {
            "id": i - 5,
            "text": texts[i % len(texts)],
            "real": None if i % 9 == 0 else i / 7,
            "flag": None if i % 3 == 0 else i % 2 == 0,
            "day": None if i % 11 == 0 else str(datetime.date(2020, 1, 1) + datetime.timedelta(i)),
            "at": f"1999-12-31 {i // 100:02}:{i % 60:02}:07",
        }
        for i in range(ROWS)
    ]


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and (not value or any(c in value for c in ',"\r\n')):
        return '"' + value.replace('"', '""') + '"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def _csv_text(rows: list[dict[str, Any]]) -> str:
    lines = [",".join(rows[0]), *(",".join(map(_field, row.values())) for row in rows)]
    return "\n".join(lines) + "\n"


def _pyarrow_csv(text: str) -> pa.Table:
    options = pyarrow.csv.ConvertOptions(
        null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pyarrow.csv.read_csv(io.BytesIO(text.encode()), parse_options=parse, convert_options=options)


# --- each format -------------------------------------------------------------------------------------------


def test_csv(capfd: pytest.CaptureFixture[str], folder: Path, reader: str) -> None:
    text = _csv_text(_rows())
    Path("in.csv").write_text(text, newline="")
    said = _convert(capfd, "in.csv", "out.orc")
    size = Path("out.orc").stat().st_size
    assert said.startswith(f"out.orc: {ROWS:,} rows in 1 stripe, {bytes_text(size)}, ")
    assert _written().to_pylist() == _pyarrow_csv(text).to_pylist()
    with Path("out.orc").open("rb") as file:
        assert str(pyorc.Reader(file).schema) == SCHEMA


@pytest.mark.parametrize(
    ("ending", "compress"),
    [
        ("gz", gzip.compress),
        ("bz2", bz2.compress),
        ("xz", lzma.compress),
        ("zst", zstandard.ZstdCompressor().compress),
        ("lz4", lz4.frame.compress),
    ],
)
def test_compressed(
    capfd: pytest.CaptureFixture[str], folder: Path, ending: str, compress: Callable[[bytes], bytes]
) -> None:
    data = _csv_text(_rows()).encode()
    half = len(data) // 2
    whole = compress(data[:half]) + compress(data[half:])
    Path(f"in.csv.{ending}").write_bytes(whole)
    _convert(capfd, f"in.csv.{ending}", "out.orc")
    assert _written().to_pylist() == _pyarrow_csv(data.decode()).to_pylist()
    Path("out.orc").unlink()
    for cut in (len(whole) - 20, len(compress(data[:half])) - 1):
        Path(f"in.csv.{ending}").write_bytes(whole[:cut])
        status, message = _fails(capfd, f"in.csv.{ending}")
        assert status == 3
        assert f"in.csv.{ending}: the compressed file is damaged or cut off" in message


def test_json_lines(capfd: pytest.CaptureFixture[str], folder: Path, reader: str) -> None:
    rows = [{**row, "tags": [{"n": row["id"]}, None], "none": None, "list": []} for row in _rows()]
    text = "\n\n".join(map(json.dumps, rows))
    Path("in.jsonl").write_text(text)
    _convert(capfd, "in.jsonl", "out.orc")
    texts = pa.schema([("day", pa.string()), ("at", pa.string())])
    parse = pyarrow.json.ParseOptions(explicit_schema=texts)
    theirs = pyarrow.json.read_json(io.BytesIO(text.encode()), parse_options=parse)
    assert _written().to_pylist() == theirs.select(list(rows[0])).to_pylist() == rows


def test_json_array(capfd: pytest.CaptureFixture[str], folder: Path, reader: str) -> None:
    rows = [{"id": row["id"], "in": {"real": row["real"], "text": row["text"]}} for row in _rows()] * 20
    Path("in.json").write_text("\n " + json.dumps(rows, indent=1) + "\n ")
    assert Path("in.json").stat().st_size > 2 << 20  # more than is read at a time
    _convert(capfd, "in.json", "out.orc")
    assert _written().to_pylist() == rows


def test_json_with_a_schema(capfd: pytest.CaptureFixture[str], folder: Path, reader: str) -> None:
    lines = [
        '{"d": 1.50, "b": "YWI=", "m": {"x": 1}, "day": "2020-01-31", "at": "2020-01-31T12:00:00.25"}',
        '{"at": "3000-01-01", "z": "1969-07-20T20:17:40.5+01:00", "d": "2", "f": "NaN", "c": "abc"}',
    ]
    Path("in.ndjson").write_text("\n".join(lines))
    schema = (
        "struct<d:decimal(10,2),b:binary,m:map<string,int>,day:date,at:timestamp,"
        "z:timestamp with local time zone,f:float,c:char(3)>"
    )
    _convert(capfd, "in.ndjson", "out.orc", "--schema", schema)
    with Path("out.orc").open("rb") as file:
        first, second = pyorc.Reader(file)
    assert first[:4] == (Decimal("1.50"), b"ab", {"x": 1}, datetime.date(2020, 1, 31))
    assert first[4].isoformat()[:22] == "2020-01-31T12:00:00.25"
    assert first[5:] == (None, None, None)
    assert second[5] == datetime.datetime(1969, 7, 20, 19, 17, 40, 500_000, datetime.UTC)
    assert second[0] == 2 and second[6] != second[6] and second[7] == "abc"


@pytest.mark.parametrize("form", ["csv", "json"])
def test_binary_that_cat_prints_comes_back(
    capfd: pytest.CaptureFixture[str], folder: Path, reader: str, form: str
) -> None:
    values = [b"\x00\xff", b"abc", b"", None, b'\n,"', bytes(range(256))]
    orc.write_table(pa.table({"b": values, "n": list(range(6))}), "in.orc")
    assert main(["cat", "in.orc", "--format", form]) == 0
    Path(f"printed.{form}").write_text(capfd.readouterr().out)
    _convert(capfd, f"printed.{form}", "out.orc", "--schema", "struct<b:binary,n:bigint>")
    assert orc.read_table("out.orc").column("b").to_pylist() == values


@pytest.mark.parametrize(("name", "text"), [("x.csv", "b\nYWI\n"), ("x.json", '{"b": "a b c"}\n')])
def test_texts_that_are_no_base64(
    capfd: pytest.CaptureFixture[str], folder: Path, reader: str, name: str, text: str
) -> None:
    Path(name).write_text(text)
    status, said = _fails(capfd, name, "--schema", "struct<b:binary>")
    assert status == 2
    assert "row 0" in said


def test_times_of_json_lines(capfd: pytest.CaptureFixture[str], folder: Path, reader: str) -> None:
    """Where pyarrow reads these, the texts become times afterwards."""
    lines = [{"at": "2020-01-31 12:00:00.123456789", "day": "2020-01-31"}, {"at": None, "day": None}]
    Path("in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    _convert(capfd, "in.jsonl", "out.orc", "--schema", "struct<at:timestamp,day:date>")
    table = orc.read_table("out.orc")
    assert table.column("at").cast(pa.int64()).to_pylist() == [1_580_472_000_123_456_789, None]
    assert table.column("day").to_pylist() == [datetime.date(2020, 1, 31), None]


def test_parquet(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    table = trips().append_column("deep", pa.array([[{"a": i}] for i in range(trips().num_rows)]))
    table = table.append_column("kind", table.column("city").dictionary_encode())
    parquet.write_table(table, "in.parquet", row_group_size=1_000)
    _convert(capfd, "in.parquet", "out.orc")
    assert _written().to_pylist() == table.to_pylist()
    _convert(capfd, "in.parquet", "some.orc", "--schema", "struct<city:string,id:int>")
    assert _written("some.orc").to_pylist() == table.select(["city", "id"]).to_pylist()


def test_orc(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    with Path("in.orc").open("wb") as file, pyorc.Writer(file, "struct<id:int,v:varchar(5)>") as out:
        out.set_user_metadata(kept=b"\xff", changed=b"old")
        out.writerows([(i, f"t{i % 7}") for i in range(30_000)])
    chosen = ["--where", "v = 't3' and id >= 0", "--rows", "10:20000", "--columns", "v,id"]
    _convert(capfd, "in.orc", "out.orc", *chosen, "--meta", "changed=new", "--meta", "k=a=b")
    with Path("out.orc").open("rb") as written:
        theirs = pyorc.Reader(written)
        assert str(theirs.schema) == "struct<v:varchar(5),id:int>"
        assert dict(theirs.user_metadata) == {"kept": b"\xff", "changed": b"new", "k": b"a=b"}
        assert list(theirs) == [("t3", i) for i in range(10, 20_000) if i % 7 == 3]


def test_what_cat_prints_comes_back(capfd: pytest.CaptureFixture[str], folder: Path, reader: str) -> None:
    kinds = {
        "text": pa.array(["", None, "NULL", "NA", '"', "007"]),
        "real": pa.array([float("inf"), float("-inf"), 0.1, None, -0.0, 5e-324]),
        "price": pa.array([Decimal("-1.50"), None, *[Decimal("99999999.99")] * 4], pa.decimal128(10, 2)),
        "day": pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None, None, None, None]),
        "at": pa.array([1, None, 1_500_000_000_500_000_000, 0, 0, 0], pa.timestamp("ns")),
        "instant": pa.array([1_500_000_000_123_456_789, *[None] * 5], pa.timestamp("ns", "UTC")),
    }
    orc.write_table(pa.table(kinds), "in.orc")
    assert main(["cat", "in.orc", "--format", "csv"]) == 0
    Path("in.csv").write_text(capfd.readouterr().out, newline="")
    schema = (
        "struct<text:string,real:double,price:decimal(10,2),day:date,at:timestamp,"
        "instant:timestamp with local time zone>"
    )
    _convert(capfd, "in.csv", "out.orc", "--schema", schema)
    assert orc.read_table("out.orc").equals(orc.read_table("in.orc"))


# --- options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "options", "rows"),
    [
        ("x.tsv", "a\tb\n1\tx,y\n", [], [{"a": 1, "b": "x,y"}]),
        ("x.csv", "a;b\n1;x\n", ["--delimiter", ";"], [{"a": 1, "b": "x"}]),
        ("x.txt", "a\tb\n1\tx\n", ["--delimiter", "\\t", "--from", "csv"], [{"a": 1, "b": "x"}]),
        ("x.csv", "1,x\n2,y\n", ["--no-header"], [{"f0": 1, "f1": "x"}, {"f0": 2, "f1": "y"}]),
        ("x.csv", "1,x\n", ["--no-header", "--column-names", "p,q"], [{"p": 1, "q": "x"}]),
        ("x.csv", '"a\n",b\n1,x\n', ["--column-names", "p,q"], [{"p": 1, "q": "x"}]),
        ("x.csv", 'a,b\nNA,"NA"\n1,\n', ["--null", "NA"], [{"a": None, "b": "NA"}, {"a": 1, "b": ""}]),
        (
            "x.csv",
            "a,b\n-,\n1,-\n",
            ["--null", "-", "--null", ""],
            [{"a": None, "b": None}, {"a": 1, "b": None}],
        ),
        ("x.csv", "a\n1\n\n3\n", [], [{"a": 1}, {"a": None}, {"a": 3}]),
        ("x.csv", "a,b\n1,2\n\n3,4\n", [], [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        ("x.csv", "\ufeffa,b\r\n1,2\r\n", [], [{"a": 1, "b": 2}]),
        ("x.csv", "a,b", [], []),
        ("x.csv", "", ["--schema", "struct<a:int>"], []),
        ("x.jsonl", "\n", ["--schema", "struct<a:int>"], []),
        ("x.json", "[]", ["--schema", "struct<a:int>"], []),
        ("x.json", '\ufeff{"a": 1}\n', [], [{"a": 1}]),
        ("x.csv", "a,b\n007,12:30:00\n", [], [{"a": 7, "b": "12:30:00"}]),
        ("x.csv", "a,b\n007,x\n", ["--schema", "struct<b:string,a:string>"], [{"b": "x", "a": "007"}]),
        ("x.csv", "a\n1.5\n1\n", [], [{"a": 1.5}, {"a": 1.0}]),
        ("x.csv", "a\n9223372036854775808\n", [], [{"a": 9223372036854775808.0}]),
        ("x.csv", "a,b\nfalse,TRUE\n", [], [{"a": False, "b": True}]),
    ],
)
def test_layouts(
    capfd: pytest.CaptureFixture[str],
    folder: Path,
    reader: str,
    name: str,
    text: str,
    options: list[str],
    rows: list[dict[str, Any]],
) -> None:
    Path(name).write_text(text, newline="")
    _convert(capfd, name, "out.orc", *options)
    assert _written().to_pylist() == rows


def test_how_the_file_is_written(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    Path("in.csv").write_text(_csv_text(_rows() * 50), newline="")
    options = [
        "--memory-limit",
        "32MB",
        "--compression",
        "zlib",
        "--compression-level",
        "9",
        "--stripe-bytes",
        "64KB",
        "--bloom",
        "id",
    ]
    said = _convert(capfd, "in.csv", "out.orc", *options, "--bloom", "text", "--timezone", "Europe/Paris")
    theirs = orc.ORCFile("out.orc")
    assert theirs.compression == "ZLIB"
    assert theirs.nstripes > 1
    assert f"in {theirs.nstripes} stripes" in said
    with Path("out.orc").open("rb") as file:
        reader = pyorc.Reader(file)
        assert reader.read_stripe(0).bloom_filter_columns == (1, 2)
        assert str(reader.read_stripe(0).writer_timezone) == "Europe/Paris"
    assert _written().column("at")[1].as_py().isoformat() == "1999-12-31T00:01:07"


def test_an_existing_file(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    Path("in.csv").write_text("a\n1\n")
    Path("out.orc").write_text("old")
    assert _fails(capfd, "in.csv", "--no-overwrite")[0] == 4
    assert Path("out.orc").read_text() == "old"
    Path("bad.csv").write_text("a,b\n1\n")
    _fails(capfd, "bad.csv")
    assert Path("out.orc").read_text() == "old"
    _convert(capfd, "in.csv", "out.orc")
    assert _written().to_pylist() == [{"a": 1}]
    _convert(capfd, "out.orc", "out.orc", "--schema", "struct<a:string>")
    assert _written().to_pylist() == [{"a": "1"}]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("64KB", 65536), ("1.5g", 3 << 29), ("2 MiB", 2 << 20), ("1TB", 1 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert byte_size(text) == size


# --- failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "options", "status", "message"),
    [
        ("x.csv", "a,b\n1,x\n2\n", [], 3, "x.csv: "),
        ("x.csv", "a,b\n1,x\n2\n", [], 3, "(row 1)"),
        ("x.csv", "a,a\n1,2\n", [], 2, "--column-names"),
        ("x.csv", "", [], 2, "give --schema"),
        ("x.jsonl", "", [], 2, "give --schema"),
        ("x.csv", b"a,b\n1,\xff\n", [], 3, "UTF-8"),
        ("x.jsonl", '{"a": 1}\n{"a":\n', [], 3, "JSON"),
        ("x.jsonl", "[1]\n", [], 3, "item 1 is no object"),
        ("x.json", '[{"a": 1}, {"a"', [], 3, "item 2 is no JSON"),
        ("x.json", '[{"a": 1} {"a": 1}]', [], 3, "item 1 is not followed by"),
        ("x.json", '[{"a": 1}] 1', [], 3, "something follows"),
        ("x.csv", "a\n1\n", ["--schema", "struct<b:int>"], 2, "no column 'b', only a"),
        ("x.csv", "a\n1\n", ["--schema", "struct<a:array<int>>"], 2, "CSV holds no array<int>"),
        ("x.csv", "a\n300\n", ["--schema", "struct<a:tinyint>"], 2, "(row 0)"),
        ("x.csv", "a,b\n,\n2020-13-01,\n", ["--schema", "struct<a:date>"], 2, "'2020-13-01' and is date"),
        ("x.csv", "a\n1\n", ["--bloom", "b"], 2, "no column 'b'"),
        ("x.csv", "a\n1\n", ["--compression", "best"], 2, "zstd"),
        ("x.csv", "a\n1\n", ["--where", "a = 1"], 2, "--where is for ORC"),
        ("x.jsonl", "{}\n", ["--no-header"], 2, "--no-header is for CSV"),
        ("x.csv", "a\n1\n", ["--memory-limit", "1MB"], 2, "at least 32MB"),
        ("x.text", "a\n1\n", [], 2, "give --from"),
        ("x.orc", "a\n1\n", [], 3, "x.orc"),
    ],
)
def test_failures(
    capfd: pytest.CaptureFixture[str],
    folder: Path,
    reader: str,
    name: str,
    text: str | bytes,
    options: list[str],
    status: int,
    message: str,
) -> None:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    found, said = _fails(capfd, name, *options)
    assert message in said
    assert found == status


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_late_row_that_does_not_fit(
    capfd: pytest.CaptureFixture[str], folder: Path, reader: str, ending: str
) -> None:
    """Behind what the types were taken from, in both readers."""
    count = 300_000  # 3 MB and more: types are taken from 2 MB, a sixteenth of the limit
    numbers = range(1_000_000, 1_000_000 + count)
    if ending == "csv":
        text = "a,b\n" + "".join(f"{n},x\n" for n in numbers) + "1,y\nabc,y\n"
    else:
        text = "".join(f'{{"a":{n},"b":"x"}}\n' for n in numbers) + '{"a":1}\n{"a":"abc"}\n'
    Path(f"in.{ending}").write_text(text)
    status, message = _fails(capfd, f"in.{ending}", "--memory-limit", "32MB")
    assert status == 2
    assert "give --schema" in message
    assert f"(row {count + 1})" in message
    assert "'a'" in message or "/a" in message


def test_missing_sources_and_targets(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    assert _fails(capfd, "missing.csv") == (
        4,
        "orcstream: [Errno 2] No such file or directory: 'missing.csv'\n",
    )
    assert _fails(capfd, "nonsense://x.csv")[0] == 2
    Path("in.csv").write_text("a\n1\n")
    assert _fails(capfd, "-", "--from", "parquet")[0] == 2
    Path("in.parquet").write_text("PAR1")
    assert "no Parquet" in _fails(capfd, "in.parquet")[1]
    assert main(["convert", "in.csv", "no/such/out.orc"]) == 4
    assert "no/such/out.orc" in capfd.readouterr().err


def test_parquet_needs_pyarrow(
    capfd: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    Path("in.parquet").write_text("PAR1")
    status, message = _fails(capfd, "in.parquet")
    assert status == 2
    assert "pip install pyarrow" in message


@pytest.mark.parametrize(
    "options",
    [["--stripe-bytes", "x"], ["--delimiter", "ab"], ["--meta", "x"], ["--meta", "=x"], ["--from", "xml"]],
)
def test_wrong_calls(capfd: pytest.CaptureFixture[str], options: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["convert", "x.csv", "y.orc", *options])
    assert left.value.code == 2
    assert capfd.readouterr().err.endswith(" (see orcstream convert --help)\n")


@pytest.mark.parametrize("target", ["out.csv", "out.csv.gz", "OUT.PARQUET", "out.jsonl", "-"])
def test_what_is_written_is_not_named_like_another_format(
    capfd: pytest.CaptureFixture[str], folder: Path, target: str
) -> None:
    Path("rows.csv").write_text("a\n1\n")
    assert main(["convert", "rows.csv", target]) == 2
    said = capfd.readouterr().err
    assert ("standard output" if target == "-" else "orcstream cat") in said
    assert not Path(target).exists()
