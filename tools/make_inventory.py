"""Write docs/vocabulary.md from the inventory: `python -m tools.make_inventory` (`--check` only
says whether it is stale).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tilewright.vocabulary import Entry, inventory
from tilewright.vocabulary.entries import MARKS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "vocabulary.md"
HEAD = """\
# Vocabulary

What became of the names of TVM v0.18's public Python interface: *same* (signature, defaults and
result), *differs* (and how), *absent* (why, and what to use instead). `import tilewright.as_tvm`
makes `import tvm` mean tilewright, and `tilewright migrate PATH` says which of these names a code
base uses: see [Coming from TVM](coming-from-tvm.md).

Names of vendors' libraries and of devices (`topi.cuda.dense_cublas`, `topi.adreno.conv2d_nchwc`,
...) are the operators under the signatures that they have there: what is computed is the same, by
kernels of our own under a default schedule.

This page is made from `src/tilewright/vocabulary/` by `python -m tools.make_inventory`; a test
resolves every name that is said to be there.
"""


def module_of(entry: Entry) -> str:
    """The module or class that a name belongs to: all but its last part."""
    return entry.name.rpartition(".")[0] if not entry.is_module else "whole modules"


def room_of(module: str) -> str:
    """The heading under which a module's names stand: its first part, or two under topi."""
    parts = module.split(".")
    if module == "whole modules" or not module:
        return module or "tvm"
    deep = parts[0] in ("topi", "contrib", "target") and len(parts) > 1 and parts[1].islower()
    return ".".join(["tvm", *parts[: 2 if deep else 1]])


def cell(text: str) -> str:
    """Text that may stand in a table."""
    return text.replace("|", "\\|")


def counts(entries: Iterable[Entry]) -> list[str]:
    """How many entries there are of each mark, and of all."""
    found = Counter(e.mark for e in entries)
    return [str(found[m]) for m in MARKS] + [str(found.total())]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of Markdown."""
    return [
        f"| {' | '.join(head)} |",
        f"|{' --- |' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def page(entries: Iterable[Entry]) -> str:
    """The text of the page."""
    rooms: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda e: e.name):
        rooms.setdefault(room_of(module_of(entry)), []).append(entry)
    every = [e for room in rooms.values() for e in room]
    rows = [[f"[{name}](#{anchor(name)})", *counts(found)] for name, found in sorted(rooms.items())]
    lines = [HEAD, *table(["module", *MARKS, "all"], [*rows, ["all", *counts(every)]])]
    for name, found in sorted(rooms.items()):
        lines += ["", f"## {name}", ""]
        shown = [[f"`{e.name}`", e.mark, cell(e.note)] for e in found]
        lines += table(["name", "", "how, or why and what instead"], shown)
    return "\n".join(lines) + "\n"


def anchor(heading: str) -> str:
    """The anchor that mkdocs gives a heading."""
    return heading.lower().replace(".", "").replace(" ", "-")


def main() -> int:
    """Write the page, or say that it is stale."""
    text = page(inventory().values())
    stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text
    if "--check" in sys.argv[1:]:
        print(f"stale: {PAGE}" if stale else "up to date")
        return int(stale)
    if stale:
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
