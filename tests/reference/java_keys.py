"""Java's own client of key servers: files that it encrypts, and local keys that it opens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orcstream.encryption import EncryptionKey
from tests.reference import java_orc

__all__ = ["key_provider", "open_local_key", "read_longs", "write_longs"]


def key_provider(place: str) -> Any:
    """ORC's provider for a place as Hadoop names it; who asks is whoever runs this process."""
    jvm = java_orc._gateway().jvm
    conf = java_orc._local()
    conf.set("hadoop.security.key.provider.path", place)
    shims = jvm.org.apache.orc.impl.HadoopShimsFactory.get()
    return shims.getHadoopKeyProvider(conf, jvm.java.util.Random())


def open_local_key(provider: Any, key: EncryptionKey, encrypted: bytes) -> bytes:
    """What Java's provider makes of an encrypted local key."""
    orc = java_orc._gateway().jvm.org.apache.orc
    algorithm = orc.EncryptionAlgorithm.valueOf(key.algorithm.name)
    meta = getattr(orc.impl, "HadoopShims$KeyMetadata")(key.name, key.version, algorithm)
    return bytes(provider.decryptLocalKey(meta, encrypted).getEncoded())


def write_longs(path: Path, provider: Any, key: str, numbers: Sequence[int]) -> None:
    """A file of two columns with the same numbers, of which ``secret`` is encrypted."""
    jvm = java_orc._gateway().jvm
    schema = jvm.org.apache.orc.TypeDescription.fromString("struct<secret:bigint,clear:bigint>")
    options = jvm.org.apache.orc.OrcFile.writerOptions(java_orc._local()).setSchema(schema)
    options.setKeyProvider(provider).encrypt(f"{key}:secret")
    writer = jvm.org.apache.orc.OrcFile.createWriter(jvm.org.apache.hadoop.fs.Path(str(path)), options)
    batch = schema.createRowBatch()
    for column in (0, 1):
        vector = java_orc._field(java_orc._field(batch, "cols")[column], "vector")
        for row, number in enumerate(numbers):
            vector[row] = number
    java_orc._set_field(batch, "size", len(numbers))
    writer.addRowBatch(batch)
    writer.close()


def read_longs(path: Path, provider: Any) -> list[int]:
    """The first column of a file, as Java reads it."""
    orc, hadoop = java_orc._gateway().jvm.org.apache.orc.OrcFile, java_orc._gateway().jvm.org.apache.hadoop
    options = orc.readerOptions(java_orc._local()).setKeyProvider(provider)
    reader = orc.createReader(hadoop.fs.Path(str(path)), options)
    rows, batch = reader.rows(), reader.getSchema().createRowBatch()
    found: list[int] = []
    while rows.nextBatch(batch):
        found += list(java_orc._field(java_orc._field(batch, "cols")[0], "vector"))[
            : java_orc._field(batch, "size")
        ]
    rows.close()
    return found
