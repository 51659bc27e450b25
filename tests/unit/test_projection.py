"""Which columns of a file a read gets for the schema it asks for."""

from __future__ import annotations

import pytest

from orcstream.errors import ColumnNotFound, SchemaMismatch, UsageError
from orcstream.plan.projection import Projection, project
from orcstream.schema.schema import Schema
from orcstream.schema.types import Type

FILE = (
    "struct<a:int,s:struct<x:int,y:string>,l:array<struct<p:int,q:int>>,"
    "m:map<int,struct<v:int,w:int>>,b:string>"
)


def projected(
    file: str, read: str | None, columns: list[str] | None = None, *, case: bool = True
) -> Projection:
    schema = None if read is None else Schema.parse(read)
    return project(Schema.parse(file), columns=columns, read_schema=schema, case_sensitive=case)


def ids(type_: Type) -> list[int]:
    return [int(node.column_id) for _, node in type_.walk()]


def test_without_a_schema_all_columns_are_the_files_own() -> None:
    found = projected(FILE, None)
    assert str(found.root) == str(found.file_root) == FILE
    assert [source.name for source in found.sources] == ["a", "s", "l", "m", "b"]
    assert all(source.type is source.file_type for source in found.sources)
    assert not found.converted


def test_columns_are_selected_in_the_order_asked() -> None:
    found = projected(FILE, None, ["b", "s.y"])
    assert str(found.root) == "struct<b:string,s:struct<y:string>>"
    assert ids(found.file_root) == [0, 14, 2, 4]
    assert not found.converted


def test_fields_go_by_name_and_others_are_null() -> None:
    found = projected(FILE, "struct<b:string,new:array<int>,a:bigint>")
    b, new, a = found.sources
    assert (b.converted, b.file_type is not None) == (False, True)
    assert new.file_type is None
    assert str(new.type) == "array<int>"
    assert (str(a.type), str(a.file_type), a.converted) == ("bigint", "int", True)
    assert found.converted
    assert str(found.file_root) == "struct<b:string,a:int>"
    assert ids(found.file_root) == [0, 14, 1]


def test_nested_fields_are_read_only_where_asked_for() -> None:
    read = "struct<m:map<int,struct<new:int,w:int>>,s:struct<y:string,x:int>,l:array<struct<q:bigint>>>"
    found = projected(FILE, read)
    assert (
        str(found.file_root)
        == "struct<m:map<int,struct<w:int>>,s:struct<y:string,x:int>,l:array<struct<q:int>>>"
    )
    assert ids(found.file_root) == [0, 9, 10, 11, 13, 2, 4, 3, 5, 6, 8]
    assert [source.converted for source in found.sources] == [True, False, True]


def test_a_struct_without_any_of_its_fields_is_still_read() -> None:
    (source,) = projected(FILE, "struct<s:struct<new:int>>").sources
    assert str(source.file_type) == "struct<>"
    assert source.converted


def test_columns_choose_from_the_schema_asked_for() -> None:
    found = projected(FILE, "struct<b:string,s:struct<new:int,x:bigint>,a:int>", ["s.x", "a"])
    assert str(found.root) == "struct<s:struct<x:bigint>,a:int>"
    assert str(found.file_root) == "struct<s:struct<x:int>,a:int>"
    with pytest.raises(ColumnNotFound, match="'l'"):
        projected(FILE, "struct<a:int>", ["l"])


def test_only_what_is_chosen_must_fit() -> None:
    read = "struct<a:int,s:int>"
    assert str(projected(FILE, read, ["a"]).file_root) == "struct<a:int>"
    with pytest.raises(SchemaMismatch):
        projected(FILE, read)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ("struct<a:binary>", r"'a'.*\bint\b.*\bbinary\b.*\(column 1\)"),
        (
            "struct<s:string>",
            r"'s'.* struct<x:int,y:string> .*\bstring\b",
        ),
        ("struct<a:array<int>>", r"'a'.*\bint\b.* array<int>"),
        (
            "struct<l:array<struct<q:date>>>",
            r"'l\._elem\.q'.*\bint\b.*\bdate\b",
        ),
        (
            "struct<m:map<date,struct<v:int>>>",
            r"'m\._key'.*\bint\b.*\bdate\b",
        ),
        ("struct<m:map<int,struct<v:date>>>", r"'m\._value\.v'.*\bint\b.*\bdate\b"),
        ("array<int>", r"\broot\b.* struct<.* array<int>"),
        ("int", r"\broot\b.* struct<.* int\b"),
    ],
)
def test_what_does_not_fit_is_named(read: str, message: str) -> None:
    with pytest.raises(SchemaMismatch, match=message):
        projected(FILE, read)


def test_unions_go_child_by_child() -> None:
    file = "struct<u:uniontype<int,struct<x:int,y:int>>>"
    (source,) = projected(file, "struct<u:uniontype<bigint,struct<y:int>>>").sources
    assert str(source.file_type) == "uniontype<int,struct<y:int>>"
    for other in ("uniontype<int>", "uniontype<int,struct<x:int>,int>", "uniontype<struct<x:int>,int>"):
        with pytest.raises(SchemaMismatch, match="'u"):
            projected(file, f"struct<u:{other}>")


def test_geospatial_columns_keep_their_reference_system() -> None:
    file = "struct<g:geometry(OGC:CRS84)>"
    assert not projected(file, "struct<n:int,g:geometry(OGC:CRS84)>").sources[1].converted
    for other in ("geometry(EPSG:3857)", "binary", "geography", "string"):
        with pytest.raises(SchemaMismatch):
            projected(file, f"struct<g:{other}>")
    with pytest.raises(SchemaMismatch):
        projected("struct<g:binary>", "struct<g:geometry>")


@pytest.mark.parametrize(
    ("file", "read", "converted"),
    [
        ("decimal(10,2)", "decimal(10,2)", False),
        ("decimal(10,2)", "decimal(11,2)", True),
        ("decimal", "decimal(38,6)", False),  # Hive 0.11 wrote no precision
        ("char(3)", "char(3)", False),
        ("char(3)", "char(4)", True),
        ("varchar(3)", "string", True),
        ("timestamp", "timestamp with local time zone", True),
        ("array<map<int,int>>", "array<map<int,bigint>>", True),
        ("array<map<int,int>>", "array<map<int,int>>", False),
    ],
)
def test_conversions_are_seen(file: str, read: str, converted: bool) -> None:
    found = projected(f"struct<a:{file}>", f"struct<new:int,a:{read}>")
    assert found.sources[1].converted is converted


def test_roots_that_are_no_structs() -> None:
    found = projected("array<struct<x:int,y:int>>", "array<struct<y:bigint>>")
    (source,) = found.sources
    assert (source.name, str(source.type), source.converted) == ("", "array<struct<y:bigint>>", True)
    assert str(found.file_root) == "array<struct<y:int>>"
    assert projected("int", "int").converted is False
    assert projected("int", "bigint").converted is True
    with pytest.raises(UsageError, match=r"\bbigint\b.*\bstruct\b"):
        projected("int", "bigint", ["a"])


def test_names_in_another_case() -> None:
    file = "struct<Id:int,Inner:struct<Name:string>>"
    read = "struct<inner:struct<NAME:string>,ID:int>"
    assert [source.file_type for source in projected(file, read).sources] == [None, None]
    found = projected(file, read, case=False)
    # The names of the tree to decode are the reader's, so that decoded fields are found by them.
    assert str(found.file_root) == read
    assert ids(found.file_root) == [0, 2, 3, 1]
    assert not found.converted


def test_an_exact_name_wins_over_another_case() -> None:
    found = projected("struct<A:int,a:string>", "struct<a:string,new:int>", case=False)
    assert [s.file_type and int(s.file_type.column_id) for s in found.sources] == [2, None]
    with pytest.raises(SchemaMismatch, match=r"'AB'.*'Ab', 'aB'"):
        projected("struct<Ab:int,aB:string>", "struct<AB:string>", case=False)


def test_two_columns_of_one() -> None:
    with pytest.raises(SchemaMismatch, match=r"'a' and 'A'.*'a'"):
        projected("struct<a:int>", "struct<a:int,A:int>", case=False)
    with pytest.raises(SchemaMismatch, match=r"'s\.x' and 's\.x'"):
        projected(FILE, "struct<s:struct<x:int,x:int>>")


def test_names_that_occur_twice() -> None:
    found = projected("struct<a:int,a:string>", "struct<a:bigint,a:string>")
    assert ids(found.file_root) == [0, 1, 2]
    assert [source.converted for source in found.sources] == [True, False]
    with pytest.raises(SchemaMismatch, match=r"'a'.*'a', 'a'"):
        projected("struct<a:int,a:string>", "struct<a:bigint>")


class TestFilesWithoutNames:
    FILE = "struct<_col0:int,_col1:struct<_col0:int,b:int>,_col2:string>"

    def test_top_level_fields_go_by_position(self) -> None:
        found = projected(self.FILE, "struct<x:int,y:struct<b:int,x:int>,z:string,more:int>")
        assert str(found.file_root) == "struct<x:int,y:struct<b:int>,z:string>"
        assert ids(found.file_root) == [0, 1, 2, 4, 5]
        assert found.sources[3].file_type is None

    def test_the_place_is_that_in_the_whole_schema(self) -> None:
        found = projected(self.FILE, "struct<x:int,y:struct<b:int>,z:string,more:int>", ["more", "z", "x"])
        assert str(found.root) == "struct<more:int,z:string,x:int>"
        assert ids(found.file_root) == [0, 5, 1]
        assert [source.file_type is None for source in found.sources] == [True, False, False]

    def test_their_own_names_are_names(self) -> None:
        assert ids(projected(self.FILE, "struct<_col2:string,_col0:bigint>").file_root) == [0, 5, 1]

    def test_one_name_is_enough_to_have_names(self) -> None:
        found = projected("struct<_col0:int,b:int>", "struct<x:int,b:int>")
        assert [source.file_type is None for source in found.sources] == [True, False]

    def test_types_must_fit_there_too(self) -> None:
        with pytest.raises(SchemaMismatch, match=r"'y'.*\bstruct\b"):
            projected(self.FILE, "struct<x:int,y:int>")
