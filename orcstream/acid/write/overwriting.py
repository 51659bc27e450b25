"""Whether rows that are about to be committed would be hidden by an overwrite that is committed already.

Knows what a transaction is about to commit, and which bases a reader would see. Must not know who keeps
transactions, nor how rows are written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from orcstream.acid.transactions.contract import Snapshot, Transaction, Work
from orcstream.acid.view import TableView
from orcstream.errors import CommitFailed


async def check_not_overwritten(
    transaction: Transaction, work: Work, *, see: Callable[[Snapshot], Awaitable[TableView]], url: str
) -> None:
    """Rows that a base of a later write id hides are not committed: they would be lost without a word.

    To be asked once, before the first try to commit: what is so with the locks that are held then stays so,
    and where the first try gave them back it need not. `CommitFailed` where there is such a base.
    """
    seen = await transaction.seen_since() if work.directories else None
    view = () if seen is None else (await see(seen)).partitions
    for one in view:
        is_hidden = (
            one.base is not None and one.base.is_overwrite and one.base.last_write_id > transaction.write_id
        )
        if is_hidden and one.path in work.partitions:
            where = f"of {one.path}" if one.path else "of the table"
            raise CommitFailed(f"rows {where} were overwritten meanwhile: begin again", url=url)
