"""An extension of Griffe: the site shows functions with the keywords that they take from declarations.

Griffe reads sources and sees ``**options`` there. What `help()` shows is taken from the imported function.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from operator import attrgetter
from typing import Any

from griffe import Extension, Function, Parameter, ParameterKind, Parameters

DECORATORS = ("takes", "takes_as", "method_as")


class Signatures(Extension):  # type: ignore[misc]  # Griffe is installed for the site alone
    """Replaces the parameters and docstrings of functions with such a decorator."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        if not any(one.callable_path.rpartition(".")[2] in DECORATORS for one in func.decorators):
            return
        module = func.module.path
        found = attrgetter(func.path.removeprefix(f"{module}."))(import_module(module))
        func.parameters = Parameters(*map(_parameter, inspect.signature(found).parameters.values()))
        if func.docstring is not None:
            func.docstring.value = inspect.getdoc(found) or ""


def _parameter(one: inspect.Parameter) -> Parameter:
    return Parameter(
        one.name,
        annotation=None if one.annotation is one.empty else str(one.annotation),
        kind=ParameterKind[one.kind.name.lower()],
        default=None if one.default is one.empty else repr(one.default),
    )
