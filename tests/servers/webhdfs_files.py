"""Files that are read over WebHDFS, for the documentation's examples: one name, and no cluster.

What a cluster does is tried on one (`tests.servers.hdfs`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers.http_server import Handler, serving

__all__ = ["webhdfs_of"]

PREFIX = "/webhdfs/v1"


@dataclass(frozen=True)
class Files:
    """By path, and where they are served."""

    files: Mapping[str, bytes]
    port: int


class _Handler(Handler[Files]):
    """Answers as HttpFS does, which serves the bytes itself."""

    methods = ("GET",)

    def serve(self) -> None:
        asked = urlsplit(self.path)
        options = {name: values[-1] for name, values in parse_qs(asked.query).items()}
        data = self.state.files[unquote(asked.path).removeprefix(PREFIX)]
        if options["op"] == "OPEN":
            start = int(options["offset"])
            body = data[start : start + int(options["length"])]
            self.answer(200, body, {"Content-Type": "application/octet-stream"})
            return
        status = {"pathSuffix": "", "type": "FILE", "length": len(data), "modificationTime": 1, "fileId": 7}
        body = json.dumps({"FileStatus": status}).encode()
        self.answer(200, body, {"Content-Type": "application/json"})


@contextmanager
def webhdfs_of(files: Mapping[str, bytes]) -> Iterator[str]:
    """The address of a NameNode with these files: ``webhdfs://host:port``."""
    with serving(_Handler, lambda port: Files(files, port)) as served:
        yield f"webhdfs://127.0.0.1:{served.port}"
