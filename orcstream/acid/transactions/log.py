"""The transaction log of a table that only this package writes: small files in ``_orcstream_acid/``.

Knows the names of records, how one is added, and which are needed no more. Must not know what outcomes mean
(`acid.transactions.log_state`), rows, nor how directories are written. Hive does not see the folder: its
name begins with an underscore.

- ``table.json``: what the table is.
- ``claim-ID.json``: an id was taken, for a write or a compaction; or several ids, from this one on.
- ``beat-ID.json``: whoever made the claim was alive. The only record that is ever replaced.
- ``entry-NUMBER.json``: what became of an id, or which directories are going to be removed.
- ``checkpoint-NUMBER.json``: what the entries up to this number say.

Claims and entries are created under the next number, and only if there is none of that name: of two writers
one has it, the other takes the next one. An entry below a checkpoint does not count: it was added by somebody
who was away for so long that its number had been forgotten, and who looks, and adds another.

No id is taken twice although a claim takes several and its name says only the first. The next claim has the
number behind the last id that is known to be taken, and whatever shows that one id of a claim is taken shows
it of all: the claim says how many there are, and so does each entry. So nobody begins a claim inside another,
and of two that begin one at the same id one is there first. A claim is removed when all of its ids have
ended; whoever comes too late and makes it again sees that, and makes another.
"""
# ruff: noqa: SLF001 - a log and its transactions are one

from __future__ import annotations

import re
import socket
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal, TypeVar
from uuid import uuid4

import anyio

from orcstream._keywords import check_seconds
from orcstream._printable import logger_of
from orcstream.acid.transactions.contract import Operation, Outcome, Purpose, Snapshot, TableDefinition, Work
from orcstream.acid.transactions.log_state import (
    Claim,
    Entry,
    LogState,
    definition_of,
    definition_record,
    snapshot_of,
)
from orcstream.errors import (
    CommitFailed,
    CommitUnknown,
    FormatError,
    OrcError,
    SourceError,
    located,
)
from orcstream.io.contract.folder import ListedFile
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.urls import shown_of
from orcstream.log.records import Records
from orcstream.plan.acid.snapshot import WriteIds

T = TypeVar("T")

LOG_FOLDER: Final = "_orcstream_acid"
_TABLE: Final = "table.json"
LOG_FILE: Final = f"{LOG_FOLDER}/{_TABLE}"
_NAME: Final = re.compile(r"(claim|beat|entry|checkpoint)-([0-9]{10})\.json", re.ASCII)
_CHECKPOINT_EVERY: Final = 20
# How often a listing is made again that has gaps, because records came and went meanwhile.
_LOOKS: Final = 6
_LOOK_AGAIN_S: Final = 0.05
_UNKNOWN_ATTEMPTS: Final = 3
# Ids that nobody has finished; far more than can be at work at once.
_MOST_OPEN: Final = 100_000
# Time to leave nothing behind, when a program is in a hurry to end.
_SETTLING_S: Final = 30.0

_logger = logger_of("orcstream.acid")


@dataclass(frozen=True, slots=True)
class _Listing:
    """The records there are, by number, with the times they were written."""

    claim: Mapping[int, float | None] = field(default_factory=dict)
    beat: Mapping[int, float | None] = field(default_factory=dict)
    entry: Mapping[int, float | None] = field(default_factory=dict)
    checkpoint: Mapping[int, float | None] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[ListedFile]) -> _Listing:
        found: dict[str, dict[int, float | None]] = {}
        for file in files:
            match = _NAME.fullmatch(file.path)
            if match is not None and int(match[2]) > 0:
                found.setdefault(match[1], {})[int(match[2])] = file.modified_s
        return cls(**found)


@dataclass(frozen=True, slots=True)
class _View:
    """The log as one listing had it; `is_open` says what the ids without an outcome were taken for.

    `claims` has the first id of the claim of each, as far as its claim was seen.
    """

    listing: _Listing
    state: LogState
    highest: int
    is_open: Mapping[int, Purpose]
    claims: Mapping[int, int]

    def snapshot(self, up_to: int | None = None) -> Snapshot:
        return snapshot_of(self.state, self.highest, self.is_open, up_to=up_to)


async def create_log(
    url: str,
    definition: TableDefinition,
    *,
    storage_options: Mapping[str, Any] | None = None,
    sink_options: Any = None,
) -> TransactionLog:
    """Make the folder of `url` a table. `FileExistsError` where it is one already."""
    log = TransactionLog(url, storage_options=storage_options, sink_options=sink_options)
    await log._records.put(_TABLE, definition_record(definition), overwrite=False)
    return log


class TransactionLog:
    """The log of the table at `url`; see `Transactions`. Nothing is held open.

    Errors: `FormatError` for records that are none, or some of which are missing; `Unsupported` (reason
    ``log_version``) for those of a later version; `SourceError`, `SinkError`, `PermissionError` of the store.
    """

    def __init__(
        self,
        url: str,
        *,
        storage_options: Mapping[str, Any] | None = None,
        sink_options: Any = None,
    ) -> None:
        self._shown = shown_of(url)
        self._records = Records(f"{url.rstrip('/')}/{LOG_FOLDER}", storage_options, sink_options)
        self._state = LogState()
        self._claims: dict[int, Claim] = {}  # by their first ids; those with ids that are open

    async def definition(self) -> TableDefinition:
        """What the table is. `FileNotFoundError` where there is no log."""
        return await self._read(_TABLE, definition_of)

    async def snapshot(self, write_id: int | None = None) -> Snapshot:
        """What is committed now, up to a write id where one is given."""
        if write_id is not None:
            WriteIds(write_id)  # raises for what is none
        return (await self._look()).snapshot(write_id)

    async def begin(self, purpose: Purpose = "write") -> LogTransaction:
        """A new transaction; its snapshot is of all that was committed before, and has a lower id."""
        return (await self._begin(purpose, 1))[0]

    async def begin_batch(self, count: int) -> LogBatch:
        """So many new transactions, by one claim."""
        return LogBatch(await self._begin("write", count))

    async def _begin(self, purpose: Purpose, count: int) -> Sequence[LogTransaction]:
        claim = Claim(purpose, uuid4().hex, count)
        while True:
            view = await self._look()
            taken = view.highest + 1
            try:
                if not await self._claim(taken, claim):
                    continue
                view = await self._look()
                if view.state.outcome(taken) == "open":
                    claimed = range(taken, taken + count)
                    return [LogTransaction(self, one, claimed, purpose, view) for one in claimed]
                # Taken, ended and forgotten while this claim was on its way: it says nothing that is true.
                await self._records.remove([_name("claim", taken)])
            except BaseException:
                await until_over(self._settle(taken, claim))
                raise

    async def abort_dead(self, older_than_s: float) -> tuple[int, ...]:
        """Give up what has shown no sign of life for so many seconds, by the store's clock and ours.

        Whoever is at work on one fails at its commit. Answers the ids, sorted.
        """
        check_seconds("older_than_s", older_than_s, may_be_0=True)
        view = await self._look()
        before = time.time() - older_than_s
        dead: dict[int, list[int]] = {}  # by claim
        for one, first in sorted(view.claims.items()):
            signs = [seen[first] for seen in (view.listing.claim, view.listing.beat) if first in seen]
            times = [sign for sign in signs if sign is not None]
            if len(times) == len(signs) and max(times) <= before:
                dead.setdefault(first, []).append(one)
        for ids in dead.values():
            entry = Entry(ids[0], "aborted", view.is_open[ids[0]], claimed=ids[-1], rest=True)
            await self._append(entry, None)
        outcomes = self._state.outcome
        return tuple(one for ids in dead.values() for one in ids if outcomes(one) == "aborted")

    def opening(self) -> AbstractAsyncContextManager[None]:
        """Nothing is held: a later snapshot says whether anything was removed since."""
        return nullcontext()

    async def removing(self, directories: Collection[str]) -> None:
        """Say that directories, by their paths below the table, are going to be removed.

        To be called before they are, so that readers of the past know what is gone.
        """
        if directories:
            await self._append(Entry(0, "removed", work=Work(tuple(sorted(directories)))), None)

    async def clean(self, older_than_s: float = 3600.0) -> None:
        """Remove records that a checkpoint stands in for which is so old that every reader has seen it."""
        view = await self._look()
        before = time.time() - older_than_s
        old = [
            number
            for number, written_s in view.listing.checkpoint.items()
            if written_s is not None and written_s <= before
        ]
        if old:
            await self._remove_below(max(old), view.listing)
        await self._add_checkpoint(view, every=1)

    async def aclose(self) -> None:
        """Nothing is held."""

    # --- reading

    async def _look(self) -> _View:
        """The log as it is now; each record is read once."""
        problem = ""
        for attempt in range(_LOOKS):
            await anyio.sleep(_LOOK_AGAIN_S * attempt)
            listing = _Listing.of(await self._records.listed())
            try:
                state = await self._fold(listing)
                if state is None:
                    problem = "entries are missing"
                    continue
                highest = max(state.highest, await self._last_claimed(state, listing))
                return _View(listing, state, highest, *await self._open_ids(state, highest, listing))
            except FileNotFoundError as error:  # removed since it was listed
                problem = str(error)
        raise FormatError(f"the transaction log has gaps: {problem}", url=self._shown)

    async def _fold(self, listing: _Listing) -> LogState | None:
        """The state after all entries that are listed; None where some of them are not."""
        state = self._state
        newest = max(listing.checkpoint, default=0)
        if newest > state.entry:
            state = await self._read(_name("checkpoint", newest), LogState.of)
            if state.entry != newest:
                raise FormatError("the checkpoint is of another entry", url=self._shown)
        last = max(max(listing.entry, default=0), newest)
        wanted = [number for number in listing.entry if number > state.entry]
        if last < state.entry or len(wanted) != last - state.entry:
            return None
        names = [_name("entry", number) for number in sorted(wanted)]
        for entry in await side_by_side(names, lambda name: self._read(name, Entry.of)):
            state = state.add(entry)
        if state.entry > self._state.entry:
            self._state = state
        return state

    async def _last_claimed(self, state: LogState, listing: _Listing) -> int:
        """The last id of the last claim; 0 where its entries say that, too."""
        last = max(listing.claim, default=0)
        if not last or state.outcome(last) != "open":
            return 0
        await self._read_claims([last])
        return last + self._claims[last].count - 1

    async def _open_ids(
        self, state: LogState, highest: int, listing: _Listing
    ) -> tuple[Mapping[int, Purpose], Mapping[int, int]]:
        """What the ids without an outcome were taken for, and by which claims.

        An id up to the highest one without an outcome is open, whether its claim was seen or not.
        """
        try:
            found = state.open_up_to(highest, most=_MOST_OPEN)
        except ValueError as error:
            raise FormatError(f"the transaction log is damaged: {error}", url=self._shown) from None
        firsts = sorted(listing.claim)
        below = {one: firsts[at - 1] for one in found if (at := bisect_right(firsts, one))}
        self._claims = {first: self._claims[first] for first in below.values() if first in self._claims}
        await self._read_claims(sorted(set(below.values()).difference(self._claims)))
        claims = {one: first for one, first in below.items() if one < first + self._claims[first].count}
        return {one: self._claims[claims[one]].purpose if one in claims else "write" for one in found}, claims

    async def _read_claims(self, firsts: Sequence[int]) -> None:
        read = await side_by_side(firsts, lambda one: self._read(_name("claim", one), Claim.of))
        self._claims.update(zip(firsts, read, strict=True))

    async def _read(self, name: str, parse: Callable[[Mapping[str, Any]], T]) -> T:
        with located(url=f"{self._shown}/{LOG_FOLDER}/{name}"):
            return await self._records.read(name, parse)

    # --- adding

    async def _claim(self, id: int, claim: Claim) -> bool:
        """Whether the id is the claimant's."""
        try:
            is_first = await self._records.put_first(_name("claim", id), {**claim.record(), **_about_us()})
        except CommitUnknown:
            is_first = False
        return is_first or await self._is_claimed(id, claim.token)

    async def _is_claimed(self, id: int, token: str) -> bool:
        try:
            return (await self._read(_name("claim", id), Claim.of)).token == token
        except FileNotFoundError:
            return False

    async def _settle(self, id: int, claim: Claim) -> None:
        """Leave no id open that nobody knows he has; if that cannot be done, it looks dead one day."""
        with anyio.move_on_after(_SETTLING_S):
            try:
                if not await self._is_claimed(id, claim.token):
                    return
                if (await self._look()).state.outcome(id) == "open":
                    last = id + claim.count - 1
                    await self._append(Entry(id, "aborted", claim.purpose, claimed=last, rest=True), None)
                else:  # it came too late, and what follows is others'
                    await self._records.remove([_name("claim", id)])
            except (OrcError, OSError) as error:
                _logger.warning("id %d of %s stays open: %s", id, self._shown, error)

    async def _append(self, entry: Entry, begun_at: int | None) -> Outcome:
        """Add an entry where its ids have no outcome yet; answers that of the first.

        With `begun_at`, `CommitFailed` where what was committed since is in conflict with it.
        """
        losses = 0
        view_state = self._state
        while True:
            if entry.id and view_state.is_settled(entry):
                return view_state.outcome(entry.id)
            conflict = None if begun_at is None else view_state.conflict(entry.id, begun_at, entry.work)
            if conflict is not None:
                raise CommitFailed(f"{conflict}: begin again, with what is there now", url=self._shown)
            number = view_state.entry + 1
            record = {**entry.record(), **_about_us()}
            try:
                is_added = await self._records.put_first(_name("entry", number), record)
            except CommitUnknown:
                losses += 1
                if losses == _UNKNOWN_ATTEMPTS:
                    raise
                is_added = False
            view = await self._look_after(is_added=is_added)
            view_state = view.state
            # An entry below a checkpoint that was there before does not count.
            if is_added and not entry.id and number > max(view.listing.checkpoint, default=0):
                return "committed"
            if is_added and entry.id and view_state.is_settled(entry):
                await self._add_checkpoint(view, every=_CHECKPOINT_EVERY)

    async def _look_after(self, *, is_added: bool) -> _View:
        try:
            return await self._look()
        except (SourceError, PermissionError) as error:
            if not is_added:
                raise
            raise CommitUnknown(
                f"the log cannot be read after it was added to: {error}", url=self._shown
            ) from error

    async def _add_checkpoint(self, view: _View, *, every: int) -> None:
        """For those who read later; nothing depends on it."""
        number = view.state.entry
        if number - max(view.listing.checkpoint, default=0) < every:
            return
        try:
            await self._records.put_first(_name("checkpoint", number), view.state.record())
        except (OrcError, OSError) as error:
            _logger.info("no checkpoint of %s: %s", self._shown, error)

    async def _remove_below(self, checkpoint: int, listing: _Listing) -> None:
        """What this checkpoint says, and nothing else, goes; the highest claim stays, so that ids go on."""
        state = await self._read(_name("checkpoint", checkpoint), LogState.of)
        gone = [_name("entry", one) for one in sorted(listing.entry) if one <= checkpoint]
        gone += [_name("checkpoint", one) for one in sorted(listing.checkpoint) if one < checkpoint]
        firsts = sorted({*listing.claim, *listing.beat})
        highest = max(listing.claim, default=0)
        for first, after in pairwise([*firsts, max(state.highest, *firsts, 0) + 1]):
            if all(state.outcome(one) != "open" for one in range(first, after)):
                gone += [_name("beat", first)] if first in listing.beat else []
                gone += [_name("claim", first)] if first in listing.claim and first != highest else []
        await self._records.remove(gone)


class LogTransaction:
    """One that was begun in a log; see `Transaction`. `claimed` are the ids that its claim took."""

    def __init__(self, log: TransactionLog, id: int, claimed: range, purpose: Purpose, view: _View) -> None:
        self._log = log
        self._claimed = claimed
        self._purpose: Purpose = purpose
        self._view = view
        self.has_ended = False  # as far as it was told
        self.transaction_id = id
        self.write_id = id if purpose == "write" else 0

    @property
    def snapshot(self) -> Snapshot:
        """Of all that was committed when it began."""
        return self._view.snapshot(self.transaction_id - 1)

    async def lock(self, operation: Operation, partitions: Collection[str]) -> None:  # noqa: ARG002
        """A log has no locks: who commits first wins."""
        await anyio.lowlevel.checkpoint()

    async def seen_since(self) -> Snapshot | None:
        """A log has the conflict at the commit."""
        return None

    async def heartbeat(self) -> None:
        """Write the time anew. `CommitFailed` where the transaction was given up."""
        await self._log._records.put(_name("beat", self._claimed[0]), {})
        if await self.outcome() == "aborted":
            raise self._given_up()

    async def commit(self, work: Work) -> None:
        """Make all that it wrote count; see `Transaction`."""
        if await self._append("committed", work, self._view.state.entry) == "aborted":
            raise self._given_up()

    async def abort(self) -> Outcome:
        """Give it up; answers "committed" where a commit was first."""
        return await self._append("aborted")

    async def abort_rest(self) -> None:
        """Give up what is open of this one and those of its claim that come after it."""
        await self._append("aborted", rest=True)

    async def outcome(self) -> Outcome:
        """What the log says now."""
        return (await self._log._look()).state.outcome(self.transaction_id)

    async def _append(
        self,
        outcome: Literal["committed", "aborted"],
        work: Work | None = None,
        begun_at: int | None = None,
        *,
        rest: bool = False,
    ) -> Outcome:
        entry = Entry(
            self.transaction_id, outcome, self._purpose, work or Work(), self._claimed[-1], rest=rest
        )
        found = await self._log._append(entry, begun_at)
        self.has_ended = True
        return found

    def _given_up(self) -> CommitFailed:
        return CommitFailed(
            f"transaction {self.transaction_id} was given up; begin again, and give signs of life "
            f"(`heartbeat`) where it takes long",
            url=self._log._shown,
        )


class LogBatch:
    """Several that were begun in a log by one claim; see `TransactionBatch`."""

    def __init__(self, transactions: Sequence[LogTransaction]) -> None:
        self.transactions = transactions
        self.transaction_id = transactions[0].transaction_id

    async def heartbeat(self) -> None:
        """Write the time anew. `CommitFailed` where the transactions were given up."""
        left = [one for one in self.transactions if not one.has_ended]
        if left:  # and who gives up gives up all to the last
            await left[-1].heartbeat()

    async def abort(self) -> None:
        """Give up those that are open, by one entry."""
        await self.transactions[0].abort_rest()


def _name(kind: str, number: int) -> str:
    return f"{kind}-{number:010d}.json"


def _about_us() -> dict[str, Any]:
    """For whoever looks into the folder; nothing reads it."""
    return {"at_s": round(time.time(), 3), "host": socket.gethostname()}
