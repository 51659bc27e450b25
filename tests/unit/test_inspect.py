"""What an inspection says of a file, in each of its forms: for the browser, for a terminal, for programs."""

from __future__ import annotations

import io
import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream import Encrypt, col
from orcstream.byterange import ByteRange
from orcstream.cli.commands.file import INSPECT_HELP
from orcstream.cli.main import main
from orcstream.inspect import inspect, inspect_blocking
from orcstream.inspect.layout import Part
from orcstream.io.keys import InMemoryKeyProvider
from tests.generators.trips import trips

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "quotes \" ' & ` >",
    "turned \u202e around \u2066 \x1b[31m",
    "]]><!-- --><svg onload=alert(1)>",
    "zwölf 十二 🙂",
]
FAR_TOO_MUCH = 5 << 20


class _Page(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_data(self, data: str) -> None:
        if self._inside[-1:] not in (["script"], ["style"]):
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def trips_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("inspect") / "trips.orc"
    orc.write_table(trips(), str(path), compression="zstd")
    return str(path)


async def _written(schema: str, rows: list[Any], **options: Any) -> bytes:
    buffer = io.BytesIO()
    async with orcstream.create(buffer, schema, **options) as out:
        await out.write(rows)
    return buffer.getvalue()


# --- what it says ------------------------------------------------------------------------------------------


async def test_facts_are_those_of_pyarrow(trips_file: str) -> None:
    found = (await inspect(trips_file)).file
    theirs = orc.ORCFile(trips_file)
    assert (found.row_count, len(found.stripes)) == (theirs.nrows, theirs.nstripes)
    assert found.file_length == theirs.file_length
    assert found.compression == theirs.compression == "ZSTD"
    assert f"{found.writer} {found.software_version}" == theirs.software_version
    assert sum(part.range.length for part in found.parts) == theirs.file_length
    by_name = {column.name: column for column in found.columns}
    assert set(by_name) == {
        "(the rows)",
        "id",
        "city",
        "amount",
        "started",
        "stop",
        "stop.name",
        "stop.wait_s",
    }
    assert by_name["id"].statistics["maximum"] == 11_999
    assert by_name["city"].statistics["value_count"] == 9_000
    assert by_name["city"].statistics["has_null"] is True
    assert by_name["amount"].logical_bytes == 8 * 12_000
    streams = [part for stripe in found.stripes for part in stripe.parts or () if part.column is not None]
    assert sum(column.total_bytes for column in found.columns) == sum(part.range.length for part in streams)


async def test_a_question_is_explained_as_explain_does(trips_file: str) -> None:
    where = col("id") == 4711
    found = await inspect(trips_file, columns=["city"], where=where)
    async with orcstream.open(trips_file) as file:
        explained = await file.explain(columns=["city"], where=where)
    assert found.question is not None
    assert found.question.explanation == explained
    for wave in explained.waves:
        assert len(wave.ranges) == wave.request_count
        assert sum(range_.length for range_ in wave.ranges) == wave.bytes_read
    assert found.run is None


async def test_a_run_is_measured(trips_file: str) -> None:
    found = await inspect(trips_file, columns=["city", "id"], where=col("id") < 100, run=True)
    run = found.run
    assert run is not None
    assert run.statistics is not None
    assert run.row_count == 100
    # What the stream counted, and the one request that opened the file.
    assert len(run.requests) == run.statistics.request_count + 1
    assert sum(span.range.length for span in run.requests[1:]) == run.statistics.bytes_read
    assert run.requests[0].wave == "tail"
    assert {span.wave for span in run.requests} <= {"tail", "control", "index", "predicate", "rest", "data"}
    times = [(span.start_s, span.stop_s) for span in run.requests]
    times += [(span.start_s, span.stop_s) for span in run.decodes]
    assert all(0 <= start_s <= stop_s <= run.duration_s for start_s, stop_s in times)
    spent = sum(span.stop_s - span.start_s for span in run.decodes)
    assert spent == pytest.approx(run.statistics.decode_s)
    assert {span.column_id for span in run.decodes} == {1, 2}
    assert sum(span.row_count for span in run.decodes if span.column_id == 1) >= 100


async def test_an_observer_hears_of_all_requests(trips_file: str) -> None:
    class Heard:
        def __init__(self) -> None:
            self.requests: list[orcstream.RequestSpan] = []
            self.decodes: list[orcstream.DecodeSpan] = []

        def on_request(self, span: orcstream.RequestSpan) -> None:
            self.requests.append(span)

        def on_decode(self, span: orcstream.DecodeSpan) -> None:
            self.decodes.append(span)

    heard = Heard()
    async with orcstream.open(trips_file, observer=heard) as file:
        await file.row_index(0)
        assert [span.wave for span in heard.requests[:2]] == ["tail", "metadata"]
        heard.requests.clear()
        rows = await file.read(columns=["id"])
        assert {span.wave for span in heard.requests} <= {"control", "data"}
    assert sum(span.row_count for span in heard.decodes) == rows.num_rows == 12_000


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("failing", ["on_request", "on_decode"])
async def test_what_an_observer_raises_ends_the_read(trips_file: str, failing: str, threads: int) -> None:
    class Failing:
        def on_request(self, span: orcstream.RequestSpan) -> None:
            if failing == "on_request" and span.wave == "metadata":
                raise ArithmeticError

        def on_decode(self, span: orcstream.DecodeSpan) -> None:  # noqa: ARG002 - of the protocol
            if failing == "on_decode":
                raise ArithmeticError

    async with orcstream.open(trips_file, observer=Failing()) as file:
        work = file.row_index(0) if failing == "on_request" else file.read(decode_threads=threads)
        with pytest.raises(ArithmeticError):
            await work


# --- what must not come out --------------------------------------------------------------------------------


async def test_hostile_names_and_values_are_text(tmp_path: Path) -> None:
    folder = tmp_path / "<b>&\"'"
    folder.mkdir()
    path = folder / "<script>.orc"
    columns = {name: [name, name[::-1], None] for name in HOSTILE}
    orc.write_table(pa.table(columns), str(path))
    found = await inspect(
        str(path), columns=[(name,) for name in HOSTILE], where=col((HOSTILE[0],)) == HOSTILE[1], run=True
    )
    page = found.to_html()
    parsed = _Page(page)
    assert not parsed.named("img")
    assert not parsed.named("b")
    assert [attributes for attributes in parsed.named("script") if attributes] == []
    assert len(parsed.named("script")) == len(parsed.named("style")) == 1
    assert not any(name.startswith("on") for _, attributes in parsed.elements for name in attributes)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", page + found.to_text() + found.to_json())
    assert HOSTILE[0] in parsed.text
    assert HOSTILE[2] in parsed.text
    assert "\\u202e" in parsed.text
    assert HOSTILE[5] in parsed.text
    assert json.loads(found.to_json())["file"]["columns"][1]["name"] == HOSTILE[0]


def test_the_page_asks_for_nothing(trips_file: str) -> None:
    parsed = _Page(inspect_blocking(trips_file, where=col("id") == 1, run=True).to_html())
    (policy,) = [one["content"] for one in parsed.named("meta") if one.get("http-equiv")]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for _, attributes in parsed.elements:
        assert "style" not in attributes
        for name in ("href", "src", "action"):
            target = attributes.get(name)
            assert target is None or target.startswith("#") or target == "data:,"
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {one["href"] for one in parsed.named("a")}
    assert targets <= {f"#{one}" for one in ids}


async def test_encrypted_columns_show_values_with_their_keys_only() -> None:
    keys = InMemoryKeyProvider()
    keys.add_key("pii", bytes(16))
    rows = [{"id": i, "ssn": f"secret-{i:04}"} for i in range(100)]
    encrypt = [Encrypt("pii", ["ssn"], "nullify")]
    data = await _written("struct<id:int,ssn:string>", rows, encrypt=encrypt, keys=keys)
    closed, opened = await inspect(data), await inspect(data, keys=keys)
    for found, lock in ((closed, "closed"), (opened, "open")):
        column = found.file.columns[2]
        assert (column.name, column.lock) == ("ssn", lock)
        assert column.total_bytes > 0
        assert any(part.encrypted for stripe in found.file.stripes for part in stripe.parts or ())
        assert all(("secret" in text) == (lock == "open") for text in (found.to_html(), found.to_json()))
    assert "encrypted, not open" in closed.to_html()


# --- files that are damaged, or large ----------------------------------------------------------------------


async def _three_stripes() -> tuple[bytes, list[Any]]:
    one = await _written("struct<a:bigint,b:string>", [{"a": i, "b": f"x{i}"} for i in range(1000)])
    buffer = io.BytesIO()
    await orcstream.merge([one, one, one], buffer)
    data = buffer.getvalue()
    async with orcstream.open(data) as file:
        return data, list(file.stripes)


async def test_a_damaged_stripe_is_named_and_the_others_are_shown() -> None:
    data, stripes = await _three_stripes()
    broken = bytearray(data)
    footer = stripes[1].footer_range
    broken[footer.start : footer.stop] = b"\xff" * footer.length
    found = await inspect(bytes(broken), columns=["a"], run=True)
    assert [stripe.parts is None for stripe in found.file.stripes] == [False, True, False]
    assert sum(part.range.length for part in found.file.parts) == len(data)
    assert found.problems[0].startswith("Stripe 1 cannot be looked into: ")
    assert all("\n" not in problem for problem in found.problems)
    assert found.run is not None
    assert found.run.row_count == 1000
    page = _Page(found.to_html())
    assert all(problem in page.text for problem in found.problems)
    assert f"! {found.problems[0]}"[:70] in found.to_text()


async def test_a_file_that_cannot_be_opened_is_an_error() -> None:
    with pytest.raises(orcstream.NotOrcFile):
        await inspect(b"PAR1" * 10)
    found = await inspect(b"")
    assert found.file.parts == ()
    assert "no bytes" in found.to_text()
    assert "no stripes" in _Page(found.to_html()).text


async def test_a_large_file_makes_a_page_of_bounded_size() -> None:
    """5,000 stripes of 3,000 columns, each with a long name."""
    data, _ = await _three_stripes()
    found = await inspect(data)
    stripe, column = found.file.stripes[0], found.file.columns[2]
    assert stripe.parts is not None
    streams = [part for part in stripe.parts if part.column == 2]
    size = sum(part.range.length for part in streams)
    columns = [
        replace(column, column_id=number, name=f"column_{'x' * 160}_{number}") for number in range(3000)
    ]
    stripes = []
    for number in range(5000):
        start = 3 + number * 3000 * size
        parts, at = [], start
        for each in range(3000 if number % 700 == 0 or number == 4999 else 0):
            for part in streams:
                own = ByteRange(at, at + part.range.length)
                parts.append(replace(part, range=own, column=each, stripe=number))
                at += part.range.length
        span = ByteRange(start, start + 3000 * size)
        stripes.append(replace(stripe, index=number, range=span, parts=tuple(parts) or None))
    whole = [Part("stripe", one.range, one.index) for one in stripes]
    facts = replace(
        found.file,
        stripes=tuple(stripes),
        columns=tuple(columns),
        parts=(Part("header", ByteRange(0, 3)), *whole),
        file_length=stripes[-1].range.stop,
    )
    large = replace(found, file=facts)
    page = large.to_html()
    assert len(page.encode()) < FAR_TOO_MUCH
    assert "2,700 smaller columns" in page
    assert "2,960 smaller columns" in page
    assert "9 of 5,000 stripes are shown in detail" in page
    assert "All stripes, 50 in a line" in page
    assert "parts too small to be drawn each" in page
    lines = large.to_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 200


async def test_many_stripes_are_grouped() -> None:
    one = await _written("struct<a:bigint>", [{"a": 1}])
    buffer = io.BytesIO()
    await orcstream.merge([one] * 300, buffer)
    found = await inspect(buffer.getvalue())
    page = found.to_html()
    assert "of 300 stripes are shown in detail" in page
    assert "All stripes, 3 in a line" in page
    assert "parts too small to be drawn each" in page


async def test_footers_are_read_here_and_there_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orcstream.inspect.looking._STREAMS", 1)
    monkeypatch.setattr("orcstream.inspect.looking._LEAST_STRIPES", 2)
    data, _ = await _three_stripes()
    found = await inspect(data)
    assert [stripe.parts is not None for stripe in found.file.stripes] == [True, False, True]
    assert "The sizes are of 2 of 3 stripes." in found.to_html()
    assert "Columns, in 2 stripes" in found.to_text()


# --- the command -------------------------------------------------------------------------------------------


def test_the_command_prints_text_json_and_pages(
    capfd: pytest.CaptureFixture[str], trips_file: str, tmp_path: Path
) -> None:
    assert main(["inspect", trips_file, "--where", "id = 4711", "--columns", "city", "--run"]) == 0
    text = capfd.readouterr().out
    assert "The question\n  columns   city\n" in text
    assert "The read: 1 row in " in text
    assert max(map(len, text.splitlines())) <= 80

    assert main(["inspect", trips_file, "--json", "--rows", "10:20"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert facts["question"]["rows"] == "10 up to 20"
    assert facts["file"]["parts"][0] == {
        "kind": "header",
        "range": [0, 3],
        "stripe": None,
        "column": None,
        "encrypted": False,
    }

    page = tmp_path / "page.html"
    assert main(["inspect", trips_file, "-o", str(page)]) == 0
    assert capfd.readouterr().out.startswith(f"{page}: a page of ")
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert [one.name for one in tmp_path.iterdir()] == [page.name]


def test_the_examples_of_its_help_are_right(
    capfd: pytest.CaptureFixture[str], trips_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trips.orc").write_bytes(Path(trips_file).read_bytes())
    monkeypatch.chdir(tmp_path)
    examples = [
        shlex.split(line)[1:] for line in INSPECT_HELP.splitlines() if line.startswith("  orcstream ")
    ]
    assert len(examples) == 3
    for arguments in examples:
        assert main(arguments) == 0
        assert capfd.readouterr().out


def test_the_command_names_what_is_wrong(
    capfd: pytest.CaptureFixture[str], trips_file: str, tmp_path: Path
) -> None:
    assert main(["inspect", trips_file, "--columns", "nowhere"]) == 2
    assert "nowhere" in capfd.readouterr().err
    damaged = tmp_path / "damaged.orc"
    data = bytearray(Path(trips_file).read_bytes())
    footer = orcstream.blocking.open(trips_file).stripes[0].footer_range
    data[footer.start : footer.stop] = bytes(footer.length)
    damaged.write_bytes(data)
    assert main(["inspect", str(damaged)]) == 1
    printed = capfd.readouterr()
    assert printed.err.startswith("orcstream: Stripe 0 cannot be looked into: ")
    assert "\nLayout, from the first byte" in printed.out
