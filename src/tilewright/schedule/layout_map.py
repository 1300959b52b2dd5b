"""A change of layout: as data, which is what the trace keeps of the function given to
transform_layout (`LayoutMap`), and what follows from it for a shape (`Layout`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..arith import Analyzer, IntervalSet, eval_set, inverse_index_map
from ..arith.index_map import AXIS_SEPARATOR
from ..base.dtype import parse
from ..base.errors import ScheduleError, TilewrightError
from ..loopir.expr import Call, IntImm, PrimExpr, Var, const, convert
from ..loopir.iter import Range
from ..loopir.serial import load_json, save_json
from ..loopir.subst import substitute
from ..loopir.visit import free_vars
from .state import Illegal

UNKNOWN = 1 << 62  # bounds beyond come from sizes that are not known
_CONSTANT = re.compile(r"\bT\.(u?int\d+|float\d+|bool)\(([^()]*)\)")


def expr_text(e: PrimExpr) -> str:
    """An expression as Python code."""
    return _CONSTANT.sub(r'tvm.tir.const(\2, "\1")', str(e)).replace("T.", "tvm.tir.")


class LayoutMap:
    """The map as data: variables, one a dimension, and the new indices in them.

    `items` are integer expressions and, between them, AXIS_SEPARATOR. It can be called like the
    function it was read from.
    """

    __slots__ = ("items", "variables")

    def __init__(self, variables: Sequence[Var], items: Sequence[PrimExpr | str]) -> None:
        self.variables = tuple(variables)
        self.items = tuple(items)

    @property
    def indices(self) -> list[PrimExpr]:
        return [e for e in self.items if not isinstance(e, str)]

    @property
    def separators(self) -> tuple[int, ...]:
        """Before which new indices a separator stands."""
        places = [k for k, e in enumerate(self.items) if isinstance(e, str)]
        return tuple(k - before for before, k in enumerate(places))

    def __call__(self, *indices: Any) -> list[PrimExpr | str]:
        if len(indices) != len(self.variables):
            raise ScheduleError(
                f"this layout map takes {len(self.variables)} indices, got {len(indices)}"
            )
        table = {v: convert(i).astype(v.dtype) for v, i in zip(self.variables, indices)}
        return [e if isinstance(e, str) else substitute(e, table) for e in self.items]

    def __repr__(self) -> str:
        return f"LayoutMap({self.as_python()})"

    def _parameters(self) -> list[PrimExpr]:
        """What the map needs besides the indices, such as a dimension that is a variable."""
        found: dict[PrimExpr, None] = {}
        for e in self.indices:
            found.update(dict.fromkeys(free_vars(e)))
        return [v for v in found if not any(v is own for own in self.variables)]

    def as_python(self) -> str:
        """The map as a lambda, none of whose parameters hides a name that its body needs."""
        taken = {"te", "tvm", *map(str, self._parameters())}
        own = []
        for v in self.variables:
            name, k = v.name, 1
            while name in taken:
                name, k = f"{v.name}_{k}", k + 1
            taken.add(name)
            own.append(Var(name, v.dtype))
        items = [
            f"te.{AXIS_SEPARATOR.upper()}" if isinstance(e, str) else expr_text(e)
            for e in self(*own)
        ]
        return f"lambda {', '.join(v.name for v in own)}: [{', '.join(items)}]"

    def to_data(self) -> list[Any]:
        """For JSON: the rank, one document with variables and indices, places of separators.

        ScheduleError where the map needs a variable besides the indices.
        """
        for v in self._parameters():
            raise ScheduleError(
                f"transform_layout: a map that needs {v}, which is no index of the tensor, cannot "
                "be saved as data"
            )
        # one document, so that the variables stay the same objects
        whole = Call("bool", "tir.tvm_tuple", [*self.variables, *self.indices])
        return [len(self.variables), save_json(whole), list(self.separators)]

    @classmethod
    def from_data(cls, rank: int, text: Any, separators: Sequence[int]) -> LayoutMap:
        """What `to_data` wrote."""
        args = load_json(text).args
        items: list[PrimExpr | str] = list(args[rank:])
        for place in reversed(separators):
            items.insert(place, AXIS_SEPARATOR)
        return cls(args[:rank], items)


class Layout:
    """A map over a shape: `forward` are the indices in memory, in terms of `variables`; `inverse`
    those of the tensor, in terms of `new_variables`; `extents` the sizes of memory. `filled` are
    conditions on the new variables: where they do not hold lies no element.

    Illegal if the map is not invertible over the shape.
    """

    __slots__ = (
        "_lows", "_parts", "extents", "filled", "forward", "inverse", "mapping", "new_variables",
        "shape", "variables",
    )  # fmt: skip

    def __init__(
        self, mapping: LayoutMap, shape: Sequence[PrimExpr], of: Layout | None = None
    ) -> None:
        self.mapping, self.shape = mapping, tuple(shape)
        self.variables = mapping.variables
        self._parts: dict[tuple[int | PrimExpr, ...], Layout] = {}
        analyzer = Analyzer()
        ranges = {
            v: Range.from_min_extent(const(0, e.dtype), e) for v, e in zip(self.variables, shape)
        }
        for v, r in ranges.items():
            analyzer.bind(v, r)
        sets = {v: IntervalSet.from_range(r) for v, r in ranges.items()}
        self.forward, self.extents = [], []
        self._lows: list[PrimExpr] = []  # what the map gives at least: laid out at 0
        for e in mapping.indices:
            _check_size(e, analyzer)
            cover = eval_set(e, sets, analyzer).cover_range(Range(0, 1), analyzer)
            assert cover is not None
            low = const(0, e.dtype) if analyzer.can_prove(cover.min >= 0) else cover.min
            self._lows.append(low)
            self.forward.append(analyzer.simplify(e - low))
            self.extents.append(analyzer.simplify(cover.min - low + cover.extent))
        self.new_variables = [Var(f"axis{k}", e.dtype) for k, e in enumerate(self.forward)]
        try:
            self.inverse = inverse_index_map(
                self.variables, ranges, self.forward, self.new_variables, self.extents
            )
        except TilewrightError as problem:
            if of is None:
                raise Illegal(
                    f"the layout map is not invertible digit by digit: {problem}"
                ) from None
            self.inverse = self._inverse_of_whole(of, analyzer)
        self.filled = self._conditions()

    def _inverse_of_whole(self, whole: Layout, analyzer: Analyzer) -> list[PrimExpr]:
        """Whatever has an inverse over the whole has it over a part, though a part may be harder to
        read as digits. It holds for the elements of the whole: no other is ever needed."""
        moved = zip(self.new_variables, self._lows, whole._lows)
        table = dict(zip(whole.new_variables, [y + (low - first) for y, low, first in moved]))
        return [analyzer.simplify(substitute(e, table)) for e in whole.inverse]

    def _conditions(self) -> list[PrimExpr]:
        """That new indices stand for an element, besides the upper ends of its indices."""
        analyzer = Analyzer()
        for v, extent in zip(self.new_variables, self.extents):
            analyzer.bind(v, Range.from_min_extent(const(0, v.dtype), extent))
        table = dict(zip(self.variables, self.inverse))
        conditions = [e >= 0 for e in self.inverse]
        pairs = zip(self.forward, self.new_variables)
        conditions += [substitute(e, table).equal(v) for e, v in pairs]
        return [analyzer.simplify(c) for c in conditions if not analyzer.can_prove(c)]

    def of_part(self, extents: Sequence[PrimExpr]) -> Layout:
        """The same map over a part of the tensor, laid out as if it were the whole: the map is
        taken of indices that count from the part's first element."""
        sizes = tuple(e.value if isinstance(e, IntImm) else e for e in extents)
        if sizes not in self._parts:
            own = tuple(e.value if isinstance(e, IntImm) else e for e in self.shape)
            same = all(a is b or (type(a) is int and a == b) for a, b in zip(sizes, own))
            self._parts[sizes] = self if same else Layout(self.mapping, extents, of=self)
        return self._parts[sizes]


def _check_size(index: PrimExpr, analyzer: Analyzer) -> None:
    """Illegal where a new index is known to need more bits than its type has."""
    bound, kind = analyzer.const_int_bound(index), parse(index.dtype)
    if kind.bits == 64 or max(-bound.min_value, bound.max_value) > UNKNOWN:
        return  # what calls may pass is checked when they do
    if bound.min_value <= int(kind.min_value) or bound.max_value >= int(kind.max_value):
        raise Illegal(
            f"the index {index} of the layout map reaches from {bound.min_value} to "
            f"{bound.max_value}, which {index.dtype} does not hold",
            legal="declare the tensor with int64 extents: te.compute((tir.const(n, 'int64'), ...))",
        )
