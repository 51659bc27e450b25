"""Whether each optional part that is missing says which extra brings it. Run where orcstream is alone.

    python scripts/try_extras.py            # what each says; fails for one that does not name its extra
    python scripts/try_extras.py --pretend  # where they are installed: their imports are made to fail

Each extra of the package has a way to be asked for: those of `WAYS`, or a module of its name in
`orcstream.integrations`.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import re
import sys
from collections.abc import Callable
from typing import Any

import orcstream
from orcstream.io import keys

# What the extras bring, for those who have it and pretend not to.
LIBRARIES = """
    azure dask duckdb google.auth google.cloud.kms_v1 gssapi hdfs_native krb5 opentelemetry pandas polars
    pyarrow pyspark ray spnego thriftpy2
""".split()


def azure() -> object:
    return asyncio.run(keys.AzureKeyProvider("vault").current_key("pii"))


def gcp() -> object:
    return asyncio.run(keys.GcpKeyProvider("projects/p/locations/l/keyRings/r").current_key("pii"))


def hdfs() -> object:
    return orcstream.blocking.read("hdfs://127.0.0.1:1/a.orc")


def hive() -> object:
    async def open_it() -> None:
        await orcstream.acid.open_table("memory://t", metastore="thrift://127.0.0.1:1", table="default.t")

    return asyncio.run(open_it())


def kerberos() -> object:
    async def ask() -> Any:
        # Nobody listens; what is missing is found out before.
        async with keys.HadoopKeyProvider("kms://http@127.0.0.1:1/kms", kerberos=True, retries=0) as provider:
            return await provider.current_key("pii")

    return asyncio.run(ask())


def spark() -> object:
    return importlib.import_module("orcstream.spark")


WAYS: dict[str, Callable[[], object]] = {
    "azure": azure,
    "gcp": gcp,
    "hdfs": hdfs,
    "hive": hive,
    "kerberos": kerberos,
    "spark": spark,
}
MODULES = {"otel": "opentelemetry"}  # of `orcstream.integrations`, where it is not the extra's name


def what_it_says(extra: str) -> str:
    """The error for a part that is missing; empty where there was none."""
    try:
        if extra in WAYS:
            WAYS[extra]()
        else:
            importlib.import_module(f"orcstream.integrations.{MODULES.get(extra, extra)}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
        return f"{type(error).__name__}: {error}"
    return ""


def extras() -> list[str]:
    return importlib.metadata.metadata("orcstream").get_all("Provides-Extra") or []


def main() -> None:
    if "--pretend" in sys.argv:
        for name in LIBRARIES:
            sys.modules[name] = None  # type: ignore[assignment]  # so that an import of it fails
    failed = False
    for extra in extras():
        said = what_it_says(extra)
        names_it = re.search(rf"pip install '?orcstream\[{extra}\]", said) is not None
        failed |= not names_it
        print(f"{'ok' if names_it else 'WRONG'}  {extra}: {said or 'no error'}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
