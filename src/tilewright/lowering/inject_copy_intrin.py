"""Let users say how copies are made: loops under a pragma become what their function gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arith.analyzer import Analyzer
from ..arith.linear import detect_clip_bound, detect_linear_equation
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import op
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import strip_likely
from ..loopir.expr import const
from ..loopir.rewrite import Rewriter, handles

CopyIntrin = Callable[[Buffer, Buffer, list[Any], list[Any], Any], S.Stmt]


def inject_copy_intrin(func: S.PrimFunc, key: str, fintrin: CopyIntrin) -> S.PrimFunc:
    """The body of AttrStmt "pragma_KEY" becomes `fintrin(src, dst, pad_before, pad_after, value)`.

    The body is loops around a store of an element of another buffer, or of a padding where a
    condition on the loops does not hold: `src` and `dst` are the boxes that it reads and writes,
    with strides and offsets by the loops, and the paddings how many elements of `value` each
    dimension of `dst` has in front of and behind those of `src` (empty without a condition).
    CompileError where the body is something else, or `fintrin` gives no statement. Needs flat
    buffers. No pass of the pipeline: users who generate code for devices with copy engines ask
    for it.
    """
    return func.with_body(_Injector(f"pragma_{key}", fintrin).stmt(func.body))


class _Injector(Rewriter):
    def __init__(self, key: str, fintrin: CopyIntrin) -> None:
        self.key, self.fintrin = key, fintrin

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key != self.key:
            return super()._attr(s)
        copy = _copy(s.body)
        if copy is None:
            raise CompileError(f"{self.key}: this is no copy of one buffer to another:\n{s.body}")
        new = self.fintrin(*copy)
        if not isinstance(new, S.Stmt):
            raise CompileError(f"{self.key}: its function must give a statement, got {new!r}")
        return new


def _copy(s: S.Stmt) -> tuple[Buffer, Buffer, list[Any], list[Any], Any] | None:
    loops: list[S.For] = []
    while type(s) is S.For:
        loops.append(s)
        s = s.body
    if type(s) is not S.BufferStore or len(s.indices) != 1:
        return None
    condition, load, padding = _padded(s.value)
    if type(load) is E.Cast:
        load = load.value
    if type(load) is not E.BufferLoad or len(load.indices) != 1:
        return None
    loop_vars = [loop.loop_var for loop in loops]
    to = detect_linear_equation(s.indices[0], loop_vars)
    source = detect_linear_equation(load.indices[0], loop_vars)
    if not to or not source:
        return None
    simplify = Analyzer().simplify
    shape, before, after, offset = [x.extent for x in loops], [], [], source[-1]
    read = list(shape)
    if condition is not None:
        limits = detect_clip_bound(condition, loop_vars)
        if not limits:
            return None
        for i, extent in enumerate(shape):
            low, high = limits[2 * i : 2 * i + 2]
            zero = const(0, extent.dtype)
            before.append(zero if low is None else simplify(op.max(low, zero)))
            after.append(zero if high is None else simplify(op.max(extent - high - 1, zero)))
            read[i] = simplify(extent - before[i] - after[i])
            offset = offset + before[i] * source[i]
    dst = _box(s.buffer, shape, to, to[-1])
    return _box(load.buffer, read, source, simplify(offset)), dst, before, after, padding


def _padded(value: Any) -> tuple[Any, Any, Any]:
    """The condition, the value where it holds and the one elsewhere, or only the value."""
    if type(value) is E.Select:
        return strip_likely(value.condition), value.true_value, value.false_value
    if type(value) is E.Call and value.op.name == "tir.if_then_else":
        return strip_likely(value.args[0]), value.args[1], value.args[2]
    return None, value, None


def _box(buffer: Buffer, shape: list[Any], linear: list[Any], offset: Any) -> Buffer:
    """What is accessed of a buffer: a dimension for each loop (one of one element for none)."""
    strides = linear[:-1] or [const(1)]
    return Buffer(
        shape or [const(1)], buffer.dtype, buffer.name, buffer.data, strides, offset, buffer.scope()
    )
