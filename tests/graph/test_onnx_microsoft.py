"""Operators of domain com.microsoft against ONNX Runtime, whose own they are."""

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tests.graph.ort import ours, reference

RNG = np.random.default_rng(5)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def whole(*shape: int, dtype: str = "uint8") -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def check(
    kind: str, inputs: list[Any], weights: list[Any], out: str, tol: float = 0, **attrs: Any
) -> None:
    """One node: `inputs`, then `weights` (None: left out). `tol`: the largest difference, which is
    1 where whole numbers are rounded from floats."""
    given = {f"x{k}": np.asarray(a) for k, a in enumerate(inputs)}
    known = {f"w{k}": np.asarray(a) for k, a in enumerate(weights) if a is not None}
    names = [*given, *("" if a is None else f"w{k}" for k, a in enumerate(weights))]
    node = helper.make_node(kind, names, ["y"], name="node", domain="com.microsoft", **attrs)
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for k, a in given.items()
    ]
    graph = helper.make_graph(
        [node], "test", infos,
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(out)), None)],
        [numpy_helper.from_array(a, k) for k, a in known.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    wanted, got = reference(model, given)["y"], ours(model, given)["y"]
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(
        got.astype(np.float64), wanted.astype(np.float64), rtol=tol if tol < 1 else 0, atol=tol
    )


S, Z = np.float32(0.05), np.uint8(120)


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("left, right", [((3, 5), (3, 5)), ((2, 3, 7), (3, 1)), ((), (4,))])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantised_pairs(kind: str, left: Any, right: Any, dtype: str) -> None:
    zero = np.asarray(7, dtype)
    pairs = [whole(*left, dtype=dtype)], [S, zero, whole(*right, dtype=dtype), np.float32(0.03)]
    check(kind, pairs[0], [*pairs[1], zero, np.float32(0.07), np.asarray(3, dtype)], dtype, 1)
    check(kind, pairs[0], [*pairs[1], zero, np.float32(0.07)], dtype, 1)


@pytest.mark.parametrize("kind, attrs", [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {}),
                                         ("QLinearLeakyRelu", {"alpha": 0.3})])  # fmt: skip
def test_quantised_activations(kind: str, attrs: Any) -> None:
    x = whole(3, 37)
    check(kind, [x], [S, Z, np.float32(0.004), np.uint8(3)], "uint8", 1, **attrs)


def test_quantised_concat() -> None:
    parts = [whole(2, 3), np.float32(0.1), np.uint8(9), whole(2, 4), S, Z]
    check("QLinearConcat", [], [np.float32(0.08), np.uint8(100), *parts], "uint8", 1, axis=1)


@pytest.mark.parametrize("last", [0, 1])
def test_quantised_pool(last: int) -> None:
    more = [S, Z, np.float32(0.02), np.uint8(128)]
    check("QLinearGlobalAveragePool", [whole(2, 3, 5, 4)], more, "uint8", 1, channels_last=last)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("columns", [(), (7,)])
def test_dynamic_quantize_matmul(dtype: str, columns: Any) -> None:
    y = whole(5, 7, dtype=dtype) // 4  # ONNX Runtime's sums of larger ones saturate on some CPUs
    scale = np.abs(floats(*columns)) + np.float32(0.01)
    zero = whole(*columns, dtype=dtype)
    for x in (floats(3, 5), floats(2, 4, 5), np.zeros((2, 5), np.float32)):
        check("DynamicQuantizeMatMul", [x], [y, scale, zero, floats(7)], "float32", 2e-4)
        check("DynamicQuantizeMatMul", [x], [y, scale], "float32", 2e-4)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_matmul_integer_to_float(dtype: str) -> None:
    x, y = whole(3, 5), whole(5, 7, dtype=dtype) // 4
    scales = [S, np.abs(floats(7))]
    zeros = [Z, whole(7, dtype=dtype)]
    check("MatMulIntegerToFloat", [x], [y, *scales, *zeros, floats(7)], "float32", 1e-5)
    check("MatMulIntegerToFloat", [x], [y, *scales], "float32", 1e-5)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("inner, size", [(64, 16), (48, 32), (40, 16)])
def test_matmul_nbits(bits: int, inner: int, size: int) -> None:
    columns, blocks = 9, -(-inner // size)
    packed, scales = whole(columns, blocks, size * bits // 8), floats(columns * blocks)
    attrs = {"K": inner, "N": columns, "bits": bits, "block_size": size}
    zeros = whole(columns * -(-blocks * bits // 8))
    for x in (floats(3, inner), floats(2, 3, inner)):
        check("MatMulNBits", [x], [packed, scales], "float32", 2e-4, **attrs)
        check("MatMulNBits", [x], [packed, scales, zeros], "float32", 2e-4, **attrs)
    x = floats(2, inner)
    check("MatMulNBits", [x], [packed, scales, None, None, floats(columns)], "float32", 2e-4,
          **attrs)  # fmt: skip


@pytest.mark.parametrize(
    "left, right, attrs",
    [
        ((3, 5), (5, 7), {"alpha": 0.5}),
        ((5, 3), (7, 5), {"transA": 1, "transB": 1}),
        ((2, 5, 3), (2, 5, 7), {"transA": 1, "alpha": 2.0}),
        ((3, 2, 5), (2, 5, 7), {"transBatchA": 1}),
        ((2, 3, 5), (7, 2, 5), {"transBatchB": 1, "transB": 1}),
    ],
)
def test_fused_matmul(left: Any, right: Any, attrs: Any) -> None:
    check("FusedMatMul", [floats(*left), floats(*right)], [], "float32", 1e-5, **attrs)


def test_gelu() -> None:
    x, bias = floats(3, 17) * 3, floats(17)
    check("Gelu", [x], [], "float32", 1e-5)
    check("BiasGelu", [x], [bias], "float32", 1e-5)
    check("FastGelu", [x], [bias], "float32", 1e-5)
    check("FastGelu", [x], [], "float32", 1e-5)
    check("QuickGelu", [x], [], "float32", 1e-5)
    check("QuickGelu", [x], [], "float32", 1e-5, alpha=0.7)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int8"])
def test_conversions_of_its_own(dtype: str) -> None:
    x, zero = floats(3, 17) * 9, np.asarray(30, dtype)
    check("QuantizeLinear", [x], [S, zero], dtype)
    check("DequantizeLinear", [whole(3, 17, dtype=dtype)], [S, zero], "float32", 1e-6)


@pytest.mark.parametrize(
    "kind, params",
    [("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.1]), ("Clip", [-0.5, 0.7]),
     ("HardSigmoid", [0.3, 0.4])],
)  # fmt: skip
def test_fused_activations(kind: str, params: list[float]) -> None:
    more: dict[str, Any] = {"activation_params": params} if params else {}
    conv = [floats(4, 3, 3, 3), floats(4)]
    check("FusedConv", [floats(2, 3, 6, 5)], conv, "float32", 1e-5, activation=kind, **more)
    if kind in ("Relu", "Tanh", "Sigmoid", "LeakyRelu"):
        names = ["activation_alpha", "activation_beta"]
        gemm = [floats(7, 5), floats(7)]
        check("FusedGemm", [floats(3, 5)], gemm, "float32", 1e-5, transB=1, activation=kind,
              **dict(zip(names, params)))  # fmt: skip


def test_fused_convolution_with_a_sum() -> None:
    more = [floats(4, 3, 3, 3), floats(4), floats(2, 4, 4, 3)]
    check("FusedConv", [floats(2, 3, 6, 5)], more, "float32", 1e-5, activation="Relu")
