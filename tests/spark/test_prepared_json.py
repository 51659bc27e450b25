"""What was prepared in any store outlives its driver as JSON."""

from __future__ import annotations

import json

import pytest

from orcstream.io.byte_sink import Prepared, State, temporary_name
from orcstream.io.sink_filesystem import StoredFile
from orcstream.io.sink_hdfs import HdfsFile
from orcstream.io.sink_local import LocalFile
from orcstream.io.sink_s3 import S3Part, S3Upload
from orcstream.spark.prepared_json import prepared_from_json, prepared_to_json

TEMPORARY = f"/t/{temporary_name('a.orc')}"


@pytest.mark.parametrize(
    "state",
    [
        LocalFile("/t/a.orc", TEMPORARY, 7),
        HdfsFile("/t/a.orc", TEMPORARY, "length=3 modified=5 id=7"),
        StoredFile("/t/a.orc", TEMPORARY),
        S3Upload("bucket", "t/a.orc", "upload", "token", (S3Part(1, "etag", (("ChecksumCRC32", "x"),)),)),
    ],
    ids=lambda state: type(state).__name__,
)
def test_it_comes_back_as_it_was(state: State) -> None:
    prepared = Prepared(url="store://t/a.orc", length=3, overwrite=True, state=state)
    record = json.loads(json.dumps(prepared_to_json(prepared)))
    assert prepared_from_json(record, prepared.url, "a.orc") == prepared
