"""Compilers' messages together with the lines of source that they speak of."""

from __future__ import annotations

import re

# "file.cl:4:26: error: ...", as Clang has it; "error: file.cl:4:26: ...", as PoCL; "x.cl(4): error"
_PLACES = (
    re.compile(r"(\d+):(\d+): (?:fatal )?error"),
    re.compile(r"error: \S+:(\d+):(\d+):"),
    re.compile(r"\((\d+)(?:,(\d+))?\): error"),
)
_SHOWN = 8


def with_source(log: str, source: str) -> str:
    """The log, then each place in the source (from 1) that it calls an error, marked."""
    lines = source.splitlines()
    shown: list[str] = []
    seen: set[int] = set()
    for text in log.splitlines():
        found = next(filter(None, (place.search(text) for place in _PLACES)), None)
        if found is None:
            continue
        row, column = int(found[1]), int(found[2] or 0)
        if row in seen or not 1 <= row <= len(lines) or len(seen) >= _SHOWN:
            continue
        seen.add(row)
        head = f"{row:6} | "
        shown.append(head + lines[row - 1])
        if column:
            shown.append(" " * (len(head) + column - 1) + "^")
    return "\n".join([log.strip(), *(["The source has:", *shown] if shown else [])])
