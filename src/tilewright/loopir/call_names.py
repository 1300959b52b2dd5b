"""Which builder makes a call of an operation, so that the text of the call reads back as it is.

The printer asks whether `T.exp(x)` gives the very call that it prints, type included; where it does
not, the text says type and operation: `T.call_intrin("float32", "tir.exp", x)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from ..base.errors import TilewrightError
from . import expr as E

MODULES = (
    "op_exact",
    "op_float",
    "op",
    "calls",
    "tensor_core_calls",
    "hopper_calls",
    "runtime_calls",
)
ALIASES = {
    "fabs": "abs",
    "tvm_call_packed": "call_packed",
    "tvm_call_cpacked": "call_cpacked",
    "tvm_call_packed_lowered": "call_packed_lowered",
    "tvm_call_cpacked_lowered": "call_cpacked_lowered",
}
DTYPE_FIRST = frozenset(
    f"tir.{name}"
    for name in (
        "call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin",
        "reinterpret", "vectorlow", "vectorhigh", "vectorcombine", "ptx_mma", "ptx_ldmatrix",
        "ptx_cp_async",
        "ptx_mma_sp", "mma_store", "mma_fill", "ptx_cp_async_bulk", "get_active_lane_mask",
        "ptx_wgmma", "ptx_wgmma_rs", "ptx_cluster_load", "stream_sums",
    )
)  # fmt: skip
"""Operations whose builders take the type of the result as their first argument."""


@cache
def builder(name: str) -> Callable[..., Any] | None:
    """The function that makes calls of the operation "tir.<name>"; None if it has none."""
    own = ALIASES.get(name, name)
    for module in MODULES:
        found = getattr(import_module(f"{__package__}.{module}"), own, None)
        if callable(found) and not isinstance(found, type):
            made: Callable[..., Any] = found
            return made
    return None


def shown_name(call: E.Call) -> str | None:
    """The name under which a call is written, if its builder gives the same call back."""
    op = call.op.name
    if not op.startswith("tir."):
        return None
    name = op[4:]
    make = builder(name)
    if make is None:
        return None
    given = [_written(a) for a in call.args]
    try:
        back = make(call.dtype, *given) if op in DTYPE_FIRST else make(*given)
    except (TilewrightError, TypeError, ValueError, AttributeError):
        return None
    same = type(back) is E.Call and back.op is call.op and back.dtype == call.dtype
    if not same or len(back.args) != len(call.args):
        return None
    if not all(_same(x, y) for x, y in zip(back.args, call.args)):
        return None
    return ALIASES.get(name, name) if name.startswith("tvm_call_") else name


def _written(arg: Any) -> Any:
    """What the text of an argument is read as, before it is made an expression again."""
    if type(arg) is E.StringImm or (type(arg) is E.IntImm and arg.dtype == "int32"):
        return arg.value
    return arg


def _same(x: Any, y: Any) -> bool:
    if x is y:
        return True
    leaf = (E.StringImm, E.IntImm)
    return type(x) is type(y) and isinstance(x, leaf) and (x.dtype, x.value) == (y.dtype, y.value)
