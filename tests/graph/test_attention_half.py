"""Attention of models in half precision, and of others: one kernel on CUDA, however the softmax is
written."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tests.graph.ort import reference
from tests.narrow import as_a
from tilewright import graph as tg
from tilewright.graph.build import prepare
from tilewright.graph.device import DeviceExecutable
from tilewright.graph.ir import Node
from tilewright.target.target import Target

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
HEADS, SIZE = 2, 24
TYPES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
OFF = {"float16": 2e-3, "bfloat16": 1.5e-2}
WAYS = ("narrow", "softmax", "scores")
"""Which part exporters leave in float32: nothing; the softmax; scores from the product on."""
CUDA = "cuda -arch=sm_80"


def model(way: str, dtype: str, n: int, mask: Array | None = None) -> onnx.ModelProto:
    """Attention of rows with heads apart, as exporters write it: the scale at the scores."""
    kind, width = TYPES[dtype], HEADS * SIZE
    nodes: list[Any] = []
    known: list[Any] = []

    def add(op: str, *inputs: str, **attrs: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attrs))
        return f"v{len(nodes) - 1}"

    def constant(data: Any) -> str:
        known.append(numpy_helper.from_array(data, f"c{len(known)}"))
        return f"c{len(known) - 1}"

    apart = constant(np.array([1, n, HEADS, SIZE], np.int64))

    def heads(x: str, *perm: int) -> str:
        return add("Transpose", add("Reshape", x, apart), perm=perm)

    q, k, v = heads("q", 0, 2, 1, 3), heads("k", 0, 2, 3, 1), heads("v", 0, 2, 1, 3)
    wide = way == "scores"
    if wide:
        q, k = (add("Cast", x, to=TensorProto.FLOAT) for x in (q, k))
    number = np.dtype("float32") if wide else helper.tensor_dtype_to_np_dtype(kind)
    scores = add("Mul", add("MatMul", q, k), constant(np.array(SIZE**-0.5).astype(number)))
    if mask is not None:
        scores = add("Add", scores, constant(mask.astype(number)))
    scores = add("Cast", scores, to=TensorProto.FLOAT) if way == "softmax" else scores
    chances = add("Softmax", scores, axis=-1)
    chances = chances if way == "narrow" else add("Cast", chances, to=kind)
    rows = add("Transpose", add("MatMul", chances, v), perm=(0, 2, 1, 3))
    nodes.append(helper.make_node("Reshape", [rows, constant(np.array([1, n, width]))], ["y"]))
    info = [helper.make_tensor_value_info(x, kind, [1, n, width]) for x in "qkvy"]
    body = helper.make_graph(nodes, "attention", info[:3], info[3:], known)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def inputs(dtype: str, n: int) -> dict[str, Array]:
    kind = helper.tensor_dtype_to_np_dtype(TYPES[dtype])
    return {x: RNG.uniform(-2, 2, (1, n, HEADS * SIZE)).astype(kind) for x in "qkv"}


def expected(given: dict[str, Array], mask: Array | None = None) -> Array:
    apart = [x.astype("float64").reshape(1, -1, HEADS, SIZE).swapaxes(1, 2) for x in given.values()]
    scores = apart[0] @ apart[1].swapaxes(2, 3) * SIZE**-0.5 + (0 if mask is None else mask)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    found = powers / powers.sum(-1, keepdims=True) @ apart[2]
    return np.asarray(found.swapaxes(1, 2).reshape(given["q"].shape))


def in_simt(net: Any, given: dict[str, Array]) -> Array:
    net = as_a(DeviceExecutable, net)
    net.device = tw.simt(0)
    return np.asarray(net.run(given)[net.output_names[0]]).astype("float64")


def kernels(net: Any) -> str:
    return str(net.module.imported_modules[0].get_source())


def attention_of(made: onnx.ModelProto, target: str = CUDA, dtype: str = "float32") -> Node | None:
    _, groups = prepare(tg.load_onnx(made.SerializeToString()), Target(target), dtype)
    names = [n for g in groups for n in g.nodes]
    found = [n for n in names if n.op == "attention"]
    assert bool(found) != any("softmax" in n.op for n in names)
    return found[0] if found else None


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("way", WAYS)
def test_one_kernel_on_tensor_cores(way: str, dtype: str) -> None:
    made, given = model(way, dtype, 70), inputs(dtype, 70)
    node = attention_of(made)
    assert node is not None and node.output.dtype == dtype
    assert not node.attrs["steps"] and len(node.inputs) == 3, "the scale is a number of the kernel"
    net = tw.compile(made, CUDA)
    assert "tw_mma_m16n8k16" in kernels(net) and "expf(" not in kernels(net)
    np.testing.assert_allclose(in_simt(net, given), expected(given), OFF[dtype], OFF[dtype])


@pytest.mark.parametrize("way", WAYS)
def test_as_onnx_runtime(way: str) -> None:
    made, given = model(way, "float16", 70), inputs("float16", 70)
    wanted = reference(made, given)["y"]
    np.testing.assert_allclose(in_simt(tw.compile(made, CUDA), given), wanted, 2e-3, 2e-3)
    found = tw.compile(made, "llvm").run(given)["y"]
    np.testing.assert_allclose(found.astype("float64"), wanted, 2e-3, 2e-3)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("least", ["-infinity", "lowest"])
@pytest.mark.parametrize("way", WAYS)
def test_causal_masks_are_no_arrays(way: str, least: str, dtype: str) -> None:
    kind = "float32" if way == "scores" else dtype
    lowest = float(ml_dtypes.finfo(kind).min)
    mask = np.where(np.tri(70, dtype=bool), 0, -np.inf if least == "-infinity" else lowest)
    made, given = model(way, dtype, 70, mask), inputs(dtype, 70)
    node = attention_of(made)
    assert node is not None and len(node.inputs) == 3
    assert node.attrs["window"] == (-69, 1) and node.attrs["cut"]
    found = in_simt(tw.compile(made, CUDA), given)
    np.testing.assert_allclose(found, expected(given, mask), OFF[dtype], OFF[dtype])


def in_float32(n: int, mask: Array | None = None) -> onnx.ModelProto:
    made = model("scores", "float16", n, mask)
    for node in made.graph.node:
        if node.op_type == "Cast":
            node.attribute[0].i = TensorProto.FLOAT
    for info in (*made.graph.input, *made.graph.output):
        info.type.tensor_type.elem_type = TensorProto.FLOAT
    return made


@pytest.mark.parametrize("dtype", TYPES)
def test_networks_that_become_narrow(dtype: str) -> None:
    """The scale and the mask are numbers of the kernel there, too."""
    made = in_float32(70)
    node = attention_of(made, dtype=dtype)
    assert node is not None and node.output.dtype == dtype and len(node.inputs) == 3
    given = {k: v.astype("float32") for k, v in inputs("float16", 70).items()}
    found = in_simt(tw.compile(made, CUDA, precision=dtype), given)
    np.testing.assert_allclose(found, expected(given), OFF[dtype], OFF[dtype])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_networks_in_float32_round_nothing(arch: str, causal: bool) -> None:
    mask = np.where(np.tri(70, dtype=bool), 0, -np.inf) if causal else None
    made, target = in_float32(70, mask), f"cuda -arch={arch}"
    node = attention_of(made, target)
    assert node is not None and node.output.dtype == "float32" and len(node.inputs) == 3
    given = {k: v.astype("float32") for k, v in inputs("float16", 70).items()}
    net = tw.compile(made, target)
    assert "mma" not in kernels(net) and "T_attention" in kernels(net)
    np.testing.assert_allclose(in_simt(net, given), expected(given, mask), 1e-5, 1e-5)


def test_older_tensor_cores() -> None:
    made, given = model("softmax", "float16", 70), inputs("float16", 70)
    net = tw.compile(made, "cuda -arch=sm_75")
    assert "tw_mma_m16n8k16" in kernels(net) and "T_attention" in kernels(net)
    np.testing.assert_allclose(in_simt(net, given), expected(given), 2e-3, 2e-3)


@pytest.mark.parametrize("way", WAYS)
def test_processors_round_nothing_in_between(way: str) -> None:
    made, given = model(way, "float16", 33), inputs("float16", 33)
    assert attention_of(made, "llvm -mcpu=haswell") is not None
    found = tw.compile(made, "llvm").run(given)["y"]
    np.testing.assert_allclose(found.astype("float64"), expected(given), 1e-3, 1e-3)


def test_other_devices_keep_the_separate_form() -> None:
    assert attention_of(model("softmax", "float16", 70), "opencl") is None


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_operators_of_attention(domain: str, causal: int, dtype: str) -> None:
    n, kind = 70, TYPES[dtype]
    if domain:
        how: dict[str, Any] = {"num_heads": HEADS, "unidirectional": causal, "domain": domain}
        node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], **how)
    else:
        how = {"q_num_heads": HEADS, "kv_num_heads": HEADS, "is_causal": causal}
        node = helper.make_node("Attention", ["q", "k", "v"], ["y"], **how)
    info = [helper.make_tensor_value_info(x, kind, [1, n, HEADS * SIZE]) for x in "qkvy"]
    body = helper.make_graph([node], "attention", info[:3], info[3:])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(body, opset_imports=opsets, ir_version=10)
    found = attention_of(made)
    assert found is not None and len(found.inputs) == 3
    assert found.attrs.get("cut", False) == bool(causal)
    given = inputs(dtype, n)
    mask = np.where(np.tri(n, dtype=bool), 0, -np.inf) if causal else None
    result = in_simt(tw.compile(made, CUDA), given)
    np.testing.assert_allclose(result, expected(given, mask), OFF[dtype], OFF[dtype])


def test_one_query_and_many_keys() -> None:
    """Keys of the past: blocks have parts of them, whose sums a second kernel joins."""
    shapes = {"q": (1, 4, 1, 40), "k": (1, 2, 700, 40), "v": (1, 2, 700, 40), "y": (1, 4, 1, 40)}
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    kind = TYPES["float16"]
    info = [helper.make_tensor_value_info(x, kind, shape) for x, shape in shapes.items()]
    body = helper.make_graph([node], "attention", info[:3], info[3:])
    made = helper.make_model(body, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    given = {x: RNG.uniform(-2, 2, shapes[x]).astype("float16") for x in "qkv"}
    net = tw.compile(made, CUDA)
    assert kernels(net).count("T_attended_parts") > 0
    q, k, v = (x.astype("float64") for x in given.values())
    powers = np.exp(np.einsum("bgnsd,bgtd->bgnst", q.reshape(1, 2, 2, 1, 40), k) * 40**-0.5)
    wanted = np.einsum("bgnst,bgtd->bgnsd", powers / powers.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(in_simt(net, given), wanted.reshape(1, 4, 1, 40), 2e-3, 2e-3)
