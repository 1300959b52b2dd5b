"""Cases of the operators' benchmark that multiply and pool: layers, products, whole numbers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from benchmarks.operators_draw import Case, Draws, Shape, Values, text

PRODUCTS = {"small": 20_000, "medium": 20_000_000, "large": 400_000_000}
"""Multiplications of a convolution or product, about."""


def pools(d: Draws) -> Iterator[Case]:
    kinds = ("MaxPool",) * 5 + ("AveragePool",) * 5 + ("LpPool",)
    for op in kinds:
        dims = d.of(1, 2, 2, 2, 3)
        shape = d.image(d.size(), (3, 16, 17, 64, 192), dims)
        kernel = d.of(2, 2, 3, 3, 5)
        kernel = min(kernel, *shape[2:])
        stride = d.of(1, 2, 2, kernel)
        pad = d.of(0, kernel // 2)
        attrs: dict[str, Any] = {"kernel_shape": [kernel] * dims, "strides": [stride] * dims}
        attrs |= {"pads": [pad] * 2 * dims}
        if d.of(0, 0, 0, 1):
            attrs["ceil_mode"] = 1
        if op == "AveragePool":
            attrs["count_include_pad"] = d.of(0, 1)
        dilation = 2 if op == "MaxPool" and min(shape[2:]) > 2 * kernel and d.of(0, 0, 1) else 1
        if dilation > 1:
            attrs["dilations"] = [dilation] * dims
        what = f"{text(shape)} k{kernel} s{stride} p{pad} d{dilation}"
        yield Case("pool", op, what, [Values(shape)], attrs)
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
        shape = d.image(d.size(), (3, 17, 64, 1280), d.of(1, 2, 2, 3))
        yield Case("pool", op, text(shape), [Values(shape)])
    shape = d.image("medium", (16, 64))
    what, attrs = f"{text(shape)} with places", {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Case("pool", "MaxPool", what, [Values(shape)], attrs, 2)


def _layer(d: Draws, dims: int, depthwise: bool) -> tuple[Shape, Shape, int, int, int, int]:
    """Shapes of data and filters; stride, dilation, padding, groups."""
    kernel = d.of(1, 3, 3, 5, 7) if dims < 3 else d.of(1, 3)
    stride, dilation = d.of(1, 1, 2, 3), d.of(1, 1, 1, 2)
    channels = d.of(3, 16, 17, 32, 64, 96, 197)
    if depthwise:
        group, filters = channels, channels * d.of(1, 1, 1, 2)
    else:
        group = d.of(1, 1, 1, 2, 4)
        channels, filters = -(-channels // group) * group, d.of(8, 17, 32, 64, 100) // group * group
    reach = (kernel - 1) * dilation + 1
    pad = d.of(0, reach // 2)
    work = PRODUCTS[d.of("small", "medium", "medium", "large")]
    points = work / (filters * channels // group * kernel**dims)
    side = max(reach, min(224, round((points * stride**dims) ** (1 / dims))))
    shape = (d.of(1, 1, 2) if side < 224 else 1, channels, *[side] * dims)
    return shape, (filters, channels // group, *[kernel] * dims), stride, dilation, pad, group


def convolutions(d: Draws) -> Iterator[Case]:
    for k in range(16):
        dims = (2, 2, 1, 2, 2, 3, 2, 2)[k % 8]
        data, weights, stride, dilation, pad, group = _layer(d, dims, k % 4 == 3)
        attrs: dict[str, Any] = {"strides": [stride] * dims, "dilations": [dilation] * dims}
        attrs |= {"pads": [pad] * 2 * dims, "group": group}
        inputs = [Values(data), Values(weights, known=True)]
        if d.of(0, 1):
            inputs.append(Values(weights[:1], known=True))
        what = f"{text(data, weights)} s{stride} d{dilation} p{pad} g{group}"
        yield Case("conv", "Conv", what, inputs, attrs)
    for k in range(5):
        dims = (2, 2, 1, 2, 3)[k]
        kernel, stride = d.of(2, 3, 4), d.of(1, 2, 2, 3)
        channels, filters = d.of(3, 16, 64, 97), d.of(1, 3, 32, 64)
        points = PRODUCTS[d.of("medium", "medium", "large")] / (channels * filters * kernel**dims)
        side = max(2, min(160, round(points ** (1 / dims))))
        data, weights = (1, channels, *[side] * dims), (channels, filters, *[kernel] * dims)
        pad = d.of(0, 1) if kernel > 2 else 0
        attrs = {"strides": [stride] * dims, "pads": [pad] * 2 * dims}
        what = f"{text(data, weights)} s{stride} p{pad}"
        inputs = [Values(data), Values(weights, known=True)]
        yield Case("convtranspose", "ConvTranspose", what, inputs, attrs)


def _product(d: Draws) -> tuple[int, int, int]:
    work = PRODUCTS[d.of("small", "medium", "medium", "large")]
    m, k = d.of(1, 1, 2, 3, 7, 17, 64, 97, 128, 197, 1000), d.of(3, 16, 64, 97, 197, 768, 1000)
    n = max(1, min(4096, work // (m * k)))
    m, k, n = d.some((m, k, n), 3) if d.of(0, 0, 1) else (m, k, n)
    return m, k, n


def products(d: Draws) -> Iterator[Case]:
    for _ in range(10):
        m, k, n = _product(d)
        known = bool(d.of(0, 1))
        batch = d.of((), (), (d.of(2, 3, 12),), (2, 3)) if m * k * n < 5e7 else ()
        other = d.of(batch, (), tuple(1 for _ in batch)) if not known else ()
        a, b = (*batch, m, k), (*other, k, n)
        what = f"{text(a, b)}{' constant' if known else ''}"
        yield Case("matmul", "MatMul", what, [Values(a), Values(b, known=known)])
    for _ in range(6):
        m, k, n = _product(d)
        flips = d.of(0, 1), d.of(0, 0, 1)
        a, b = (k, m) if flips[1] else (m, k), (n, k) if flips[0] else (k, n)
        known = bool(d.of(0, 1))
        inputs = [Values(a), Values(b, known=known)]
        if d.of(0, 1):
            inputs.append(Values((n,), known=known))
        attrs: dict[str, Any] = {"transA": flips[1], "transB": flips[0]}
        if d.of(0, 0, 1):
            attrs |= {"alpha": 0.5, "beta": 2.0}
        what = f"{text(a, b)} t{flips[1]}{flips[0]}{' constant' if known else ''}"
        yield Case("matmul", "Gemm", what, inputs, attrs)
    for equation, shapes in (
        ("bij,bjk->bik", [(12, 197, 64), (12, 64, 197)]),
        ("bhid,bhjd->bhij", [(1, 12, 97, 64), (1, 12, 97, 64)]),
        ("ij->ji", [(1000, 768)]),
        ("ij,j->i", [(1000, 1000), (1000,)]),
        ("i,j->ij", [(1000,), (768,)]),
        ("bhwc,hkc->bhwk", [(4, 14, 14, 64), (14, 14, 64)]),
        ("ii->i", [(1000, 1000)]),
        ("bij->bj", [(8, 197, 256)]),
    ):
        what, attrs = f"{equation} {text(*shapes)}", {"equation": equation}
        yield Case("einsum", "Einsum", what, [Values(s) for s in shapes], attrs)
    shape = (2, d.of(64, 97), d.of(64, 197))
    inputs = [Values(shape, "float16"), Values((shape[2], 128), "float16", known=True)]
    yield Case("matmul", "MatMul", f"float16 {text(shape)}", inputs)


def recurrent(d: Draws) -> Iterator[Case]:
    for op, gates in (("LSTM", 4), ("LSTM", 4), ("LSTM", 4), ("GRU", 3), ("GRU", 3), ("RNN", 1)):
        steps, batch = d.of(1, 7, 30, 97), d.of(1, 1, 4, 17)
        wide, hidden = d.of(32, 97, 256), d.of(32, 64, 128, 197)
        both = d.of(0, 0, 1)
        ways = 1 + both
        inputs = [
            Values((steps, batch, wide)),
            Values((ways, gates * hidden, wide), low=-0.1, high=0.1, known=True),
            Values((ways, gates * hidden, hidden), low=-0.1, high=0.1, known=True),
            Values((ways, 2 * gates * hidden), low=-0.1, high=0.1, known=True),
        ]
        attrs: dict[str, Any] = {"hidden_size": hidden}
        attrs |= {"direction": "bidirectional" if both else "forward"}
        if op == "GRU":
            attrs["linear_before_reset"] = d.of(0, 1)
        what = f"{steps} steps batch {batch} {wide} to {hidden}{' both ways' if both else ''}"
        yield Case("recurrent", op, what, inputs, attrs, 3 if op == "LSTM" else 2)


def _scale(value: float) -> Values:
    return Values((), "float32", given=(value,), known=True)


def _zero(value: int, dtype: str) -> Values:
    return Values((), dtype, given=(value,), known=True)


def conversions(d: Draws) -> Iterator[Case]:
    for dtype in ("uint8", "int8", "uint8"):
        shape = d.image(d.size(), (3, 17, 64))
        inputs = [Values(shape), _scale(0.02), _zero(3, dtype)]
        if d.of(0, 0, 1):
            c = shape[1]
            inputs[1:] = [Values((c,), low=0.01, high=0.05, known=True)]
            inputs.append(Values((c,), dtype, 0, 9, known=True))
        what = f"{dtype} {text(shape)}{' by channel' if len(inputs[1].shape) else ''}"
        yield Case("quantize", "QuantizeLinear", what, inputs, {"axis": 1}, off=1)
        x = [Values(shape, dtype), *inputs[1:]]
        yield Case("quantize", "DequantizeLinear", what, x, {"axis": 1})
    for _ in range(2):
        shape = d.shape(2, d.of("medium", "large"))
        what = text(shape)
        yield Case("quantize", "DynamicQuantizeLinear", what, [Values(shape)], outputs=3, off=1)


def _whole_layer(d: Draws, op: str) -> Case:
    data, weights, stride, _, pad, group = _layer(d, 2, bool(d.of(0, 0, 1)))
    kind, other = d.of("uint8", "int8"), d.of("int8", "int8", "uint8")
    other = "int8" if kind == "int8" else other
    attrs: dict[str, Any] = {"strides": [stride] * 2, "pads": [pad] * 4, "group": group}
    if data[2] + 2 * pad < weights[2]:
        attrs["pads"] = [weights[2] // 2] * 4
    what = f"{kind} {other} {text(data, weights)} s{stride} p{pad} g{group}"
    x, w = Values(data, kind), Values(weights, other, known=True)
    if op == "ConvInteger":
        zero = _zero(0 if kind == "int8" else d.of(0, 3), kind)
        x = Values(data, "uint8")
        zero = _zero(d.of(0, 3), "uint8")
        return Case("whole", op, what, [x, w, zero], attrs)
    w_scale: Values = _scale(0.01)
    w_zero = _zero(0, other)
    if d.of(0, 1):
        count = weights[:1]
        w_scale = Values(count, low=0.005, high=0.02, known=True)
        w_zero = Values(count, other, given=(0,) * count[0], known=True)
    out = _scale(0.02 * prod(weights[1:]) ** 0.5), _zero(5, kind)
    inputs = [x, _scale(0.02), _zero(2, kind), w, w_scale, w_zero, *out]
    return Case("whole", op, what, inputs, attrs, off=1)


def whole_numbers(d: Draws) -> Iterator[Case]:
    for _ in range(5):
        yield _whole_layer(d, "QLinearConv")
    for _ in range(3):
        yield _whole_layer(d, "ConvInteger")
    for op in ("MatMulInteger", "MatMulInteger", "MatMulInteger", "QLinearMatMul", "QLinearMatMul"):
        m, k, n = _product(d)
        kind, other = "uint8", d.of("int8", "uint8")
        known = bool(d.of(0, 1, 1))
        x, w = Values((m, k), kind), Values((k, n), other, known=known)
        what = f"{kind} {other} {m}x{k} {k}x{n}{' constant' if known else ''}"
        if op == "MatMulInteger":
            zeros = [_zero(d.of(0, 3), kind), _zero(0, other)]
            yield Case("whole", op, what, [x, w, *zeros])
            continue
        inputs = [x, _scale(0.02), _zero(3, kind), w, _scale(0.01), _zero(0, other)]
        inputs += [_scale(0.02 * k**0.5), _zero(100, kind)]
        yield Case("whole", op, what, inputs, off=1)
    for _ in range(2):
        m, k, n = _product(d)
        # pairs of larger products do not fit the 16 bits of an instruction of ONNX Runtime's
        weights = Values((k, n), "int8", -60, 60, known=True)
        inputs = [Values((m, k)), weights, _scale(0.01), _zero(0, "int8")]
        what = f"{m}x{k} {k}x{n}"
        domain = "com.microsoft"
        yield Case("whole", "DynamicQuantizeMatMul", what, inputs, domain=domain)


def attentions(d: Draws) -> Iterator[Case]:
    for _ in range(3):
        batch, heads, wide = d.of(1, 2), d.of(1, 3, 12), d.of(32, 64, 80)
        steps, keys = d.of(1, 17, 128, 197, 512), d.of(17, 128, 197, 1000)
        q, k = (batch, heads, steps, wide), (batch, heads, keys, wide)
        what = text(q, k)
        yield Case("attention", "Attention", what, [Values(q), Values(k), Values(k)], opset=23)
    for _ in range(2):
        batch, heads, wide, steps = 1, d.of(4, 12), d.of(32, 64), d.of(17, 128, 197)
        shape = (batch, steps, heads * wide)
        attrs, domain = {"num_heads": heads}, "com.microsoft"
        what = f"{text(shape)} in {heads}"
        values = [Values(shape)] * 3
        yield Case("attention", "MultiHeadAttention", what, values, attrs, domain=domain)
    for op in ("FastGelu", "BiasGelu", "QuickGelu", "SkipLayerNormalization"):
        shape = (d.of(1, 4), d.of(7, 128, 197), d.of(97, 256, 768, 1000))
        inputs = [Values(shape)]
        if op == "BiasGelu":
            inputs.append(Values(shape[-1:], known=True))
        if op == "SkipLayerNormalization":
            inputs += [Values(shape), *(Values(shape[-1:], known=True) for _ in range(2))]
        yield Case("attention", op, text(shape), inputs, domain="com.microsoft")


def others(d: Draws) -> Iterator[Case]:
    n, c = d.of(17, 128, 1000), d.of(10, 97, 1000)
    inputs = [Values((n, c)), Values((n,), "int64", 0, c - 1)]
    yield Case("loss", "SoftmaxCrossEntropyLoss", f"{n}x{c}", inputs)
    yield Case("loss", "NegativeLogLikelihoodLoss", f"{n}x{c}", inputs)
    length = d.of(128, 400, 1000)
    signal = Values((d.of(1, 8), length, 1))
    yield Case("signal", "DFT", text(signal.shape), [signal], {"onesided": d.of(0, 1)}, opset=20)
    yield Case("other", "Det", "100x3x3", [Values((100, 3, 3))])
    grid = Values((4,), "int64", given=(2, 3, 97, 64), known=True)
    yield Case("other", "AffineGrid", "2x97x64", [Values((2, 2, 3)), grid], opset=20)


FAMILIES = (
    pools, convolutions, products, recurrent, conversions, whole_numbers, attentions, others,
)  # fmt: skip
