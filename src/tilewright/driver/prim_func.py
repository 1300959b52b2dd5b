"""`te.create_prim_func`: the function of a tensor program with default loops, to be lowered, built,
rewritten by passes, or used by te.extern_primfunc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import UsageError
from ..loopir.expr import Var
from ..loopir.stmt import PrimFunc
from ..schedule.api import create_schedule
from ..tensor.op import PlaceholderOp
from ..tensor.tensor import Tensor
from .lower import schedule_to_func


def create_prim_func(
    ops: Sequence[Tensor | Var] | Tensor, index_dtype_override: str | None = None
) -> PrimFunc:
    """The loops that compute tensors from their inputs, as a function of `ops` in their order:
    placeholders, variables, and the results.

    It holds plain loops, one nest a tensor, where TVM's holds TensorIR's blocks; memory between
    them is allocated inside. index_dtype_override: None, or "int32", the type of indices here;
    UsageError for others: the compiler widens indices that do not fit.
    """
    if index_dtype_override not in (None, "int32"):
        raise UsageError(
            f"index_dtype_override={index_dtype_override!r}: indices are int32, and widened where "
            "they do not fit when the function is lowered; leave it out"
        )
    given = [ops] if isinstance(ops, Tensor) else list(ops)
    for item in given:
        if not isinstance(item, (Tensor, Var)):
            raise UsageError(f"create_prim_func takes tensors and variables, got {item!r}")
    results = [t for t in given if isinstance(t, Tensor) and not isinstance(t.op, PlaceholderOp)]
    if not results:
        raise UsageError("create_prim_func needs a tensor that is computed, got placeholders only")
    return _named(schedule_to_func(create_schedule([t.op for t in results]), given))


def _named(func: PrimFunc) -> PrimFunc:
    """The function with its arrays' parameters named as TVM names them, `var_A` for a buffer A."""
    new = {p: Var(f"var_{b.name}", p.dtype) for p, b in func.buffer_map.items()}
    return PrimFunc(
        [new.get(p, p) for p in func.params],
        func.body,
        buffer_map={new[p]: b for p, b in func.buffer_map.items()},
        attrs=func.attrs,
    )


def create_prim_func_from_outputs(
    outputs: Tensor | Sequence[Tensor], index_dtype_override: str | None = None
) -> PrimFunc:
    """As `create_prim_func`, of the placeholders that the outputs need, in the order in which they
    are read, then the outputs. Raises UsageError where index_dtype_override is given and not
    int32."""
    wanted = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs: dict[Tensor, None] = {}
    seen: set[Any] = set()

    stack = list(reversed(wanted))
    while stack:
        t = stack.pop()
        if isinstance(t.op, PlaceholderOp):
            inputs.setdefault(t)
        elif t.op not in seen:
            seen.add(t.op)
            stack += reversed(t.op.input_tensors)
    states = {s for op in seen for s in getattr(op, "state_placeholder", ())}
    return create_prim_func(
        [*(t for t in inputs if t not in states), *wanted], index_dtype_override
    )


def create_relax_prim_func(*args: Any, **kwargs: Any) -> PrimFunc:
    """UsageError: Relax is not part of this project."""
    raise UsageError("Relax is not part of this project: use te.create_prim_func")
