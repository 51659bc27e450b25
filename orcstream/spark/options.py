"""Spark's options, which are text, as typed values; what nobody knows is an error.

Knows how a number, a size, a truth or a list is spelled. Must not know what an option means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from orcstream.errors import UsageError

_VIEW: Final = "use CREATE TEMPORARY VIEW name USING orcstream OPTIONS (path '...')"
_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)

_SPANS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)", re.IGNORECASE | re.ASCII)


class Options:
    """The options of one read or write. Take each, then `finish`.

    Names are compared without their case, as Spark does. A taken option is known, whatever its value.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self._known: set[str] = set()
        self._shown: list[str] = []

    def text(self, name: str, default: str | None = None) -> str | None:
        self._known.add(name.lower())
        self._shown.append(name)
        return self._given.get(name.lower(), default)

    def truth(self, name: str, *, default: bool = False) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise UsageError(f"option {name} is true or false, not {text!r}")
        return text.lower() == "true"

    def count(self, name: str, default: int, *, least: int = 1) -> int:
        text = self.text(name)
        if text is None:
            return default
        if not text.isdecimal() or int(text) < least:
            raise UsageError(f"option {name} is a number of at least {least}, not {text!r}")
        return int(text)

    def size(self, name: str, default: int) -> int:
        """Bytes; ``64m`` and ``64MiB`` are 64 << 20."""
        text = self.text(name)
        if text is None:
            return default
        match = _SIZE.fullmatch(text.strip())
        if match is None or int(match[1]) == 0:
            raise UsageError(f"option {name} is a size, as 64m or 1GiB, not {text!r}")
        return int(match[1]) * _UNITS[match[2].lower()]

    def seconds(self, name: str) -> float | None:
        """A time span; ``90s``, ``15m``, ``12h``, ``7d`` or ``2w``; None where the option is not given."""
        text = self.text(name)
        if text is None:
            return None
        match = _SPAN.fullmatch(text.strip())
        if match is None:
            raise UsageError(f"option {name} is a time span, as 90s, 12h or 7d, not {text!r}")
        return float(match[1]) * _SPANS[match[2].lower()]

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        """One of some words; the first where the option is not given."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise UsageError(f"option {name} is one of {', '.join(choices)}, not {text!r}")
        return text

    def names(self, name: str) -> Sequence[str] | None:
        """Names with commas between them, or a JSON list where they hold commas."""
        text = self.text(name)
        if text is None:
            return None
        if text.lstrip().startswith("["):
            found = self._json(name, text)
            if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
                raise UsageError(f"option {name} is a list of names")
            return found
        return [one.strip() for one in text.split(",") if one.strip()]

    def json(self, name: str) -> Any:
        """A JSON value; None where the option is not given."""
        text = self.text(name)
        return None if text is None else self._json(name, text)

    def below(self, prefix: str) -> dict[str, Any]:
        """What follows a prefix: ``storage.client_kwargs.region_name`` is nested; values are JSON or text.

        All of them are lower case, since Spark's options are.
        """
        found: dict[str, Any] = {}
        self._shown.append(f"{prefix}.*")
        for name in sorted(self._given):
            if not name.startswith(f"{prefix}."):
                continue
            self._known.add(name)
            *folders, last = name.removeprefix(f"{prefix}.").split(".")
            inner = found
            for folder in folders:
                inner = inner.setdefault(folder, {})
                if not isinstance(inner, dict):
                    raise UsageError(f"option {name} is below an option that is a value itself")
            inner[last] = _json_or_text(self._given[name])
        return found

    def refuse_catalog(self, path: object) -> None:
        """Raise `UsageError` for a table in Spark's catalog, whose path Spark does not pass."""
        if "location" in self._given:
            raise UsageError(f"Spark reads no table of its catalog through a Python data source; {_VIEW}")
        if not path:
            raise UsageError(
                "there is no path; give one to load(), save() or start(). Spark passes a Python data source "
                f"neither path nor options of a table in its catalog: for SQL, {_VIEW}"
            )

    def finish(self) -> None:
        """Refuse what nobody took."""
        unknown = sorted(set(self._given) - self._known)
        if unknown:
            names = ", ".join(sorted(set(self._shown)))
            raise UsageError(f"there is no option {unknown[0]}; there are {names}")

    @staticmethod
    def _json(name: str, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise UsageError(f"option {name} is no JSON: {error}") from None


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
