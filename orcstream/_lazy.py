"""Names of a package that are imported when they are first used, so that a program loads what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def lazy_names(
    package: str, homes: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package.

    `homes` has the names by the module that defines them, relative to the package where it begins with a dot.
    `modules` are modules of the package that need no import of their own.
    """
    home_of = {name: module for module, names in homes.items() for name in names}
    home_of |= dict.fromkeys(modules, "")

    def get(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not home_of[name]:
            return import_module(f"{package}.{name}")
        value: object = getattr(import_module(home_of[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of} - {lazy_names.__name__})

    return get, names
