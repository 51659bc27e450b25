"""Values that hold secrets, as debuggers, logs and prompts show them."""

from __future__ import annotations

import aiohttp
import pytest
import yarl

from orcstream.io.contract.byte_sink import Prepared
from orcstream.io.contract.folder import ListedFile
from orcstream.io.stores.hdfs.calls import place_of
from orcstream.io.stores.hdfs.hadoop_tokens import HadoopToken
from orcstream.io.stores.hdfs.webhdfs_connection import HdfsConnection
from orcstream.io.stores.local.sink import LocalFile
from orcstream.io.stores.s3.source import SignedPattern, _Signature

URL = "webhdfs://user:secret@host:9870/a"
PATTERN = SignedPattern(
    "https://host", "host", "/", "X-Amz-Security-Token=secret", "date", "scope", b"secret"
)


@pytest.mark.parametrize(
    "value",
    [
        ListedFile(URL, "a", 1, "", None),
        Prepared(url=URL, length=1, overwrite=True, state=LocalFile("a", "b", 1, 2, 3)),
        place_of(URL, ""),
        HadoopToken(b"secret", b"secret", "HDFS_DELEGATION_TOKEN", "host:8020"),
        PATTERN,
        _Signature(yarl.URL("https://host/a?sig=secret"), 0.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_secrets_are_not_shown(value: object) -> None:
    assert type(value).__name__ in repr(value)
    assert "secret" not in repr(value)


async def test_connections_do_not_show_who_asks() -> None:
    async with aiohttp.ClientSession() as session:
        connection = HdfsConnection(
            session,
            [yarl.URL("https://host:9871")],
            (("delegation", "secret"),),
            {"Authorization": "Basic secret"},
            str,
        )
        assert "host:9871" in repr(connection)
        assert "secret" not in repr(connection)
