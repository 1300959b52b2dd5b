"""What a function needs and does, by its text: memory that it allocates, operations, elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.deep import Recursive, deep_call
from ..base.dtype import parse
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.blocks import ScheduleError
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from ..loopir.module import IRModule
from ..loopir.rewrite import ARITH, COMPARE
from ..loopir.visit import children
from .bounded import BoundedRewriter

_OPEN = 1 << 62  # what bounds of int64 that are not known lie beyond


def buffer_bytes(buffer: Buffer) -> int:
    """Bytes of a buffer; 0 where an extent is not a constant."""
    t = parse(buffer.dtype)
    size = t.nbytes * t.lanes
    for extent in buffer.shape:
        size *= const_int(extent) or 0
    return size


def allocated_bytes(func: S.PrimFunc) -> dict[str, int]:
    """The most bytes that a function has allocated at one time, by storage scope."""
    most: dict[str, int] = {}
    _live(func.body, lambda b: (b.scope_name, buffer_bytes(b)), most)
    return most


def workspace_bytes(func: S.PrimFunc, alignment: int) -> int:
    """The most bytes that a function has allocated at one time in all scopes, each allocation
    rounded up to a multiple of `alignment`."""
    most = {"": 0}
    _live(func.body, lambda b: ("", -(-buffer_bytes(b) // alignment) * alignment), most)
    return most[""]


def _live(body: S.Stmt, measure: Any, most: dict[str, int]) -> None:
    stack: list[tuple[Any, Mapping[str, int]]] = [(body, {})]
    while stack:
        node, held = stack.pop()
        if type(node) is S.Allocate:
            scope, size = measure(node.buffer)
            held = {**held, scope: held.get(scope, 0) + size}
            most[scope] = max(most.get(scope, 0), held[scope])
        if isinstance(node, S.Stmt):
            stack.extend((c, held) for c in children(node))


def estimate_flops(stmt_or_mod: Any) -> float:
    """Operations of arithmetic, of floats and integers, that a statement, function or module
    makes; those of indices are left out.

    Of two branches the one with more counts, of a loop whose extent varies the most steps that it
    has. An attribute "estimated_flops" of a function stands in for its body's. CompileError where
    it is not known how many steps a loop has at most.
    """
    if isinstance(stmt_or_mod, IRModule):
        return float(sum(map(_flops_of, stmt_or_mod.functions.values())))
    return float(_flops_of(stmt_or_mod))


def _flops_of(part: Any) -> int:
    """The operations of a function or statement."""
    body = part
    if isinstance(part, S.PrimFunc):
        given, body = part.attrs.get("estimated_flops"), part.body
        if given is not None:
            return const_int(given) or 0
    return int(deep_call(_Flops().count, body))


class _Flops(Recursive):
    recursive = ("count",)

    def __init__(self) -> None:
        self.bounds = BoundedRewriter()

    def count(self, node: Any) -> int:
        kind = type(node)
        if kind is S.For:
            return self._loop(node)
        if kind is S.BufferStore:
            return int(self.count(node.value))
        if kind is E.BufferLoad or kind in COMPARE:
            return 0
        if kind is S.IfThenElse:
            branches = (node.then_case, node.else_case)
            return self.count(node.condition) + max(
                0 if b is None else self.count(b) for b in branches
            )
        if kind is E.Select:
            return self.count(node.condition) + max(
                map(self.count, (node.true_value, node.false_value))
            )
        return sum(map(self.count, children(node))) + (kind in ARITH)

    def _loop(self, s: S.For) -> int:
        analyzer = self.bounds.analyzer
        steps = analyzer.const_int_bound(s.extent).max_value
        if steps >= _OPEN:
            raise CompileError(
                f"it is not known how often the loop over {s.loop_var} runs: {s.extent}"
            )
        low = analyzer.const_int_bound(s.min)
        analyzer.const_int_bound_update(
            s.loop_var, type(low)(low.min_value, max(low.min_value, low.max_value + steps - 1))
        )
        return max(steps, 0) * int(self.count(s.body))


def check_indices(func: S.PrimFunc) -> S.PrimFunc:
    """ScheduleError where some value of an index is proved to be outside of its dimension: where
    its bounds, as far as they are known, reach below 0 or to the extent. What is not known passes.
    """
    checker = _Indices(func)
    checker.stmt(func.body)
    if checker.found:
        raise ScheduleError("Out of bound memory access\n" + "\n".join(checker.found))
    return func


class _Indices(BoundedRewriter):
    """Rewrites nothing; `found` says what is out of bounds."""

    def __init__(self, func: S.PrimFunc) -> None:
        super().__init__(func)
        self.found: list[str] = []

    def expr(self, e: Any) -> Any:
        stack, seen = [e], set()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if type(node) is E.BufferLoad:
                self._check(node.buffer, node.indices)
            stack.extend(children(node))
        return e

    def exprs(self, items: Any) -> Any:
        for e in items:
            self.expr(e)
        return items

    def stmt(self, s: Any) -> Any:
        if type(s) is S.BufferStore:
            self._check(s.buffer, s.indices)
        return super().stmt(s)

    def _check(self, buffer: Buffer, indices: Any) -> None:
        for dimension, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
            if parse(index.dtype).lanes != 1:
                continue
            bound = self.analyzer.const_int_bound(index)
            least = self.analyzer.const_int_bound(extent).min_value
            below = bound.min_value < 0 and _known(index.dtype, bound.min_value)
            above = bound.max_value >= least and _known(index.dtype, bound.max_value)
            if below or (above and _known(extent.dtype, least)):
                self.found.append(
                    f"Out of bounds memory access on buffer {buffer.name} dimension {dimension}. "
                    f"index {index} with bounds [{bound.min_value}, {bound.max_value}] is outside "
                    f"the range [0, {least}]."
                )


def _known(dtype: str, limit: int) -> bool:
    """Whether a bound says more than the type of the index does."""
    bits = parse(dtype).bits
    return -(1 << (bits - 1)) < limit < (1 << (bits - 1)) - 1 and abs(limit) < _OPEN
