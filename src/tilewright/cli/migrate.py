"""`tilewright migrate`: which names of TVM's a code base uses, and what became of them here."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import UsageError
from ..vocabulary.scan import UnreadableError, Use, scan_file
from ..vocabulary.verdict import VERDICTS, Verdict, judge

SUFFIXES = (".py", ".ipynb")
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})


def migrate(paths: Sequence[str], as_json: bool, width: int | None = None) -> int:
    """Run the command; 1 where something absent is used, or a file cannot be read. `width`: of the
    text, the terminal's, from 60 to 100, if None."""
    uses: list[Use] = []
    unreadable: list[str] = []
    users = files = 0
    for path in _files(paths):
        files += 1
        try:
            found = scan_file(path)
        except (UnreadableError, OSError) as error:
            text = str(error)
            unreadable.append(text if str(path) in text else f"{path}: {text}")
            continue
        users += bool(found)
        uses += found
    verdicts = judge(uses)
    counts = Counter(v.mark for v in verdicts)
    report = {
        "files": files,
        "using_tvm": users,
        "counts": {mark: counts[mark] for mark in VERDICTS},
        "names": [_row(v) for v in verdicts],
        "unreadable": unreadable,
    }
    if as_json:
        print(json.dumps(report))
    else:
        print(_text(report, width or max(60, min(100, shutil.get_terminal_size().columns))))
    return int(bool(counts["absent"] or unreadable))


def _row(verdict: Verdict) -> dict[str, Any]:
    name = f"tvm.{verdict.name}" if verdict.name else "tvm"
    return {
        "name": name,
        "mark": verdict.mark,
        "note": verdict.note,
        "places": verdict.places,
    }


_TITLES = {
    "absent": "ABSENT",
    "differs": "DIFFERS",
    "unlisted": "THERE, BUT NOT COMPARED (not in the inventory)",
    "same": "SAME",
}


def _text(report: Mapping[str, Any], width: int) -> str:
    """The report for people: what needs work first, each name with why and where."""
    lines = [f"cannot be read: {text}" for text in report["unreadable"]]
    for mark in VERDICTS:
        rows = [row for row in report["names"] if row["mark"] == mark]
        if not rows:
            continue
        lines += ["", f"{_TITLES[mark]}: {_count(len(rows), 'name')}"]
        if mark == "same":
            lines += _wrapped(_names(rows), width, "  ")
            continue
        for note in dict.fromkeys(row["note"] for row in rows):
            group = [row for row in rows if row["note"] == note]
            lines += _wrapped(_names(group), width, "  ")
            lines += _wrapped(note, width, "    ")
            lines += _where(group) if mark != "unlisted" else []
    counts = report["counts"]
    said = ", ".join(f"{counts[mark]} {mark}" for mark in reversed(VERDICTS) if counts[mark])
    users = f"tvm is used in {report['using_tvm']} of {_count(report['files'], 'file')}"
    lines += ["", f"{users}: {said or 'no names'}"]
    if report["using_tvm"]:
        lines.append("to run a script as it is: python -m tilewright.as_tvm SCRIPT")
    return "\n".join(lines).strip("\n")


def _names(rows: Sequence[Mapping[str, Any]]) -> str:
    """Names, each with the number of its uses."""
    return ", ".join(f"{row['name']} ({len(row['places'])})" for row in rows)


def _where(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The places of names, one a line; the name behind each where they are several."""
    named = len(rows) > 1
    return [
        f"      {place}" + (f"  {row['name']}" if named else "")
        for row in rows
        for place in row["places"]
    ]


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _files(paths: Sequence[str]) -> Iterator[Path]:
    """Python files and notebooks at these places, each once, in order; UsageError where there is
    no such place."""
    seen: set[Path] = set()
    for path in map(Path, paths):
        if not path.exists():
            raise UsageError(f"there is no file or folder {path}")
        for file in _below(path) if path.is_dir() else [path]:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _below(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED
            and not Path(root, name, "pyvenv.cfg").exists()
        )
        yield from (Path(root, name) for name in sorted(names) if name.endswith(SUFFIXES))
