"""Key stores: the names of `orcstream.io.keys`, each imported when it is first used.

Some of the libraries behind them take long to import, and most programs need none or one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orcstream.io.key_provider import KeyProvider, check_provider
    from orcstream.io.keys_aws import AwsKeyProvider
    from orcstream.io.keys_azure import AzureKeyProvider
    from orcstream.io.keys_gcp import GcpKeyProvider
    from orcstream.io.keys_hadoop import HadoopKeyProvider
    from orcstream.io.keys_memory import InMemoryKeyProvider, read_key_file
    from orcstream.io.keys_open import open_keys

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
    "AwsKeyProvider": "keys_aws",
    "AzureKeyProvider": "keys_azure",
    "GcpKeyProvider": "keys_gcp",
    "HadoopKeyProvider": "keys_hadoop",
    "InMemoryKeyProvider": "keys_memory",
    "KeyProvider": "key_provider",
    "check_provider": "key_provider",
    "open_keys": "keys_open",
    "read_key_file": "keys_memory",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"orcstream.io.{_HOMES[name]}"), name)
