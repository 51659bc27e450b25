"""Functions that take keywords declared elsewhere show, explain and check them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from typing import Any, TypedDict, Unpack

import pytest

import orcstream
from orcstream import blocking
from orcstream._keywords import explained, shared, takes
from orcstream.reader.opening import OpenOptions
from orcstream.reader.options import ReadOptions


class Colours(TypedDict, total=False):
    colour: str


class Shapes(Colours, total=False):
    width: int


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A drawing.

    Parameters
    ----------
    width : int
        In `width` millimetres.
    colour : str
        The `colour` of the pen,
        by name.

    """

    width: int = 3
    colour: str = "red"
    size: int = 1


@takes(Shapes, Drawing, defaults={"colour": "blue"})
def draw(name: str, *, twice: bool = False, **options: Unpack[Shapes]) -> tuple[Any, ...]:
    """Draw."""
    return name, twice, Drawing(**options)


@takes(Colours, draw)
async def paint(**options: Unpack[Colours]) -> tuple[Any, ...]:
    """Paint."""
    return draw("b", **options)


def test_signatures_show_names_and_defaults() -> None:
    shown = "(name: 'str', *, twice: 'bool' = False, width: 'int' = 3, colour: 'str' = 'blue')"
    assert str(inspect.signature(draw)) == f"{shown} -> 'tuple[Any, ...]'"
    assert str(inspect.signature(paint)) == "(*, colour: 'str' = 'blue') -> 'tuple[Any, ...]'"
    assert inspect.iscoroutinefunction(paint)


def test_help_explains_what_is_taken() -> None:
    assert inspect.getdoc(draw) == (
        "Draw.\n\nParameters\n----------\nwidth : int, default 3\n    In `width` millimetres.\n"
        'colour : str, default "blue"\n    The `colour` of the pen,\n    by name.'
    )
    assert list(explained(paint)) == ["colour"]


async def test_defaults_of_their_own() -> None:
    assert draw("a") == ("a", False, Drawing(colour="blue"))
    assert draw(name="a", twice=True, colour="green") == ("a", True, Drawing(colour="green"))
    assert await paint() == ("b", False, Drawing(colour="blue"))
    assert shared({"width": 1, "colour": "red", "size": 2}, Shapes) == {"width": 1, "colour": "red"}


async def test_other_names_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^draw\(\) .* argument 'color'. Did you mean 'colour'\?$"):
        draw("a", color="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^draw\(\) .* argument 'size'$"):
        draw("a", size=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^paint\(\) .* argument 'width'$"):
        await paint(width=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("options", [ReadOptions, OpenOptions])
def test_every_option_is_explained(options: Any) -> None:
    assert list(explained(options)) == [field.name for field in fields(options) if field.init]


def test_interfaces_name_their_own_options_only(tmp_path: Any) -> None:
    """And those who do not wait hear of the same."""
    blocking.write(tmp_path / "t.orc", [(1,)], "struct<a:int>")
    with blocking.open(tmp_path / "t.orc") as file:
        with pytest.raises(TypeError, match=r"OrcFile\.take\(\) .* 'where'"):
            file.take([0], where=None)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"OrcFile\.read\(\) .* 'column'. Did you mean 'columns'\?"):
            file.read(column=["a"])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"read\(\) .* 'storageoptions'. Did you mean 'storage_options'\?"):
        blocking.read(tmp_path / "t.orc", storageoptions={})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"open\(\) .* 'key'. Did you mean 'keys'\?"):
        orcstream.open(tmp_path / "t.orc", key=None)  # type: ignore[call-arg]
