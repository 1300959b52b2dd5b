"""Attention of domain com.microsoft against ONNX Runtime, whose own it is."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.ort import ours, reference

RNG = np.random.default_rng(11)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def check(
    kind: str,
    inputs: dict[str, Any],
    order: list[str],
    outputs: list[str],
    weights: tuple[str, ...] = (),
    judged: tuple[str, ...] = (),
    **attrs: Any,
) -> dict[str, Any]:
    """One node; what `order` names and `inputs` does not have is left out. `judged`: outputs that
    are compared, by default all."""
    names = [n if n in inputs else "" for n in order]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(kind, names, outputs, name="node", domain="com.microsoft", **attrs)
    given = {k: np.asarray(a) for k, a in inputs.items() if k not in weights}
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for k, a in given.items()
    ]
    graph = helper.make_graph(
        [node], "test", infos,
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
        [numpy_helper.from_array(np.asarray(inputs[k]), k) for k in weights],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    wanted, got = reference(model, given), ours(model, given)
    for name in judged or outputs:
        assert got[name].shape == wanted[name].shape, name
        np.testing.assert_allclose(got[name], wanted[name], 2e-5, 2e-5, err_msg=name)
    return got


JOINT = ["x", "w", "b", "mask", "past", "bias"]


def joint(batch: int = 2, steps: int = 5, width: int = 12, hidden: int = 24) -> dict[str, Any]:
    x, w = floats(batch, steps, width), floats(width, 3 * hidden) / 3
    return {"x": x, "w": w, "b": floats(3 * hidden)}


@pytest.mark.parametrize("more", [{}, {"unidirectional": 1}, {"scale": 0.7}])
@pytest.mark.parametrize("mask", [None, (2, 5), (2,), (4,), (2, 5, 5)])
def test_joint(mask: Any, more: Any) -> None:
    inputs = joint()
    if mask is not None:
        marks = RNG.integers(0, 2, mask) if len(mask) > 1 else RNG.integers(1, 6, mask)
        if mask == (4,):
            marks[2:] = 0, 1
            marks[:2] = 5, 3
        inputs["mask"] = marks.astype(np.int32)
    check("Attention", inputs, JOINT, ["y"], ("w", "b"), num_heads=4, **more)


def test_joint_with_earlier_keys() -> None:
    inputs = {**joint(), "past": floats(2, 2, 4, 3, 6)}
    check("Attention", inputs, JOINT, ["y", "present"], ("w", "b"), num_heads=4)
    check("Attention", inputs, JOINT, ["y", "present"], ("w", "b"), num_heads=4, unidirectional=1)
    inputs["mask"] = np.ones((2, 8), np.int32)
    inputs["mask"][1, 2] = 0
    check("Attention", inputs, JOINT, ["y", "present"], ("w", "b"), num_heads=4)


def test_joint_with_sizes_and_bias() -> None:
    inputs = {**joint(), "bias": floats(2, 4, 5, 5)}
    check("Attention", inputs, JOINT, ["y"], ("w", "b"), num_heads=4)
    inputs = {"x": floats(1, 7, 8), "w": floats(8, 12 + 12 + 20), "b": floats(44)}
    sizes = [12, 12, 20]
    check("Attention", inputs, JOINT, ["y"], ("w", "b"), num_heads=2, qkv_hidden_sizes=sizes)


def test_quantised() -> None:
    order = ["x", "w", "b", "sx", "sw", "mask", "zx", "zw"]
    inputs = {
        "x": RNG.integers(0, 256, (2, 5, 12)).astype(np.uint8),
        "w": RNG.integers(-30, 31, (12, 72)).astype(np.int8),
        "b": floats(72),
        "sx": np.float32(0.02),
        "sw": np.float32(0.01),
        "zx": np.uint8(120),
        "zw": np.int8(3),
    }
    check("QAttention", inputs, order, ["y"], ("w", "b", "sx", "sw", "zx", "zw"), num_heads=4)


APART = ["q", "k", "v", "b", "mask", "bias", "past_k", "past_v"]


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("keys", [5, 7])
def test_heads(keys: int, unidirectional: int) -> None:
    inputs = {"q": floats(2, 5, 24), "k": floats(2, keys, 24), "v": floats(2, keys, 16)}
    if unidirectional and keys != 5:
        return
    attrs: dict[str, Any] = {"num_heads": 4, "unidirectional": unidirectional}
    check("MultiHeadAttention", inputs, APART, ["y"], **attrs)
    inputs["b"] = floats(24 + 24 + 16)
    check("MultiHeadAttention", inputs, APART, ["y"], ("b",), **attrs)
    inputs["mask"] = np.ones((2, keys), np.int32)
    inputs["mask"][0, 1:3] = 0
    inputs["bias"] = floats(1, 4, 5, keys)
    check("MultiHeadAttention", inputs, APART, ["y"], ("b",), **attrs)


def test_heads_with_earlier_keys() -> None:
    inputs = {"q": floats(2, 3, 24), "k": floats(2, 3, 24), "v": floats(2, 3, 24)}
    inputs |= {"past_k": floats(2, 4, 6, 6), "past_v": floats(2, 4, 6, 6)}
    check("MultiHeadAttention", inputs, APART, ["y", "pk", "pv"], num_heads=4)


def test_heads_that_lie_apart() -> None:
    inputs = {"q": floats(2, 3, 24), "k": floats(2, 4, 5, 6), "v": floats(2, 4, 5, 6)}
    check("MultiHeadAttention", inputs, APART, ["y"], num_heads=4)


ROTARY = ["x", "places", "cos", "sin"]


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary(interleaved: int) -> None:
    angles = floats(16, 3)
    tables = {"cos": np.cos(angles), "sin": np.sin(angles)}
    known = ("cos", "sin")
    places = {"places": RNG.integers(0, 16, (2, 5))}
    one = {"places": np.array([4])}
    for at in (places, one):
        inputs = {"x": floats(2, 5, 24), **at, **tables}
        check("RotaryEmbedding", inputs, ROTARY, ["y"], known, interleaved=interleaved)
        inputs = {"x": floats(2, 4, 5, 6), **at, **tables}
        check("RotaryEmbedding", inputs, ROTARY, ["y"], known, interleaved=interleaved)
    inputs = {"x": floats(2, 5, 40), **places, **tables}  # 6 of 10 turn
    attrs: dict[str, Any] = {"interleaved": interleaved, "num_heads": 4, "rotary_embedding_dim": 6}
    check("RotaryEmbedding", inputs, ROTARY, ["y"], known, **attrs)


GROUPED = ["q", "k", "v", "past_k", "past_v", "seqlens", "total", "cos", "sin"]


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("window", [-1, 3])
def test_grouped_prompt(turned: int, window: int) -> None:
    inputs = {"q": floats(2, 5, 64), "k": floats(2, 5, 32), "v": floats(2, 5, 32)}
    inputs |= {"seqlens": np.array([4, 4], np.int32), "total": np.array(5, np.int32)}
    inputs |= {"past_k": np.zeros((2, 2, 0, 16), np.float32)}
    inputs |= {"past_v": np.zeros((2, 2, 0, 16), np.float32)}
    angles = floats(32, 8)
    inputs |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    attrs: dict[str, Any] = {
        "num_heads": 4,
        "kv_num_heads": 2,
        "do_rotary": turned,
        "local_window_size": window,
    }
    check("GroupQueryAttention", inputs, GROUPED, ["y", "pk", "pv"], ("total", "cos", "sin"),
          **attrs)  # fmt: skip


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("lengths", [[6, 6], [6, 3]])
def test_grouped_step(turned: int, lengths: list[int]) -> None:
    """One more step of each batch, behind keys of their own number."""
    inputs = {"q": floats(2, 1, 64), "k": floats(2, 1, 32), "v": floats(2, 1, 32)}
    inputs |= {"seqlens": np.array(lengths, np.int32), "total": np.array(7, np.int32)}
    past = floats(2, 2, 6, 16), floats(2, 2, 6, 16)
    inputs |= {"past_k": past[0], "past_v": past[1]}
    angles = floats(32, 8)
    inputs |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    attrs: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": turned}
    known = ("total", "cos", "sin")
    # what lies behind a batch's own keys is nobody's
    judged = ("y", "pk", "pv") if lengths[0] == lengths[1] else ("y",)
    check("GroupQueryAttention", inputs, GROUPED, ["y", "pk", "pv"], known, judged, **attrs)


def test_grouped_in_one_array() -> None:
    inputs = {"q": floats(1, 5, 64 + 32 + 32), "total": np.array(5, np.int32)}
    inputs |= {"seqlens": np.array([4], np.int32)}
    inputs |= {"past_k": np.zeros((1, 2, 0, 16), np.float32)}
    inputs |= {"past_v": np.zeros((1, 2, 0, 16), np.float32)}
    attrs: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
    check("GroupQueryAttention", inputs, GROUPED, ["y", "pk", "pv"], ("total",), **attrs)
