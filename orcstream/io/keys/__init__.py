"""Key stores: the names of `orcstream.io.keys`, each imported when it is first used.

Some of the libraries behind them take long to import, and most programs need none or one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orcstream._lazy import lazy_names

if TYPE_CHECKING:
    from orcstream.encryption import KeyProvider, check_provider
    from orcstream.io.keys.aws import AwsKeyProvider
    from orcstream.io.keys.azure import AzureKeyProvider
    from orcstream.io.keys.gcp import GcpKeyProvider
    from orcstream.io.keys.hadoop import HadoopKeyProvider
    from orcstream.io.keys.memory import InMemoryKeyProvider, read_key_file
    from orcstream.io.keys.open import open_keys

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".aws": ("AwsKeyProvider",),
        ".azure": ("AzureKeyProvider",),
        ".gcp": ("GcpKeyProvider",),
        ".hadoop": ("HadoopKeyProvider",),
        ".memory": ("InMemoryKeyProvider", "read_key_file"),
        ".open": ("open_keys",),
        "orcstream.encryption": ("KeyProvider", "check_provider"),
    },
)
