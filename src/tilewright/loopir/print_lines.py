"""The printer's text with the line on which each statement begins, for maps from code to loops."""

from __future__ import annotations

from typing import Any

from ..base.deep import deep_call
from .module import IRModule
from .printer import _TIR_HEAD, Printer
from .stmt import For, PrimFunc, SeqStmt


class LinePrinter(Printer):
    """Prints as Printer does, and remembers where statements begin.

    `begins`: each statement with the place in `out` behind which it stands and the lines between.
    """

    recursive = ("block",)

    def __init__(self) -> None:
        super().__init__({})
        self.begins: list[tuple[Any, int, int]] = []

    def block(self, s: Any, last: bool) -> None:
        """Print a statement; `last` says that its block ends with it."""
        if not isinstance(s, SeqStmt):
            above = len(self.places.get(id(s), ()))  # declarations, one a line
            begin = (len(self.out), above)
            loops = self._grid(s) if isinstance(s, For) else (s,)
            self.begins.extend((loop, *begin) for loop in loops)
        super().block(s, last)

    def lines(self) -> dict[int, int]:
        """The line, from 1, of each statement by its identity; of one that stands at several places
        the first."""
        ends = [0]
        for token in self.out:
            ends.append(ends[-1] + token.count("\n"))
        found: dict[int, int] = {}
        for s, at, above in self.begins:
            found.setdefault(id(s), ends[at] + above + 1)
        return found


def script_with_lines(node: PrimFunc | IRModule) -> tuple[str, dict[int, int]]:
    """The text of a function or module, as `str` gives it, and the line (from 1) on which each of
    its statements begins, by `id(statement)`, for as long as `node` lives."""
    return deep_call(_script, node)


def _script(node: PrimFunc | IRModule) -> tuple[str, dict[int, int]]:
    printer = LinePrinter()
    if isinstance(node, IRModule):
        printer.module(node)
    else:
        printer.out.append(_TIR_HEAD + "\n")
        printer.function(node, node.name)
    return "".join(printer.out).rstrip("\n"), printer.lines()
