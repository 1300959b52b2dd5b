"""What becomes of the names that programs use: by the inventory, or else by looking for them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module

from .entries import MARKS, Entry, find, inventory
from .scan import Use

UNLISTED = "unlisted"
VERDICTS = ("absent", "differs", UNLISTED, "same")
_PARTS = {
    "te", "tir", "topi", "arith", "autotvm", "auto_scheduler", "script", "contrib", "testing", "rpc"
}  # fmt: skip # whose names are no other part's: the rest (nd, runtime, ir, target) share classes
_OPERATIONS = ("ComputeOp", "PlaceholderOp", "ScanOp", "ExternOp", "TensorComputeOp")
_UNKNOWN = (
    "tilewright has no such name, and the inventory does not know it; if TVM v0.18 has it, "
    "docs/vocabulary.md lacks it"
)
_THERE = "it is there under that name, but the inventory does not say how it compares"


@dataclass
class Verdict:
    """A name that is used: what became of it (of VERDICTS), why or how, and where it is used."""

    name: str
    mark: str
    note: str
    places: list[str] = field(default_factory=list)


def judge(uses: Iterable[Use]) -> list[Verdict]:
    """A verdict for each name that is used, what is absent first, then by name."""
    found: dict[str, Verdict] = {}
    for use in uses:
        if use.name not in found:
            found[use.name] = verdict(use.name)
        found[use.name].places.append(use.place)
    return sorted(found.values(), key=lambda v: (VERDICTS.index(v.mark), v.name))


def verdict(name: str) -> Verdict:
    """What became of one name, without the leading ``tvm.``."""
    if not name:
        return Verdict(name, "same", "")
    entry = find(name) or _above(name) or _by_other_path(name) or _by_subclass(name)
    entry = entry or _as_field(name)
    if entry is not None:
        return Verdict(name, entry.mark, entry.note)
    if is_there(name):
        is_module = _module(name) is not None
        return Verdict(name, "same" if is_module else UNLISTED, "" if is_module else _THERE)
    return Verdict(name, "absent", _UNKNOWN)


@cache
def _tails() -> dict[str, list[Entry]]:
    """Entries by their last part, of a class's methods by the last two."""
    found: dict[str, list[Entry]] = {}
    for entry in inventory().values():
        if not entry.is_module:
            found.setdefault(_tail(entry.name), []).append(entry)
    return found


def _tail(name: str) -> str:
    parts = name.split(".")
    return ".".join(parts[-2:] if len(parts) > 1 and parts[-2][:1].isupper() else parts[-1:])


def _by_other_path(name: str) -> Entry | None:
    """The entry of the same function or method in the same part of TVM, under another module:
    ``te.schedule.create_schedule`` is ``te.create_schedule``."""
    near = [e for e in _tails().get(_tail(name), ()) if _same_part(e.name, name)]
    return max(near, key=lambda e: MARKS.index(e.mark), default=None)


def _by_subclass(name: str) -> Entry | None:
    """The entry of a method of an operation, under the classes that say which kind it is."""
    home, _, last = name.rpartition(".")
    if home != "te.Operation":
        return None
    return next(filter(None, (find(f"te.{kind}.{last}") for kind in _OPERATIONS)), None)


def _as_field(name: str) -> Entry | None:
    """The entry of a class that is the same, for what its objects have under a name that is there:
    fields are of the class, and have no line of their own."""
    home, _, last = name.rpartition(".")
    owner = find(home) or _by_other_path(home) if home.rpartition(".")[2][:1].isupper() else None
    listed = owner is not None and owner.mark == "same" and not last.startswith("_")
    return owner if listed and is_there(name) else None


def _same_part(listed: str, name: str) -> bool:
    one, other = listed.split("."), name.split(".")
    if one[-1][:1].islower() and "." not in _tail(name):  # te has tir's functions under its name
        one, other = ([*("tir" if p == "te" else p for p in path)] for path in (one, other))
    if (one[0] in _PARTS or other[0] in _PARTS) and one[0] != other[0]:
        return False
    if "." in _tail(name):  # methods: their class says enough
        return True
    short, long = sorted((one, other), key=len)
    return set(short[:-1]) <= set(long[:-1])


def _above(name: str) -> Entry | None:
    """The entry of what an attribute belongs to, where that is absent."""
    parts = name.split(".")
    for n in range(len(parts) - 1, 0, -1):
        entry = inventory().get(".".join(parts[:n]))
        if entry is not None and entry.mark == "absent":
            return entry
    return None


def is_there(name: str) -> bool:
    """Whether ``tilewright.NAME`` is a module, or an attribute of one or of a class in it."""
    parts = name.split(".")
    for n in range(len(parts), -1, -1):
        module = _module(".".join(parts[:n]))
        if module is not None:
            return _has(module, parts[n:])
    return False


def _has(owner: object, parts: list[str]) -> bool:
    value = owner
    for n, part in enumerate(parts):
        try:
            value = getattr(value, part)
        except (AttributeError, ImportError):
            last = n == len(parts) - 1
            return last and inspect.isclass(value) and has_field(value, part)
    return True


def has_field(owner: type, name: str) -> bool:
    """Whether instances of a class have an attribute that no class holds: one that is annotated,
    or set when they are made."""
    for cls in owner.__mro__:
        init = vars(cls).get("__init__")
        if name in inspect.get_annotations(cls):
            return True
        if inspect.isfunction(init) and name in init.__code__.co_names:
            return True
    return False


@cache
def _module(name: str) -> object | None:
    try:
        return import_module(f"tilewright.{name}" if name else "tilewright")
    except ImportError:
        return None
