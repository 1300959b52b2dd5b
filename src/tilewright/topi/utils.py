"""`tvm.topi.utils`: small helpers of operators and schedules."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Any, TypeVar, cast

import numpy as np

from ..arith import Analyzer
from ..base.errors import TilewrightError, UsageError
from ..loopir import expr as E
from ..loopir import op as O
from ..schedule.api import Schedule
from ..target.target import Target
from ..tensor.compute import compute
from ..tensor.op import ComputeOp
from ..tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
AT_LEAST_1, AT_LEAST_2 = range(1, 100), range(2, 100)


def of_rank(**ranks: int | Sequence[int]) -> Callable[[F], F]:
    """A decorator of operators: TilewrightError where a tensor, by its parameter's name, has
    another number of dimensions than the operator takes, before its shape is looked into; its
    docstring says so."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:
                return function(*args, **kwargs)  # which says itself what it takes
            for name, rank in ranks.items():
                tensor = given.get(name)
                if isinstance(tensor, Tensor) and not _fits(tensor.ndim, rank):
                    raise TilewrightError(
                        f"{function.__name__}: {name} has {_ranks_text(rank)} dimensions, got "
                        f"{tensor!r}"
                    )
            return function(*args, **kwargs)

        needed = ", or ".join(
            f"`{n}` is not of {_ranks_text(r)} dimensions" for n, r in ranks.items()
        )
        said = inspect.cleandoc(function.__doc__ or "")
        checked.__doc__ = (
            f"{said}\n\n{fill(f'Raises TilewrightError where {needed}.', 96)}".lstrip()
        )
        return cast(F, checked)

    return decorate


def _fits(ndim: int, rank: int | Sequence[int]) -> bool:
    return ndim == rank if isinstance(rank, int) else ndim in rank


def _ranks_text(rank: int | Sequence[int]) -> str:
    if isinstance(rank, range):
        return f"{rank.start} or more"
    return str(rank) if isinstance(rank, int) else " or ".join(map(str, rank))


def simplify(expr: Any) -> Any:
    """An expression in normal form; numbers and tensors stay."""
    return Analyzer().simplify(expr) if isinstance(expr, E.PrimExpr) else expr


def get_const_int(expr: Any) -> int:
    """The value of a constant integer; UsageError, a ValueError, where it is not constant."""
    if isinstance(expr, int):
        return expr
    found = E.const_int(simplify(expr))
    if found is None:
        raise UsageError(f"Expect value to be constant int, got {expr}")
    return found


def get_const_float(expr: Any) -> float:
    """The value of a constant number; UsageError, a ValueError, where it is not constant."""
    if isinstance(expr, (int, float)):
        return float(expr)
    found = simplify(expr)
    if not isinstance(found, (E.FloatImm, E.IntImm)):
        raise UsageError(f"Expect value to be constant float, got {expr}")
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


def get_float_tuple(in_tuple: Sequence[Any]) -> tuple[float, ...]:
    """Constant numbers as floats. Raises UsageError where `in_tuple` is not constant."""
    return tuple(get_const_float(x) for x in in_tuple)


def _chosen(numbers: Sequence[Any], at: Any) -> Any:
    """The constant number `at` of several, by comparisons, which schedules that unroll `at`
    decide."""
    value = numbers[-1]
    for k in reversed(range(len(numbers) - 1)):
        value = O.select(at.equal(k), numbers[k], value)
    return value


def const_vector(vector: Any, name: str = "const_vector") -> Tensor:
    """Numbers that are known as a tensor of their type."""
    given = np.asarray(vector)
    numbers = [E.const(x.item(), str(given.dtype)) for x in given]
    made: Tensor = compute(given.shape, lambda i: _chosen(numbers, i), name, "const_matrix")
    return made


def const_matrix(matrix: Any, name: str = "const_matrix") -> Tensor:
    """A matrix of numbers that are known as a tensor of their type."""
    given = np.asarray(matrix)
    rows = [[E.const(x.item(), str(given.dtype)) for x in row] for row in given]
    made: Tensor = compute(
        given.shape, lambda i, j: _chosen([_chosen(r, j) for r in rows], i), name, "const_matrix"
    )
    return made


def get_max_power2_factor(n: int, max_value: int | None = None) -> int:
    """The largest power of two that divides n (and is no larger than `max_value`)."""
    x = 1
    while n % 2 == 0 and not (max_value is not None and max_value < x * 2):
        x, n = x * 2, n // 2
    return x


def get_shape(src_shape: Sequence[Any], src_layout: Any, dst_layout: Any) -> tuple[Any, ...]:
    """A shape of one layout in the order of another of the same parts. Raises TilewrightError where
    the layouts have not the same axes."""
    names = [re.findall("[A-Za-z]", str(getattr(x, "name", x))) for x in (src_layout, dst_layout)]
    if sorted(names[0]) != sorted(names[1]):
        raise TilewrightError(f"Incompatible layout {src_layout} vs {dst_layout}")
    return get_const_tuple([src_shape[names[0].index(x)] for x in names[1]])


def within_index(b: Any, e: Any, s: Any, i: Any) -> Any:
    """Whether index `i` is one of the slice from b to e by s. Raises OperandError where `s` is
    neither a number nor an expression."""
    up, down = O.all(i >= b, i < e), O.all(i <= b, i > e)
    steps = O.select(s < 0, O.floormod(b - i, O.abs(s)), O.floormod(i - b, O.abs(s)))
    return O.all(O.select(s < 0, down, up), steps.equal(0))


def make_idx(b: Any, e: Any, s: Any, z: Any, i: Any) -> Any:
    """The number in the slice from b to e by s of index `i` of an array of z elements; some number,
    where it is none of it. Raises OperandError where `s` is neither a number nor an expression."""
    first = O.select(z < b, z - 1, b)
    place = O.select(s < 0, O.floordiv(first - i, O.abs(s)), O.floordiv(i - first, O.abs(s)))
    return O.select(within_index(b, e, s, i), place, E.const(0, place.dtype))


def is_empty_shape(shape: Sequence[Any]) -> bool:
    """Whether a shape has an extent of 0. Raises OperandError where `shape` holds what is neither a
    number nor an expression."""
    return any(E.const_int(E.convert(d)) == 0 for d in shape)


def nchw_pack_layout(layout_info: str) -> bool:
    """Whether a layout is NCHW with inner parts of N and C, as NCHW4n16c."""
    return layout_info[:4] == "NCHW" and "c" in layout_info and "n" in layout_info


def nchw_xc_layout(layout_info: str) -> bool:
    """Whether a layout is NCHW with inner parts of C alone, as NCHW16c."""
    rest = layout_info[4:-1]
    return layout_info[:4] == "NCHW" and layout_info.endswith("c") and rest.isnumeric()


def ceil_div(a: Any, b: Any) -> Any:
    """a / b of integers that are not below zero, rounded up."""
    return O.indexdiv(a + (b - 1), b)


def is_target(names: str | Sequence[str]) -> bool:
    """Whether the target in scope has one of these names among its keys."""
    wanted = [names] if isinstance(names, str) else names
    target = Target.current(allow_none=True)
    if target is None:
        raise UsageError("is_target: no target is in scope; use `with Target(...)`")
    return any(name in target.keys for name in wanted)


def is_dynamic_shape(shape: Sequence[Any]) -> bool:
    """Whether an extent is a size that only a call knows: a te.size_var."""
    return any(isinstance(d, E.SizeVar) for d in shape)


def swap(arr: Sequence[Any], axis: int) -> list[Any]:
    """A list with element `axis` changed for the last."""
    found = list(arr)
    found[axis], found[-1] = found[-1], found[axis]
    return found


class InvalidShapeError(TilewrightError, ValueError):
    """A shape is none that an operator takes."""


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
