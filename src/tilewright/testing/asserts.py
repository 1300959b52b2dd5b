"""Comparisons that raise AssertionError: of arrays, gradients, conditions and expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Raise AssertionError unless |actual - desired| <= atol + rtol * |desired| everywhere."""
    actual, desired = _numpy(actual), _numpy(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)


def _numpy(value: Any) -> Any:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Any,
    grad_values: Any,
    function_value: Any = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Raise AssertionError where gradients of a scalar function differ from central differences.

    `input_values` and `grad_values`: arrays in a list, or in a dict by argument name; inputs
    without a gradient, the last ones of a list, stay as they are. The function is called with
    copies of the inputs of which one element is moved by `delta`.
    """
    named = isinstance(input_values, dict)
    keys = list(input_values) if named else list(range(len(input_values)))
    for key in grad_values if named else range(len(grad_values)):
        expected = np.asarray(grad_values[key], np.float64)
        found = np.zeros(np.shape(input_values[key]), np.float64)
        for place in np.ndindex(found.shape):
            ends = []
            for step in (delta, -delta):
                moved = {k: np.array(_numpy(input_values[k])) for k in keys}
                moved[key][place] += step
                got = (
                    function(**{str(k): v for k, v in moved.items()})
                    if named
                    else function(*moved.values())
                )
                ends.append(float(np.sum(_numpy(got), dtype=np.float64)))
            found[place] = (ends[0] - ends[1]) / (2 * delta)
        bound = atol * found.size**0.5 + rtol * float(np.linalg.norm(found))
        worst = float(np.linalg.norm(found - expected))
        if not worst <= bound:
            raise AssertionError(
                f"Analytical and numerical grads wrt {key!r} differ too much: {worst} > {bound}\n"
                f"analytical grad = {expected}\nnumerical grad = {found}"
            )


def check_bool_expr_is_true(bool_expr: Any, vranges: Any, cond: Any = None) -> None:
    """Raise AssertionError unless a condition holds for all values of variables in their ranges.

    `vranges`: dict from variables to ranges of constant extent; `cond`: what may be assumed. The
    condition is compiled and evaluated at every point. Raises OperandError where `cond` is neither
    a number nor an expression.
    """
    from ..driver.build_module import build
    from ..loopir.expr import Not
    from ..loopir.op import any as either
    from ..loopir.subst import substitute
    from ..rt.array import empty
    from ..schedule.api import create_schedule
    from ..tensor.compute import compute

    claim = bool_expr if cond is None else either(Not(cond), bool_expr)

    def at(*point: Any) -> Any:
        values = {v: r.min + _as(u, v) for u, (v, r) in zip(point, vranges.items())}
        return substitute(claim, values)

    shape = tuple(int(r.extent) for r in vranges.values())
    tensor = compute(shape, at)
    found = empty(shape, "bool")
    build(create_schedule(tensor.op), [tensor])(found)
    wrong = np.argwhere(np.logical_not(found.numpy()))
    if len(wrong):
        point = {v: f"{r.min} + {n}" for n, (v, r) in zip(wrong[0], vranges.items())}
        raise AssertionError(f"The expression {bool_expr} is not true on {point}")


def _as(value: Any, var: Any) -> Any:
    return value.astype(var.dtype)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raise AssertionError unless the two integer expressions are equal for all values of their
    variables, as far as that can be proved. Raises OperandError where `lhs` or `rhs` is neither a
    number nor an expression."""
    from ..arith import Analyzer
    from ..loopir.construct import convert
    from ..loopir.equal import structural_equal

    a, b = convert(lhs), convert(rhs)
    if not structural_equal(a, b) and not Analyzer().can_prove_equal(a, b):
        raise AssertionError(f"{a} and {b} are not equal")


def check_int_constraints_trans_consistency(
    constraints_trans: Any, vranges: Mapping[Any, Any] | None = None
) -> None:
    """Raise AssertionError unless a transformation of integer constraints maps each solution of the
    one system to one of the other, and back (`arith.IntConstraintsTransform`)."""
    _check_forward(constraints_trans, vranges or {}, True)
    _check_forward(constraints_trans, vranges or {}, False)


def _check_forward(trans: Any, given: Mapping[Any, Any], there: bool) -> None:
    from ..loopir.op import all as every
    from ..loopir.subst import substitute

    first, second = (trans.src, trans.dst) if there else (trans.dst, trans.src)
    forward, back = (
        (trans.src_to_dst, trans.dst_to_src) if there else (trans.dst_to_src, trans.src_to_dst)
    )
    wanted = [substitute(c, back) for c in second.relations]
    for v, r in second.ranges.items():
        if v in second.variables:
            wanted += [substitute(c, back) for c in (v >= r.min, v < r.min + r.extent)]
    wanted += [substitute(forward[v], back).equal(v) for v in first.variables if v in forward]
    known = list(first.relations)
    if wanted and not any(_is_false(e) for e in known):
        ranges = {**given, **first.ranges}
        check_bool_expr_is_true(every(*wanted), ranges, cond=every(*known) if known else None)


def _is_false(e: Any) -> bool:
    return getattr(e, "value", None) in (0, False)
