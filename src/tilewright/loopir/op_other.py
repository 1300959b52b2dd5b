"""Rows of the operations that are not functions of floats: bits, choices, calls, addresses."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..base.dtype import parse
from . import numpy_forms as forms
from .expr import BufferLoad, StringImm, const
from .op_table import CHEAP, FREE, Bound, CallEffectKind, add_row, bits, count, integers

Kind = CallEffectKind


def _floor_div(x: float, by: float) -> float:
    return x if math.isinf(x) else int(x) // int(by)


def _int_pow(x: int, n: int) -> int:
    """The lowest 64 bits of x^n."""
    if n < 0:
        return {1: 1, -1: -1 if n % 2 else 1}.get(x, 0)
    return pow(x, n, 1 << 64)


# -- bounds


def _bit_count_bound(call: Any, x: Bound) -> Bound:
    return 0, parse(call.args[0].dtype).bits


def _shift_right_bound(call: Any, x: Bound, n: Bound) -> Bound | None:
    if n[0] < 0:
        return None
    small, big = 1 << int(n[0]), (1 << int(n[1]) if n[1] <= 64 else None)
    low = _floor_div(x[0], small if x[0] < 0 or big is None else big)
    high = _floor_div(x[1], small if x[1] >= 0 else big or 1 << 64)
    return (0 if x[0] >= 0 and big is None else low), high


def _shift_left_bound(call: Any, x: Bound, n: Bound) -> Bound | None:
    dtype = parse(call.dtype)
    if x[0] < 0 or not 0 <= n[0] <= n[1] < dtype.bits or x[1] == math.inf:
        return None
    high = int(x[1]) << int(n[1])
    return (int(x[0]) << int(n[0]), high) if high <= dtype.max_value else None


def _and_bound(call: Any, x: Bound, y: Bound) -> Bound | None:
    tops = [b[1] for b in (x, y) if b[0] >= 0]
    return (0, min(tops)) if tops else None


def _or_bound(call: Any, x: Bound, y: Bound) -> Bound | None:
    top = max(x[1], y[1])
    if x[0] < 0 or y[0] < 0 or top == math.inf:
        return None
    low = max(x[0], y[0]) if call.op.name == "tir.bitwise_or" else 0
    return low, (1 << int(top).bit_length()) - 1


def _choice_bound(call: Any, condition: Bound, x: Bound, y: Bound) -> Bound:
    return min(x[0], y[0]), max(x[1], y[1])


def _same_bound(call: Any, x: Bound) -> Bound | None:
    return x if call.args[0].dtype == call.dtype else None


# -- checks


def _check_choice(call: Any) -> str | None:
    return count(call, 3) or check_choice("if_then_else", call, *call.args)


def check_choice(what: str, e: Any, condition: Any, x: Any, y: Any) -> str | None:
    """What is wrong with an expression that is `x` or `y`."""
    c, t = parse(condition.dtype), parse(e.dtype)
    if not c.is_bool or c.lanes not in (1, t.lanes):
        return f"the condition of {what} is {condition.dtype}"
    if x.dtype != y.dtype:
        return f"the sides of {what} have types {x.dtype} and {y.dtype}"
    return None if x.dtype == e.dtype else f"{what} says that it is {e.dtype}, but it is {x.dtype}"


def _check_likely(call: Any) -> str | None:
    if len(call.args) != 1 or not parse(call.args[0].dtype).is_bool:
        return "likely takes one condition"
    own = call.args[0].dtype
    return None if call.dtype == own else f"Call says that it is {call.dtype}, but it is {own}"


def _check_reinterpret(call: Any) -> str | None:
    wrong = count(call, 1)
    if wrong:
        return wrong
    to, source = parse(call.dtype), parse(call.args[0].dtype)
    if to.bits * to.lanes != source.bits * source.lanes:
        return f"reinterpret of {source.text} as {to.text}: widths differ"
    return None


def _check_named(call: Any) -> str | None:
    if not call.args or not isinstance(call.args[0], StringImm):
        return f"{call.op.name} without the name of a function"
    return None


def _check_address(call: Any) -> str | None:
    if len(call.args) != 1 or not isinstance(call.args[0], BufferLoad):
        return "address_of takes an element of a buffer"
    return None if call.dtype == "handle" else f"address_of gives handle, not {call.dtype}"


# -- bits

_BITS = {
    "shift_left": (operator.lshift, np.left_shift, _shift_left_bound),
    "shift_right": (operator.rshift, np.right_shift, _shift_right_bound),
    "bitwise_and": (operator.and_, np.bitwise_and, _and_bound),
    "bitwise_or": (operator.or_, np.bitwise_or, _or_bound),
    "bitwise_xor": (operator.xor, np.bitwise_xor, _or_bound),
    "bitwise_not": (operator.inv, np.invert, None),
}
for _name, (_fold, _numpy, _bound) in _BITS.items():
    add_row(
        _name, effect=Kind.Pure, check=bits(1 if _name == "bitwise_not" else 2), lanewise=True,
        fold=_fold, numpy=_numpy, wide=False, bound=_bound, cost=CHEAP, index=True,
    )  # fmt: skip
add_row(
    "popcount", effect=Kind.Pure, lanewise=True, numpy=forms.popcount, wide=False,
    bound=_bit_count_bound, cost=CHEAP, index=True,
)  # fmt: skip
add_row(
    "clz", effect=Kind.Pure, lanewise=True, numpy=forms.clz, wide=False, bound=_bit_count_bound,
    cost=CHEAP, index=True,
)  # fmt: skip
add_row(
    "q_multiply_shift", effect=Kind.Pure, lanewise=True, numpy=forms.q_multiply_shift, wide=False,
    cost=CHEAP,
)  # fmt: skip
add_row(
    "int_pow", effect=Kind.Pure, check=integers(2), lanewise=True, fold=_int_pow,
    numpy=forms.int_pow, wide=False,
)  # fmt: skip
add_row("q_multiply_shift_per_axis", effect=Kind.Pure)

# -- choices and reinterpretations

add_row(
    "if_then_else", effect=Kind.Pure, check=_check_choice, lanewise=True, any_width=True, cost=FREE,
    bound=_choice_bound, index=True,
)  # fmt: skip
add_row(
    "likely", effect=Kind.ExprAnnotation, check=_check_likely, lanewise=True, any_width=True,
    cost=FREE, numpy=lambda x: x, wide=False, slope=lambda x, y: const(1, x.dtype),
    bound=_same_bound, index=True,
)  # fmt: skip
add_row(
    "reinterpret", effect=Kind.Pure, check=_check_reinterpret, lanewise=True, any_width=True,
    cost=FREE, bound=_same_bound,
)  # fmt: skip

# -- vectors, constants, addresses, calls

for _name in ("vectorlow", "vectorhigh", "vectorcombine", "tvm_tuple"):
    add_row(_name, effect=Kind.Pure, any_width=True)
for _name in ("large_uint_imm", "dp4a", "tvm_stack_alloca", "tvm_thread_context", "isnullptr"):
    add_row(_name, effect=Kind.Pure)
add_row("infinity", effect=Kind.Pure)
add_row("vscale", effect=Kind.Pure, bound=lambda call: (1, math.inf), index=True)
add_row("address_of", effect=Kind.Pure, check=_check_address, any_width=True)
add_row("tvm_access_ptr", effect=Kind.SpecialCallArg, any_width=True)
for _name in ("tvm_stack_make_shape", "tvm_stack_make_array"):
    add_row(_name, effect=Kind.SpecialCallArg, any_width=True)
add_row("type_annotation", effect=Kind.SpecialCallArg)
for _name in ("tvm_struct_get", "lookup_param"):
    add_row(_name, effect=Kind.ReadState)
for _name in ("call_pure_extern", "call_llvm_pure_intrin"):
    add_row(_name, effect=Kind.Pure, check=_check_named, any_width=True)
add_row("call_spirv_pure_glsl450", effect=Kind.Pure)
for _name in ("call_extern", "call_llvm_intrin", "tvm_call_packed", "tvm_call_cpacked"):
    add_row(_name, check=_check_named, any_width=True)
for _name in ("ret", "break", "continue", "thread_return"):
    add_row(_name, effect=Kind.ControlJump, any_width=True)
add_row("prefetch", any_width=True)
