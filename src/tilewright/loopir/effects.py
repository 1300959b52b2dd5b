"""What evaluating an operation may do besides giving a value."""

from __future__ import annotations

from typing import Any

from .expr import BufferLoad, Call, Op
from .iter import ProducerLoad
from .op_table import CallEffectKind as CallEffectKind
from .visit import CHILDREN

EFFECT_KEY = "TCallEffectKind"

_levels: dict[tuple[str, str], int] = {}


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Say something about the operation `op_name`, making it known; a higher level overrides.

    `register_op_attr("tir.mylog", "TCallEffectKind", tir.CallEffectKind.Pure)` declares a pure
    intrinsic. Without a value it is a decorator whose function becomes the value.
    """

    def register(given: Any) -> Any:
        op = Op.named(op_name)
        if level >= _levels.get((op_name, attr_key), level):
            op.attrs[attr_key] = given
            _levels[op_name, attr_key] = level
        return given

    return register if value is None else register(value)


def effect_of(op: Op) -> int:
    """The CallEffectKind of an operation; Opaque if nothing is known of it."""
    own = op.attrs.get(EFFECT_KEY)
    return op.row.effect if own is None else int(own)


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
