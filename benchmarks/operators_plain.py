"""Cases of the operators' benchmark that compute element by element, reduce, and normalise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.operators_draw import Case, Draws, Shape, Values, text

UNARY = [
    "Abs", "Neg", "Exp", "Sqrt", "Relu", "Sigmoid", "Tanh", "Erf", "Gelu", "Softplus", "Softsign",
    "Elu", "Selu", "HardSigmoid", "HardSwish", "Mish", "Sin", "Cos", "Tan", "Atan", "Sinh",
    "Cosh", "Asinh", "Floor", "Ceil", "Round", "Sign", "Reciprocal", "LeakyRelu", "Celu",
    "ThresholdedRelu", "IsNaN", "IsInf", "Log", "Asin", "Acos", "Acosh", "Atanh",
]  # fmt: skip
WITHIN: dict[str, tuple[float, float]] = {
    "Sqrt": (0, 9),
    "Log": (0.01, 9),
    "Asin": (-1, 1),
    "Acos": (-1, 1),
    "Acosh": (1, 9),
}
WITHIN |= {"Atanh": (-0.9, 0.9), "Tan": (-1.5, 1.5), "Reciprocal": (0.5, 2)}
BINARY = "Add Sub Mul Div Pow Mod Less Greater Equal LessOrEqual And Or Xor BitwiseAnd BitShift"
REDUCTIONS = [
    "Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp",
]  # fmt: skip


def unary(d: Draws) -> Iterator[Case]:
    for op in UNARY:
        size = d.of("medium", "large")
        shape = d.shape(d.of(1, 2, 3, 4), size)
        low, high = WITHIN.get(op, (None, None))
        attrs = {"approximate": d.of("none", "tanh")} if op == "Gelu" else {}
        yield Case("unary", op, text(shape), [Values(shape, "float32", low, high)], attrs)
    for op, dtype in (
        ("Abs", "int32"), ("Neg", "int64"), ("Sign", "int8"), ("Not", "bool"), ("Relu", "float16"),
        ("Tanh", "float16"), ("BitwiseNot", "uint8"), ("Exp", "float64"), ("Sigmoid", "float16"),
    ):  # fmt: skip
        shape = d.shape(d.of(1, 3), d.size())
        yield Case("unary", op, f"{dtype} {text(shape)}", [Values(shape, dtype)])
    for dtype in ("float32", "float16", "int32", "uint8"):
        shape = d.shape(2, d.size())
        ends = [Values((), dtype, known=True, given=(n,)) for n in (1, 50)]
        yield Case("unary", "Clip", f"{dtype} {text(shape)}", [Values(shape, dtype), *ends])
    shape = d.image(d.of("medium", "large"), (3, 17, 64))
    slope = Values((shape[1], 1, 1), known=True)
    yield Case("unary", "PRelu", text(shape), [Values(shape), slope])


def stretched(d: Draws, shape: Shape) -> tuple[str, Shape]:
    """A shape that is broadcast to another one."""
    kind = d.of("same", "scalar", "row", "column", "middle", "few", "outer")
    rank = len(shape)
    if kind == "same" or rank < 2:
        return "same", shape
    if kind == "scalar":
        return kind, ()
    if kind == "row":
        return kind, shape[-1:]
    if kind == "column":
        return kind, (*shape[:-1], 1)
    if kind == "middle":
        return kind, tuple(e if k == rank // 2 else 1 for k, e in enumerate(shape))
    if kind == "few":
        return kind, tuple(e if k % 2 else 1 for k, e in enumerate(shape))
    return kind, (shape[0], *[1] * (rank - 1))


def binary(d: Draws) -> Iterator[Case]:
    for op in [*BINARY.split(), "Add", "Mul", "Sub", "Div", "Add", "Mul"]:
        shape = d.shape(d.of(2, 3, 4), d.size())
        kind, other = stretched(d, shape)
        dtype, attrs = d.of("float32", "float32", "float32", "int64", "int32", "float16"), {}
        low: float | None = None
        if op in ("And", "Or", "Xor"):
            dtype = "bool"
        elif op in ("BitwiseAnd", "BitShift"):
            dtype = d.of("uint8", "uint32")
        if op == "BitShift":
            attrs, low = {"direction": d.of("LEFT", "RIGHT")}, 0
        elif op == "Mod":
            dtype, low = d.of("int64", "int32"), 1
        elif op == "Div":
            low = 1
        elif op == "Pow":
            dtype, low = "float32", 1
        a = Values(shape, dtype, low if op == "Pow" else None, 3 if op == "Pow" else None)
        b = Values(other, dtype, low, None if low is None else 7)
        pair = [b, a] if d.of(0, 0, 1) and op not in ("Div", "Pow", "Mod", "BitShift") else [a, b]
        yield Case("binary", op, f"{dtype} {kind} {text(*(v.shape for v in pair))}", pair, attrs)
    for op in ("Max", "Min", "Sum", "Mean"):
        shape = d.shape(3, d.size())
        values = [Values(shape), *(Values(stretched(d, shape)[1]) for _ in range(2))]
        yield Case("binary", op, text(*(v.shape for v in values)), values)
    for dtype in ("float32", "float32", "int64", "uint8", "float16"):
        shape = d.shape(3, d.size())
        parts = [Values(stretched(d, shape)[1], "bool"), Values(shape, dtype)]
        parts.append(Values(stretched(d, shape)[1], dtype))
        what = f"{dtype} {text(*(v.shape for v in parts))}"
        yield Case("binary", "Where", what, parts)


def _axes(d: Draws, rank: int) -> list[int]:
    kind = d.of("first", "last", "middle", "all", "two", "lasts")
    if kind == "first":
        return [0]
    if kind == "last":
        return [rank - 1]
    if kind == "middle":
        return [rank // 2]
    if kind == "all":
        return list(range(rank))
    if kind == "lasts":
        return list(range(1, rank)) or [0]
    return sorted(d.some(range(rank), min(2, rank)))


def reductions(d: Draws) -> Iterator[Case]:
    for op in [*REDUCTIONS, *REDUCTIONS, "Sum", "Mean", "Max", "Mean", "Sum", "Max"]:
        rank = d.of(2, 3, 4)
        shape, axes = d.shape(rank, d.size()), _axes(d, rank)
        dtype = d.of("float32", "float32", "float32", "int32") if op != "LogSumExp" else "float32"
        if op in ("Prod", "LogSum", "L2", "LogSumExp"):
            dtype = "float32"
        low, high = {"LogSum": (0.5, 2), "Prod": (0.999, 1.001)}.get(op, (None, None))
        inputs = [Values(shape, dtype, low, high)]
        inputs.append(Values((len(axes),), "int64", known=True, given=tuple(axes)))
        keep = d.of(0, 1)
        what = f"{dtype} {text(shape)} over {axes}"
        yield Case("reduce", f"Reduce{op}", what, inputs, {"keepdims": keep})
    for op in ("ArgMax", "ArgMin", "ArgMax", "ArgMax"):
        rank = d.of(2, 3, 4)
        shape, axis = d.shape(rank, d.of("medium", "large")), d.of(*range(rank))
        dtype = d.of("float32", "float32", "int32", "uint8")
        attrs = {"axis": axis, "keepdims": d.of(0, 1)}
        yield Case("arg", op, f"{dtype} {text(shape)} over {axis}", [Values(shape, dtype)], attrs)


def sorted_lines(d: Draws) -> Iterator[Case]:
    for k in (1, 5, 100, 5):
        rank = d.of(1, 2, 3)
        shape = d.shape(rank, d.of("medium", "large"))
        axis = d.of(rank - 1, rank - 1, 0)
        k = min(k, shape[axis])
        attrs = {"axis": axis, "largest": d.of(0, 1, 1)}
        count = Values((1,), "int64", known=True, given=(k,))
        what = f"{k} of {text(shape)} along {axis}"
        yield Case("topk", "TopK", what, [Values(shape), count], attrs, 2)
    for dtype in ("float32", "float32", "int64"):
        rank = d.of(1, 2, 3)
        shape, axis = d.shape(rank, d.size()), d.of(*range(rank))
        attrs = {"exclusive": d.of(0, 1), "reverse": d.of(0, 1)}
        place = Values((), "int64", known=True, given=(axis,))
        what = f"{dtype} {text(shape)} along {axis}"
        low, high = (-1, 1) if dtype == "float32" else (-9, 9)
        yield Case("scan", "CumSum", what, [Values(shape, dtype, low, high), place], attrs)


def softmaxes(d: Draws) -> Iterator[Case]:
    fixed: list[tuple[str, Shape, int]] = [
        ("Softmax", (1, 50257), 1),
        ("LogSoftmax", (7, 32003), 1),
        ("Softmax", (12, 197, 197), 2),
    ]
    for op in ("Softmax", "Softmax", "Softmax", "LogSoftmax", "LogSoftmax", "Hardmax"):
        rank = d.of(2, 3, 4)
        fixed.append((op, d.shape(rank, d.size()), d.of(rank - 1, *range(rank))))
    for op, shape, axis in fixed:
        yield Case("softmax", op, f"{text(shape)} along {axis}", [Values(shape)], {"axis": axis})
    shape = d.shape(3, "medium")
    what = f"float16 {text(shape)}"
    yield Case("softmax", "Softmax", what, [Values(shape, "float16")], {"axis": -1})


def _affine(shape: Sequence[int]) -> list[Values]:
    return [Values(tuple(shape), known=True) for _ in range(2)]


def norms(d: Draws) -> Iterator[Case]:
    for _ in range(3):
        size, rank = d.size(), d.of(2, 3)
        shape, axis = d.shape(rank, size), d.of(-1, -1, 1 - rank)
        inputs = [Values(shape), *_affine(shape[axis:])]
        what = f"{text(shape)} from {axis}"
        yield Case("norm", "LayerNormalization", what, inputs, {"axis": axis})
    shape = d.shape(3, d.size())
    inputs = [Values(shape), Values(shape[-1:], known=True)]
    yield Case("norm", "RMSNormalization", text(shape), inputs, opset=23)
    for _ in range(2):
        shape = d.image(d.size(), (3, 17, 64, 256), d.of(1, 2, 2))
        yield Case(
            "norm", "InstanceNormalization", text(shape), [Values(shape), *_affine(shape[1:2])]
        )
        shape = d.image(d.size(), (12, 64, 96, 320), d.of(1, 2, 2))
        groups = d.of(1, 2, 4)
        what, attrs = f"{text(shape)} in {groups}", {"num_groups": groups}
        inputs = [Values(shape), *_affine(shape[1:2])]
        yield Case("norm", "GroupNormalization", what, inputs, attrs)
    shape = d.image(d.size(), (3, 17, 64, 256))
    rest = [Values(shape[1:2], low=0.5, high=2, known=True) for _ in range(4)]
    yield Case("norm", "BatchNormalization", text(shape), [Values(shape), *rest])
    for _ in range(2):
        shape, span = d.image(d.size(), (16, 64, 96, 33)), d.of(3, 5, 5, 7)
        yield Case("norm", "LRN", f"{text(shape)} of {span}", [Values(shape)], {"size": span})
    shape, axis = d.shape(3, d.size()), d.of(0, 1, 2)
    attrs = {"axis": axis, "p": d.of(1, 2)}
    yield Case("norm", "LpNormalization", f"{text(shape)} along {axis}", [Values(shape)], attrs)
    shape = d.image(d.size(), (3, 17, 64))
    yield Case("norm", "MeanVarianceNormalization", text(shape), [Values(shape)])


def conversions(d: Draws) -> Iterator[Case]:
    import numpy as np
    import onnx.helper

    kinds = ("float32", "float16", "int32", "int64", "uint8", "int8", "bool", "float64")
    pairs: list[Any] = [("float32", "float16"), ("float16", "float32"), ("int64", "float32")]
    pairs += [("float32", "int64"), ("uint8", "float32"), ("bool", "float32"), ("float32", "uint8")]
    pairs += [d.some(kinds, 2) for _ in range(4)]
    for a, b in pairs:
        shape = d.shape(2, d.of("medium", "large"))
        low, high = (0, 100) if "uint8" in (a, b) else (-100, 100)
        to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(b))
        inputs = [Values(shape, a, low, high)]
        yield Case("cast", "Cast", f"{a} to {b} {text(shape)}", inputs, {"to": to})


FAMILIES = (unary, binary, reductions, sorted_lines, softmaxes, norms, conversions)
