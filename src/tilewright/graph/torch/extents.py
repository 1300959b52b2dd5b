"""Extents that PyTorch keeps symbolic, as sizes of networks (graph/sizes.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from ...base.errors import ImportModelError
from ..sizes import Size, Symbols, larger, smaller
from .scaled import scaled

_FUNCTIONS: dict[str, Callable[..., Any]] = {
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
    is what is likely; without them, what PyTorch traced the graph with is, and sizes have the names
    of the inputs that give them."""

    def __init__(self, inputs: Sequence[Any], args: Sequence[Any] | None = None) -> None:
        self.symbols = Symbols()
        self.places: dict[str, tuple[int, int | None]] = {}
        self.names: dict[str, str] = {}
        self.traced: dict[str, int] = {}
        self.parts: dict[str, tuple[int, int]] = {}
        metas = [node.meta.get("val") for node in inputs]
        for place in (self._place, self._place_part):
            for k, meta in enumerate(metas):
                for axis, extent in enumerate(getattr(meta, "shape", ())):
                    place(extent, (k, axis))
                place(meta, (k, None))
        if args is None:
            for name, (k, at) in self.places.items():
                self.names[name] = inputs[k].name if at is None else f"{inputs[k].name}_{at}"
        likely = self.traced if args is None else self.bound(args)
        for name, size in likely.items():
            extent = self.symbols.size(self.names.get(name, name), size)
            times, more = self.parts.get(name, (1, 0))
            if times > 1:
                self.symbols.conditions[((extent - more) % times).dim, "==", True] = None

    def _place(self, extent: Any, place: tuple[int, int | None]) -> None:
        """Note where the value of a symbol is found: a number is found fastest."""
        expr = getattr(getattr(extent, "node", None), "expr", None)
        if not getattr(expr, "is_Symbol", False):
            return
        if place[1] is None or str(expr) not in self.places:
            self.places[str(expr)] = place
            if isinstance(extent.node.hint, int):
                self.traced[str(expr)] = extent.node.hint

    def _place_part(self, extent: Any, place: tuple[int, int | None]) -> None:
        """Note where a symbol that nowhere stands alone is found: an extent that is so many times
        it, and more. What stands for the symbol is the extent then (`parts`: times and more)."""
        expr = getattr(getattr(extent, "node", None), "expr", None)
        symbols = list(getattr(expr, "free_symbols", ()))
        if expr is None or len(symbols) != 1 or str(symbols[0]) in self.places:
            return
        times, more = expr.coeff(symbols[0], 1), expr.coeff(symbols[0], 0)
        whole = times.is_Integer and more.is_Integer and times > 0
        if not whole or expr != times * symbols[0] + more:
            return
        name = str(symbols[0])
        self.places[name] = place
        self.parts[name] = int(times), int(more)
        if isinstance(extent.node.hint, int):
            self.traced[name] = extent.node.hint

    def keep_to(self, ranges: Mapping[Any, Any]) -> None:
        """Let sizes be only what PyTorch says that they are: `ranges` by its symbols."""
        for symbol, values in ranges.items():
            if str(symbol) not in self.places:
                continue
            size = self._of_expr(symbol)
            least, most = values.lower, values.upper
            if least.is_Integer and least > 1:
                self.symbols.conditions[(size - int(least)).dim, "<", False] = None
            if most.is_Integer:
                self.symbols.conditions[(size - int(most)).dim, "<=", True] = None

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

    def _multiple(self, symbol: Any, count: int) -> Any:
        """So many times a symbol."""
        name = self.names.get(str(symbol), str(symbol))
        if name not in self.symbols.likely:
            raise ImportModelError(f"nothing says before it runs what {symbol} is: data does")
        times, more = self.parts.get(str(symbol), (1, 0))
        extent = Size(self.symbols, {(name,): 1}) - more
        return extent * (count // times) if count % times == 0 else extent // times * count

    def _rounded(self, expr: Any) -> Any:
        """An extent times a number, rounded down."""
        (product,) = expr.args
        numbers = [a for a in product.args if a.is_Number]
        floats = [a for a in product.args if a.func.__name__ == "ToFloat"]
        if product.func.__name__ != "Mul" or (len(numbers), len(floats)) != (1, 1):
            raise ImportModelError(f"the extent {expr} is not supported")
        return scaled(self._of_expr(floats[0].args[0]), float(numbers[0]))

    def _of_expr(self, expr: Any) -> Any:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            return self._multiple(expr, 1)
        kind = expr.func.__name__
        if kind == "Mul" and len(expr.args) == 2:
            number, symbol = expr.args  # in this order
            if number.is_Integer and symbol.is_Symbol:
                return self._multiple(symbol, int(number))
        if kind in ("TruncToInt", "FloorToInt"):
            return self._rounded(expr)
        args = [self._of_expr(a) for a in expr.args]
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
    """An extent of a graph without symbols; ImportModelError where data gives it."""
    expr = getattr(getattr(extent, "node", None), "expr", None)
    if expr is not None and not expr.is_Integer:
        raise ImportModelError(f"nothing says before it runs what {expr} is: data does")
    return int(extent)


def at_sizes(value: Any, sizes: Mapping[str, int]) -> Any:
    """A number that a graph computes of sizes."""
    from ...rt.signature import dim_value

    return dim_value(value.dim, sizes) if isinstance(value, Size) else value
