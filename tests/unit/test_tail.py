"""File tails: every real file against the manifest's facts, the habits of writers, and hostile bytes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream._proto import orc_proto as pb
from orcstream.byterange import ByteRange
from orcstream.codec.metadata.parse import MAX_BLOCK_SIZE
from orcstream.codec.streams.compression import Compression
from orcstream.errors import CorruptTail, FormatError, NotOrcFile, Unsupported
from orcstream.plan.tail import Need, Tail, parse_stripe_statistics, plan_tail
from orcstream.schema.schema import Schema
from orcstream.schema.types import MAX_DEPTH
from tests.reference.corpus import manifest
from tests.support.errors import because


def read(data: bytes, suffix: int | None = None) -> Tail:
    """The tail of a whole file, from a suffix of some length and at most one more read."""
    have = len(data) if suffix is None else min(suffix, len(data))
    answer = plan_tail(memoryview(data)[len(data) - have :], len(data))
    reads = 0
    while isinstance(answer, Need):
        reads += 1
        assert answer.range.stop == len(data) - have, "what is asked for must end where the suffix begins"
        assert answer.range.length > 0
        have = len(data) - answer.range.start
        answer = plan_tail(memoryview(data)[answer.range.start :], len(data))
    assert reads <= 1 or (suffix or 0) < 257
    return answer


def parts(
    footer: pb.Footer | None = None, body: bytes = b"ORC", **postscript: Any
) -> tuple[bytes, pb.Footer, pb.PostScript]:
    footer = footer or pb.Footer(types=[pb.Type(kind=12)])
    fields: dict[str, Any] = {"magic": "ORC", "version": [0, 12], "compression": 0, **postscript}
    return body, footer, pb.PostScript(**{name: value for name, value in fields.items() if value is not None})


def build(footer: pb.Footer | None = None, body: bytes = b"ORC", **postscript: Any) -> bytes:
    """An uncompressed file of a body, a footer and a postscript; a field that is None is left out."""
    body, footer, message = parts(footer, body, **postscript)
    serialized = footer.SerializeToString()
    if "footer_length" not in postscript:
        message.footer_length = len(serialized)
    end = message.SerializeToString()
    return body + serialized + end + bytes([len(end)])


# --- real files ---

REFUSED: dict[str, tuple[type[Exception], str]] = {
    "apache-orc/java/orc_corrupt_zlib.orc": (CorruptTail, r"\bfooter\b"),
    "clickhouse-proton/corrupted.orc": (CorruptTail, r"\bstruct\b.*\b3 children\b.*\b2 names\b"),
    "cudf/footer_underflow.orc": (NotOrcFile, r"\bpostscript\b"),
    "impala/corrupt_root_type.orc": (Unsupported, r"\bkind 36\b"),
    "velox/dwrf/dict_encoded_strings.orc": (Unsupported, "DWRF"),
    "velox/dwrf/struct.orc": (Unsupported, "DWRF"),
    "velox/dwrf/upper_complex.orc": (Unsupported, "DWRF"),
}


def test_every_real_tail(corpus_folder: Path) -> None:
    problems: list[str] = []
    refused: set[str] = set()
    for item in manifest(corpus_folder)["files"]:
        path, facts = item["path"], item["facts"]
        data = (corpus_folder / path).read_bytes()
        if path in REFUSED:
            refused.add(path)
            cls, text = REFUSED[path]
            with pytest.raises(cls, match=text):
                read(data, 16384)
            continue
        tail = read(data, 16384)
        found = facts_of(tail)
        problems += [
            f"{path}: {name} is {found[name]!r}, the manifest says {facts[name]!r}"
            for name in found.keys() & facts.keys()
            if found[name] != (plain(facts[name]) if name == "schema" else facts[name])
        ]
        assert read(data).footer.schema == tail.footer.schema
    assert not problems
    assert refused == REFUSED.keys()


def facts_of(tail: Tail) -> dict[str, Any]:
    footer, postscript = tail.footer, tail.postscript
    facts = {
        "schema": plain(str(footer.schema)),
        "rows": footer.row_count,
        "stripes": len(footer.stripes),
        "compression": postscript.compression.name,
        "writer_version": postscript.writer_version,
        "software": footer.software_version,
        "format_version": "{}.{}".format(*postscript.version),
        "row_index_stride": footer.row_index_stride,
        "calendar": footer.calendar.name.lower().replace("_", "-"),
        "encrypted": footer.encryption is not None,
        "user_metadata_keys": list(footer.user_metadata),
    }
    if postscript.compression is not Compression.NONE:
        facts["block_size"] = postscript.compression_block_size
    return facts


def plain(schema: str) -> str:
    """The manifest quotes no names, prints absent decimals as (0,0), and cuts long schemas after 600."""
    text = schema.replace("`", "").replace("decimal(0,0)", "decimal")
    return text[:600].removesuffix("...")[:590]


def test_every_real_statistics(corpus_folder: Path) -> None:
    """All statistics of all files parse, except where a file is known to be damaged there."""
    damaged = {"apache-orc/corrupt/missing_length_stream_in_string_dict.orc"}
    fewer: dict[str, tuple[int, int]] = {}
    for item in manifest(corpus_folder)["files"]:
        if item["path"] in REFUSED:
            continue
        tail = read((corpus_folder / item["path"]).read_bytes())
        assert tail.metadata is not None
        columns = range(tail.footer.schema.column_count)
        if item["path"] in damaged:
            with pytest.raises(CorruptTail, match="file metadata"):
                parse_stripe_statistics(tail, tail.metadata)
            continue
        stripes = parse_stripe_statistics(tail, tail.metadata)
        if len(stripes) != len(tail.footer.stripes):
            fewer[item["path"]] = (len(stripes), len(tail.footer.stripes))
        for statistics in (tail.footer.statistics, *stripes):
            root = statistics.get(0)
            assert root is None or root.value_count is None or root.value_count <= tail.footer.row_count
            for column in columns:
                statistics.get(column)
    # Metadata came with Hive 0.13.
    assert all(found == 0 for found, _ in fewer.values()), fewer


def test_known_answers(corpus_folder: Path) -> None:
    tail = read((corpus_folder / "apache-orc/encrypted/sample1.orc").read_bytes())
    assert pickle.loads(pickle.dumps(tail)) == tail
    encryption = tail.footer.encryption
    assert encryption is not None
    assert [(v.root, v.key) for v in encryption.variants] == [(1, 0), (2, 0)]
    assert [(mask.name, mask.columns) for mask in encryption.masks] == [("nullify", (1,)), ("sha256", (2,))]
    assert tail.footer.stripes[0].encrypt_stripe_id == 1
    assert [len(key) for key in tail.footer.stripes[0].encrypted_local_keys] == [32, 32]
    assert tail.footer.user_metadata["org.apache.spark.version"]
    assert tail.footer.schema["ssn"].attributes
    assert tail.stripe_statistics_range.length == tail.postscript.stripe_statistics_length > 0
    assert tail.footer.stripes[-1].range.stop <= tail.stripe_statistics_range.start


# --- habits ---


def test_empty_file_is_an_empty_table() -> None:
    tail = plan_tail(memoryview(b""), 0)
    assert isinstance(tail, Tail)
    assert str(tail.footer.schema) == "struct<>"
    assert tail.footer.row_count == 0
    assert tail.footer.stripes == ()
    assert tail.metadata == b""
    assert tail.footer_range == tail.metadata_range == tail.stripe_statistics_range == ByteRange(0, 0)
    assert parse_stripe_statistics(tail, b"") == ()


def test_need_is_exact() -> None:
    data = build(
        pb.Footer(types=[pb.Type(kind=12)], metadata=[pb.UserMetadataItem(name="k", value=b"x" * 500)])
    )
    postscript_length = data[-1]
    footer_start = 3
    for have in (1 + postscript_length, 100, 400):
        answer = plan_tail(memoryview(data)[-have:], len(data))
        assert answer == Need(ByteRange(footer_start, len(data) - have))
    assert plan_tail(memoryview(data)[-2:], len(data)) == Need(
        ByteRange(len(data) - 1 - postscript_length, len(data) - 2)
    )
    assert isinstance(plan_tail(memoryview(b""), len(data)), Need)
    for have in range(len(data) + 1):
        assert read(data, have).footer.user_metadata == {"k": b"x" * 500}


def test_what_a_postscript_may_leave_out() -> None:
    postscript = read(build(version=None, compression=None)).postscript
    assert postscript.version == (0, 11)
    assert postscript.compression is Compression.NONE
    assert postscript.compression_block_size == 262144
    assert postscript.writer_version == 0
    assert postscript.version_is_known


def test_magic_may_stand_at_the_start_only() -> None:
    data = build(magic=None)
    assert not read(data).postscript.has_magic
    assert isinstance(read(data, len(data) - 1), Tail)
    with pytest.raises(NotOrcFile, match=r"'ORC'.*\boffset 0\b"):
        read(build(body=b"XYZ", magic=None))
    with pytest.raises(NotOrcFile, match=r"\bmagic\b.*\bfooter\b"):
        read(build(pb.Footer(), magic=None))
    with pytest.raises(NotOrcFile, match="'ORX'"):
        read(build(magic="ORX"))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"PAR1" + b"\x00" * 300 + b"PAR1", r"\bParquet\b"),
        (b"PAR1", r"\bParquet\b"),
        (b"id,name\n1,x\n" * 20, "^not an ORC file"),
        (b"{}\n", "^not an ORC file"),
        (build()[:-1], r"^an ORC file\b.*\b22\b"),
    ],
)
def test_what_is_no_orc_file_is_called_what_it_is(data: bytes, text: str) -> None:
    with pytest.raises(NotOrcFile, match=text):
        read(data)


def test_a_tail_shows_in_one_line_how_large_the_file_is() -> None:
    data = build(pb.Footer(types=[pb.Type(kind=12)]))
    assert repr(read(data)) == f"<Tail: 0 rows, 0 stripes, {len(data)} bytes>"


def test_future_versions_are_read() -> None:
    assert not read(build(version=[19, 99])).postscript.version_is_known


def test_metadata_is_kept_where_the_suffix_has_it() -> None:
    metadata = pb.Metadata().SerializeToString()
    statistics = pb.ColumnStatistics(number_of_values=7).SerializeToString()
    metadata = b"\x0a" + bytes([len(statistics) + 2]) + b"\x0a" + bytes([len(statistics)]) + statistics
    stripe = pb.StripeInformation(offset=3, data_length=5, footer_length=2, number_of_rows=7)
    footer = pb.Footer(types=[pb.Type(kind=12)], stripes=[stripe])
    data = build(footer, body=b"ORC" + b"stripe!" + metadata, metadata_length=len(metadata))
    tail = read(data)
    assert tail.metadata == metadata
    assert tail.metadata_range == ByteRange(10, 10 + len(metadata))
    (found,) = parse_stripe_statistics(tail, tail.metadata)
    root = found.get(0)
    assert root is not None
    assert root.value_count == 7
    assert found.get(1) is None
    short = plan_tail(memoryview(data)[11:], len(data))
    assert isinstance(short, Tail)
    assert short.metadata is None
    with pytest.raises(CorruptTail, match=r"\bfile metadata\b.*\b1\b"):
        parse_stripe_statistics(tail, metadata * 2)


# --- refusals ---


@pytest.mark.parametrize(
    ("data", "cls"),
    [
        (b"\x00", NotOrcFile),
        (b"ORC", NotOrcFile),
        (b"ORC\x00", NotOrcFile),
        (b"\xff" * 40, NotOrcFile),
        (b"PAR1" + b"\x00" * 300 + b"PAR1", NotOrcFile),
        (build()[:-1], NotOrcFile),
        (build(footer_length=2**63), CorruptTail),
        (build(footer_length=1000), CorruptTail),
        (build(metadata_length=2**64 - 1), CorruptTail),
        (build(stripe_statistics_length=50), CorruptTail),
        (build(compression=7), Unsupported),
        (build(compression=1, compression_block_size=0), CorruptTail),
        (build(compression=1, compression_block_size=MAX_BLOCK_SIZE + 1), CorruptTail),
        (build(version=[6]), Unsupported),
    ],
)
def test_refused(data: bytes, cls: type[Exception]) -> None:
    with pytest.raises(cls):
        read(data)


def struct(*kinds: int) -> list[pb.Type]:
    root = pb.Type(
        kind=12, subtypes=range(1, len(kinds) + 1), field_names=[f"f{n}" for n in range(len(kinds))]
    )
    return [root, *(pb.Type(kind=kind) for kind in kinds)]


def deep(levels: int) -> list[pb.Type]:
    return [*(pb.Type(kind=10, subtypes=[n + 1]) for n in range(levels - 1)), pb.Type(kind=3)]


def decimal(precision: int, scale: int) -> pb.Type:
    return pb.Type(kind=14, precision=precision, scale=scale)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([], r"\bfooter\b.*\btypes\b"),
        ([pb.Type(kind=12, subtypes=[0], field_names=["a"])], r"\btype 0\b.*\b0\b.*\bsubtype\b.*\b1\b"),
        ([pb.Type(kind=12, subtypes=[1], field_names=["a"])], r"\btype 0\b.*\b1\b.*\bsubtype\b.*\b1\b"),
        (
            [pb.Type(kind=12, subtypes=[2], field_names=["a"]), pb.Type(), pb.Type()],
            r"\btype 0\b.*\b2\b.*\bsubtype\b.*\b1\b",
        ),
        ([*struct(3, 3), pb.Type()], r"\b4 types\b.*\b3\b"),
        ([pb.Type(kind=11, subtypes=[1, 1]), pb.Type()], r"\btype 0\b.*\b1\b.*\bsubtype\b.*\b2\b"),
        ([pb.Type(kind=12, subtypes=[1], field_names=["a", "b"]), pb.Type()], r"\b1 children\b.*\b2 names\b"),
        ([pb.Type(kind=10)], r"\bLIST\b.*\b0 children\b"),
        ([pb.Type(kind=11, subtypes=[1]), pb.Type()], r"\bMAP\b.*\b1 children\b"),
        ([pb.Type(kind=13)], r"\bUNION\b.*\b0 children\b"),
        ([pb.Type(kind=3, subtypes=[1]), pb.Type()], r"\bINT\b.*\b1 children\b"),
        ([pb.Type(kind=99)], r"\bkind 99\b"),
        ([decimal(39, 0)], "precision 39"),
        ([decimal(5, 6)], "scale 6"),
        (deep(MAX_DEPTH + 1), rf"\b{MAX_DEPTH}\b"),
        ([pb.Type(kind=20, algorithm=9)], r"\bedge\b.*\b9\b"),
    ],
)
def test_hostile_types(types: list[pb.Type], message: str) -> None:
    with pytest.raises((CorruptTail, Unsupported), match=message):
        read(build(pb.Footer(types=types)))


def test_tolerated_types() -> None:
    types = [*struct(14, 16, 19, 20), pb.Type()][:5]
    types[1].scale = 3
    schema = read(build(pb.Footer(types=types))).footer.schema
    assert schema["f0"].precision is None
    assert schema["f0"].scale is None
    assert schema["f1"].max_length is None
    assert (
        str(schema)
        == "struct<f0:decimal,f1:varchar,f2:geometry(OGC:CRS84),f3:geography(OGC:CRS84,SPHERICAL)>"
    )
    assert read(build(pb.Footer(types=deep(MAX_DEPTH)))).footer.schema.column_count == MAX_DEPTH


STRIPE = {"offset": 3, "index_length": 10, "data_length": 20, "footer_length": 5, "number_of_rows": 4}


@pytest.mark.parametrize(
    ("stripes", "message"),
    [
        ([{**STRIPE, "data_length": 1000}], r"\b1018\b.*\b83\b"),
        ([{**STRIPE, "data_length": 2**64 - 1}], rf"\b{2**64 + 17}\b.*\b83\b"),
        ([{**STRIPE, "offset": 2**64 - 1, "index_length": 4}], rf"\b{2**64 + 28}\b.*\b83\b"),
        ([STRIPE, STRIPE], "overlap"),
        ([{**STRIPE, "number_of_rows": 2**63}], rf"\b{2**63} rows\b"),
        (
            [{**STRIPE, "number_of_rows": 2**62}, {**STRIPE, "offset": 38, "number_of_rows": 2**62}],
            rf"\b{2**62} rows\b",
        ),
        ([{**STRIPE, "number_of_rows": 5}], r"\b4 rows\b.*\b5\b"),
        ([], r"\b4 rows\b.*\b0\b"),
    ],
)
def test_hostile_stripes(stripes: list[dict[str, int]], message: str) -> None:
    messages = [pb.StripeInformation(**stripe) for stripe in stripes]
    footer = pb.Footer(types=[pb.Type(kind=12)], stripes=messages, number_of_rows=4)
    with pytest.raises(CorruptTail, match=message):
        read(build(footer, body=b"ORC" + bytes(80)))


def test_stripes() -> None:
    second = {**STRIPE, "offset": 40, "number_of_rows": 6}
    footer = pb.Footer(
        types=[pb.Type(kind=12)], stripes=[pb.StripeInformation(**stripe) for stripe in (STRIPE, second)]
    )
    tail = read(build(footer, body=b"ORC" + bytes(80)))
    one, two = tail.footer.stripes
    assert tail.footer.row_count == 10
    assert (one.first_row, two.first_row, two.index) == (0, 4, 1)
    assert one.range == ByteRange(3, 38)
    assert (one.index_range, one.data_range, one.footer_range) == (
        ByteRange(3, 13),
        ByteRange(13, 33),
        ByteRange(33, 38),
    )


def test_stripes_inherit_encryption() -> None:
    keys = [b"1" * 16, b"2" * 16]
    stripes = [pb.StripeInformation(number_of_rows=1) for _ in range(4)]
    stripes[0].encrypt_stripe_id = 1
    stripes[0].encrypted_local_keys.extend(keys)
    stripes[2].encrypt_stripe_id = 1
    stripes[2].encrypted_local_keys.extend(keys[::-1])
    encryption = pb.Encryption(
        key=[pb.EncryptionKey(key_name="k", key_version=3, algorithm=2)],
        variants=[pb.EncryptionVariant(root=column, key=0) for column in (1, 2)],
        mask=[pb.DataMask(name="nullify", columns=[1])],
        key_provider=9,
    )
    footer = pb.Footer(types=struct(3, 7), stripes=stripes, encryption=encryption)
    found = read(build(footer)).footer
    assert [stripe.encrypt_stripe_id for stripe in found.stripes] == [1, 2, 1, 2]
    assert [stripe.encrypted_local_keys[0][:1] for stripe in found.stripes] == [b"1", b"1", b"2", b"2"]
    assert found.encryption is not None
    assert found.encryption.key_provider.name == "UNKNOWN"
    assert found.encryption.keys[0].algorithm.name == "AES_CTR_256"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"root": 3}, r"\bvariant 0\b.*\bcolumn 3\b"),
        ({"key": 1}, r"\bvariant 0\b.*\bkey 1\b"),
        ({"stripe_statistics": [pb.Stream(kind=100, column=2)]}, r"\bvariant 0\b.*\bcolumn 2\b"),
        (
            {"stripe_statistics": [pb.Stream(kind=100, column=1, length=1)]},
            r"\bencrypted stripe statistics\b.*\b1 bytes\b.*\b0\b",
        ),
    ],
)
def test_hostile_encryption(change: dict[str, Any], message: str) -> None:
    variant = pb.EncryptionVariant(**{"root": 1, "key": 0, **change})
    encryption = pb.Encryption(key=[pb.EncryptionKey(key_name="k")], variants=[variant])
    with pytest.raises(CorruptTail, match=message):
        read(build(pb.Footer(types=struct(3, 7), encryption=encryption)))


@pytest.mark.parametrize(
    "stripe",
    [
        {"encrypted_local_keys": [b"k"] * 2},
        {},
        {"encrypted_local_keys": [b"k"], "encrypt_stripe_id": 0},
        {"encrypted_local_keys": [b"k"], "encrypt_stripe_id": 2**24},
    ],
)
def test_hostile_encryption_of_stripes(stripe: dict[str, Any]) -> None:
    encryption = pb.Encryption(key=[pb.EncryptionKey()], variants=[pb.EncryptionVariant(root=1)])
    footer = pb.Footer(types=struct(3), encryption=encryption, stripes=[pb.StripeInformation(**stripe)])
    with pytest.raises(CorruptTail):
        read(build(footer))


def test_hostile_masks() -> None:
    encryption = pb.Encryption(mask=[pb.DataMask(name="nullify", columns=[2])])
    with pytest.raises(CorruptTail, match="'nullify'"):
        read(build(pb.Footer(types=struct(3), encryption=encryption)))


def test_more_bytes_than_the_file_has() -> None:
    data = build()
    with pytest.raises(CorruptTail, match=r"\b23 bytes\b.*\b3\b"):
        plan_tail(memoryview(data), 3)


def test_unknown_calendar() -> None:
    with pytest.raises(Unsupported, match=r"\b3\b", check=because("unknown_calendar")):
        read(build(pb.Footer(types=[pb.Type(kind=12)], calendar=3)))


def test_text_that_is_no_utf8() -> None:
    item = pb.UserMetadataItem(name="note", value=b"\xff")
    data = build(pb.Footer(types=struct(3), metadata=[item]))
    with pytest.raises(CorruptTail, match=r"b'\\xff0'.*\bUTF-8\b"):
        read(data.replace(b"f0", b"\xff0"))
    assert read(data.replace(b"note", b"\xffote")).footer.user_metadata == {"\ufffdote": b"\xff"}


def test_errors_say_where() -> None:
    data = build(pb.Footer(types=[]))
    with pytest.raises(CorruptTail) as caught:
        read(data)
    assert caught.value.file_offset == 3


# --- any bytes in, only FormatError or Unsupported out ---


def parse_all(data: bytes) -> None:
    try:
        tail = read(data)
        assert isinstance(tail.footer.schema, Schema)
        for column in range(len(tail.footer.statistics)):
            tail.footer.statistics.get(column)
        if tail.metadata is not None:
            for statistics in parse_stripe_statistics(tail, tail.metadata):
                statistics.get(0)
    except (FormatError, Unsupported):
        pass


@given(st.binary(max_size=300))
def test_random_bytes(data: bytes) -> None:
    parse_all(data)
    parse_all(data + build()[-30:])


SEEDS = [
    "apache-orc/TestOrcFile.test1.orc",
    "apache-orc/orc_split_elim.orc",
    "apache-orc/encrypted/sample1.orc",
    "apache-orc/version1999.orc",
]


@given(draw=st.data())
def test_mutated_tails(corpus_folder: Path, draw: st.DataObject) -> None:
    path = corpus_folder / draw.draw(st.sampled_from(SEEDS))
    data = bytearray(path.read_bytes())
    reach = min(len(data), 2000)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = len(data) - 1 - draw.draw(st.integers(0, reach - 1))
        data[at] = draw.draw(st.integers(0, 255))
    parse_all(bytes(data))
    parse_all(bytes(data[: draw.draw(st.integers(0, len(data)))]))
