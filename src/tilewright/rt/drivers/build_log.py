"""Compilers' messages together with the lines of source that they speak of."""

from __future__ import annotations

import re

_PLACE = re.compile(
    r"(?:^|[^\w])[^\s:()]*[:(](\d+)(?:[:,](\d+))?[):]?\s*:?\s*(?=.*\berror\b)|"
    r"[^\s:()]+:(\d+):(\d+):"
)
_SHOWN = 8


def with_source(log: str, source: str) -> str:
    """The log, then each place in the source (from 1) that it calls an error, marked."""
    lines = source.splitlines()
    shown: list[str] = []
    seen: set[int] = set()
    for text in log.splitlines():
        if "error" not in text:
            continue
        found = _PLACE.search(text)
        if found is None:
            continue
        row = int(found.group(1) or found.group(3))
        column = int(found.group(2) or found.group(4) or 0)
        if row in seen or not 1 <= row <= len(lines) or len(seen) >= _SHOWN:
            continue
        seen.add(row)
        head = f"{row:6} | "
        shown.append(head + lines[row - 1])
        if column:
            shown.append(" " * (len(head) + column - 1) + "^")
    return "\n".join([log.strip(), *(["The source has:", *shown] if shown else [])])
