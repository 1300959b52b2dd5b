"""Turn vectorised loops into vector code."""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..base.dtype import parse
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import (
    Folder,
    conjuncts,
    fold_pair,
    fresh_copy,
    is_prefetch,
    strip_likely,
    times,
    walk_stmts,
)
from ..loopir.effects import CallEffectKind, side_effect
from ..loopir.expr import const, const_int
from ..loopir.iter import Range
from ..loopir.op import likely
from ..loopir.operators import logical_and, logical_not, logical_or
from ..loopir.rewrite import handles
from ..loopir.visit import uses_var, walk
from .guards import gap_of
from .options import LowerOptions
from .vector_exprs import (
    ScalarStatement,
    SerialLoop,
    VectorExprs,
    is_uniform_pure,
)
from .vector_ramps import broadcast, lanes_of

MAX_LANES = 64
REGISTER_BYTES = 32  # of a vector, where no target says


def vectorize_loops(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Loops of kind VECTORIZED become vector loads, stores and arithmetic.

    The loop variable becomes a ramp; whatever depends on it a vector of as many lanes as the loop
    has steps (any number; what does not fill registers evenly, or has more than 64, is taken in
    strips). Guards become predicates of loads and stores, so that a tail is one masked vector.
    Buffers allocated in the loop get one slot a lane, interleaved; inner loops with uniform bounds
    stay loops around vector code. A pure call without a vector form is made once a lane, a
    statement without one runs lane by lane; the loop as a whole is run serially only where lanes
    depend on each other. A loop of symbolic extent runs in strips, its rest serially.

    Needs flat buffers (the last index only may vary). Guarantees that no VECTORIZED loop is left.
    Stands after partition_loops, whose main part has no guard, and before the passes that count
    statements or look at liveness, which then see the code as it runs.
    """
    if not any(type(s) is S.For and s.kind == S.ForKind.VECTORIZED for s in walk_loops(func.body)):
        return func
    return func.with_body(_Loops(options).stmt(func.body))


def walk_loops(body: S.Stmt) -> list[S.For]:
    """All loops below a statement."""
    return [s for s in walk_stmts(body) if type(s) is S.For]


class _Loops(Folder):
    def __init__(self, options: LowerOptions) -> None:
        self.options = options

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        body = self.stmt(s.body)
        if s.kind != S.ForKind.VECTORIZED:
            return s.with_parts(body=body)
        if self.options.disable_vectorize or _has_vectors(body):
            return _serial(s.loop_var, s.min, s.extent, body)
        extent = const_int(s.extent)
        if extent is None:
            return _symbolic(s, body)
        if extent <= 0:
            return S.no_op()
        if extent == 1:
            return fresh_copy(body, {s.loop_var: s.min})
        if const_int(s.min) == 0:
            body = _Uniform(s.loop_var, extent).stmt(body)
        return _strips(s.loop_var, s.min, extent, body, self._register_lanes(body))

    def _register_lanes(self, body: S.Stmt) -> int:
        """Lanes that a vector register has for the widest elements of a loop's body."""
        target = self.options.target
        if target is not None and "gpu" in target.keys:
            return MAX_LANES
        accesses = (x.buffer for x in walk(body) if type(x) in (E.BufferLoad, S.BufferStore))
        widest = max((parse(b.dtype).nbytes for b in accesses), default=4)
        return max(1, (target.vector_bytes if target is not None else REGISTER_BYTES) // widest)


class _Uniform(Folder):
    """Comparisons that hold for all steps of a loop or for none, without its variable: a bound at a
    multiple of the number of lanes cuts no vector that starts at one."""

    def __init__(self, var: E.Var, extent: int) -> None:
        self.var, self.extent = var, extent
        self.analyzer = Analyzer()
        self.analyzer.bind(var, Range(extent))

    @handles(E.LT, E.LE, E.GT, E.GE)
    def _compare(self, e: Any) -> Any:
        gap = gap_of(e)
        if gap is None or not uses_var(e, self.var.same_as):
            return super()._compare(e)
        part = E.FloorDiv(gap, const(self.extent, gap.dtype))
        whole = self.analyzer.simplify(part)  # zero or more just where the gap is
        if uses_var(whole, self.var.same_as):
            return super()._compare(e)
        return whole >= const(0, whole.dtype)


def _serial(var: E.Var, low: Any, extent: Any, body: S.Stmt) -> S.Stmt:
    return S.For(var, low, extent, S.ForKind.SERIAL, body)


def _has_vectors(body: S.Stmt) -> bool:
    vector_nodes = (E.Ramp, E.Broadcast, E.Shuffle)
    return any(type(x) in vector_nodes for x in walk(body))


def _strips(var: E.Var, low: Any, extent: int, body: S.Stmt, register: int) -> S.Stmt:
    """A loop of constant extent, as vectors of at most MAX_LANES lanes.

    One that fills more than a register (of so many lanes) has a power of two of them, and the rest
    is one of its own: LLVM takes other vectors apart into scalars between blocks.
    """
    if extent <= MAX_LANES:
        first = extent if extent <= register else 1 << (extent.bit_length() - 1)
        main = _vector_loop(var, low, first, body)
        if first == extent:
            return main
        rest_low = fold_pair(E.Add, low, const(first, var.dtype))
        return S.seq(main, _strips(var, rest_low, extent - first, fresh_copy(body), register))
    lanes = next((n for n in range(MAX_LANES, 15, -1) if extent % n == 0), MAX_LANES)
    outer = E.Var(f"{var.name}_strip", var.dtype)
    start = fold_pair(E.Add, low, outer * lanes)
    main = _strips(var, start, lanes, body, register)
    loop = _serial(outer, const(0, var.dtype), const(extent // lanes, var.dtype), main)
    rest = extent % lanes
    if not rest:
        return loop
    tail_low = fold_pair(E.Add, low, const(extent - rest, var.dtype))
    return S.seq(loop, _strips(var, tail_low, rest, fresh_copy(body), register))


def _symbolic(s: S.For, body: S.Stmt) -> S.Stmt:
    """A loop of symbolic extent: whole vectors of 64 bytes, then the rest serially."""
    stored = [parse(x.buffer.dtype).nbytes for x in walk_stmts(body) if type(x) is S.BufferStore]
    lanes = max(4, 64 // max(stored, default=4))
    width, var = const(lanes, s.loop_var.dtype), s.loop_var
    outer = E.Var(f"{var.name}_strip", var.dtype)
    main = _vector_loop(var, fold_pair(E.Add, s.min, outer * width), lanes, body)
    strips = E.FloorDiv(s.extent, width)
    rest_var = E.Var(f"{var.name}_rest", var.dtype)
    rest_low = fold_pair(E.Add, s.min, strips * width)
    rest = fresh_copy(body, {var: fold_pair(E.Add, rest_low, rest_var)})
    zero = const(0, var.dtype)
    rest_loop = _serial(rest_var, zero, E.FloorMod(s.extent, width), rest)
    both = S.seq(_serial(outer, zero, strips, main), rest_loop)
    return S.IfThenElse(likely(s.extent >= 0), both)


def _vector_loop(var: E.Var, low: Any, lanes: int, body: S.Stmt) -> S.Stmt:
    if lanes == 1:
        return fresh_copy(body, {var: low})
    try:
        result: S.Stmt = VectorStmts(var, low, lanes).stmt(body)
        return result
    except SerialLoop:
        new = E.Var(var.name, var.dtype)
        copy = fresh_copy(body, {var: fold_pair(E.Add, low, new)})
        return _serial(new, const(0, var.dtype), const(lanes, var.dtype), copy)


class VectorStmts(VectorExprs):
    """Statements of one vectorised loop."""

    def stmt(self, s: Any) -> Any:
        kept = self.mask, self.gather_uniform, len(self.guards), self.values.copy()
        try:
            return self.table[type(s)](self, s)
        except ScalarStatement:
            self.mask, self.gather_uniform = kept[:2]
            del self.guards[kept[2] :]
            self.values = kept[3]
            return self._lane_loop(s)

    def _lane_loop(self, s: S.Stmt) -> S.Stmt:
        """A statement without a vector form, once for each active lane in order."""
        lets = [v for v in self.values if v is not self.var]
        uses_lets = any(
            isinstance(x, E.Var) and x in lets for p in (s, *self.guards) for x in walk(p)
        )
        if uses_lets:
            return S.seq(self._lane(s, const(i)) for i in range(self.lanes))
        lane = E.Var(self.var.name, self.var.dtype)
        body = self._lane(s, lane)
        zero = const(0, lane.dtype)
        return _serial(lane, zero, const(self.lanes, lane.dtype), body)

    def _lane(self, s: S.Stmt, lane: Any) -> S.Stmt:
        copier = self.lane_copier(lane)
        body: S.Stmt = copier.stmt(s)
        if not self.guards:
            return body
        condition = copier.expr(self.guards[0])
        for guard in self.guards[1:]:
            condition = logical_and(condition, copier.expr(guard))
        return S.IfThenElse(condition, body)

    # -- stores

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        if s.predicate is not None:
            raise SerialLoop
        buffer, indices = self.index(s.buffer, s.indices)
        value = self.expr(s.value)
        if not indices or lanes_of(indices[-1]) == 1:
            return self._uniform_store(s, buffer, indices, value)
        return S.BufferStore(buffer, broadcast(value, self.lanes), indices, self.mask)

    def _uniform_store(self, s: S.BufferStore, buffer: Buffer, indices: Any, value: Any) -> S.Stmt:
        """A store to one element: right once for all lanes if each would write the same."""
        own = any(type(x) is E.BufferLoad and x.buffer.data is buffer.data for x in walk(s.value))
        if own or lanes_of(value) > 1 or side_effect(s.value) > CallEffectKind.ReadState:
            raise SerialLoop
        if self.mask is not None:
            self.needs_any = True
        return S.BufferStore(buffer, value, indices)

    # -- guards

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        inner = strip_likely(s.condition)
        uniform, varying = self.split_condition(inner)
        if varying is None:
            return self._uniform_if(s, uniform is inner, uniform)
        if side_effect(inner) > CallEffectKind.Pure:
            return self._bound_mask_if(s, uniform, varying)
        then_case = self._under(varying, inner, s.then_case)
        if uniform is not None:
            then_case = S.IfThenElse(uniform, then_case)
        if s.else_case is None:
            return then_case
        if uniform is not None:
            varying = E.And(broadcast(uniform, self.lanes), varying)
        else_case = self._under(logical_not(varying), logical_not(inner), s.else_case)
        return S.seq(then_case, else_case)

    def _uniform_if(self, s: S.IfThenElse, same: bool, condition: Any) -> S.Stmt:
        then_case = self.stmt(s.then_case)
        else_case = None if s.else_case is None else self.stmt(s.else_case)
        if same:
            condition = s.condition
        elif strip_likely(s.condition) is not s.condition:
            condition = likely(condition)
        return S.IfThenElse(condition, then_case, else_case)

    def _bound_mask_if(self, s: S.IfThenElse, uniform: Any, varying: Any) -> S.Stmt:
        """A condition that reads memory, which the branches may change: evaluated once, ahead."""
        if uniform is not None:
            varying = E.And(broadcast(uniform, self.lanes), varying)
        wide = E.Var("mask", varying.dtype)
        flag = E.Var("mask", "bool")
        self.values[flag] = wide
        then_case = self._under(wide, flag, s.then_case)
        parts = [then_case]
        if s.else_case is not None:
            parts.append(self._under(E.Not(wide), E.Not(flag), s.else_case))
        return S.LetStmt(wide, varying, S.seq(parts))

    def _under(self, mask: Any, guard: Any, s: S.Stmt) -> S.Stmt:
        """`s` for the lanes of `mask` only."""
        kept = self.mask, self.needs_any
        self.mask = self.narrowed(mask)
        self.needs_any = False
        self.guards.append(guard)
        body: S.Stmt = self.stmt(s)
        if self.needs_any:
            body = S.IfThenElse(self._any_lane(), body)
        self.guards.pop()
        self.mask, self.needs_any = kept
        return body

    def _any_lane(self) -> Any:
        """Whether any lane is active, as a scalar: where the guards hold for a first run of
        lanes, whether they hold for lane 0."""
        parts = [p for g in self.guards for p in conjuncts(strip_likely(g))]
        count = 1 if all(self._holds_first(p) for p in parts) else self.lanes
        result: Any = None
        for i in range(count):
            copier = self.lane_copier(const(i))
            active: Any = None
            for part in parts:
                scalar = copier.expr(part)
                active = scalar if active is None else logical_and(active, scalar)
            result = active if result is None else logical_or(result, active)
        return result

    def _holds_first(self, part: Any) -> bool:
        """Whether a comparison, once false, stays false in all later lanes."""
        kind = type(part)
        if kind not in (E.LT, E.LE, E.GT, E.GE):
            return lanes_of(self.expr(part)) == 1
        a, b = self.expr(part.a), self.expr(part.b)
        if kind in (E.GT, E.GE):
            a, b = b, a
        if lanes_of(b) > 1:
            return False
        if lanes_of(a) == 1:
            return True
        return type(a) is E.Ramp and (const_int(a.stride) or -1) > 0

    # -- control

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        low, extent = self.expr(s.min), self.expr(s.extent)
        if lanes_of(low) > 1 or lanes_of(extent) > 1:
            raise ScalarStatement
        body = self.stmt(s.body)
        return s.with_parts(min=low, extent=extent, body=body)

    @handles(S.While)
    def _while(self, s: S.While) -> Any:
        condition = self.expr(s.condition)
        if lanes_of(condition) > 1 or self.mask is not None:
            raise ScalarStatement
        return S.While(condition, self.stmt(s.body))

    @handles(S.AssertStmt)
    def _assert(self, s: S.AssertStmt) -> Any:
        condition = self.expr(s.condition)
        if lanes_of(condition) > 1 or self.mask is not None:
            raise ScalarStatement
        return S.AssertStmt(condition, s.message, self.stmt(s.body))

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        value = self.expr(s.value)
        if lanes_of(value) > 1:
            raise ScalarStatement
        return S.AttrStmt(self.expanded.get(s.node, s.node), s.attr_key, value, self.stmt(s.body))

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        value = self.expr(s.value)
        if lanes_of(value) == 1:
            return S.LetStmt(s.var, value, self.stmt(s.body))
        var = E.Var(s.var.name, value.dtype)
        self.values[s.var] = var
        return S.LetStmt(var, value, self.stmt(s.body))

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        shape = self.exprs(s.buffer.shape)
        if any(lanes_of(d) > 1 for d in shape):
            raise ScalarStatement
        if len(shape) != 1:
            raise CompileError(f"buffer {s.buffer.name} is not flat in a vectorised loop")
        size = times(shape[0], self.lanes)
        wide = s.buffer.with_(shape=(size,))
        self.expanded[s.buffer] = wide
        self.expanded_data.add(s.buffer.data)
        return S.Allocate(wide, self.stmt(s.body), s.annotations)

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        if is_prefetch(s):
            return S.Evaluate(self.lane_copier(const(0)).expr(s.value))
        value = self.expr(s.value)
        if is_uniform_pure(value) or lanes_of(value) > 1:
            return S.Evaluate(value)
        raise ScalarStatement

    @handles(S.Prefetch)
    def _prefetch(self, s: S.Prefetch) -> Any:
        raise ScalarStatement
