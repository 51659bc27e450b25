"""Key stores: the names of `orcstream.io.keys`, each imported when it is first used.

Some of the libraries behind them take long to import, and most programs need none or one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orcstream.io.keys.aws import AwsKeyProvider
    from orcstream.io.keys.azure import AzureKeyProvider
    from orcstream.io.keys.gcp import GcpKeyProvider
    from orcstream.io.keys.hadoop import HadoopKeyProvider
    from orcstream.io.keys.memory import InMemoryKeyProvider, read_key_file
    from orcstream.io.keys.open import open_keys
    from orcstream.io.keys.provider import KeyProvider, check_provider

__all__ = [
    "AwsKeyProvider",
    "AzureKeyProvider",
    "GcpKeyProvider",
    "HadoopKeyProvider",
    "InMemoryKeyProvider",
    "KeyProvider",
    "check_provider",
    "open_keys",
    "read_key_file",
]

_HOMES = {
    "AwsKeyProvider": "aws",
    "AzureKeyProvider": "azure",
    "GcpKeyProvider": "gcp",
    "HadoopKeyProvider": "hadoop",
    "InMemoryKeyProvider": "memory",
    "KeyProvider": "provider",
    "check_provider": "provider",
    "open_keys": "open",
    "read_key_file": "memory",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
