"""Pruning keeps rows whose times are read in another zone, whichever two zones there are."""

from __future__ import annotations

import io
from importlib import resources

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from orcstream import blocking, col
from orcstream.codec.convert.zone_shift import farthest_shift
from orcstream.codec.vectors.times import UTC
from orcstream.file.zones import load_zone
from orcstream.schema.column_statistics import trust_of

NAMES = resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split()
EXTREME = ["Pacific/Apia", "Antarctica/Casey", "Pacific/Pago_Pago", "America/Inuvik", "GMT+23:59", "-23:59"]
ZONES = st.sampled_from(EXTREME) | st.sampled_from(NAMES)
HOUR_NS = 3600 * 10**9
ROWS = 8


def test_the_margin_of_unknown_zones_covers_every_zone() -> None:
    """An hour and a half is left for zones whose rules differ between releases of the tz database."""
    margin_ns = trust_of(0, 9, None, (0, 12)).read_elsewhere(None, 0).zone_margin_ns
    assert len(NAMES) > 500
    for zone in map(load_zone, NAMES):
        assert farthest_shift(zone, instants=False) * 10**9 <= margin_ns - 1.5 * HOUR_NS, zone.name
        assert np.abs(zone.offsets).max() * 10**9 <= margin_ns - 3 * HOUR_NS, "read as points in time"


def test_utc_moves_nothing() -> None:
    assert farthest_shift(UTC, instants=False) == farthest_shift(UTC, instants=True) == 0
    assert farthest_shift(load_zone("Asia/Kolkata"), instants=True) == 5.5 * 3600
    assert farthest_shift(load_zone("Antarctica/Casey"), instants=False) == 8 * 3600


def written(zone: str, first: int) -> bytes:
    """A file of several stripes and row groups, of hours whose clock the zone shows."""
    clocks = first + 3600 * np.arange(ROWS)
    rules = load_zone(zone)
    instants = clocks - rules.offsets[np.searchsorted(rules.transitions, clocks, side="right")]
    shown = instants + rules.offsets[np.searchsorted(rules.transitions, instants, side="right")]
    target = io.BytesIO()
    with blocking.create(
        target,
        "struct<t:timestamp>",
        timezone=zone,
        row_index_stride=2,
        blooms=["t"],
    ) as out:
        for half in np.split(shown.astype("M8[s]"), 2):
            out.write({"t": half})
            out.end_stripe()
    return target.getvalue()


# From 1901 to 2100, a year after Java's zones begin.
@given(ZONES, st.none() | ZONES, st.booleans(), st.integers(-2_177_000_000, 4_102_000_000))
@example("Pacific/Apia", "America/Los_Angeles", True, 162_864_000)
@example("Pacific/Apia", "Antarctica/Casey", False, 1_263_081_600)
@example("Pacific/Apia", "Pacific/Pago_Pago", True, 1_263_081_600)
@example("America/Inuvik", "Pacific/Apia", True, -600_000_000)
@example("UTC", "Pacific/Apia", True, 0)
@example("UTC", None, True, 0)
def test_every_row_is_found_by_its_own_time(
    zone: str, reading: str | None, instants: bool, first: int
) -> None:
    with blocking.open(written(zone, first), timezone=reading, instants=instants) as file:
        times = pa.table(file.read())["t"].to_numpy()
        for time in times:
            assert file.read(where=col("t") == time).num_rows == np.count_nonzero(times == time)
            assert file.read(where=col("t") >= time).num_rows == np.count_nonzero(times >= time)
            assert file.read(where=col("t") <= time).num_rows == np.count_nonzero(times <= time)


def test_an_own_zone_prunes_to_the_row_group() -> None:
    """Points in time of a file that was written in UTC are those of its statistics."""
    with blocking.open(written("UTC", 10**9), instants=True) as file:
        found = file.batches(where=col("t") == np.datetime64(10**9, "s"))
        assert sum(batch.num_rows for batch in found) == 1
        assert found.stats.rows_pruned_by_row_group == ROWS - 2
