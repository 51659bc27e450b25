"""Prepared files as JSON and back, for records that outlive a driver.

Knows what each store's `State` holds. Must not know where records are. What is read back was written by
somebody who may write to the target, and may commit nothing but a file there: the state has to be of the
file's URL, and a temporary beside it.
"""

from __future__ import annotations

import importlib
import os
import posixpath
from dataclasses import asdict
from typing import Any, Final

from orcstream._credentials import strip_credentials
from orcstream.errors import FormatError, Unsupported
from orcstream.io.contract.byte_sink import Prepared, is_temporary_of
from orcstream.io.stores.s3.sink import S3Part
from orcstream.io.urls import local_path, protocol_of

_STATES: Final = {
    "local": ("orcstream.io.stores.local.sink", "LocalFile"),
    "s3": ("orcstream.io.stores.s3.sink", "S3Upload"),
    "hdfs": ("orcstream.io.stores.hdfs.sink", "HdfsFile"),
    "fsspec": ("orcstream.io.stores.fsspec.sink", "StoredFile"),
}


def prepared_to_json(prepared: Prepared) -> dict[str, Any]:
    """All but the URL, which may hold credentials. `Unsupported` for memory, which no other process sees."""
    for store, (module, name) in _STATES.items():
        if (type(prepared.state).__module__, type(prepared.state).__name__) == (module, name):
            state: Any = prepared.state
            return {"store": store, "length": prepared.length, "state": asdict(state)}
    raise Unsupported("what lies in memory cannot be committed by another process", reason="memory_in_spark")


def prepared_from_json(record: Any, url: str, path: str) -> Prepared:
    """A file at `url`, whose path ends with `path`. Raises `FormatError` for what is no record of it.

    Whether `path` stays below the target is for the caller to check.
    """
    try:
        module, name = _STATES[record["store"]]
        # The class that a table names, which mypy cannot see.
        cls: Any = getattr(importlib.import_module(module), name)
        given = dict(record["state"])
        if "parts" in given:
            given["parts"] = tuple(_part(**part) for part in given["parts"])
        prepared = Prepared(url=url, length=int(record["length"]), overwrite=True, state=cls(**given))
    except (KeyError, TypeError, ValueError) as error:
        shown = strip_credentials(url)
        raise FormatError(f"this is no record of a prepared file: {error!r}", url=shown) from None
    _check_names(given, record["store"], url, path)
    return prepared


def _part(number: int, etag: str, checksums: list[list[str]]) -> S3Part:
    return S3Part(number, etag, tuple((name, value) for name, value in checksums))


def _check_names(state: dict[str, Any], store: str, url: str, path: str) -> None:
    named = f"{state['bucket']}/{state['key']}" if store == "s3" else state["path"]
    temporary = None if store == "s3" else str(state["temporary"])
    shown = strip_credentials(url)
    if named != _place_of(store, url):
        raise FormatError(f"the record of {path} is of another file, {named!r}", url=shown)
    if temporary is not None and (
        posixpath.dirname(temporary) != posixpath.dirname(named)
        or not is_temporary_of(posixpath.basename(temporary), posixpath.basename(named))
    ):
        raise FormatError(f"the record of {path} names a file that is no temporary of it", url=shown)


def _place_of(store: str, url: str) -> str:
    """What the state of a file with this URL names, as the store's sink takes the URL."""
    if store == "local":
        return os.path.realpath(local_path(url))
    # Each package of a store is imported for its own URLs only.
    if store == "hdfs":
        from orcstream.io.stores.hdfs import calls as hdfs

        return hdfs.place_of(url, strip_credentials(url)).path
    import fsspec

    # The class alone: no file system is opened.
    place: str = fsspec.get_filesystem_class(protocol_of(url))._strip_protocol(url)  # noqa: SLF001
    return place
