"""Compute indices in 64 bits where they may not fit 32.

Design. Up to here every pass takes arithmetic on loop variables and sizes as exact, whatever its
type (SEMANTICS.md); this one sees to it that the types are wide enough. Bounds of each int32 node
follow from the loops around it, and for sizes from what a call may pass: `MOST_SIZE` and less.
What fits stays as it is, so that kernels whose extents are small keep their text. Where a node
may not fit there are three cases:

- *The value counts as a whole* (an operand of a division, comparison, minimum or conversion, the
  extent of a loop): it is computed in int64. Loop variables and lets that may not fit become int64.
- *It is the index of an access.* Of constants alone it is computed in int64 too. With symbolic
  sizes it stays: LLVM computes addresses in 64 bits, and for other targets the call is refused
  whose arrays have more elements than 31 bits count (`narrow` of rt.signature).
- *It is a value to store or convert to 32 bits or fewer*: sums and products wrap to the right bits.

In a kernel 64-bit divisions are dear, and what launches it can check. There a value of symbolic
sizes stays int32 if its maximum over all threads and loops is an expression of the sizes: an
assertion in the host part says that this fits. Arithmetic on data wraps and is never widened.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..arith import Analyzer, IntervalSet, eval_set
from ..arith.bound import ConstIntBound
from ..arith.interval import div_bound, hull, mod_bound, product_bound
from ..base.dtype import MOST_SIZE, parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.expr import cast, const
from ..loopir.iter import THREAD_KEYS, Range
from ..loopir.operators import binary
from ..loopir.rewrite import ARITH, COMPARE, Rewriter, handles
from ..loopir.visit import children, free_vars, walk
from .bounded import BoundedRewriter
from .options import LowerOptions
from .small_indices import all_small

Bounds = tuple[float, float]
_LEAST, _LAST = -(1 << 31), (1 << 31) - 1
_ANY: Bounds = (_LEAST, _LAST)
_ANYTHING: Bounds = (-math.inf, math.inf)
_FAR = 1 << 40  # what exceeds it is a product of sizes, which nothing known of each bounds
_WHOLE = (E.FloorDiv, E.FloorMod, E.Div, E.Mod, E.Min, E.Max)


def widen_indices(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Index arithmetic of int32 that may not fit becomes int64, or is checked; see the head above.

    Needs nothing. Stands last: all passes before it may rely on exact arithmetic, and make
    indices for it to judge.
    """
    if all_small(func):
        return func
    widener = _Widener(func)
    body = widener.stmt(func.body)
    divisors = _Divisors(widener.sizes)
    for most in reversed(widener.limits):
        value = widener.wide(divisors.expr(most))
        body = S.AssertStmt(value <= const(_LAST, "int64"), _too_large(most), body)
    return func.with_body(body)


class _Divisors(Rewriter):
    """Divisors of a limit are no zeros: where the size of an empty array is one, no thread runs
    that divides by it, but the host compares the limit."""

    def __init__(self, sizes: Analyzer) -> None:
        self.sizes = sizes

    @handles(E.FloorDiv, E.FloorMod, E.Div, E.Mod)
    def _divide(self, e: Any) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        least, one = self.sizes.const_int_bound(b).min_value, const(1, b.dtype)
        if least == 0:
            b = binary(E.Max, b, one)
        elif least < 0:
            b = E.Select(b.equal(0), one, b)
        return binary(type(e), a, b)


class _Widener(BoundedRewriter):
    recursive = ("judge", "wide")

    def __init__(self, func: S.PrimFunc) -> None:
        super().__init__(func)
        self.known: dict[E.Var, Bounds] = {}
        self.sizes = Analyzer()  # for maxima, which the host compares: they need not fit yet
        self.given = {p for p in func.params if p not in func.buffer_map}
        for b in func.buffer_map.values():
            self.given.update(v for d in b.strides for v in free_vars(d))
            for v in (v for d in b.shape for v in free_vars(d) if v.dtype == "int32"):
                self.known[v] = (0, MOST_SIZE)
                self.analyzer.const_int_bound_update(v, ConstIntBound(0, MOST_SIZE))
                self.sizes.const_int_bound_update(v, ConstIntBound(0, ConstIntBound.POS_INF))
        self.given.update(self.known)
        self.known.update((v, _ANY) for v in self.given - set(self.known))
        self.constant: set[E.Var] = set()  # variables whose bounds do not come from sizes
        self.wide_vars: dict[E.Var, E.Var] = {}
        self.resized: dict[int, tuple[Buffer, Buffer]] = {}
        self.judged: dict[int, tuple[Any, Bounds | None, bool]] = {}
        self.running: dict[E.Var, IntervalSet] | None = None  # in a kernel: its threads and loops
        self.limits: list[Any] = []  # what the host checks to be within 31 bits

    def stmt(self, s: Any) -> Any:
        if type(s) is S.BufferStore:
            return super().stmt(s)
        self.judged.clear()  # other conditions hold in it, and after it
        result = super().stmt(s)
        self.judged.clear()
        return result

    # -- what fits

    def judge(self, e: Any) -> tuple[Bounds | None, bool]:
        """Bounds of an integer expression, None for data; whether it and its parts fit 32 bits."""
        hit = self.judged.get(id(e))
        if hit is not None:
            return hit[1], hit[2]
        rule = _BOUNDS.get(type(e)) if e.dtype.startswith(("int32", "int64")) else None
        bounds, fits = (None, True) if rule is None else rule(self, e)
        if bounds is not None and _is_int32(e.dtype) and not _inside(bounds):
            hopeless = "x" in e.dtype or (self.running is None and not _near(bounds))
            tight = _ANYTHING if hopeless else self._tight(e)
            bounds = max(bounds[0], tight[0]), min(bounds[1], tight[1])
            fits = fits and _inside(bounds)
        self.judged[id(e)] = (e, bounds, fits)
        return bounds, fits

    def _tight(self, e: Any) -> Bounds:
        found = self.analyzer.const_int_bound(e)
        return found.min_value, found.max_value

    def pair(self, e: Any) -> tuple[Bounds | None, bool]:
        """What `judge` says of an operation on two values."""
        (a, first), (b, second) = self.judge(e.a), self.judge(e.b)
        if a is None or b is None:
            return None, True
        return _PAIRS[type(e)](a, b), first and second

    def fits(self, e: Any) -> bool:
        """Whether int32 is enough for an expression whose value counts as a whole."""
        return not _is_int32(e.dtype) or self.judge(e)[1] or self._checked(e)

    def symbolic(self, e: Any) -> bool:
        """Whether how large an expression is depends on sizes."""
        return not self.constant.issuperset(x for x in walk(e) if isinstance(x, E.Var))

    def _checked(self, e: Any) -> bool:
        """Whether the host can check, before a kernel is launched, that an expression fits."""
        if self.running is None or not self.symbolic(e):
            return False
        while not self.judge(e)[1]:
            x = next(x for x in walk(e) if not self.judge(x)[1] and self._parts_fit(x))
            bounds, most = self.judge(x)[0], self._maximum(x)
            if bounds is None or bounds[0] < _LEAST or "x" in x.dtype or most is None:
                return False
            if not any(self._no_more(most, other) for other in self.limits):
                self.limits = [m for m in self.limits if not self._no_more(m, most)]
                self.limits.append(most)
            self.judged = {key: known for key, known in self.judged.items() if known[2]}
            self.judged[id(x)] = (x, (bounds[0], _LAST), True)
        return True

    def _no_more(self, a: Any, b: Any) -> bool:
        """Whether a <= b, term by term: there may be many limits, and a proof by facts that fails
        takes long; what it would leave out, the host compares."""
        return bool(self.analyzer.const_int_bound(b - a).min_value >= 0)

    def _retyped(self, *parts: Any) -> bool:
        """Whether expressions hold a variable that another one took the place of."""
        return bool(self.wide_vars) and any(x in self.wide_vars for e in parts for x in walk(e))

    def _parts_fit(self, e: Any) -> bool:
        return all(self.judge(x)[1] for x in children(e))

    def _maximum(self, e: Any) -> Any:
        """The largest value of an expression in a kernel as an expression of sizes, or None."""
        assert self.running is not None
        for _ in range(len(self.running) + 1):  # extents of loops may hold variables of others
            own = {v: self.running[v] for v in free_vars(e) if v in self.running}
            e = eval_set(e, own, self.sizes).max_value
            if not isinstance(e, E.PrimExpr):
                return None
            if self.given.issuperset(free_vars(e)):
                return e
        return None

    # -- in 64 bits

    def wide(self, e: Any) -> Any:
        """The exact value of an int32 expression, as int64."""
        kind = type(e)
        if not _is_int32(e.dtype) or self.judge(e)[0] is None:
            return cast(_wide(e.dtype), self.expr(e))
        if kind in (E.Var, E.SizeVar):
            return self.wide_vars[e] if e in self.wide_vars else cast("int64", e)
        if kind in ARITH:
            return binary(kind, self.wide(e.a), self.wide(e.b))
        if kind is E.Ramp:
            return E.Ramp(self.wide(e.base), self.wide(e.stride), e.lanes)
        if kind is E.Broadcast:
            return E.Broadcast(self.wide(e.value), e.lanes)
        if kind is E.Select:
            chosen = self.wide(e.true_value), self.wide(e.false_value)
            return E.Select(self.expr(e.condition), *chosen)
        return cast(_wide(e.dtype), self.expr(e))

    def index(self, e: Any) -> Any:
        """The index of an access."""
        lanes = "x" in e.dtype and type(e) is not E.Ramp  # LLVM computes these as they are
        if not _is_int32(e.dtype) or not (lanes or self._retyped(e) or not self.symbolic(e)):
            return self.expr(e)  # whether it fits makes no difference, and takes long to find out
        bounds, fits = self.judge(e)
        return self.expr(e) if fits or bounds is None else self.wide(e)

    # -- expressions

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        wide = self.wide_vars.get(e)
        return e if wide is None else E.Cast("int32", wide)

    @handles(*_WHOLE)
    def _whole(self, e: Any) -> Any:
        if not _is_int32(e.dtype) or (self.fits(e.a) and self.fits(e.b)):
            return super()._pair(e)
        return cast(e.dtype, binary(type(e), self.wide(e.a), self.wide(e.b)))

    @handles(*COMPARE)
    def _compare(self, e: Any) -> Any:
        if self.fits(e.a) and self.fits(e.b):
            return super()._pair(e)
        return type(e)(self.wide(e.a), self.wide(e.b))

    @handles(E.Cast)
    def _cast(self, e: E.Cast) -> Any:
        t = parse(e.dtype)
        if (t.is_integer and t.bits <= 32) or self.fits(e.value):
            return super()._cast(e)
        return cast(e.dtype, self.wide(e.value))

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        if e.op.name == "tir.tvm_access_ptr":
            args = [*e.args[:2], self.index(e.args[2]), self.index(e.args[3]), *e.args[4:]]
            same = all(a is b for a, b in zip(args, e.args))
            return e if same else E.Call(e.dtype, e.op, args)
        if e.op.name != "tir.shift_right" or self.fits(e.args[0]):
            return super()._call(e)
        amount = cast(_wide(e.dtype), self.expr(e.args[1]))
        return cast(e.dtype, E.Call(_wide(e.dtype), e.op, (self.wide(e.args[0]), amount)))

    # -- memory

    def buffer(self, b: Buffer) -> Buffer:
        """A buffer whose size is said in variables that were retyped gets it anew."""
        if id(b) not in self.resized:
            if not self._retyped(*b.shape, *b.strides, b.elem_offset):
                return b
            shape, strides = [[self.wide(e) for e in es] for es in (b.shape, b.strides)]
            new = b.with_(shape=shape, strides=strides, elem_offset=self.wide(b.elem_offset))
            self.resized[id(b)] = b, new
        return self.resized[id(b)][1]

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        buffer, indices = self.buffer(e.buffer), tuple(self.index(i) for i in e.indices)
        predicate = None if e.predicate is None else self.expr(e.predicate)
        same = buffer is e.buffer and predicate is e.predicate
        if same and all(a is b for a, b in zip(indices, e.indices)):
            return e
        return E.BufferLoad(buffer, indices, predicate)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        buffer, indices = self.buffer(s.buffer), tuple(self.index(i) for i in s.indices)
        value = self.expr(s.value)
        predicate = None if s.predicate is None else self.expr(s.predicate)
        same = buffer is s.buffer and value is s.value and predicate is s.predicate
        if same and all(a is b for a, b in zip(indices, s.indices)):
            return s
        return S.BufferStore(buffer, value, indices, predicate)

    # -- variables

    def _learn(self, var: E.Var, bounds: Bounds | None, fits: bool, *sources: Any) -> E.Var:
        """The variable that takes the place of one whose values are known to lie in `bounds`."""
        self.constant.discard(var)
        if bounds is None or var.dtype not in ("int32", "int64"):
            self.known.pop(var, None)
            return var
        if not any(self.symbolic(e) for e in sources):
            self.constant.add(var)
        if fits and var.dtype == "int32":  # or it has been checked
            bounds = max(bounds[0], _LEAST), min(bounds[1], _LAST)
        self.known[var] = bounds
        if fits or var.dtype == "int64":
            return var
        self.wide_vars[var] = wide = E.Var(var.name, "int64")
        return wide

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        whole = s.min + s.extent
        (first, _), (end, _) = self.judge(s.min), self.judge(whole)
        fits = self.fits(s.extent) and self.fits(whole)
        bounds = None if first is None or end is None else (first[0], max(first[0], end[1] - 1))
        self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent))
        var = self._learn(s.loop_var, bounds, fits, s.min, s.extent)
        work = self.expr if var is s.loop_var else self.wide
        low, extent = work(s.min), work(s.extent)
        if self.running is not None:
            self.running[s.loop_var] = _interval(s.min, s.extent)
        body = self.stmt(s.body)
        return s.with_parts(loop_var=var, min=low, extent=extent, body=body)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        bounds, _ = self.judge(s.value)
        var = self._learn(s.var, bounds, self.fits(s.value), s.value)
        value = self.expr(s.value) if var is s.var else self.wide(s.value)
        self.analyzer.let(s.var, s.value)
        body = self.stmt(s.body)
        return s.with_parts(var=var, value=value, body=body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key not in THREAD_KEYS:
            return super()._attr(s)
        bounds, _ = self.judge(s.value)
        most = _LAST if bounds is None else min(bounds[1], _LAST)
        self._learn(s.node.var, (0, max(most - 1, 0)), True, s.value)
        outside = self.running
        self.running = {**(outside or {}), s.node.var: _interval(const(0), s.value)}
        body = self.stmt(s.body)
        self.running = outside
        # the host computes extents without limits; one that no device has is shown as a number
        too_many = bounds is not None and bounds[0] > _LAST
        value = s.value
        if too_many or self._retyped(value):
            value = self.wide(value) if too_many else self.expr(value)
        return s.with_parts(value=value, body=body)


def _too_large(most: Any) -> E.StringImm:
    sizes = ", ".join(v.name for v in free_vars(most))
    return E.StringImm(
        f"an index reaches {most}, which is more than 2^31 - 1, to which int32 counts; for such "
        f"sizes build with te.var(..., 'int64') for {sizes}"
    )


def _near(bounds: Bounds) -> bool:
    return bounds[0] > -_FAR and bounds[1] < _FAR


def _interval(low: Any, extent: Any) -> IntervalSet:
    return IntervalSet.from_range(Range.from_min_extent(low, extent))


def _inside(bounds: Bounds) -> bool:
    return bounds[0] >= _LEAST and bounds[1] <= _LAST


def _is_int32(dtype: str) -> bool:
    return dtype == "int32" or dtype.startswith("int32x")


def _wide(dtype: str) -> str:
    return parse("int64").with_lanes(parse(dtype).lanes)


def _of_var(w: _Widener, e: E.Var) -> tuple[Bounds | None, bool]:
    return w.known.get(e), e not in w.wide_vars


def _of_ramp(w: _Widener, e: E.Ramp) -> tuple[Bounds | None, bool]:
    (base, first), (stride, second) = w.judge(e.base), w.judge(e.stride)
    if base is None or stride is None:
        return None, True
    more = product_bound(stride, (0, e.lanes - 1))
    return (base[0] + more[0], base[1] + more[1]), first and second


def _of_select(w: _Widener, e: E.Select) -> tuple[Bounds | None, bool]:
    (a, first), (b, second) = w.judge(e.true_value), w.judge(e.false_value)
    return (None, True) if a is None or b is None else (hull(a, b), first and second)


def _of_cast(w: _Widener, e: E.Cast) -> tuple[Bounds | None, bool]:
    if not parse(e.value.dtype).is_int or not parse(e.dtype).is_int:
        return None, True
    bounds, fits = w.judge(e.value)
    if bounds is None or not _is_int32(e.dtype):
        return bounds, fits
    return (bounds, fits) if _inside(bounds) else (_ANY, True)


_PAIRS: dict[type, Callable[[Bounds, Bounds], Bounds]] = {
    E.Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    E.Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    E.Mul: product_bound,
    E.FloorDiv: div_bound,
    E.FloorMod: mod_bound,
    E.Div: lambda a, b: div_bound(a, b) if a[0] >= 0 else _ANYTHING,
    E.Mod: lambda a, b: mod_bound(a, b) if a[0] >= 0 else _ANYTHING,
    E.Min: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    E.Max: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
_BOUNDS: dict[type, Callable[[_Widener, Any], tuple[Bounds | None, bool]]] = {
    E.IntImm: lambda w, e: ((e.value, e.value), True),
    **dict.fromkeys((E.Var, E.SizeVar), _of_var),
    **dict.fromkeys(_PAIRS, _Widener.pair),
    E.Ramp: _of_ramp,
    E.Broadcast: lambda w, e: w.judge(e.value),
    E.Select: _of_select,
    E.Cast: _of_cast,
}
