"""Encrypted files of ORC Java joined by ours: under the keys that they have, and under new ones.

Java and ours read the results; that nothing is encrypted twice under one counter is asked of the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

import orcstream
from orcstream.codec.metadata.structure import stream_ranges
from orcstream.encryption import KeyProviderKind
from orcstream.errors import CorruptTail, KeyUnavailable, Unsupported, UsageError
from orcstream.io.keys import InMemoryKeyProvider
from orcstream.plan.tail import footer_of
from orcstream.writer import merge as merging
from tests.generators import encrypted_columns, strategies
from tests.generators.encrypted_columns import PII, TOP, Root
from tests.generators.merging import tail_of
from tests.interop import judging
from tests.reference import compare, java_orc
from tests.reference.java_orc import Key
from tests.reference.types import struct
from tests.support.effort import pairs
from tests.support.reading import provider

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

# The next version of a key, of another length.
NEW_PII = Key("pii", bytes(range(7, 39)), 1)
ALL = (PII, NEW_PII, TOP)
TYPE = struct(
    id="bigint",
    ssn="string",
    price="decimal(12,2)",
    s="struct<a:string,b:bigint>",
    l="array<int>",
    at="timestamp",
)
ROOTS = encrypted_columns.named(
    TYPE, [("ssn", PII, "sha256"), ("price", TOP, "redact"), ("s.a", PII, "nullify"), ("l", TOP, "nullify")]
)
STRIPES = {"orc.stripe.row.count": 1000, "orc.row.index.stride": 1000}
ROWS = [strategies.make_table(TYPE, 2_500, seed, strategies.Limits()).rows for seed in (1, 2, 3)]


def written(
    folder: Path, rows: Sequence[Sequence[object]] = ROWS, roots: Sequence[Root] = ROOTS, **options: Any
) -> list[Path]:
    paths = [folder / f"{number}.orc" for number in range(len(rows))]
    for path, some in zip(paths, rows, strict=True):
        encrypted_columns.write(
            path, TYPE, some, roots, options={**STRIPES, "orc.compress": "ZSTD"}, **options
        )
    return paths


def merged(path: Path, files: Sequence[Path], keys: InMemoryKeyProvider | None, **options: Any) -> Any:
    async def run() -> orcstream.MergeResult:
        return await orcstream.merge([str(file) for file in files], path, keys=keys, **options)

    return anyio.run(run)


def assert_reads(path: Path, rows: Sequence[object], keys: Sequence[Key]) -> None:
    """With the keys, as Java and ours see it; without, what the masks left."""
    judging.run(path, TYPE, list(rows), keys=provider(keys), require_keys=True)
    wanted = compare.arrow_shaped(TYPE, rows)
    for given in (keys, ()):
        theirs = java_orc.read(path, TYPE, keys=given)
        if given:
            compare.assert_same_rows(TYPE, compare.arrow_shaped(TYPE, theirs), wanted)
        else:
            judging.run(path, TYPE, theirs)


MODES: list[tuple[str, dict[str, Any], tuple[Key, ...]]] = [
    ("as-they-are", {}, (PII, TOP)),
    ("current-versions", {"rekey": True}, (NEW_PII, TOP)),
    ("other-keys", {"rekey": {"pii": "top"}}, (TOP,)),
]


@pytest.mark.parametrize(("mode", "piece_bytes"), pairs(MODES, [777, 8 << 20]))
def test_rows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: tuple[str, Mapping[str, Any], tuple[Key, ...]],
    piece_bytes: int,
) -> None:
    _, options, keys = mode
    files = written(tmp_path)
    if piece_bytes < 1000:  # streams are cut anywhere, within blocks of the cipher too
        monkeypatch.setattr(merging, "PIECE_BYTES", piece_bytes)
    target = tmp_path / "merged.orc"
    store = provider(ALL)
    result = merged(target, files, store, **options)
    assert (result.row_count, len(result.files)) == (7_500, 3)
    assert_reads(target, [row for rows in ROWS for row in rows], keys)


@pytest.mark.parametrize(("options", "keys"), [m[1:] for m in MODES], ids=[m[0] for m in MODES])
def test_statistics(tmp_path: Path, options: Mapping[str, Any], keys: tuple[Key, ...]) -> None:
    """Of the values with the keys, of what the masks left without: in the file as in its stripes."""
    files = written(tmp_path)
    target, plain = tmp_path / "merged.orc", tmp_path / "plain.orc"
    merged(target, files, provider(ALL), **options)
    everything = [row for rows in ROWS for row in rows]
    java_orc.write(plain, TYPE, everything, options={**STRIPES, "orc.compress": "ZSTD"})
    ours, theirs = (java_orc.statistics(path, keys=keys) for path in (target, plain))
    for column, (found, wanted) in enumerate(zip(ours["file"], theirs["file"], strict=True)):
        unlike = ["bytes_on_disk"]  # dictionaries differ
        if found["kind"] == "CollectionColumn":
            unlike += ["minimum", "maximum", "sum"]  # Java counts the rows of its batches
        assert {n: v for n, v in found.items() if n not in unlike} == {
            n: v for n, v in wanted.items() if n not in unlike
        }, column
    for number, path in enumerate(files):
        stripes = java_orc.statistics(path, keys=(PII, TOP))["stripes"]
        assert ours["stripes"][3 * number : 3 * number + 3] == stripes
    masked = java_orc.statistics(target)["file"]
    wanted = java_orc.statistics(files[0])["file"]
    assert masked[2] != ours["file"][2]
    assert masked[2]["kind"] == wanted[2]["kind"]


def secrets_of(path: Path) -> dict[tuple[object, ...], bytes]:
    """The encrypted streams of stripes by what their counters are made of, and their local key."""
    data, tail = path.read_bytes(), tail_of(path)
    found: dict[tuple[object, ...], bytes] = {}
    for stripe in tail.footer.stripes:
        place = stripe.footer_range
        footer = footer_of(tail, stripe, memoryview(data)[place.start : place.stop])
        for stream, range_ in stream_ranges(stripe, footer):
            if stream.variant is not None:
                local = stripe.encrypted_local_keys[stream.variant]
                counter = (local, stream.column, stream.kind, stripe.encrypt_stripe_id)
                assert (
                    found.setdefault(counter, data[range_.start : range_.stop])
                    == data[range_.start : range_.stop]
                ), "one counter for two streams"
    return found


def test_counters(tmp_path: Path) -> None:
    files = written(tmp_path)
    before = [secrets_of(path) for path in files]
    kept, renewed = tmp_path / "kept.orc", tmp_path / "renewed.orc"
    merged(kept, [*files, files[0]], provider(ALL))
    assert secrets_of(kept) == before[0] | before[1] | before[2]
    merged(renewed, [*files, files[0]], provider(ALL), rekey=True)
    after = secrets_of(renewed)
    assert len(after) == sum(map(len, before)) + len(before[0])
    assert not set(after) & set(secrets_of(kept))
    long = {secret for secret in after.values() if len(secret) > 15}  # shorter ones may agree by chance
    assert long
    assert not long & set(secrets_of(kept).values())
    assert tail_of(renewed).footer.schema == tail_of(files[0]).footer.schema
    tails = [tail_of(path).footer.encryption for path in (*files, kept, renewed)]
    wrapped = [variant.encrypted_key for found in tails if found for variant in found.variants]
    assert len(set(wrapped)) == len(wrapped) == 5 * len(ROOTS), "each file has local keys of its own"
    ids = [stripe.encrypt_stripe_id for stripe in tail_of(renewed).footer.stripes]
    assert ids == list(range(1, len(ids) + 1))
    assert [s.encrypt_stripe_id for s in tail_of(kept).footer.stripes] == [1, 2, 3] * 4


def test_versions_of_keys_come_together(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    files = [*written(old, ROWS[:1]), *written(new, ROWS[1:2], keys=ALL)]
    target = tmp_path / "merged.orc"
    with pytest.raises(UsageError, match=r"\b1\b.*'pii'.*\b0\b.*'pii'"):
        merged(target, files, provider(ALL))
    assert not target.exists()
    merged(target, files, provider(ALL), rekey=True)
    assert_reads(target, [*ROWS[0], *ROWS[1]], (NEW_PII, TOP))
    again = tmp_path / "again.orc"  # stripes with two local keys, and numbers of their own
    merged(again, [target, files[1], target], provider(ALL))
    assert_reads(again, [*ROWS[0], *ROWS[1], *ROWS[1], *ROWS[0], *ROWS[1]], (NEW_PII, TOP))


def test_another_store(tmp_path: Path) -> None:
    class Elsewhere(InMemoryKeyProvider):
        """Pretends to be of Amazon."""

        kind = KeyProviderKind.AWS

    files = written(tmp_path, ROWS[:1])
    store = Elsewhere()
    store.add_key("pii", bytes(16))
    store.add_key("top", bytes(32), 5)
    target = tmp_path / "merged.orc"
    merged(target, files, provider([PII, TOP]), rekey=True, target_keys=store)
    encryption = tail_of(target).footer.encryption
    assert encryption is not None
    assert encryption.key_provider is KeyProviderKind.AWS
    assert [(key.name, key.version) for key in encryption.keys] == [("pii", 0), ("top", 5)]
    judging.run(target, TYPE, list(ROWS[0]), keys=store, require_keys=True)


def test_names_of_keys_in_attributes(tmp_path: Path) -> None:
    files = written(tmp_path, ROWS[:1])
    target = tmp_path / "merged.orc"
    merged(target, files, provider(ALL), rekey={"pii": "top"})
    before, after = (dict(tail_of(path).footer.schema["ssn"].attributes) for path in (files[0], target))
    assert (before, after) == ({"encrypt": "pii", "mask": "sha256"}, {"encrypt": "top", "mask": "sha256"})


def test_files_without_rows(tmp_path: Path) -> None:
    files = written(tmp_path, [[], ROWS[0], []])
    for name, options, keys in MODES:
        target = tmp_path / f"{name}.orc"
        merged(target, files, provider(ALL), **options)
        assert_reads(target, ROWS[0], keys)


def test_what_cannot_be_merged(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (file,) = written(tmp_path, ROWS[:1])
    (fewer,) = written(other, ROWS[:1], ROOTS[:2])
    plain, target = tmp_path / "plain.orc", tmp_path / "merged.orc"
    java_orc.write(plain, TYPE, ROWS[0], options={**STRIPES, "orc.compress": "ZSTD"})
    store = provider(ALL)
    with pytest.raises(Unsupported, match=r"\bkeys=") as caught:
        merged(target, [file, file], None)
    assert caught.value.reason == "encrypted"
    for second in (fewer, plain):
        # ORC Java notes keys and masks in the attributes of types, too.
        with pytest.raises(UsageError, match=r"\b(schema|encryption)\b"):
            merged(target, [file, second], store)
    for missing in ((PII,), (TOP,), ()):
        with pytest.raises(KeyUnavailable, match=r"'(top|pii)'"):
            merged(target, [file], provider(missing))
    with pytest.raises(CorruptTail, match=r"\bversion 0\b.*'top'"):
        merged(target, [file], provider([PII, Key("top", bytes(32))]))
    with pytest.raises(KeyUnavailable, match="'nobody'"):
        merged(target, [file], store, rekey={"pii": "nobody"})
    for options in ({"rekey": True, "keys": None}, {"rekey": "pii"}, {"target_keys": store}):
        with pytest.raises(UsageError, match="rekey"):
            merged(target, [file], **{"keys": store, **options})  # type: ignore[arg-type]
    assert not target.exists()
    result = merged(target, [file, fewer, plain], store, skip_incompatible=True)
    assert [one.reason for one in result.skipped] == ["schema", "schema"]
    assert sorted(path.name for path in tmp_path.glob("*.orc*")) == ["0.orc", "merged.orc", "plain.orc"]
