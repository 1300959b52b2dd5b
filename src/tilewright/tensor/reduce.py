"""Reducers: sum, prod, min, max, any, all, and the user's own (`comm_reducer`)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, overload

from ..base.dtype import parse
from ..base.errors import UsageError
from ..loopir import expr as E
from ..loopir import op as tir
from ..loopir import operators as O
from ..loopir.expr import FloatImm, IntImm, PrimExpr, Var, const, convert
from ..loopir.iter import CommReducer, IterVar, ProducerLoad, Reduce
from ..loopir.operators import ExprLike
from ..loopir.subst import substitute
from .arguments import check_function

Axes = IterVar | Sequence[IterVar]


class Reducer(Protocol):
    """A reduction along axes; of several expressions without axes, their combination."""

    __name__: str

    @overload
    def __call__(
        self,
        expr: ExprLike,
        *others: Any,
        axis: Axes = ...,
        where: Any = None,
        init: Any = None,
    ) -> PrimExpr: ...

    @overload
    def __call__(
        self,
        expr: Sequence[ExprLike],
        *others: Any,
        axis: Axes = ...,
        where: Any = None,
        init: Any = None,
    ) -> tuple[PrimExpr, ...]: ...


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Reducer:
    """A reducer out of a commutative, associative `fcombine(x, y)` and `fidentity(dtype)`.

    For several values at once, `fcombine` takes two lists of values and gives one, `fidentity`
    takes a dtype for each. The reducer is called `reducer(expr, axis=k)` or
    `reducer((e0, e1), axis=[k, l])` with `where=` (a condition) and `init=` (a start value, for
    each); the result for several values is a tuple. Called on two or more expressions without axes
    it combines those. Raises TilewrightError where `fcombine` or `fidentity` is no function, and
    UsageError where fcombine takes not two arguments.
    """
    check_function(fcombine, "fcombine")
    check_function(fidentity, "fidentity")
    left_name, right_name = _two_names(fcombine)

    def make(expr: Any, axis: Any, where: Any, init: Any) -> Any:
        several = isinstance(expr, (list, tuple))
        source = [convert(e) for e in (expr if several else (expr,))]
        axes = [axis] if isinstance(axis, IterVar) else list(axis)
        _check_axes(name, axes)
        dtypes = [e.dtype for e in source]
        if several:
            lhs = [Var(f"{left_name}_{i}", t) for i, t in enumerate(dtypes)]
            rhs = [Var(f"{right_name}_{i}", t) for i, t in enumerate(dtypes)]
            result, identity = fcombine(lhs, rhs), fidentity(*dtypes)
        else:
            lhs, rhs = [Var(left_name, dtypes[0])], [Var(right_name, dtypes[0])]
            result, identity = [fcombine(lhs[0], rhs[0])], [fidentity(dtypes[0])]
        combiner = CommReducer(
            lhs, rhs, _typed(name, result, dtypes), _typed(name, identity, dtypes)
        )
        condition = const(True) if where is None else O.as_bool(where)
        starts = _starts(init, dtypes)
        if not axes:
            results = tuple(
                _no_axes(combiner, source, condition, i, starts) for i in range(len(source))
            )
        else:
            results = tuple(
                Reduce(combiner, source, axes, condition, i, starts) for i in range(len(source))
            )
        return results if several and len(results) > 1 else results[0]

    def reducer(expr: Any, *args: Any, **named: Any) -> Any:
        if named or not args or isinstance(args[0], (IterVar, list, tuple)):
            return make(expr, **_reduction(name, args, named))
        result = expr
        for operand in args:
            if operand is not None:
                result = fcombine(result, operand)
        if result is NotImplemented:
            raise UsageError(f"{name} of whole tensors: give elements, such as A[i], and an axis")
        return result

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__signature__ = _SIGNATURE  # type: ignore[attr-defined]
    reducer.__doc__ = (
        f"{name}(expr, axis, where=None, init=None): reduce `expr` over `axis`.\n\n"
        "Raises UsageError where `axis` is not made of te.reduce_axis or stands twice, `init`\n"
        "does not fit `expr`, or a whole tensor is given without an axis, and OperandError\n"
        "where `expr` is neither a number nor an expression."
    )
    return cast(Reducer, reducer)


def _called(expr: Any, axis: Any, where: Any = None, init: Any = None, *args: Any) -> None:
    """How reducers are called; their own parameters also tell which were given by name."""


_SIGNATURE = inspect.signature(_called)


def _reduction(name: str, args: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments axis, where and init of a reduction."""
    given = dict(zip(("axis", "where", "init"), args))
    if len(args) > 3 or not named.keys() <= {"axis", "where", "init"} - given.keys():
        raise UsageError(f"{name} takes expr, axis, where and init, got {[*args, *named.items()]}")
    given = {"where": None, "init": None, **given, **named}
    axis = given.get("axis")
    if not isinstance(axis, (IterVar, list, tuple)):
        raise UsageError(f"{name}: axis must be made by te.reduce_axis, got {axis!r}")
    return given


def _two_names(fcombine: Callable[..., Any]) -> tuple[str, str]:
    names = list(inspect.signature(fcombine).parameters)
    if len(names) != 2:
        raise UsageError(f"fcombine of a reducer takes two arguments, got {names}")
    return names[0], names[1]


def _check_axes(name: str, axes: Sequence[Any]) -> None:
    for a in axes:
        if not isinstance(a, IterVar) or a.iter_type != IterVar.CommReduce:
            raise UsageError(f"{name}: axis must be made by te.reduce_axis, got {a!r}")
    if len(set(axes)) != len(axes):
        raise UsageError(f"{name}: the same axis stands twice in {axes}")


def _typed(name: str, values: Any, dtypes: Sequence[str]) -> list[PrimExpr]:
    """A combiner's values, one of each dtype; plain numbers take it, other types are an error."""
    if not isinstance(values, (list, tuple)) or len(values) != len(dtypes):
        raise UsageError(
            f"{name}: fcombine and fidentity must give {len(dtypes)} values, got {values!r}"
        )
    result = []
    for value, dtype in zip(values, dtypes):
        if not isinstance(value, O.ExprOps):
            value = const(value, dtype)
        e = convert(value)
        if e.dtype != dtype:
            if not E.is_const(e):
                raise UsageError(f"{name}: {e} is {e.dtype}, the values reduced are {dtype}")
            e = E.cast(dtype, e)
        result.append(e)
    return result


def _starts(init: Any, dtypes: Sequence[str]) -> list[PrimExpr]:
    if init is None:
        return []
    values = list(init) if isinstance(init, (list, tuple)) else [init]
    if len(values) != len(dtypes):
        raise UsageError(
            f"Number of inits should match number of exprs: {len(values)} and {len(dtypes)}"
        )
    result: list[PrimExpr] = []
    for value, dtype in zip(values, dtypes):
        e = E.cast(dtype, value) if E.is_const(convert(value)) else convert(value)
        if not isinstance(e, (IntImm, FloatImm, ProducerLoad)) or e.dtype != dtype:
            raise UsageError(
                "init can only be a IntImm, FloatImm or ProducerLoad of the reduced type "
                f"{dtype}, but received {e} of type {e.dtype}"
            )
        result.append(e)
    return result


def _no_axes(
    combiner: CommReducer,
    source: Sequence[PrimExpr],
    condition: PrimExpr,
    index: int,
    starts: Sequence[PrimExpr],
) -> PrimExpr:
    """A reduction over no axis: one element, taken if the condition holds."""
    if starts:
        values = {**dict(zip(combiner.lhs, starts)), **dict(zip(combiner.rhs, source))}
        taken: PrimExpr = substitute(combiner.result[index], values)
        otherwise = starts[index]
    else:
        taken, otherwise = source[index], combiner.identity_element[index]
    if E.is_const(condition, 1):
        return taken
    return E.Select(condition, taken, otherwise)


def least_value(dtype: str) -> PrimExpr:
    """The identity of max: minus infinity, or the smallest value of an integer type."""
    t = parse(dtype)
    return const(-math.inf if t.is_float else int(t.min_value), dtype)


def greatest_value(dtype: str) -> PrimExpr:
    """The identity of min: infinity, or the largest value of an integer type."""
    t = parse(dtype)
    return const(math.inf if t.is_float else int(t.max_value), dtype)


sum = comm_reducer(lambda x, y: O.binary(E.Add, x, y), lambda t: const(0, t), name="sum")
prod = comm_reducer(lambda x, y: O.binary(E.Mul, x, y), lambda t: const(1, t), name="prod")
min = comm_reducer(lambda x, y: O.binary(E.Min, x, y), greatest_value, name="min")
max = comm_reducer(lambda x, y: O.binary(E.Max, x, y), least_value, name="max")

_all = comm_reducer(lambda x, y: O.logical_and(x, y), lambda t: const(True, t), name="all")
_any = comm_reducer(lambda x, y: O.logical_or(x, y), lambda t: const(False, t), name="any")


def all(*args: Any, axis: Any = None, where: Any = None, span: object = None) -> Any:
    """Whether all conditions hold; with `axis`, whether the one given holds all along it. Raises
    ValueError where no condition is given, and UsageError where more than one condition is given
    with an axis."""
    return tir.all(*args) if axis is None else _over("all", _all, args, axis, where)


def any(*args: Any, axis: Any = None, where: Any = None, span: object = None) -> Any:
    """Whether some condition holds; with `axis`, whether the one given holds anywhere along it.
    Raises ValueError where no condition is given, and UsageError where more than one condition is
    given with an axis."""
    return tir.any(*args) if axis is None else _over("any", _any, args, axis, where)


def _over(
    name: str, reducer: Callable[..., Any], args: Sequence[Any], axis: Any, where: Any
) -> Any:
    if len(args) != 1:
        raise UsageError(f"{name} over an axis takes one condition, got {len(args)}")
    return reducer(O.as_bool(args[0]), axis=axis, where=where)


def builtin_kind(combiner: CommReducer) -> type | None:
    """The operation of a combiner of one value that is just that operation."""
    if len(combiner.result) != 1:
        return None
    result = combiner.result[0]
    if type(result) not in (E.Add, E.Mul, E.Min, E.Max, E.And, E.Or):
        return None
    operands = {result.a, result.b}  # type: ignore[attr-defined]
    return type(result) if operands == {combiner.lhs[0], combiner.rhs[0]} else None
