"""placeholder and compute: tensors given from outside, tensors described element by element."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, overload

from ..base.dtype import canonical, parse
from ..base.errors import OperandError, UsageError
from ..loopir.expr import PrimExpr, convert
from ..loopir.iter import IterVar, Range, Reduce
from ..loopir.operators import ExprLike
from ..loopir.visit import children, post_order_visit
from .arguments import as_attrs, check_function
from .axes import scoped_tag
from .extents import as_shape, same_tree
from .intrin import TensorIntrinCall
from .op import ComputeOp, PlaceholderOp, TensorComputeOp
from .tensor import Tensor

in_element: ContextVar[bool] = ContextVar("in_element", default=False)
"""Whether a function is running that says what one element is."""


def placeholder(shape: Any, dtype: Any = None, name: str = "placeholder") -> Tensor:
    """An argument of the program with a shape (one extent or several) and a dtype (float32). Raises
    TilewrightError where `dtype` is no type such as 'float32', where `shape` has an extent that is
    no integer, or below 0."""
    chosen = "float32" if dtype is None else canonical(dtype)
    return PlaceholderOp(name, as_shape(shape), chosen).output(0)


@overload
def compute(
    shape: Any,
    fcompute: Callable[..., ExprLike | Tensor | TensorIntrinCall],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor: ...


@overload
def compute(
    shape: Any,
    fcompute: Callable[..., Sequence[ExprLike]],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> tuple[Tensor, ...]: ...


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """The tensor whose element (i, j, ...) is fcompute(i, j, ...).

    `fcompute` gives an expression, or a tuple or list of them for several outputs of one shape
    (then a tuple of tensors comes back), or the call of a tensor intrinsic. Its parameters'
    names become the axes' names. With fewer parameters than dimensions, the rest are axes that it
    does not see; `*args` takes all that remain, named by `varargs_names` or i0, i1, ...

    Raises TilewrightError for reductions below the top level, for outputs of which some reduce and
    some do not, and for a wrong number of parameters or indices.
    """
    check_function(fcompute, "fcompute")
    tag = scoped_tag(tag)
    extents = as_shape(shape)
    names = axis_names(fcompute, len(extents), varargs_names)
    if len(names) > len(extents):
        raise UsageError(
            "Number of args to fcompute does not match dimension, "
            f"args={len(names)}, dimension={len(extents)}, of compute {name!r}"
        )
    axes = [IterVar(Range(0, s), n, IterVar.DataPar) for n, s in zip(names, extents)]
    token = in_element.set(True)
    try:
        body = fcompute(*(a.var for a in axes))
    finally:
        in_element.reset(token)
    rest = extents[len(axes) :]
    if isinstance(body, TensorIntrinCall):
        hidden = [
            IterVar(Range(0, s), n, IterVar.Opaque) for n, s in zip(ax_names(len(rest)), rest)
        ]
        op: ComputeOp | TensorComputeOp = TensorComputeOp(
            name, tag, axes + hidden, body.reduce_axis, len(axes), body.intrin, body.tensors,
            body.regions, body.scalar_inputs,
        )  # fmt: skip
    else:
        hidden = [
            IterVar(Range(0, s), n, IterVar.DataPar) for n, s in zip(ax_names(len(rest)), rest)
        ]
        op = ComputeOp(name, tag, as_attrs(attrs), axes + hidden, element_exprs(name, body))
        check_compute(op)
    return op.output(0) if op.num_outputs == 1 else op.outputs


def ax_names(count: int) -> list[str]:
    """Names of axes that no lambda names."""
    return [f"ax{i}" for i in range(count)]


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def axis_names(
    fcompute: Callable[..., Any], ndim: int, varargs_names: Sequence[str] | None
) -> list[str]:
    """The axes' names that the parameters of `fcompute` give; those with defaults are no axes."""
    try:
        parameters = inspect.signature(fcompute).parameters.values()
    except (TypeError, ValueError):
        return list(varargs_names) if varargs_names else [f"i{i}" for i in range(ndim)]
    named: list[str] = []
    varargs = False
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            varargs = True
        elif p.kind is p.VAR_KEYWORD:
            raise UsageError("Variable keyword arguments not supported in fcompute")
        elif p.default is not p.empty:
            continue
        elif p.kind in _POSITIONAL:
            named.append(p.name)
        else:
            raise UsageError(f"Keyword arguments are not supported in fcompute: {p.name}")
    if not varargs:
        return named
    remaining = max(0, ndim - len(named))
    if varargs_names is None:
        return named + [f"i{i}" for i in range(remaining)]
    if len(varargs_names) != remaining:
        raise UsageError(
            f"varargs_names must name the {remaining} remaining dimensions, got {varargs_names}"
        )
    return named + list(varargs_names)


def element_exprs(name: str, body: Any) -> list[PrimExpr]:
    """What an fcompute gave, as expressions."""
    parts = list(body) if isinstance(body, (list, tuple)) else [body]
    if not parts:
        raise UsageError(f"compute {name!r}: fcompute gave no value")
    try:
        exprs = [convert(p) for p in parts]
    except OperandError as error:
        raise UsageError(f"compute {name!r}: fcompute must give expressions: {error}") from None
    for e in exprs:
        if parse(e.dtype).is_handle:
            raise UsageError(f"compute {name!r}: fcompute must give numbers, got {e}")
    return exprs


def check_compute(op: ComputeOp) -> None:
    """Reductions stand at the top, alike in all outputs."""
    first = op.body[0]
    for e in op.body:
        if isinstance(e, Reduce) != isinstance(first, Reduce):
            raise UsageError(
                "All ComputeOp should be consistent with being Reduce operation or not. "
                f"(compute {op.name!r})"
            )
        if isinstance(e, Reduce) and isinstance(first, Reduce) and not same_reduce(e, first):
            raise UsageError(
                "The Reduce inputs of ComputeOp should have the same attribute except value_index: "
                f"the outputs of compute {op.name!r} reduce different things"
            )
        for below in children(e) if isinstance(e, Reduce) else (e,):
            post_order_visit(below, _refuse_reduce)


def _refuse_reduce(e: Any) -> None:
    if type(e) is Reduce:
        raise UsageError(
            "Reductions are only allowed at the top level of compute. "
            f"Please create another tensor for further composition. (found {e})"
        )


def same_reduce(a: Reduce, b: Reduce) -> bool:
    """Whether two reductions are the same but for the value that they pick."""
    if a is b:
        return True
    if a.combiner is not b.combiner or a.axis != b.axis or len(a.source) != len(b.source):
        return False
    pairs = [*zip(a.source, b.source), (a.condition, b.condition), *zip(a.init, b.init)]
    return len(a.init) == len(b.init) and all(same_tree(x, y) for x, y in pairs)
