"""Bring the listings in docs/ up to date, or say which ones are not.

    python -m tools.make_listings [--check]

In a document, a fenced ``python`` block directly followed by a fenced ``text`` block is a program
and what it prints. The blocks of one document run in order in one namespace, which begins with
``tvm``, ``te``, ``np`` and the functions of this module that are in HELPERS.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import io
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "tilewright"
PAIR = re.compile(
    r"```python\n(?P<code>(?:(?!```).)*)```\n\n```text\n(?:(?!```).)*```\n", re.DOTALL
)
NOISE = ("T.func_attr", "T.match_buffer", "# ", "@", "class ", "def ")
DECLARATION = re.compile(r"\w+ = T\.(Buffer\(.*data=|int32\(\)|int64\(\))")


def loops(title: str, schedule: Any, *args: Any) -> None:
    """Print the loop nest that ``schedule`` lowers to, without signature and buffer aliases.

    Common subexpressions stay as they are: naming them makes short listings longer.
    """
    import tilewright as tvm

    with tvm.transform.PassContext(config={"tir.disable_cse_tir": True}):
        lines = str(tvm.lower(schedule, list(args), simple_mode=True)).splitlines()
    body = [
        line
        for line in lines
        if line.strip()
        and not line.strip().startswith(NOISE)
        and not DECLARATION.match(re.sub(r"^(\w+, )+", "", line.strip()))
    ]
    indent = min(len(line) - len(line.lstrip()) for line in body)
    print(f"# {title}")
    for line in body:
        print(re.sub(r"\b([A-Za-z]\w*?)_\d+\[", r"\1[", line[indent:].rstrip()))


def files(*rooms: str) -> None:
    """Print the files of some rooms of the package with the first sentence of their docstrings."""
    for room in rooms:
        paths = SOURCE.glob("*.py") if room == "." else (SOURCE / room).rglob("*.py")
        for path in sorted(paths):
            text = ast.get_docstring(ast.parse(path.read_text()))
            if text:
                _entry(str(path.relative_to(SOURCE)), text)


def passes(*functions: Callable[..., Any]) -> None:
    """Print the names of passes with the first sentence of their docstrings."""
    for function in functions:
        _entry(function.__name__, inspect.getdoc(function) or "")


def migrated(name: str, source: str) -> None:
    """Print what `tilewright migrate` says of a program."""
    from tilewright.cli.migrate import migrate

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_text(source)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            migrate([str(Path(folder, name))], as_json=False, width=100)
    print(out.getvalue().replace(f"{folder}{os.sep}", ""), end="")


def _entry(name: str, doc: str) -> None:
    """A name and the first sentence of a docstring, in two columns."""
    sentence = re.split(r"(?<=\.)\s", " ".join(doc.split("\n\n")[0].split()))[0]
    print(textwrap.fill(f"{name:<33} {sentence}", 100, subsequent_indent=" " * 34))


HELPERS = {"loops": loops, "files": files, "migrated": migrated, "passes": passes}


def run_document(text: str) -> str:
    """The document with the output of each of its programs in place."""
    import tilewright as tvm
    from tilewright import te

    namespace: dict[str, Any] = {"tvm": tvm, "te": te, "np": np, **HELPERS}
    before = Path.cwd()

    def run(match: re.Match[str]) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(match["code"], "<listing>", "exec"), namespace)
        return f"```python\n{match['code']}```\n\n```text\n{out.getvalue().rstrip()}\n```\n"

    with tempfile.TemporaryDirectory() as folder:  # of files that programs write
        os.chdir(folder)
        try:
            return PAIR.sub(run, text)
        finally:
            os.chdir(before)


def main(argv: list[str] | None = None) -> int:
    """Rewrite the documents; with --check only name those that would change, and exit with 1."""
    parser = argparse.ArgumentParser(description="Bring the listings in docs/ up to date.")
    parser.add_argument("--check", action="store_true", help="change nothing")
    args = parser.parse_args(argv)
    stale = []
    for path in sorted(DOCS.glob("*.md")):
        old = path.read_text()
        new = run_document(old)
        if new != old:
            stale.append(path)
            if not args.check:
                path.write_text(new)
    for path in stale:
        print(f"{path.relative_to(DOCS.parent)}: {'stale' if args.check else 'updated'}")
    return 1 if stale and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
