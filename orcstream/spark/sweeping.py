"""Removing what killed tasks and drivers left in a folder.

Knows that nothing depends on it: rows are committed whether or not it can be done, and it is done again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orcstream
from orcstream._credentials import strip_credentials
from orcstream._printable import logger_of
from orcstream.errors import OrcError

_logger = logger_of("orcstream.spark")


async def sweep(
    url: str, *, containing: str = "", older_than_s: float = 0.0, storage_options: Mapping[str, Any] | None
) -> None:
    """Remove what is not visible, of paths with a text in them; where that cannot be done, it is told."""
    try:
        await orcstream.cleanup(
            url, older_than_s=older_than_s, containing=containing, storage_options=storage_options
        )
    except FileNotFoundError:
        return
    except (OrcError, OSError) as error:
        _logger.warning(
            "what killed tasks may have left in %s stays there: %s; orcstream cleanup removes it",
            strip_credentials(url),
            error,
        )
