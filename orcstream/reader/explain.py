"""A read's plan as a value that prints: waves, requests, bytes.

Knows figures only. Made by `OrcFile.explain`, which plans the read exactly as the stream does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orcstream.byterange import ByteRange


@dataclass(frozen=True, slots=True)
class Wave:
    """Requests that do not wait for each other; `ranges` are the bytes of the file that each asks for."""

    name: str
    request_count: int
    bytes_wanted: int
    bytes_read: int
    ranges: tuple[ByteRange, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a read will ask the store for. `str()` is made for people.

    `url` is shown without credentials, `columns` is what is read as a schema's text, `row_count` that of
    the file. `selected_row_count` rows of `stripe_count` stripes are left to look at, after those that
    the file's own figures prove to have no match: `rows_pruned_by_file`, `rows_pruned_by_stripe`,
    `rows_pruned_by_row_group` (all by statistics) and `rows_pruned_by_bloom` (filters), by what proves it
    first. With `predicate_first`, the columns of the predicate are read before the others, which follow
    only for row groups with a match: of those, a wave says the most there can be. `window_count` is in
    how many pieces the stripes are read, at least one each.

    `waves` are the requests, those together that do not wait for each other: each has `name` (``tail``,
    ``statistics`` of stripes, ``control`` for footers and what comes along, ``index``, ``data``, or
    ``predicate`` and ``rest, at most``), `request_count`, `bytes_wanted`, `bytes_read` and `ranges` of
    the file.
    """

    url: str
    columns: str
    row_count: int
    selected_row_count: int
    rows_pruned_by_file: int
    rows_pruned_by_stripe: int
    rows_pruned_by_row_group: int
    rows_pruned_by_bloom: int
    predicate_first: bool
    stripe_count: int
    window_count: int
    waves: tuple[Wave, ...]

    @property
    def hop_count(self) -> int:
        """How many responses arrive one after the other before the last byte can be asked for."""
        return sum(1 for wave in self.waves if wave.request_count)

    @property
    def request_count(self) -> int:
        """Requests of all waves."""
        return sum(wave.request_count for wave in self.waves)

    @property
    def bytes_wanted(self) -> int:
        """Bytes that are needed, of all waves."""
        return sum(wave.bytes_wanted for wave in self.waves)

    @property
    def bytes_read(self) -> int:
        """Bytes that are asked for: those between two wanted ranges that are read as one, too."""
        return sum(wave.bytes_read for wave in self.waves)

    def __str__(self) -> str:
        windows = _counted(self.window_count, "window")
        lines = [
            f"{self.url}",
            f"  reads     {self.columns}",
            f"  rows      {self.selected_row_count:,} of {self.row_count:,}",
            f"  from      {_counted(self.stripe_count, 'stripe')}, in {windows}",
            *self._pruning(),
            f"  hops      {self.hop_count}",
            "  wave             requests          wanted            read",
        ]
        total = Wave("total", self.request_count, self.bytes_wanted, self.bytes_read)
        lines += [
            f"  {wave.name:<16} {wave.request_count:>8,} {wave.bytes_wanted:>15,} {wave.bytes_read:>15,}"
            for wave in (*self.waves, total)
        ]
        return "\n".join(lines)

    def _pruning(self) -> list[str]:
        proofs = {
            "file statistics": self.rows_pruned_by_file,
            "stripe statistics": self.rows_pruned_by_stripe,
            "row group statistics": self.rows_pruned_by_row_group,
            "bloom filters": self.rows_pruned_by_bloom,
        }
        shown = [f"{count:,} by {proof}" for proof, count in proofs.items() if count]
        lines = [f"  pruned    {', '.join(shown)}"] if shown else []
        if self.predicate_first:
            lines.append("  order     the predicate's columns first, the others where a row matches")
        return lines


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
