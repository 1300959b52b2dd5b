"""Expressions of a vectorised loop: the loop variable becomes a ramp, what depends on it a vector.

Used by vectorize_loops only. `VectorExprs.expr(e)` gives a scalar where `e` is the same in all
lanes ("uniform"), else a vector of `lanes` lanes. `mask` is the vector of lanes that are active,
None for all: an inactive lane must not read memory or divide by what may be zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import Copier, conjuncts, fold_pair
from ..loopir.effects import CallEffectKind, effect_of, is_pure
from ..loopir.expr import cast, const, const_int
from ..loopir.operators import logical_and, logical_not
from ..loopir.rewrite import ARITH, COMPARE, LOGIC, Rewriter, handles
from ..loopir.visit import tree_size, walk
from .vector_ramps import RAMP_RULES, broadcast, lanes_of

_DIVISIONS = (E.FloorDiv, E.FloorMod, E.Div, E.Mod)
_LARGEST_MASK = 1000  # nodes: conditions that read memory under masks have these in them, twice


class ScalarStatement(Exception):
    """The statement has no vector form: run it lane by lane."""


class SerialLoop(Exception):
    """Lanes depend on each other, or on too many conditions: run the whole loop serially."""


class LaneCopier(Copier):
    """A scalar copy of vectorised code for the lane numbered `lane` (an expression)."""

    def __init__(
        self, values: Mapping[E.Var, Any], expanded: Mapping[Buffer, Buffer], lanes: int, lane: Any
    ) -> None:
        super().__init__(values)
        self.expanded, self.lanes, self.lane = expanded, lanes, lane
        self.interleaved = {b.data for b in expanded}

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        if e in self.interleaved:
            raise SerialLoop  # a pointer to memory whose elements are not side by side
        return self.values.get(e, e)

    def _index(self, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        flat = self.expr(indices[0])
        return (fold_pair(E.Add, flat * self.lanes, cast(flat.dtype, self.lane)),)

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        if e.buffer in self.expanded:
            return E.BufferLoad(self.expanded[e.buffer], self._index(e.indices))
        return super()._load(e)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        if s.buffer in self.expanded:
            value = self.expr(s.value)
            return S.BufferStore(self.expanded[s.buffer], value, self._index(s.indices))
        return super()._store(s)


class VectorExprs(Rewriter):
    """See the module's head; vectorize_loops adds the statements."""

    def __init__(self, var: E.Var, low: Any, lanes: int) -> None:
        self.var, self.low, self.lanes = var, low, lanes
        self.values: dict[E.Var, Any] = {var: E.Ramp(low, const(1, var.dtype), lanes)}
        self.expanded: dict[Buffer, Buffer] = {}
        self.expanded_data: set[E.Var] = set()
        self.mask: Any = None
        self.guards: list[Any] = []
        self.gather_uniform = False
        self.needs_any = False

    # -- leaves

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        if e in self.expanded_data:
            raise SerialLoop
        return self.values.get(e, e)

    # -- arithmetic

    @handles(*ARITH, *COMPARE, *LOGIC)
    def _pair(self, e: Any) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        kind = type(e)
        if kind in _DIVISIONS and self.mask is not None and not parse(e.dtype).is_float:
            b = self._safe_divisor(b)
        if a is e.a and b is e.b:
            return e
        return self._combine(kind, a, b)

    def _combine(self, kind: type, a: Any, b: Any) -> Any:
        la, lb = lanes_of(a), lanes_of(b)
        if la == 1 and lb == 1:
            return fold_pair(kind, a, b) if kind in ARITH else kind(a, b)
        rule = RAMP_RULES.get(kind)
        if rule is not None:
            result = rule(a, b)
            if result is not None:
                return result
        return kind(broadcast(a, self.lanes), broadcast(b, self.lanes))

    def _safe_divisor(self, b: Any) -> Any:
        if type(b) is E.IntImm and b.value != 0:
            return b
        if lanes_of(b) == 1 and not self.gather_uniform:
            self.needs_any = True
            return b
        one = broadcast(const(1, parse(b.dtype).element), self.lanes)
        return E.Select(self.mask, broadcast(b, self.lanes), one)

    @handles(E.Not)
    def _not(self, e: E.Not) -> Any:
        a = self.expr(e.a)
        return e if a is e.a else E.Not(a)

    @handles(E.Cast)
    def _cast(self, e: E.Cast) -> Any:
        value = self.expr(e.value)
        if value is e.value:
            return e
        n = lanes_of(value)
        to, source = parse(e.dtype), parse(value.dtype)
        wider = to.is_int and source.is_int and to.bits >= source.bits >= 32
        if type(value) is E.Ramp and wider:
            return E.Ramp(cast(e.dtype, value.base), cast(e.dtype, value.stride), n)
        return E.Cast(to.with_lanes(n), value)

    @handles(E.Select)
    def _select(self, e: E.Select) -> Any:
        parts = (self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value))
        if parts[0] is e.condition and parts[1] is e.true_value and parts[2] is e.false_value:
            return e
        if all(lanes_of(p) == 1 for p in parts):
            return E.Select(*parts)
        return E.Select(*(broadcast(p, self.lanes) for p in parts))

    @handles(E.Ramp, E.Broadcast, E.Shuffle)
    def _vector(self, e: Any) -> Any:
        raise SerialLoop

    @handles(E.Let)
    def _let(self, e: E.Let) -> Any:
        value = self.expr(e.value)
        if lanes_of(value) == 1:
            body = self.expr(e.body)
            return e if value is e.value and body is e.body else E.Let(e.var, value, body)
        var = E.Var(e.var.name, value.dtype)
        self.values[e.var] = var
        return E.Let(var, value, self.expr(e.body))

    # -- memory

    def index(self, buffer: Buffer, indices: tuple[Any, ...]) -> tuple[Buffer, tuple[Any, ...]]:
        """Buffer and indices of an access; only the last index may be a vector."""
        new = self.exprs(indices)
        if any(lanes_of(i) > 1 for i in new[:-1]) or parse(buffer.dtype).lanes > 1:
            raise SerialLoop
        big = self.expanded.get(buffer)
        if big is None:
            return buffer, new
        if len(new) != 1:
            raise SerialLoop
        at, one = new[0], const(1, parse(new[0].dtype).element)
        if lanes_of(at) == 1:
            return big, (
                E.Ramp(fold_pair(E.Mul, at, const(self.lanes, at.dtype)), one, self.lanes),
            )
        lane = E.Ramp(one - 1, one, self.lanes)
        scaled = self._combine(E.Mul, at, const(self.lanes, parse(at.dtype).element))
        return big, (self._combine(E.Add, scaled, lane),)

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        if e.predicate is not None:
            raise SerialLoop
        buffer, indices = self.index(e.buffer, e.indices)
        if indices and lanes_of(indices[-1]) > 1:
            return E.BufferLoad(buffer, indices, self.mask)
        if self.mask is not None and not self.gather_uniform:
            self.needs_any = True
        elif self.mask is not None and indices:
            inside = _inside(buffer, indices)
            if inside is not None:
                return E.BufferLoad(buffer, (inside,))
            wide = (*indices[:-1], E.Broadcast(indices[-1], self.lanes))
            return E.BufferLoad(buffer, wide, self.mask)
        return e if indices is e.indices else E.BufferLoad(buffer, indices)

    # -- calls

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        name = e.op.name
        if name == "tir.if_then_else":
            return self._if_then_else(e)
        if name == "tir.likely":
            inner = self.expr(e.args[0])
            if inner is e.args[0]:
                return e
            return inner if lanes_of(inner) > 1 else E.Call("bool", e.op, (inner,))
        if name == "tir.call_llvm_pure_intrin":
            values = self.exprs(e.args[2:])
            return self._lanewise(e, e.args[:2], e.args[2:], values)
        if e.op.row.lanewise or e.op.attrs.get("TVectorizable"):
            return self._lanewise(e, (), e.args, self.exprs(e.args))
        if effect_of(e.op) > CallEffectKind.Pure:
            raise ScalarStatement
        if not self.varies(e) and not (self.mask is not None and self.gather_uniform):
            self.needs_any = self.needs_any or self.mask is not None
            return e
        return self._lane_by_lane(e)

    def _lanewise(self, e: E.Call, head: Any, old: Any, new: Any) -> Any:
        if new is old:
            return e
        if all(lanes_of(v) == 1 for v in new):
            return E.Call(e.dtype, e.op, (*head, *new))
        wide = tuple(broadcast(v, self.lanes) for v in new)
        return E.Call(parse(e.dtype).with_lanes(self.lanes), e.op, (*head, *wide))

    def _if_then_else(self, e: E.Call) -> Any:
        uniform, varying = self.split_condition(e.args[0])
        if varying is None:
            t, f = self.expr(e.args[1]), self.expr(e.args[2])
            if uniform is e.args[0] and t is e.args[1] and f is e.args[2]:
                return e
        else:
            t = self._masked(varying, e.args[0], e.args[1])
            f_mask = logical_not(varying)
            f = self._masked(f_mask, logical_not(e.args[0]), e.args[2])
            t, f = broadcast(t, self.lanes), broadcast(f, self.lanes)
            t = E.Select(varying, t, f)
            if uniform is None:
                return t
            f = broadcast(self.expr(e.args[2]), self.lanes)
        if lanes_of(t) != lanes_of(f):
            t, f = broadcast(t, self.lanes), broadcast(f, self.lanes)
        return E.Call(t.dtype, e.op, (uniform, t, f))

    def _masked(self, mask: Any, guard: Any, e: Any) -> Any:
        """`e` for the lanes of `mask` only, as part of an expression."""
        kept = self.mask, self.gather_uniform
        self.mask = self.narrowed(mask)
        self.gather_uniform = True
        self.guards.append(guard)
        result = self.expr(e)
        self.guards.pop()
        self.mask, self.gather_uniform = kept
        return result

    def narrowed(self, mask: Any) -> Any:
        """The active lanes of `mask`."""
        both = mask if self.mask is None else E.And(self.mask, mask)
        if tree_size(both) > _LARGEST_MASK:
            raise SerialLoop
        return both

    def split_condition(self, condition: Any) -> tuple[Any, Any]:
        """The conjuncts that are the same in all lanes, and the others as a vector."""
        uniform: Any = None
        varying: Any = None
        same = True
        for part in conjuncts(condition):
            new = self.expr(part)
            same = same and new is part
            if lanes_of(new) == 1:
                uniform = new if uniform is None else logical_and(uniform, new)
            else:
                varying = new if varying is None else E.And(varying, new)
        return (condition, None) if same else (uniform, varying)

    def varies(self, e: Any) -> bool:
        """Whether the value of `e` may differ between lanes."""
        for x in walk(e):
            if isinstance(x, E.Var) and (x in self.values or x in self.expanded_data):
                return True
            if type(x) is E.BufferLoad and x.buffer in self.expanded:
                return True
        return False

    def lane_copier(self, lane: Any) -> LaneCopier:
        """A copier that makes the scalar form of code for one lane."""
        at = cast(self.var.dtype, lane)
        values: dict[E.Var, Any] = {self.var: fold_pair(E.Add, self.low, at)}
        number = E.const_int(lane)
        for var, wide in self.values.items():
            if var is not self.var and number is not None:
                values[var] = E.Shuffle((wide,), (number,))
        return LaneCopier(values, self.expanded, self.lanes, lane)

    def _lane_by_lane(self, e: E.Call) -> Any:
        """A pure call without a vector form: one scalar call a lane."""
        parts = []
        for i in range(self.lanes):
            copier = self.lane_copier(const(i))
            value = copier.expr(e)
            if self.guards:
                condition = copier.expr(self.guards[0])
                for guard in self.guards[1:]:
                    condition = logical_and(condition, copier.expr(guard))
                if parse(e.dtype).is_handle:
                    raise ScalarStatement
                zero = const(0, e.dtype)
                value = E.Call(e.dtype, "tir.if_then_else", (condition, value, zero))
            parts.append(value)
        return E.Shuffle(parts, range(self.lanes))


def _inside(buffer: Buffer, indices: tuple[Any, ...]) -> Any:
    """An index that is the same where an element is read, and may be read where none is: inside of
    a buffer of known extent. None where that is not known."""
    extent = const_int(buffer.shape[0]) if len(buffer.shape) == len(indices) == 1 else None
    if not extent or extent < 0:
        return None
    index = indices[0]
    known = const_int(index)
    if known is not None:
        return index if 0 <= known < extent else None
    last, zero = const(extent - 1, index.dtype), const(0, index.dtype)
    return fold_pair(E.Max, fold_pair(E.Min, index, last), zero)


def is_uniform_pure(e: Any) -> bool:
    """Whether evaluating a scalar once stands for evaluating it in every lane."""
    return lanes_of(e) == 1 and is_pure(e)
