"""Which errors the functions, classes and methods of the reference raise for what they were given,
and which of them their docstrings do not name.

`python -m tools.api_errors` counts them by module; with -v it lists what is not said.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tools.api_pages import PACKAGE, entries, modules
from tools.raise_reader import Raised, makers, raised_by

DEPTH = 2
"""Calls that an argument is followed through."""


@dataclass(frozen=True)
class Public:
    """A function, method or class of the reference: its place, and the calls it stands for."""

    path: str
    value: Any
    calls: tuple[Any, ...]
    owner: type | None = None


def public() -> Iterator[Public]:
    """What the reference describes and can be called: functions, classes, and their methods."""
    seen: set[int] = set()
    kept = []  # so that identities stay theirs
    for module in modules():
        for entry in entries(module):
            value = entry.value
            if id(value) in seen or not callable(value):
                continue
            seen.add(id(value))
            kept.append(value)
            if not isinstance(value, type):
                if isinstance(value, FunctionType):
                    yield Public(entry.path, value, (value,))
            elif value.__module__.startswith(PACKAGE):
                yield Public(entry.path, value, tuple(makers(value)), value)
                for name, own in vars(value).items():
                    call = getattr(own, "__func__", own)
                    if isinstance(call, FunctionType) and not name.startswith("_"):
                        path = f"{entry.path}.{name}"
                        yield Public(path, getattr(value, name), (call,), value)


def missing(item: Public) -> dict[type[BaseException], list[Raised]]:
    """The errors that an item raises and its docstring names neither by class nor by a base."""
    text = inspect.getdoc(item.value) or ""
    named = set(re.findall(r"\b[A-Za-z]\w*", text))
    lacking: dict[type[BaseException], list[Raised]] = {}
    for raised in errors_of(item):
        bases = raised.error.__mro__[: -len(Exception.__mro__)]
        if not named & {base.__name__ for base in bases}:
            lacking.setdefault(raised.error, []).append(raised)
    return lacking


def strangers(item: Public) -> list[str]:
    """What the sentences on errors say of parameters that the item does not have: as where it took
    its docstring from a function that calls them by other names."""
    text = " ".join((inspect.getdoc(item.value) or "").split())
    try:
        known = set(inspect.signature(item.value).parameters)
    except ValueError:
        return []
    sentences = " ".join(re.findall(r"\bRaises? .*?(?:\.(?= |$))", text))
    said = re.findall(r"\bwhere ((?:(?:one of )?`[A-Za-z_]\w*`(?:, | or | and )?)+)", sentences)
    return [name for names in said for name in re.findall(r"`(\w+)`", names) if name not in known]


def errors_of(item: Public) -> list[Raised]:
    """What an item raises for its own arguments, each place once."""
    found: dict[Raised, None] = {}
    for call in item.calls:
        wrapped = getattr(call, "__wrapped__", None)
        for raised in raised_by(call, item.owner, 0 if wrapped else DEPTH):
            found[raised] = None
        while wrapped is not None:
            for raised in raised_by(wrapped, item.owner, DEPTH):
                found[raised] = None
            wrapped = getattr(wrapped, "__wrapped__", None)
    return list(found)


def main() -> None:
    """Print by module how many can be called, raise, and do not say so; with -v what."""
    counts: dict[str, list[int]] = {}
    for item in public():
        errors, lacking = errors_of(item), missing(item)
        inner = item.owner is not None and item.value is not item.owner
        count = counts.setdefault(item.path.rsplit(".", 2 if inner else 1)[0], [0, 0, 0])
        for k, of in enumerate((True, errors, lacking)):
            count[k] += bool(of)
        if "-v" in sys.argv:
            for error, places in lacking.items():
                for r in places:
                    print(item.path, error.__name__, f"{r.where}:{r.line}", r.guard, sep=" | ")
    counts["all"] = [sum(c[k] for c in counts.values()) for k in range(3)]
    for module, (callables, raising, silent) in counts.items():
        print(f"{module:50}{callables:6}{raising:6}{silent:6}")


if __name__ == "__main__":
    main()
