"""An HTTP service that takes rows and puts them into S3: encrypted ORC files that end by size, rows and age.

    python examples/ingest_service.py s3://bucket/events --keys keys.json --port 8080

`POST /rows` takes one JSON object a line and answers 202 with their number once all of them are taken, or
400 and takes none of them. `GET /files` names what was committed. `--keys` is a file of keys with one
called "pii", or a key store, such as `kms://http@kms:9600/kms`.

What 202 promises: the rows are in a file `MAX_AGE_S` later. SIGTERM and Ctrl-C stop the listening, let
requests under way end, and commit what is open before the process ends: nothing that was taken is lost. A
process that is killed loses what it took since its last commits, and never leaves half a file; who cannot
bear that calls `await out.flush()` before the answer.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

from aiohttp import web

import orcstream
from orcstream import Encrypt
from orcstream.io.keys import open_keys

SCHEMA = "struct<tenant:string,id:bigint,email:string,amount:double>"
ENCRYPT = [Encrypt("pii", ["email"], mask="redact")]
MAX_AGE_S = 60
OUT = web.AppKey("out", orcstream.Ingester)


async def take_rows(request: web.Request) -> web.Response:
    try:
        rows = [json.loads(line) for line in (await request.text()).splitlines() if line]
        # All of them or none. It waits while the store is behind, and so do those who post.
        count = await request.app[OUT].write(rows)
    except orcstream.SinkError as error:  # the store failed for good: the ingest has ended
        raise web.HTTPServiceUnavailable(text=f"{error}\n") from error
    except ValueError as error:  # no JSON, or SchemaMismatch: rows that do not fit
        raise web.HTTPBadRequest(text=f"{error}\n") from error
    return web.json_response({"rows": count}, status=202)


async def show_files(request: web.Request) -> web.Response:
    files = request.app[OUT].files
    return web.json_response([{"url": file.url, "rows": file.row_count} for file in files])


async def ingesting(app: web.Application, target: str, keys: str, options: Any) -> AsyncIterator[None]:
    """Around the life of the service: what follows the `yield` comes after the last request."""
    async with (
        aclosing(await open_keys(keys)) as provider,
        orcstream.ingest(
            f"{target}/tenant={{tenant}}/{{number:06}}-{{uuid}}.orc",
            SCHEMA,
            max_bytes=128 << 20,
            max_rows=1_000_000,
            max_age_s=MAX_AGE_S,
            encrypt=ENCRYPT,
            keys=provider,
            storage_options=options,
            on_file=lambda file: print(f"{file.row_count:,} rows in {file.url}", flush=True),
        ) as out,
    ):
        app[OUT] = out
        yield  # then the block ends, which commits


def main() -> None:
    parser = argparse.ArgumentParser(description="rows by HTTP, into encrypted ORC files")
    parser.add_argument("target", help="the folder of the files: s3://bucket/events, a path, ...")
    parser.add_argument("--keys", required=True, help="a file of keys, or a key store")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--storage-options", type=json.loads, metavar="JSON")
    given = parser.parse_args()
    app = web.Application(client_max_size=64 << 20)
    app.add_routes([web.post("/rows", take_rows), web.get("/files", show_files)])
    app.cleanup_ctx.append(
        partial(ingesting, target=given.target, keys=given.keys, options=given.storage_options)
    )
    web.run_app(app, host="127.0.0.1", port=given.port)  # it handles SIGTERM and SIGINT


if __name__ == "__main__":
    main()
