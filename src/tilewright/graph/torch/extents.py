"""Extents that PyTorch keeps symbolic, as sizes of networks (graph/sizes.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ...base.errors import ImportModelError
from ..sizes import Size, Symbols, larger, smaller

_FUNCTIONS = {
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "ModularIndexing": lambda a, b, c: a // b % c,
    "PowByNatural": lambda a, n: prod([a] * int(n)),
    "Pow": lambda a, n: prod([a] * int(n)),
}
"""What PyTorch's expressions are made of, besides sums and products."""


class Extents:
    """The symbols of one graph. `inputs`: its placeholders, `args`: what they are at first, which
    is what is likely."""

    def __init__(self, inputs: Sequence[Any], args: Sequence[Any]) -> None:
        self.symbols = Symbols()
        self.places: dict[str, tuple[int, int | None]] = {}
        for k, node in enumerate(inputs):
            meta = node.meta.get("val")
            for axis, extent in enumerate(getattr(meta, "shape", ())):
                self._place(extent, (k, axis))
            self._place(meta, (k, None))
        for name, n in self.bound(args).items():
            self.symbols.size(name, n)

    def _place(self, extent: Any, place: tuple[int, int | None]) -> None:
        """Note where the value of a symbol is found: a number is found fastest."""
        expr = getattr(getattr(extent, "node", None), "expr", None)
        if expr is not None and getattr(expr, "is_Symbol", False):
            if place[1] is None or str(expr) not in self.places:
                self.places[str(expr)] = place

    def bound(self, args: Sequence[Any]) -> dict[str, int]:
        """The values of the symbols for arguments of the graph."""
        return {
            name: int(args[k] if axis is None else args[k].shape[axis])
            for name, (k, axis) in self.places.items()
        }

    def of(self, extent: Any) -> Any:
        """An extent as a number or a Size; ImportModelError where it is neither."""
        expr = getattr(getattr(extent, "node", None), "expr", None)
        return int(extent) if expr is None else self._of_expr(expr)

    def _of_expr(self, expr: Any) -> Any:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            if str(expr) not in self.symbols.likely:
                raise ImportModelError(f"nothing says before it runs what {expr} is")
            return Size(self.symbols, {(str(expr),): 1})
        args = [self._of_expr(a) for a in expr.args]
        kind = expr.func.__name__
        if kind == "Add":
            return sum(args[1:], args[0])
        if kind == "Mul":
            return prod(args)
        if kind in ("Max", "Min"):
            found = args[0]
            for a in args[1:]:
                found = larger(found, a) if kind == "Max" else smaller(found, a)
            return found
        if kind not in _FUNCTIONS:
            raise ImportModelError(f"the extent {expr} is not supported")
        return _FUNCTIONS[kind](*args)


def fixed(extent: Any) -> Any:
    """An extent of a graph without symbols."""
    return int(extent)


def at_sizes(value: Any, sizes: Mapping[str, int]) -> Any:
    """A number that a graph computes of sizes."""
    from ...rt.signature import dim_value

    return dim_value(value.dim, sizes) if isinstance(value, Size) else value
