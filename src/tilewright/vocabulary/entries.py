"""Reading the files of the inventory, and finding a name in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MARKS = ("same", "differs", "absent")
HOME = Path(__file__).resolve().parent


class InventoryError(ValueError):
    """A line of the inventory is not of its format."""


@dataclass(frozen=True)
class Entry:
    """One name of TVM's: what became of it here.

    name: without the leading ``tvm.``; mark: of MARKS; note: how it differs, or why it is absent
    and what to use instead, empty where it is the same; place: file and line of the inventory.
    """

    name: str
    mark: str
    note: str
    place: str

    @property
    def is_module(self) -> bool:
        """Whether the entry stands for a module and all that is below it."""
        return self.name.endswith(".*")


def read_entries(lines: Iterable[str], file: str) -> list[Entry]:
    """The entries of a file, in its order; InventoryError where a line is not of the format."""
    found = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, mark, note = [*(part.strip() for part in text.split("|", 2)), "", ""][:3]
        place = f"{file}:{number}"
        if mark not in MARKS:
            raise InventoryError(
                f"{place}: expected 'NAME | same', 'NAME | differs | how' or "
                f"'NAME | absent | why', got {text!r}"
            )
        if bool(note) != (mark != "same"):
            want = "nothing follows 'same'" if note else f"'{mark}' needs a reason after it"
            raise InventoryError(f"{place}: {want}: {text!r}")
        found.append(Entry(name, mark, note, place))
    return found


def files() -> list[Path]:
    """The files of the inventory."""
    return sorted(HOME.glob("*.txt"))


@cache
def inventory() -> Mapping[str, Entry]:
    """All entries, by name. Where two files hold a name, the first file's entry counts."""
    found: dict[str, Entry] = {}
    for path in files():
        for entry in read_entries(path.read_text(encoding="utf-8").splitlines(), path.name):
            found.setdefault(entry.name, entry)
    return found


def find(name: str) -> Entry | None:
    """The entry of a name such as ``te.compute`` (or ``tvm.te.compute``): its own, or that of the
    module above it that is absent whole; None where the inventory does not know the name."""
    known = inventory()
    name = name.removeprefix("tvm.")
    if name in known:
        return known[name]
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        whole = known.get(".".join([*parts[:n], "*"]))
        if whole is not None:
            return whole
    return None


def refusal(name: str) -> str:
    """A sentence that says why a name is absent and what to use instead; empty where the inventory
    does not say that it is."""
    entry = find(name)
    if entry is None or entry.mark != "absent":
        return ""
    return f"tvm.{name.removeprefix('tvm.')} is not in tilewright: {entry.note}"
