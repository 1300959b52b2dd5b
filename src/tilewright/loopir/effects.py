"""What evaluating an operation may do besides giving a value."""

from __future__ import annotations

from typing import Any

from .expr import BufferLoad, Call, Op
from .iter import ProducerLoad
from .visit import CHILDREN


class CallEffectKind:
    """The effect of a call, in growing order of what a pass must respect.

    ExprAnnotation and Pure calls may be repeated, dropped and moved; ReadState calls depend on
    memory; UpdateState (also called Opaque) calls change something. The others mark arguments that
    have a meaning for the callee only (SpecialCallArg), data that is read when code is made
    (EmbedInfo), and jumps such as `ret` (ControlJump).
    """

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6


EFFECT_KEY = "TCallEffectKind"

_PURE = """
    exp exp2 exp10 erf tanh sigmoid log log2 log10 log1p tan cos cosh sin sinh asin acos atan asinh
    acosh atanh atan2 sqrt rsqrt floor ceil trunc fabs round nearbyint nextafter hypot copysign
    ldexp pow popcount clz fmod q_multiply_shift q_multiply_shift_per_axis isnan isfinite isinf
    if_then_else reinterpret shift_left shift_right bitwise_and bitwise_or bitwise_xor bitwise_not
    large_uint_imm call_pure_extern call_llvm_pure_intrin call_spirv_pure_glsl450 fma vectorlow
    vectorhigh vectorcombine dp4a address_of tvm_stack_alloca tvm_thread_context
    isnullptr tvm_tuple infinity
"""
_ANNOTATION = "likely"
_READ = "tvm_struct_get lookup_param"
_SPECIAL = "tvm_access_ptr type_annotation tvm_stack_make_shape tvm_stack_make_array"
_JUMP = "ret break continue thread_return"

EFFECTS: dict[str, int] = {
    **{f"tir.{n}": CallEffectKind.Pure for n in _PURE.split()},
    **{f"tir.{n}": CallEffectKind.ExprAnnotation for n in _ANNOTATION.split()},
    **{f"tir.{n}": CallEffectKind.ReadState for n in _READ.split()},
    **{f"tir.{n}": CallEffectKind.SpecialCallArg for n in _SPECIAL.split()},
    **{f"tir.{n}": CallEffectKind.ControlJump for n in _JUMP.split()},
}

_levels: dict[tuple[str, str], int] = {}


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Say something about the operation `op_name`, making it known; a higher level overrides.

    `register_op_attr("tir.mylog", "TCallEffectKind", tir.CallEffectKind.Pure)` declares a pure
    intrinsic. Without a value it is a decorator whose function becomes the value.
    """

    def register(given: Any) -> Any:
        op = Op.get(op_name)
        if level >= _levels.get((op_name, attr_key), level):
            op.attrs[attr_key] = given
            _levels[op_name, attr_key] = level
        return given

    return register if value is None else register(value)


def effect_of(op: Op) -> int:
    """The CallEffectKind of an operation; Opaque if nothing is known of it."""
    own = op.attrs.get(EFFECT_KEY)
    if own is not None:
        return int(own)
    return EFFECTS.get(op.name, CallEffectKind.Opaque)


def side_effect(expr: Any) -> int:
    """The strongest effect of an expression: Pure, ReadState or UpdateState (never above).

    Reads of buffers and tensors are ReadState. Linear in the number of distinct nodes.
    """
    kind = CallEffectKind.Pure
    seen: set[int] = set()
    stack = [expr]
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, Call):
            kind = max(kind, min(effect_of(e.op), CallEffectKind.UpdateState))
            if kind == CallEffectKind.UpdateState:
                return kind
        elif isinstance(e, (BufferLoad, ProducerLoad)):
            kind = max(kind, CallEffectKind.ReadState)
        stack.extend(CHILDREN[type(e)](e))
    return kind


def is_pure(expr: Any) -> bool:
    """Whether an expression neither changes anything nor depends on memory."""
    return side_effect(expr) <= CallEffectKind.Pure
