"""Runs the code cells of a notebook as Jupyter does, and puts what they print into it.

    python scripts/run_notebook.py examples/tour.ipynb

Cells share their names and one event loop, `await` may stand anywhere, and the value of a last expression is
shown. Nothing of Jupyter is needed. What a cell shows is text; figures and widgets are not known here.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import CodeType
from typing import Any

Cell = dict[str, Any]


def run_notebook(notebook: Cell) -> Iterator[tuple[Cell, list[Cell]]]:
    """Each code cell with its outputs, in the notebook's own form. What a cell raises comes out."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        code_cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
        for number, cell in enumerate(code_cells, 1):
            printed = io.StringIO()
            with redirect_stdout(printed):
                value = runner.run(_run_cell("".join(cell["source"]), f"cell {number}", names))
            yield cell, list(_outputs(printed.getvalue(), value, number))


async def _run_cell(source: str, label: str, names: dict[str, Any]) -> object:
    tree = ast.parse(source, label)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    await _run_code(compile(tree, label, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if not isinstance(last, ast.Expr):
        return None
    asked = ast.Expression(last.value)
    return await _run_code(compile(asked, label, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)


async def _run_code(code: CodeType, names: dict[str, Any]) -> object:
    value = eval(code, names)
    return await value if code.co_flags & inspect.CO_COROUTINE else value


def _outputs(printed: str, value: object, number: int) -> Iterator[Cell]:
    if printed:
        yield {"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)}
    if value is not None:
        yield {
            "data": {"text/plain": repr(value).splitlines(keepends=True)},
            "execution_count": number,
            "metadata": {},
            "output_type": "execute_result",
        }


def main() -> None:
    path = Path(sys.argv[1])
    notebook = json.loads(path.read_text())
    for number, (cell, outputs) in enumerate(run_notebook(notebook), 1):
        cell["outputs"], cell["execution_count"] = outputs, number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
