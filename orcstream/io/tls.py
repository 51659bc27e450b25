"""Which certificates a connection trusts, as users say it.

Knows files of certificates. Must not know any store.
"""

from __future__ import annotations

import ssl

from orcstream.io.threads import run_in_thread

__all__ = ["tls_of"]


async def tls_of(verify: object) -> ssl.SSLContext | bool:
    """What aiohttp takes as `ssl`: `verify` is a file of certificates, False for any, or True.

    Raises `OSError` for a file that cannot be read or holds none.
    """
    if isinstance(verify, str):
        return await run_in_thread(lambda: ssl.create_default_context(cafile=verify))
    return verify is not False
