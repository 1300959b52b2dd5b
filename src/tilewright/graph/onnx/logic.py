"""Comparisons, conditions, bits, remainders."""

from __future__ import annotations

from ...base.dtype import parse
from ..ir import Value
from .convert import Builder, Converter, OnnxNode
from .math import operands, pair, simple, type_of


def _condition(op: str) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        x, y = operands(b, node)
        for v in (x, y):
            if v.dtype != "bool":
                raise node.error(f"{v!r} is no condition")
        return b.add(op, [x, y], node.name)

    return convert


def bit_shift(b: Builder, node: OnnxNode) -> Value:
    direction = node.get("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.error(f"direction is 'LEFT' or 'RIGHT', got {direction!r}")
    return b.add("shift", [node.input(0), node.input(1)], node.name, direction=direction)


def mod(b: Builder, node: OnnxNode) -> Value:
    x, y = node.input(0), node.input(1)
    fmod = node.get("fmod", 0)
    if fmod not in (0, 1):
        raise node.error(f"fmod is 0 or 1, got {fmod}")
    if b.opset < 28 and not fmod and parse(x.dtype).is_float:
        raise node.error("before operator set 28, floats are divided with fmod=1 only")
    return b.add("mod", [x, y], node.name, fmod=fmod)


def is_inf(b: Builder, node: OnnxNode) -> Value:
    positive, negative = node.get("detect_positive", 1), node.get("detect_negative", 1)
    return b.add("isinf", [node.input(0)], node.name, positive=positive, negative=negative)


def bit_cast(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    dtype = type_of(node, node.get("to"))
    if parse(dtype).nbytes != parse(x.dtype).nbytes:
        raise node.error(f"{x!r} has not as many bits as {dtype}")
    return b.add("bit_cast", [x], node.name, dtype=dtype)


CONVERTERS: dict[str, Converter] = {
    "And": _condition("bitwise_and"),
    "Or": _condition("bitwise_or"),
    "Xor": _condition("bitwise_xor"),
    "Not": simple("invert"),
    "GreaterOrEqual": pair("greater_equal"),
    "LessOrEqual": pair("less_equal"),
    "BitwiseAnd": pair("bitwise_and"),
    "BitwiseOr": pair("bitwise_or"),
    "BitwiseXor": pair("bitwise_xor"),
    "BitwiseNot": simple("invert"),
    "BitShift": bit_shift,
    "BitCast": bit_cast,
    "Mod": mod,
    "Sign": simple("sign"),
    "IsNaN": simple("isnan"),
    "IsInf": is_inf,
}
