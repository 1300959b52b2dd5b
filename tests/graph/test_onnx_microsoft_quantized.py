"""Quantised operators of domain com.microsoft, and experts, against ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.graph.ort import ours, reference
from tests.graph.test_onnx_microsoft import S, Z, check, floats, whole


def number(value: float) -> Any:
    return np.float32(value)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("opset, axis", [(13, -1), (13, 1), (13, 0), (12, 1), (12, 2), (11, 0)])
def test_softmax(dtype: str, opset: int, axis: int) -> None:
    zero = np.asarray(0 if dtype == "uint8" else -128, dtype)
    given = [number(0.1), np.asarray(3, dtype), number(1 / 256), zero]
    for shape in ((3, 4, 7), (1, 1, 33), (2, 5, 1)):
        x = whole(*shape, dtype=dtype)
        check("QLinearSoftmax", [x], given, dtype, 1, axis=axis, opset=opset)


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [3, 3]},
    {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 1, 0, 1]},
    {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
]


@pytest.mark.parametrize("attrs", POOLS)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_average_pool(attrs: Any, last: int, dtype: str) -> None:
    given = [S, np.asarray(7, dtype), number(0.04), np.asarray(5, dtype)]
    x = whole(1, 9, 7, 5, dtype=dtype) if last else whole(2, 3, 9, 7, dtype=dtype)
    check("QLinearAveragePool", [x], given, dtype, 1, channels_last=last, **attrs)


@pytest.mark.parametrize("attrs", [a for a in POOLS if "count_include_pad" not in a])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_nhwc_max_pool(attrs: Any, dtype: str) -> None:
    check("NhwcMaxPool", [whole(2, 9, 7, 5, dtype=dtype)], [], dtype, **attrs)


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("last", [0, 1])
def test_conv(group: int, last: int) -> None:
    x = whole(1, 6, 5, 4) if last else whole(1, 4, 6, 5)
    w = [whole(8, 4 // group, 3, 3, dtype="int8"), number(0.01), np.int8(0)]
    given = [S, Z, *w, number(0.3), np.uint8(128), whole(8, dtype="int8").astype(np.int32)]
    attrs = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": group}
    check("QLinearConv", [x], given, "uint8", 1, channels_last=last, **attrs)


@pytest.mark.parametrize("turned", [(0, 0), (1, 1), (0, 1)])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("floats_out", [False, True])
def test_gemm(turned: Any, per_column: bool, floats_out: bool) -> None:
    x = whole(*((7, 3) if turned[0] else (3, 7)))
    y = whole(*((5, 7) if turned[1] else (7, 5)), dtype="int8")
    scale = np.abs(floats(5)) / 50 if per_column else number(0.02)
    zero = np.zeros(5, np.int8) if per_column else np.int8(0)
    bias = whole(5, dtype="int8").astype(np.int32)
    given = [S, Z, y, scale, zero, bias]
    given += [] if floats_out else [number(0.2), np.uint8(100)]
    out, tol = ("float32", 1e-5) if floats_out else ("uint8", 1)
    check("QGemm", [x], given, out, tol, transA=turned[0], transB=turned[1], alpha=0.75)


def test_where() -> None:
    condition = np.array([True, False, True, True])
    given = [S, Z, whole(3, 4), number(0.03), np.uint8(9), number(0.06), np.uint8(100)]
    check("QLinearWhere", [condition, whole(3, 4)], given, "uint8", 1)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("indices", [(5,), (2, 3), (), (0,)])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_packed_tables(bits: int, indices: Any, zeros: bool) -> None:
    rows, columns, block = 11, 64, 16
    data, count = whole(rows, columns * bits // 8), columns // block
    chosen = np.random.default_rng(3).integers(-rows, rows, indices)
    given: list[Any] = [np.abs(floats(rows, count))]
    given += [whole(rows, count * bits // 8)] if zeros else []
    attrs = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    model_of_table(data, chosen, given, attrs)


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
@pytest.mark.parametrize("gather, quantize", [(0, 1), (0, -1), (1, 0), (0, 0), (2, 1)])
def test_rows_of_tables_of_four_bits(kind: str, gather: int, quantize: int) -> None:
    shape, block = (17, 32, 3), 16
    scales = [*shape]
    scales[quantize] = -(-shape[quantize] // block)
    low = -8 if kind == "INT4" else 0
    dtype = helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind))
    data = np.random.default_rng(1).integers(low, low + 16, shape).astype(dtype)
    zeros = np.random.default_rng(2).integers(low, low + 16, scales).astype(dtype)
    chosen = np.array([[0, -1], [2, 1]])
    attrs = {"block_size": block, "gather_axis": gather, "quantize_axis": quantize}
    for given in ([np.abs(floats(*scales))], [np.abs(floats(*scales)), zeros]):
        model_of_table(data, chosen, given, attrs)


def model_of_table(data: Any, indices: Any, given: list[Any], attrs: Any) -> None:
    names = ["data", "i", *(f"w{k}" for k in range(len(given)))]
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", **attrs)
    weights = [numpy_helper.from_array(a, n) for n, a in zip(["data", *names[2:]], [data, *given])]
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node], "test", [value("i", 7, indices.shape)], [value("y", 1, None)], weights
    )
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(body, opset_imports=sets, ir_version=10)
    wanted, got = reference(model, {"i": indices})["y"], ours(model, {"i": indices})["y"]
    np.testing.assert_allclose(got, wanted, rtol=1e-6, strict=True)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("steps, batch", [(6, 1), (3, 5), (1, 1)])
def test_lstm(direction: str, per_column: bool, steps: int, batch: int) -> None:
    """ONNX Runtime rounds what steps read to 8 bits, too."""
    n, size, hidden = 1 + (direction == "bidirectional"), 7, 9
    weights: dict[str, Any] = {}
    for name, rows in (("W", size), ("R", hidden)):
        weights[name] = whole(n, rows, 4 * hidden, dtype="int8")
        scale = np.full((n, 4 * hidden) if per_column else (n,), 0.004, np.float32)
        weights[f"{name}s"] = scale * (1 + 0.3 * np.cos(np.arange(scale.size).reshape(scale.shape)))
        weights[f"{name}s"] = weights[f"{name}s"].astype(np.float32)
        weights[f"{name}z"] = np.zeros(scale.shape, np.int8)
    weights["B"] = floats(n, 8 * hidden) / 5
    x = floats(steps, batch, size)
    names = ["x", "W", "R", "B", "", "", "", "", "Ws", "Wz", "Rs", "Rz"]
    node = helper.make_node(
        "DynamicQuantizeLSTM", names, ["y", "h", "c"], domain="com.microsoft",
        direction=direction, hidden_size=hidden,
    )  # fmt: skip
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node], "test", [value("x", 1, x.shape)], [value(k, 1, None) for k in "yhc"],
        [numpy_helper.from_array(a, k) for k, a in weights.items()],
    )  # fmt: skip
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(body, opset_imports=sets, ir_version=8)
    wanted, got = reference(model, {"x": x}), ours(model, {"x": x})
    for name in "yhc":
        np.testing.assert_allclose(got[name], wanted[name], atol=0.03, strict=True)


def test_lstm_has_the_floats_that_weights_mean() -> None:
    w, r = whole(1, 3, 8, dtype="int8"), whole(1, 2, 8, dtype="int8")
    scales = [np.abs(floats(1, 8)) / 99 for _ in range(2)]
    zeros = [whole(1, 8, dtype="int8") for _ in range(2)]
    plain = [(v.astype(np.float32) - z[:, None]) * s[:, None]
             for v, s, z in zip((w, r), scales, zeros)]  # fmt: skip
    x = floats(4, 2, 3)
    names = ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"]
    found = []
    for kind, given, domain in (
        ("LSTM", {"w": plain[0].swapaxes(1, 2), "r": plain[1].swapaxes(1, 2)}, ""),
        ("DynamicQuantizeLSTM", dict(zip(("w", "ws", "wz", "r", "rs", "rz"),
                                         (w, scales[0], zeros[0], r, scales[1], zeros[1]))),
         "com.microsoft"),
    ):  # fmt: skip
        read = names if domain else names[:3]
        node = helper.make_node(kind, read, ["y"], domain=domain, hidden_size=2)
        value = helper.make_tensor_value_info
        body = helper.make_graph(
            [node], "test", [value("x", 1, x.shape)], [value("y", 1, None)],
            [numpy_helper.from_array(np.ascontiguousarray(a), k) for k, a in given.items()],
        )  # fmt: skip
        sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        found.append(ours(helper.make_model(body, opset_imports=sets, ir_version=8), {"x": x})["y"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


EXPERTS: list[dict[str, Any]] = [
    {"activation_type": "relu"},
    {"activation_type": "gelu", "k": 2},
    {"activation_type": "silu", "k": 2, "normalize_routing_weights": 1},
    {"activation_type": "identity", "k": 3},
    {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2, "normalize_routing_weights": 1},
    {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2, "swiglu_limit": 0.5,
     "activation_alpha": 1.702, "activation_beta": 1.0},
]  # fmt: skip


@pytest.mark.parametrize("attrs", EXPERTS)
@pytest.mark.parametrize("shape", [(1, 8), (13, 8), (2, 3, 8)])
@pytest.mark.parametrize("biased", [False, True])
def test_experts(attrs: Any, shape: Any, biased: bool) -> None:
    experts, hidden, inner = 5, 8, 12
    wide = inner * (2 if attrs["activation_type"] == "swiglu" else 1)
    given: list[Any] = [floats(experts, wide, hidden), None, floats(experts, hidden, inner), None]
    if biased:
        given[1], given[3] = floats(experts, wide), floats(experts, hidden)
    router = floats(int(np.prod(shape[:-1])), experts)
    check("MoE", [floats(*shape), router], given, "float32", 1e-4, **attrs)
