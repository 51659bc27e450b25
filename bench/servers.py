"""The store that is measured against: versitygw on a loopback port, near or behind the proxy.

Starts processes, makes the bucket, puts files, signs URLs. Server and proxy run on the first core that this
process may use, and whoever calls `move_to_client_core` on the last, so that neither takes the other's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lineitem import DATA
from bench.proxy import Exchange

ROOT = Path(__file__).resolve().parent.parent
BUCKET = "bench"
ACCESS, SECRET, REGION = "bench-access", "bench-secret", "us-east-1"
CORES = sorted(os.sched_getaffinity(0))
START_TIMEOUT_S = 20.0
_OBJECTS = DATA / "store"
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 4 << 30  # an object of a gigabyte, its parts, and the object that it replaces


@dataclass(frozen=True, slots=True)
class Store:
    """An S3 endpoint that answers, and the ways in which clients want to be told of it."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage_options(self) -> dict[str, Any]:
        """What fsspec's s3 file system takes, and so `orcstream.open`."""
        return {
            "key": ACCESS,
            "secret": SECRET,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": REGION},
        }

    def pyarrow_filesystem(self) -> Any:
        from pyarrow import fs

        return fs.S3FileSystem(
            access_key=ACCESS,
            secret_key=SECRET,
            region=REGION,
            scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}",
        )

    def put(self, *paths: Path, bucket: str = BUCKET) -> None:
        """Store the files under their names, where they are not there already."""
        asyncio.run(_put(self, paths, bucket))

    def signed_url(self, name: str) -> str:
        url: str = asyncio.run(sign(self, name))
        return url


@dataclass(frozen=True, slots=True)
class Distance:
    """The proxy's process, and the store as it looks from behind it."""

    store: Store
    process: subprocess.Popen[str]

    def log(self) -> list[Exchange]:
        """The requests since the last call, in the order they were sent."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("log\n")
        self.process.stdin.flush()
        return [Exchange(**entry) for entry in json.loads(self.process.stdout.readline())]


def move_to_client_core() -> None:
    os.sched_setaffinity(0, {CORES[-1]})


@contextlib.contextmanager
def _on_server_core() -> Iterator[None]:
    """What is started meanwhile stays on the servers' core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CORES[0]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def versitygw_path() -> Path:
    """Where `make servers` puts the server."""
    built = ROOT / ".cache" / "bin" / "versitygw"
    found = str(built) if built.exists() else shutil.which("versitygw")
    if not found:
        sys.exit("there is no versitygw to measure against: make servers")
    return Path(found)


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """A folder for a store's objects in memory, where there is such a one; else on the disk."""
    if not _takes_objects(_MEMORY):
        yield _OBJECTS
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        yield Path(folder)


def _takes_objects(folder: Path) -> bool:
    """Whether there is room, and the attributes are kept in which versitygw notes what it knows."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            os.setxattr(file.fileno(), "user.orcstream", b"")
        return shutil.disk_usage(folder).free >= _MEMORY_BYTES
    except (OSError, AttributeError):
        return False


@contextlib.contextmanager
def near(objects: Path = _OBJECTS) -> Iterator[Store]:
    """The store itself, without distance."""
    objects.mkdir(parents=True, exist_ok=True)
    store = Store(_free_port())
    gateway = [str(versitygw_path()), "--quiet", "--keep-alive", "--port", f"127.0.0.1:{store.port}"]
    environment = os.environ | {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
    with _on_server_core():
        process = subprocess.Popen(
            [*gateway, "posix", str(objects)], env=environment, stdout=subprocess.DEVNULL
        )
    with _ended(process):
        _await_port(store.port, process)
        yield store


@contextlib.contextmanager
def distant(
    target: Store, delay_ms: float = 30, mbps: float = 90, link_mbps: float = math.inf
) -> Iterator[Distance]:
    """The store as seen over a distance; all connections together are no faster than the link."""
    store = Store(_free_port())
    command = [sys.executable, "-m", "bench.proxy", str(store.port), str(target.port)]
    with _on_server_core():
        process = subprocess.Popen(
            [*command, "--delay-ms", str(delay_ms), "--mbps", str(mbps), "--link-mbps", str(link_mbps)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    with _ended(process):
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            sys.exit("the proxy did not start")
        yield Distance(store, process)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    """The process does not outlive the block, nor do its pipes."""
    with process:
        try:
            yield
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    sys.exit("the S3 server did not start")


def _client(store: Store) -> Any:
    from aiobotocore.session import get_session
    from botocore.config import Config

    return get_session().create_client(
        "s3",
        region_name=REGION,
        endpoint_url=store.endpoint,
        aws_access_key_id=ACCESS,
        aws_secret_access_key=SECRET,
        config=Config(signature_version="s3v4", request_checksum_calculation="when_required"),
    )


async def _put(store: Store, paths: tuple[Path, ...], bucket: str) -> None:
    async with _client(store) as client:
        if bucket not in {bucket["Name"] for bucket in (await client.list_buckets())["Buckets"]}:
            await client.create_bucket(Bucket=bucket)
        listed = await client.list_objects_v2(Bucket=bucket)
        there = {entry["Key"]: entry["Size"] for entry in listed.get("Contents", [])}
        for path in paths:
            if there.get(path.name) != path.stat().st_size:
                with path.open("rb") as body:
                    await client.put_object(Bucket=bucket, Key=path.name, Body=body)


async def sign(store: Store, name: str) -> Any:
    """A signed URL of an object, by a client that is made for it."""
    async with _client(store) as client:
        return await client.generate_presigned_url(
            "get_object", Params={"Bucket": BUCKET, "Key": name}, ExpiresIn=86_400
        )
