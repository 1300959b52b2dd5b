"""Functions that a hybrid script may call, as they are read: loops, memory, mathematics, types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.dtype import canonical
from ...base.errors import UsageError
from ...loopir import op
from ...loopir.expr import PrimExpr, cast, const, convert
from ...loopir.stmt import ForKind
from ..extents import as_shape
from . import runtime
from .values import Declared, Loop, Memory, Part

CONST, BIND = "const_range", "bind"
_KINDS = {
    "range": ForKind.SERIAL,
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
    "unroll": ForKind.UNROLLED,
    "const_range": CONST,
}


def _loop(name: str) -> Callable[..., Loop]:
    def read(*args: Any) -> Loop:
        if not 1 <= len(args) <= 2:
            raise UsageError(f"{name} takes an end, or a begin and an end; got {len(args)}")
        low, high = (0, args[0]) if len(args) == 1 else args
        return Loop(_KINDS[name], low, high if len(args) == 1 else high - low)

    return read


def _bind(tag: Any, extent: Any) -> Loop:
    if not isinstance(tag, str):
        raise UsageError(f'bind takes a thread axis, such as "threadIdx.x", got {tag!r}')
    return Loop(BIND, 0, extent, tag)


def _shape(shape: Any) -> tuple[PrimExpr, ...]:
    return as_shape(shape if isinstance(shape, tuple) else (shape,))


def _output(shape: Any, dtype: Any) -> Declared:
    return Declared(_shape(shape), canonical(dtype), "output")


def _allocate(shape: Any, dtype: Any = "float32", scope: str = "global") -> Declared:
    if scope not in ("global", "shared", "local"):
        raise UsageError(f"allocate: the scope is global, shared or local, got {scope!r}")
    return Declared(_shape(shape), canonical(dtype), scope)


def _len(value: Any) -> Any:
    if isinstance(value, (Memory, Part)):
        return value.shape[0]
    return len(value)


def _ceil_div(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return op.floordiv(convert(a) + convert(b) - 1, b)


def _threads(allow_none: Any = True) -> int:
    return runtime.max_num_threads(bool(getattr(allow_none, "value", allow_none)))


def _extreme(function: Callable[[Any, Any], PrimExpr]) -> Callable[..., Any]:
    def read(*args: Any) -> Any:
        given: Sequence[Any] = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        found = convert(given[0])
        for other in given[1:]:
            found = function(found, other)
        return found

    return read


def _to(dtype: str) -> Callable[[Any], PrimExpr]:
    return lambda value: cast(dtype, convert(value))


def _on_expr(function: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    return lambda *args: function(*(_float(a) for a in args))


def _float(value: Any) -> PrimExpr:
    return const(float(value), "float32") if isinstance(value, (int, float)) else convert(value)


CALLS: dict[str, Callable[..., Any]] = {
    **{name: _loop(name) for name in _KINDS},
    "bind": _bind,
    "output_tensor": _output,
    "allocate": _allocate,
    "len": _len,
    "ceil_div": _ceil_div,
    "max_num_threads": _threads,
    "min": _extreme(op.min_op),
    "max": _extreme(op.max_op),
    "abs": _on_expr(op.abs),
    "likely": op.likely,
    "popcount": op.popcount,
    **{
        name: _on_expr(getattr(op, name))
        for name in ("sqrt", "rsqrt", "log", "tanh", "power", "exp", "sigmoid", "round")
    },
    **{name: _to(name) for name in runtime._TYPES},
}
