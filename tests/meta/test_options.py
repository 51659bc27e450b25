"""Options are declared once: no function spells them again, and no module hands them on one by one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from orcstream.datasets.opening import DatasetKeywords
from orcstream.reader.opening import FileKeywords, OpenOptions
from orcstream.reader.options import ReadKeywords, ReadOptions
from orcstream.writer.options import CreateOptions, WriteOptions
from tests.meta.tree import PACKAGE, source_files

# Of so many options that a function takes, it takes them as `**options`.
FEW = 4
# Each stands in the declaration and where it is used.
PLACES = 7
DECLARED = {
    *ReadKeywords.__annotations__,
    *FileKeywords.__annotations__,
    *DatasetKeywords.__annotations__,
    *CreateOptions.__annotations__,
}


def spelled_in(text: str) -> Iterator[tuple[str, int]]:
    """The functions that have many options as parameters of their own, and how many."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own = {one.arg for one in node.args.kwonlyargs} & DECLARED
            if len(own) > FEW:
                yield node.name, len(own)


def test_the_rule_notices() -> None:
    text = "def f(*, columns, where, rows, schema, {}): pass"
    assert list(spelled_in(text.format("batch_rows"))) == [("f", 5)]
    assert list(spelled_in(text.format("other"))) == []


def test_no_function_spells_many_options() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in source_files("orcstream")
        if path.suffix == ".py"
        for name, _ in spelled_in(path.read_text())
    }
    # Its options are of files that are read and of one that is written, and it makes use of them itself.
    assert found == {"writer/merge.py: merge"}


def test_what_is_declared_has_a_default() -> None:
    # Tables set the one that is no keyword.
    assert ReadKeywords.__optional_keys__ == set(ReadOptions.__dataclass_fields__) - {"chunk_limit"}
    assert CreateOptions.__optional_keys__ == set(WriteOptions.__dataclass_fields__)
    fields = {name for name, one in OpenOptions.__dataclass_fields__.items() if one.init}
    assert FileKeywords.__optional_keys__ - fields == {"tail", "follow", "poll_s"}


def test_an_option_stands_in_few_places() -> None:
    """Those that no other layer knows by the same name."""
    for option in ("timestamp_unit", "invalid_utf8"):
        places = [
            f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
            for path in source_files("orcstream")
            if path.suffix == ".py" and option in (text := path.read_text())
            for node in ast.walk(ast.parse(text))
            if option in _names_in(node)
        ]
        assert len(places) <= PLACES, places


def _names_in(node: ast.AST) -> set[str]:
    """What a node spells: names, attributes, keywords, parameters and texts that are one word."""
    return {
        value
        for name in ("id", "attr", "arg", "value")
        if isinstance(value := getattr(node, name, None), str)
    }
