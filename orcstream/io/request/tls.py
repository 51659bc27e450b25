"""Which certificates a connection trusts, as users say it.

Knows files of certificates. Must not know any store.
"""

from __future__ import annotations

import ssl

from orcstream.errors import UsageError
from orcstream.io.loop.threads import run_in_thread


async def tls_of(verify: object, option: str, url: str) -> ssl.SSLContext | bool:
    """What aiohttp takes as `ssl`: `verify` is a file of certificates, False for any, or True.

    Raises `UsageError` that names the `option` for a file that cannot be read or holds none.
    """
    if not isinstance(verify, str):
        return verify is not False
    try:
        return await run_in_thread(lambda: ssl.create_default_context(cafile=verify))
    except OSError as error:
        raise UsageError(f"{option}: no certificates in {verify}: {error}", url=url) from error
