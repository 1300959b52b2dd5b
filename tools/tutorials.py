"""Tutorials: programs in py:percent form, as notebooks and as pages with what running them shows.

    python -m tools.tutorials [--run] [--out FOLDER] [TUTORIAL ...]

A tutorial is a file docs/tutorials/NN_name.py whose cells begin with `# %%` (code) or
`# %% [markdown]`, as jupytext writes them, so that Jupyter, VS Code and others open it as a
notebook. A cell with `tags=["solution"]` is folded away in the page. Beside each page stands the
notebook (.ipynb), with the same outputs. Pages that were rendered are kept in build/tutorials, by
the text of the tutorial and of the compiler.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import html
import io
import json
import linecache
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "tutorials"
KEPT = ROOT / "build" / "tutorials"
MARK = re.compile(r"^# %%(?P<kind> \[markdown\])?(?P<rest>.*)$")
PICTURE, TEXT, MARKUP = "image/svg+xml", "text/plain", "text/html"


@dataclass
class Cell:
    """A cell: Markdown or code, where its text begins in the file, and what it showed."""

    markdown: bool
    source: str
    line: int
    solution: bool = False
    outputs: list[tuple[str, str]] = field(default_factory=list)


def tutorials() -> list[Path]:
    """The tutorials, in their order."""
    return sorted(FOLDER.glob("[0-9][0-9]_*.py"))


def cells(text: str) -> list[Cell]:
    """The cells of a file in py:percent form; what stands above the first is left out."""
    found: list[Cell] = []
    block: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        mark = MARK.match(line)
        if mark:
            block = []
            found.append(Cell(bool(mark["kind"]), "", number, "solution" in mark["rest"]))
        else:
            block.append(line)
        if found:
            found[-1].source = "\n".join(block)
    for cell in found:
        if cell.markdown:
            lines = cell.source.splitlines()
            cell.source = "\n".join(re.sub(r"^# ?", "", line) for line in lines)
        cell.line += len(cell.source) - len(cell.source.lstrip("\n")) + 1
        cell.source = cell.source.strip("\n")
    return [cell for cell in found if cell.source]


def title(text: str) -> str:
    """The first heading of a tutorial."""
    return next(line[4:] for line in text.splitlines() if line.startswith("# # "))


def execute(path: Path) -> list[Cell]:
    """Run a tutorial in this process; its cells with what they printed and displayed.

    As in a notebook, a last line that is an expression is displayed, unless it is None.
    """
    text = path.read_text()
    found = cells(text)
    linecache.cache[str(path)] = (len(text), None, text.splitlines(True), str(path))
    sys.path.insert(0, str(path.parent))
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    for cell in found:
        if not cell.markdown:
            _execute(cell, str(path), namespace)
    return found


def _execute(cell: Cell, name: str, namespace: dict[str, Any]) -> None:
    tree = ast.parse(cell.source)
    ast.increment_lineno(tree, cell.line - 1)
    shown = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(tree, name, "exec"), namespace)
        value = None
        if isinstance(shown, ast.Expr):
            value = eval(compile(ast.Expression(shown.value), name, "eval"), namespace)
    if out.getvalue().strip():
        cell.outputs.append((TEXT, out.getvalue().rstrip()))
    if value is not None:
        cell.outputs.append(_display(value))


def _display(value: Any) -> tuple[str, str]:
    """A value as a notebook shows it: as a picture, as markup, or as text."""
    for kind, method in ((PICTURE, "_repr_svg_"), (MARKUP, "_repr_html_")):
        shown = getattr(value, method, None)
        if shown is not None:
            return kind, str(shown()).replace("\n", "&#10;")  # one line, or Markdown may end it
    return TEXT, repr(value)


def page(path: Path, found: Iterable[Cell], machine: str) -> str:
    """The tutorial as Markdown. machine: where the outputs come from; "" where it did not run."""
    blocks = []
    for cell in found:
        block = cell.source if cell.markdown else _code(cell)
        if cell.solution:
            block = '??? success "Solution"\n\n' + textwrap.indent(block, "    ")
        blocks.append(block)
    origin = (
        f"The outputs on this page come from a run on {machine}."
        if machine
        else "This page was built without running the tutorial, so it has no outputs."
    )
    downloads = f"Download: [program]({path.name}){{ download }}"
    if machine:
        downloads += f", [notebook]({path.stem}.ipynb){{ download }}"
    downloads += "; [show.py](show.py){ download } has to lie beside it"
    head, *rest = blocks
    heading, _, first = head.partition("\n")
    body = "\n\n".join([first.strip("\n"), *rest])
    return f"{heading}\n\n{body.lstrip()}\n\n---\n\n{origin} {downloads}.\n"


def _code(cell: Cell) -> str:
    blocks = [f"```python\n{cell.source}\n```"]
    for kind, shown in cell.outputs:
        if kind == TEXT:
            blocks.append(f"```text\n{shown}\n```")
        else:
            blocks.append(f"<figure>\n{shown}\n</figure>")
    return "\n\n".join(blocks)


def notebook(found: Iterable[Cell]) -> str:
    """The cells as a notebook in nbformat 4.5."""
    made: list[dict[str, Any]] = []
    for number, cell in enumerate(found):
        common: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": cell.source}
        if cell.markdown:
            made.append({"cell_type": "markdown", **common})
            continue
        outputs: list[dict[str, Any]] = [
            {
                "output_type": "display_data",
                "metadata": {},
                "data": {kind: shown, TEXT: html.unescape(re.sub(r"<[^>]*>", " ", shown)).strip()},
            }
            if kind != TEXT
            else {"output_type": "stream", "name": "stdout", "text": shown + "\n"}
            for kind, shown in cell.outputs
        ]
        made.append({"cell_type": "code", "execution_count": None, "outputs": outputs, **common})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1) + "\n"


def machine() -> str:
    """The processor and how many cores of it this process may use."""
    model = "an unknown processor"
    with contextlib.suppress(OSError):
        names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} core{'s' if cores != 1 else ''}"


def rendered(path: Path, run: bool = True) -> tuple[str, str]:
    """The page and the notebook of a tutorial ("" if it is not to be run), from what is kept."""
    if not run:
        return page(path, cells(path.read_text()), ""), ""
    from tilewright.base.fingerprint import compiler_fingerprint

    texts = [path.read_text(), (FOLDER / "show.py").read_text(), Path(__file__).read_text()]
    key = sha256("\0".join([*texts, compiler_fingerprint()]).encode()).hexdigest()[:16]
    kept = KEPT / f"{path.stem}-{key}"
    if not (kept / "index.md").is_file():
        command = [sys.executable, "-m", "tools.tutorials", "--run", "--out", str(kept), str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{path.name} fails:\n{done.stderr}")
    return (kept / "index.md").read_text(), (kept / f"{path.stem}.ipynb").read_text()


def main(argv: list[str] | None = None) -> int:
    """Write pages and notebooks of tutorials to a folder."""
    parser = argparse.ArgumentParser(description="Render tutorials as pages and notebooks.")
    parser.add_argument("--run", action="store_true", help="run them, for their outputs")
    parser.add_argument("--out", type=Path, default=KEPT, help="folder (default: %(default)s)")
    parser.add_argument("tutorial", nargs="*", type=Path, help="files (default: all)")
    args = parser.parse_args(argv)
    for path in args.tutorial or tutorials():
        found = execute(path) if args.run else cells(path.read_text())
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{path.stem}.ipynb").write_text(notebook(found))
        (args.out / "index.md").write_text(page(path, found, machine() if args.run else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
