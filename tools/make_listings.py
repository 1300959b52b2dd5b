"""Bring the listings in docs/ up to date, or say which ones are not.

    python -m tools.make_listings [--check]

In a document, a fenced ``python`` block directly followed by a fenced ``text`` block is a program
and what it prints. The blocks of one document run in order in one namespace, which begins with
``tvm``, ``te`` and ``np``; whatever else they use they define, so that readers can paste them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAIR = re.compile(
    r"```python\n(?P<code>(?:(?!```).)*)```\n\n```text\n(?:(?!```).)*```\n", re.DOTALL
)


def run_document(text: str) -> str:
    """The document with the output of each of its programs in place."""
    import tilewright as tvm
    from tilewright import te

    namespace: dict[str, Any] = {"tvm": tvm, "te": te, "np": np}
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
