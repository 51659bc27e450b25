"""What was prepared in any store outlives its driver as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orcstream.errors import FormatError
from orcstream.io.contract.byte_sink import Prepared, State, temporary_name
from orcstream.io.stores.fsspec.sink import StoredFile
from orcstream.io.stores.hdfs.sink import HdfsFile
from orcstream.io.stores.local.sink import LocalFile
from orcstream.io.stores.s3.sink import S3Part, S3Upload
from orcstream.spark.write.prepared_json import prepared_from_json, prepared_to_json

TEMPORARY = f"/t/{temporary_name('a.orc')}"
STATES: list[tuple[str, State]] = [
    ("/t/a.orc", LocalFile("/t/a.orc", TEMPORARY, 7, 8, 9)),
    ("file:///t/a.orc", LocalFile("/t/a.orc", TEMPORARY, 7, 8, 9)),
    ("hdfs://host:1/t/a.orc", HdfsFile("/t/a.orc", TEMPORARY, "length=3 modified=5 id=7")),
    ("webhdfs://user@host:1/t/a.orc", HdfsFile("/t/a.orc", TEMPORARY, "length=3 modified=5 id=7")),
    ("ftp://host/t/a.orc", StoredFile("/t/a.orc", TEMPORARY)),
    (
        "s3://bucket/t/a.orc",
        S3Upload("bucket", "t/a.orc", "upload", "token", (S3Part(1, "etag", (("ChecksumCRC32", "x"),)),)),
    ),
    ("s3a://bucket/t/a.orc", S3Upload("bucket", "t/a.orc", "upload", "token", ())),
]


@pytest.mark.parametrize(("url", "state"), STATES, ids=[url for url, _ in STATES])
def test_it_comes_back_as_it_was(url: str, state: State) -> None:
    prepared = Prepared(url=url, length=3, overwrite=True, state=state)
    record = json.loads(json.dumps(prepared_to_json(prepared)))
    assert prepared_from_json(record, url, "a.orc") == prepared


@pytest.mark.parametrize(("url", "state"), STATES, ids=[url for url, _ in STATES])
def test_nothing_is_committed_but_the_file_that_the_record_is_of(url: str, state: State) -> None:
    """Neither a file of that name elsewhere, nor what is no temporary beside it."""
    record = prepared_to_json(Prepared(url=url, length=3, overwrite=True, state=state))
    others: dict[str, list[Any]] = {
        "path": ["/other/a.orc", "a.orc", "/t/b.orc", "/x/t/a.orc", 5, None],
        "temporary": [
            TEMPORARY.replace("/t/", "/other/"),
            "/t/b.orc",
            TEMPORARY.replace("a.orc", "b.orc"),
            5,
        ],
        "bucket": ["other", 5],
        "key": ["other/a.orc", "a.orc", "x/t/a.orc"],
    }
    changed = [
        {**record, "state": {**record["state"], name: value}}
        for name, values in others.items()
        if name in record["state"]
        for value in values
    ]
    assert len(changed) >= 5
    for one in changed:
        with pytest.raises(FormatError):
            prepared_from_json(one, url, "a.orc")
