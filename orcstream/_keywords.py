"""Keywords that several functions take, declared once and shown on each of them; checks of their values.

A `TypedDict` declares them for type checkers. A frozen dataclass has the same names as fields, with their
defaults, checks and, in the section Parameters of its docstring, their meaning. No keyword is known here.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from orcstream.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_SECTION = re.compile(r"^(\w[\w ]*)\n-+$", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\w)", re.MULTILINE)


def takes(
    keywords: type[Mapping[str, Any]],
    *origins: Callable[..., object],
    defaults: Mapping[str, object] | None = None,
) -> Callable[[F], F]:
    """Let a function with ``**options: Unpack[keywords]`` show, explain and check what it takes.

    Parameters
    ----------
    keywords : type
        The `TypedDict` with the names.
    *origins : callable
        What has these names as parameters, with defaults and explanations: dataclasses or other functions.
    defaults : mapping, optional
        Where they differ from those of the origins.

    """
    other = dict(defaults or {})
    known = {one.name: one for origin in origins for one in inspect.signature(origin).parameters.values()}
    texts = {name: text for origin in origins for name, text in explained(origin).items()}
    taken = [
        known[name].replace(kind=inspect.Parameter.KEYWORD_ONLY, default=other.get(name, known[name].default))
        for name in sorted(keywords.__annotations__, key=list(known).index)
    ]

    def mark(function: F) -> F:
        own = inspect.signature(function)
        named = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        signature = own.replace(parameters=[*named, *taken])
        names = signature.parameters.keys()

        def checked(options: dict[str, Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
            if not options.keys() <= names:
                raise TypeError(f"{_called(function, arguments)}() got {unexpected(options, names)}")
            return {**other, **options} if other else options

        call: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call(*arguments: Any, **options: Any) -> Any:
                return await function(*arguments, **checked(options, arguments))

        else:

            @functools.wraps(function)
            def call(*arguments: Any, **options: Any) -> Any:
                return function(*arguments, **checked(options, arguments))

        call.__signature__ = signature
        explain(call, [_with_default(texts[one.name], one.default) for one in taken if one.name in texts])
        return call  # type: ignore[no-any-return]

    return mark


def _called(function: Callable[..., object], arguments: tuple[Any, ...]) -> str:
    """What a user calls a function: a method by the class of the object, which may have inherited it."""
    is_method = "." in function.__qualname__ and bool(arguments)
    return f"{type(arguments[0]).__name__}.{function.__name__}" if is_method else function.__qualname__


def unexpected(options: Iterable[str], names: Collection[str]) -> str:
    """The message for the first of the options that is not among the names."""
    unknown = next(name for name in options if name not in names)
    close = get_close_matches(unknown, names, 1)
    return f"an unexpected keyword argument {unknown!r}" + (f". Did you mean {close[0]!r}?" if close else "")


def shared(options: Mapping[str, Any], keywords: type[T]) -> T:
    """Those of the `options` that are among `keywords`."""
    found: Any = {name: options[name] for name in keywords.__annotations__ if name in options}
    return found  # type: ignore[no-any-return]


def check_integer(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise `UsageError` unless the `value` of a keyword is an integer of `least` to `most`."""
    is_one = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not is_one or (most is not None and value > most):  # type: ignore[operator]
        limits = f"at least {least}" if most is None else f"{least} to {most}"
        raise UsageError(f"{name} must be an integer of {limits}, not {value!r}")


def check_seconds(name: str, value: object, *, may_be_0: bool = False, url: str | None = None) -> None:
    """Raise `UsageError` unless the `value` of a keyword is a number of seconds above 0, or at least 0."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if not is_one or (value == 0 and not may_be_0):
        limits = "" if may_be_0 else " above 0"
        raise UsageError(f"{name} must be a number of seconds{limits}, not {value!r}", url=url)


def check_options(
    options: object,
    of: str,
    *,
    integers: Mapping[str, int],
    numbers: Collection[str],
    flags: Collection[str],
    may_be_none: Collection[str] = (),
) -> None:
    """Raise `UsageError` for values that `options` of this name cannot have.

    `integers` have a least value, `numbers` are above 0, and `flags` are True or False.
    """
    for name in (*integers, *numbers, *flags):
        value = getattr(options, name)
        if value is None and name in may_be_none:
            continue
        if name in integers:
            check_integer(f"{of}: {name}", value, integers[name])
        elif name in flags:
            if not isinstance(value, bool):
                raise UsageError(f"{of}: {name} must be True or False, not {value!r}")
        elif not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise UsageError(f"{of}: {name} must be above 0, not {value!r}")


def options_of(cls: type[T], name: str, value: T | Mapping[str, Any] | None) -> T:
    """Options of a dataclass as a user gives them in the parameter `name`; UsageError for unknown ones."""
    if value is None:
        return cls()
    if isinstance(value, cls):
        return value
    if not isinstance(value, Mapping):
        raise UsageError(f"{name} must be {cls.__name__} or a dictionary, not {type(value).__name__}")
    known = [field.name for field in fields(cast("Any", cls))]
    for given in value:
        if given not in known:
            raise UsageError(f"{name}: unknown option {given!r}; there are {', '.join(known)}")
    return cls(**value)


def unknown_option(error: Exception) -> str:
    """What a library says of an option that it does not know; empty of everything else."""
    found = (
        re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if isinstance(error, TypeError)
        else None
    )
    return f"there is no option {found[1]!r}" if found else ""


def plain_options(given: object) -> dict[str, Any]:
    """Return storage options as a dictionary of their own; none of them is in the error for others."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise UsageError(
            "storage_options must be a dictionary with names of options as keys, such as {'anon': True}, not "
            f"a {type(given).__name__}"
        )
    return dict(given)


def explain(function: Callable[..., object], entries: Iterable[str]) -> None:
    """Add a section Parameters to a docstring."""
    if function.__doc__ is not None and (texts := "\n".join(entries)):
        function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\nParameters\n----------\n{texts}\n"


def explained(origin: Callable[..., object]) -> dict[str, str]:
    """The entries of the section Parameters of a docstring, by name."""
    parts = iter(_SECTION.split(inspect.cleandoc(origin.__doc__ or "")))
    next(parts)
    body = next((text for name, text in zip(parts, parts, strict=True) if name == "Parameters"), "")
    entries = (entry.rstrip() for entry in _ENTRY.split(body) if entry.strip())
    return {entry.partition(" :")[0]: entry for entry in entries}


def _with_default(entry: str, default: object) -> str:
    head, _, text = entry.partition("\n")
    shown = "optional" if default is None else f"default {default!r}".replace("'", '"')
    return f"{head.partition(', default')[0].removesuffix(', optional')}, {shown}\n{text}"
