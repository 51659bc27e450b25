"""What is known of a commit after its attempts, whichever store they are made in."""

from __future__ import annotations

import pytest

from orcstream.errors import CommitUnknown, OrcError, RetriesExhausted
from orcstream.io.contract.byte_sink import CommittingStore, MovedFile, Prepared, SinkOptions
from orcstream.io.contract.byte_source import Transient

pytestmark = pytest.mark.anyio
OPTIONS = SinkOptions(retries=1)


class Store(CommittingStore[MovedFile]):
    """Fails each attempt with the next of `errors`; the first was `sent`."""

    _kind = MovedFile
    _how = "here"

    def __init__(self, *errors: Exception, sent: bool, is_there: bool = False) -> None:
        super().__init__(None, "store://a")
        self._errors = list(errors)
        self._sent = sent
        self._is_there = is_there

    async def _commit(self, state: MovedFile, prepared: Prepared) -> None:  # noqa: ARG002 - of the contract
        self._unsettled = self._sent
        raise self._errors.pop(0)

    async def _is_carried_out(self, state: MovedFile) -> bool:  # noqa: ARG002 - of the contract
        return self._is_there

    @staticmethod
    def _sign_of(state: MovedFile) -> str:
        return f"{state.temporary} is not"


PREPARED = Prepared(url="store://a", length=1, overwrite=True, state=MovedFile("a", ".a"))
LOST = Transient("no answer")


@pytest.mark.parametrize("last", [LOST, PermissionError("forbidden by now")])
async def test_a_commit_that_may_have_been_carried_out_is_unknown(last: Exception) -> None:
    """Also where later attempts were refused: credentials may end between two of them."""
    with pytest.raises(CommitUnknown, match=r"\.a\b"):
        await Store(LOST, last, sent=True).commit(PREPARED, OPTIONS)
    await Store(LOST, last, sent=True, is_there=True).commit(PREPARED, OPTIONS)


@pytest.mark.parametrize(
    ("last", "kind"), [(LOST, RetriesExhausted), (PermissionError("forbidden"), PermissionError)]
)
async def test_a_commit_that_was_not_sent_has_failed(
    last: Exception, kind: type[OrcError | PermissionError]
) -> None:
    with pytest.raises(kind):
        await Store(LOST, last, sent=False).commit(PREPARED, OPTIONS)
