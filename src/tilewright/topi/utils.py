"""`tvm.topi.utils`: small helpers of operators and schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arith import Analyzer
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..schedule.api import Schedule
from ..tensor.op import ComputeOp
from ..tensor.tensor import Tensor


def simplify(expr: Any) -> Any:
    """An expression in normal form; numbers and tensors stay."""
    return Analyzer().simplify(expr) if isinstance(expr, E.PrimExpr) else expr


def get_const_int(expr: Any) -> int:
    """The value of a constant integer; TilewrightError where it is not constant."""
    if isinstance(expr, int):
        return expr
    found = E.const_int(simplify(expr))
    if found is None:
        raise TilewrightError(f"Expect value to be constant int, got {expr}")
    return found


def get_const_float(expr: Any) -> float:
    """The value of a constant number; TilewrightError where it is not constant."""
    if isinstance(expr, (int, float)):
        return float(expr)
    found = simplify(expr)
    if not isinstance(found, (E.FloatImm, E.IntImm)):
        raise TilewrightError(f"Expect value to be constant float, got {expr}")
    return float(found.value)


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """A shape as ints; dimensions that are not constant stay expressions."""
    simple = [simplify(d) for d in in_tuple]
    return tuple(
        d if isinstance(d, E.PrimExpr) and E.const_int(d) is None else int(d) for d in simple
    )


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an expression is the constant `value`."""
    found = expr if isinstance(expr, int) else E.const_int(simplify(expr))
    return bool(found == value)


def prod(x: Sequence[Any]) -> Any:
    """The product of all elements, 1 of none."""
    result: Any = 1
    for item in x:
        result = result * item
    return result


def ravel_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The flat row-major index of an element."""
    flat: Any = None
    for index, extent in zip(indices, shape, strict=True):
        flat = index if flat is None else flat * extent + index
    return flat


def unravel_index(idx: Any, shape: Sequence[Any]) -> list[Any]:
    """The indices of an element of a flat row-major index; of an empty shape, which has no element,
    some that can be computed."""
    indices = []
    for k, extent in reversed(list(enumerate(shape))):
        extent = 1 if E.const_int(extent) == 0 else extent
        indices.append(idx % extent if k else idx)
        idx = idx // extent
    return list(reversed(indices))


def traverse_inline(s: Schedule, final_op: Any, callback: Callable[[Any], Any]) -> None:
    """Inline the element-wise operations from `final_op` backwards, and call `callback` on them and
    on those of other kinds where they begin, which it may look behind itself."""
    seen: set[Any] = set()

    def visit(op: Any) -> None:
        if op in seen:
            return
        seen.add(op)
        if isinstance(op, ComputeOp) and is_injective_tag(op.tag):
            if not s[op].is_output:
                s[op].compute_inline()
            for tensor in op.input_tensors:
                if tensor.op.input_tensors:
                    visit(tensor.op)
        callback(op)

    visit(final_op.op if isinstance(final_op, Tensor) else final_op)


def is_injective_tag(tag: str) -> bool:
    """Whether an operation's tag says element-wise, broadcasting or another injection."""
    return tag.startswith(("elemwise", "broadcast", "injective"))
