"""trace: look at values while a program runs."""

from __future__ import annotations

from typing import Any

from ..base.errors import TilewrightError
from ..loopir.expr import Call, StringImm, convert


def trace(args: Any, trace_action: str = "tvm.default_trace_action") -> Call:
    """The last of `args` after all of them have been shown to a registered function.

    `trace_action` names the function (`tvm.register_func`); it is called with the values for each
    element and returns what takes the place of the last one, so that it can also change it. Raises
    TilewrightError where args are no list, and OperandError where an argument is neither a number
    nor an expression.
    """
    if not isinstance(args, (list, tuple)) or not args:
        raise TilewrightError(f"trace consumes the args as list type, got {args!r}")
    values = [convert(a) for a in args]
    return Call(values[-1].dtype, "tir.tvm_call_packed", (StringImm(trace_action), *values))
