"""Key stores by name: one text for the command line and for options.

Knows which store a text names, and which of its options can be text. Must not open any connection.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from orcstream._credentials import SCHEME
from orcstream.encryption import KeyProvider
from orcstream.errors import UsageError
from orcstream.io.keys.memory import read_key_file
from orcstream.io.keys.service import shown_place
from orcstream.io.urls import local_path, protocol_of

# Options that all stores behind a network have.
_COMMON: Final[Mapping[str, Callable[[str], Any]]] = {"timeout_s": float, "retries": int}


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _file_or_truth(text: str) -> str | bool:
    return _truth(text) if text.lower() in ("true", "false") else text


# By scheme: the module and class, and how the options that may stand in the text are read.
_STORES: Final[Mapping[str, tuple[str, str, Mapping[str, Callable[[str], Any]]]]] = {
    "kms": (
        "orcstream.io.keys.hadoop",
        "HadoopKeyProvider",
        {"user": str, "token": str, "kerberos": _truth, "proxy_to": str, "verify": _file_or_truth, **_COMMON},
    ),
    "aws-kms": ("orcstream.io.keys.aws", "AwsKeyProvider", {"algorithm": str, "profile": str, **_COMMON}),
    "gcp-kms": ("orcstream.io.keys.gcp", "GcpKeyProvider", {"algorithm": str, **_COMMON}),
    "azure-kv": ("orcstream.io.keys.azure", "AzureKeyProvider", {"algorithm": str, **_COMMON}),
}


async def open_keys(place: str | os.PathLike[str], **options: Any) -> KeyProvider:
    """The key store that `place` names; nothing is asked of it yet.

    - a path, or ``file://`` URL: a file of keys (`read_key_file`)
    - ``kms://http@host1;host2:9600/kms``: Hadoop or Ranger KMS (`HadoopKeyProvider`)
    - ``aws-kms://REGION``, ``aws-kms://`` for the region that AWS's tools use (`AwsKeyProvider`)
    - ``gcp-kms://projects/P/locations/L/keyRings/R`` (`GcpKeyProvider`)
    - ``azure-kv://VAULT`` (`AzureKeyProvider`)

    `options` are those of the provider's constructor; what can be text may stand behind the name instead, as
    in ``kms://http@host:9600/kms?user=etl&timeout_s=5``. Raises `UsageError` for others.
    """
    place = os.fspath(place) if isinstance(place, os.PathLike) else place
    if not isinstance(place, str):
        raise UsageError(f"a key store is named by a path or a URL, not by a {type(place).__name__}")
    if place.lstrip().startswith("{"):
        # Its text stays out of the error: what stands there are keys.
        raise UsageError("a key store is named by a path or a URL, not by the keys; put the JSON into a file")
    scheme = protocol_of(place)
    if scheme not in _STORES:
        if SCHEME.match(place) and scheme not in ("file", "local"):
            known = ", ".join(f"{name}://" for name in _STORES)
            raise UsageError(f"no key store is named so; there are {known} and paths", url=shown_place(place))
        if options:
            raise UsageError(f"a file of keys has no option {min(options)}", url=place)
        return await read_key_file(local_path(place))
    module, name, texts = _STORES[scheme]
    place, _, query = place.partition("?")
    given = _options_of(query, texts, shown_place(place))
    for option in options:
        if option in given:
            raise UsageError(f"the option {option} is given twice", url=shown_place(place))
    # The class that a table names, which mypy cannot see.
    cls: Any = getattr(importlib.import_module(module), name)
    target = place if scheme == "kms" else place[len(scheme) + 3 :].rstrip("/")
    try:
        provider: KeyProvider = cls(*([target] if target else []), **given, **options)
    except TypeError as error:
        raise UsageError(f"{name} cannot be made so: {error}", url=shown_place(place)) from None
    return provider


def _options_of(query: str, texts: Mapping[str, Callable[[str], Any]], shown: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in texts or name in given:
            names = ", ".join(sorted(texts))
            raise UsageError(f"behind the name of this key store may stand, once: {names}", url=shown)
        try:
            given[name] = texts[name](text)
        except (ValueError, KeyError):
            raise UsageError(f"the option {name} cannot be this", url=shown) from None
    return given
