"""Every Python block of the documentation runs, or says why not: `<!-- not run: why -->` above it.

Blocks are written as for a notebook, where `await` may stand anywhere. Each runs on its own, in a folder
with the file trips.orc, with an S3 store that has it as s3://bucket/trips.orc (for the environment's
credentials and for those of the profile "analytics"), a web server that has it as
http://localhost:8080/trips.orc, and HDFS as webhdfs://namenode:9870/warehouse/trips.orc. What a block
prints is held against the block of `text` that follows it, where one does.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyarrow import orc

from tests.generators.trips import trips
from tests.meta.tree import ROOT, project_files
from tests.servers.loopback import MotoServer, RangeServer, moto_server, range_server
from tests.servers.webhdfs_files import webhdfs_of

__all__ = ["moto_server", "range_server"]

WEB_SERVER = "http://localhost:8080"
NAME_NODE = "webhdfs://namenode:9870"

FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?"
    r"^```(?P<language>\w+)\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Snippet:
    label: str
    code: str
    reason: str | None
    printed: str | None


def _snippets() -> Iterator[Snippet]:
    for path in project_files():
        if path.suffix != ".md":
            continue
        text = path.read_text()
        for found in FENCE.finditer(text):
            if found["language"] in ("python", "py"):
                line = text.count("\n", 0, found.start("code"))
                label = f"{path.relative_to(ROOT)}:{line}"
                yield Snippet(label, found["code"], found["reason"], found["printed"])


SNIPPETS = list(_snippets())


@pytest.fixture
def world(
    tmp_path: Path, moto_server: MotoServer, range_server: RangeServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """What is there; answers what addresses in the blocks stand for."""
    orc.write_table(trips(), str(tmp_path / "trips.orc"), compression="zstd")
    data = (tmp_path / "trips.orc").read_bytes()
    moto_server.put("bucket", "trips.orc", data)
    moto_server.client.put_object_acl(Bucket="bucket", Key="trips.orc", ACL="public-read")
    url = range_server.serve("trips.orc", data)
    profile = f"endpoint_url = {moto_server.endpoint}\naws_access_key_id = a\naws_secret_access_key = b\n"
    (tmp_path / "aws").write_text(f"[profile analytics]\n{profile}")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with webhdfs_of({"/warehouse/trips.orc": data}) as name_node:
        yield {WEB_SERVER: url.removesuffix("/trips.orc"), NAME_NODE: name_node}


def test_there_are_snippets() -> None:
    assert any(snippet.label.startswith("README.md:") for snippet in SNIPPETS)
    assert any(snippet.printed for snippet in SNIPPETS)


@pytest.mark.parametrize(
    "snippet", [s for s in SNIPPETS if s.reason is None], ids=[s.label for s in SNIPPETS if s.reason is None]
)
def test_snippet_runs(snippet: Snippet, world: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    text = snippet.code
    for address, stands_for in world.items():
        text = text.replace(address, stands_for)
    code = compile(text, snippet.label, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {"__name__": "__main__"}
    if code.co_flags & inspect.CO_COROUTINE:

        async def run() -> None:
            await eval(code, names)

        asyncio.run(run())
    else:
        exec(code, names)
    if snippet.printed is not None:
        assert capsys.readouterr().out == snippet.printed
