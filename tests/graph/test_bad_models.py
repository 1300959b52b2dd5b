"""Damaged models: refused with an error that says what is wrong, whatever the damage."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import tilewright
from tests.graph import damage
from tests.graph.damage import node, tensor, weight, whole
from tilewright import graph
from tilewright.base.errors import ArgumentError, ImportModelError, TilewrightError

PYTHON = re.compile(r"(Key|Index|Assertion|Attribute|ZeroDivision|Recursion|Memory|Type)Error")
SEEDS = 360


def imported(model: onnx.ModelProto) -> graph.Graph | None:
    """The network, or None where it is refused, which has to be in the importer's own words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return graph.load_onnx(model.SerializeToString(), symbolic=True)
    except TilewrightError as error:
        assert len(str(error)) > 20 and not PYTHON.search(str(error)), str(error)
        return None


def data_for(made: graph.Graph) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        v.name: rng.integers(0, 3, v.shape).astype(v.dtype)
        if v.dtype != "float32"
        else rng.standard_normal(v.shape).astype(np.float32)
        for v in made.inputs
    }


@pytest.mark.parametrize("name", damage.MODELS)
def test_models_are_good_before_they_are_damaged(name: str) -> None:
    assert imported(damage.MODELS[name]()) is not None


@pytest.mark.parametrize("part", range(4))
def test_damaged_models_are_refused_or_imported(part: int) -> None:
    refused = 0
    for seed in range(part, SEEDS, 4):
        what, model = damage.damaged(seed)
        try:
            refused += imported(model) is None
        except Exception as error:
            raise AssertionError(f"seed {seed}, {what}") from error
    assert SEEDS // 16 < refused < SEEDS // 4


def test_damaged_models_that_are_imported_run_or_are_refused() -> None:
    for seed in range(0, 60, len(damage.MODELS)):  # pictures
        what, model = damage.damaged(seed)
        made = imported(model)
        if made is None or any(np.prod(v.shape, dtype=float) > 1e5 for v in made.inputs):
            continue
        try:
            tilewright.compile(made).run(data_for(made))
        except TilewrightError as error:
            assert not PYTHON.search(str(error)), f"seed {seed}, {what}"


def refusal(model: Any) -> list[str]:
    with pytest.raises(ImportModelError) as caught:
        graph.load_onnx(model)
    return str(caught.value).splitlines()


def test_all_that_is_wrong_is_told_at_once() -> None:
    nodes = [
        node("NoSuch", "x", "a"),
        node("Softmax", "a b", "s", axis="last"),
        node("Concat", "s nowhere", "c"),
        node("Relu", "late", "r", slope=1.0),
        node("Neg", "c", "late"),
        node("Abs", "late", "r"),
        node("Neither", "r", "y"),
    ]
    short, odd = weight("w1", 4), weight("w2", 4)
    short.raw_data = short.raw_data[:7]
    odd.data_type = 99
    inputs = [tensor("x", [2, None, 3]), tensor("z", [1], 77)]
    outputs = [tensor("y", [2]), tensor("gone", [2])]
    lines = refusal(damage.model("bad", nodes, inputs, outputs, [short, odd]))
    assert lines[0] == f"the model has {len(lines) - 3} faults:"
    told = "\n".join(lines)
    for part in (
        "  Neither: Neither_y\n    NoSuch: NoSuch_a",
        "- Softmax node 'Softmax_s': 2 inputs are given, 1 expected",
        "- Softmax node 'Softmax_s': attribute 'axis' is STRING, expected INT",
        "- Concat node 'Concat_c': attribute 'axis' is missing",
        "- Relu node 'Relu_r': the operator has no attribute 'slope'",
        "- weight 'w1' is damaged",
        "- weight 'w2' has elements of type 99",
        "- input 'x': dimension 1 (?) is open",
        "- input 'z' has elements of type 77",
        "- Softmax node 'Softmax_s' reads 'b', which nothing computes",
        "- Relu node 'Relu_r' reads 'late' before Neg node 'Neg_late' computes it",
        "- Abs node 'Abs_r' writes 'r', as Relu node 'Relu_r' does",
        "- output 'gone' is computed by no node",
    ):
        assert part in told, told


def test_shapes_that_do_not_fit_are_told_at_once() -> None:
    """What reads the results of a node that is refused is not named beside it."""
    nodes = [
        node("MatMul", "x w", "m"),
        node("Relu", "m", "r"),
        node("Transpose", "x", "t", perm=[0, 0]),
        node("Add", "r t", "y"),
    ]
    model = damage.model(
        "shapes", nodes, [tensor("x", [2, 3])], [tensor("y", None)], [weight("w", 4, 4)]
    )
    lines = refusal(model)
    assert len(lines) == 3 and "MatMul node 'MatMul_m'" in lines[1], lines
    assert "Transpose node 'Transpose_t'" in lines[2], lines


def test_many_faults_are_counted() -> None:
    nodes = [node("Relu", f"none{k}", f"r{k}") for k in range(80)]
    lines = refusal(damage.model("many", nodes, [tensor("x", [1])], [tensor("r0", [1])]))
    assert lines[0] == "the model has 80 faults:" and lines[-1] == "- ... and 30 more"


def test_external_data_that_is_missing_or_short(tmp_path: Path) -> None:
    model = damage.functions()
    held = model.graph.initializer[0]
    held.ClearField("raw_data")
    held.data_location = onnx.TensorProto.EXTERNAL
    held.external_data.add(key="location", value="w.bin")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert "No such file" in refusal(path)[0]
    (tmp_path / "w.bin").write_bytes(b"1234567")
    assert refusal(path)[0].endswith("w.bin has 7 bytes, 12 are needed: the file is cut off")


def test_text_of_functions_that_is_none() -> None:
    data = damage.functions().SerializeToString().replace(b"ab", b"\xfe\xff")
    assert "text that is not UTF-8" in refusal(data)[0]


def test_functions_that_call_themselves() -> None:
    model = damage.functions()
    first = model.functions[0]
    second = onnx.FunctionProto()
    second.CopyFrom(first)
    second.name = "Other"
    model.functions.append(second)
    for f, called in ((first, "Other"), (model.functions[1], "Mix")):
        f.node.append(onnx.helper.make_node(called, ["a", "b"], ["again"], domain="mine"))
    line = refusal(model)[0]
    assert line in ("function mine.Mix calls itself", "function mine.Other calls itself")


def test_inputs_that_do_not_fit_are_refused() -> None:
    made = imported(damage.functions())
    assert made is not None
    net = tilewright.compile(made)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = net(x)
    for given in (x.T.copy().T, np.repeat(x, 2, axis=1)[:, ::2], tilewright.nd.array(x)):
        np.testing.assert_array_equal(net(given), wanted)
    fixed = x.copy()
    fixed.flags.writeable = False
    np.testing.assert_array_equal(net.run({"x": fixed})["y"], wanted)
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)
    np.testing.assert_array_equal(net(unaligned), wanted)
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "input 'x' is missing"),
        ({"x": x, "z": x}, "has no input 'z'"),
        ({"X": x}, "has no input 'X'"),
        ({"x": x[:1]}, r"has shape \(1, 3\), expected \(2, 3\)"),
        ({"x": x[:0]}, r"has shape \(0, 3\)"),
        ({"x": x.astype(float)}, "is float64, expected float32"),
        ({"x": x.astype(">f4")}, "is >f4, expected float32"),
        ({"x": None}, "has shape"),
        ({"x": [["a"] * 3] * 2}, "expected float32"),
        ({"x": [[1.0], [1.0, 2.0]]}, "input 'x' is no array that can be read"),
    ]
    for inputs, message in refused:
        with pytest.raises(ArgumentError, match=message):
            net.run(inputs)


def test_sizes_that_do_not_fit_each_other_are_refused() -> None:
    net = tilewright.compile(damage.open_sizes().SerializeToString())
    x = np.ones((2, 3, 4), np.float32)
    assert net(x, x).shape == (2, 12)
    refused: list[tuple[Any, str]] = [
        (x[:1], r"dimension 0 of input 'z', batch, is 1, but batch is 2 in input 'x'"),
        (x[:, :2], r"dimension 1 of input 'z', seq, is 2, but seq is 3 in input 'x'"),
        (x[..., :3], r"input 'z' has shape \(2, 3, 3\), expected \(batch, seq, 4\)"),
        (x[0], r"input 'z' has shape \(3, 4\)"),
        (x.astype(int), "is int64, expected float32"),
        ([[1.0], [1.0, 2.0]], "input 'z' is no array that can be read"),
    ]
    for z, message in refused:
        with pytest.raises(ArgumentError, match=message):
            net(x, z)


def test_windows_larger_than_the_data_are_refused() -> None:
    nodes = [node("Conv", "x w", "y")]
    made = damage.model(
        "small", nodes, [tensor("x", [1, 2, 2, 2])], [tensor("y", None)], [weight("w", 2, 2, 3, 3)]
    )
    (line,) = refusal(made)
    assert "Conv node 'Conv_y': a window reaches over 3 elements, and dimension 2 of x" in line


def test_shapes_that_are_none_are_refused() -> None:
    model = damage.open_sizes().SerializeToString()
    refused: list[tuple[Any, str]] = [
        ({"x": 2}, "the shape of input 'x' is a tuple of numbers"),
        ({"x": (2.5, 3, 4)}, r"got \(2.5, 3, 4\)"),
        ({"x": "abc"}, "got 'abc'"),
        ([(2, 3, 4)], "shapes are those of inputs by their names"),
    ]
    for shapes, message in refused:
        for take in (tilewright.compile, graph.load_onnx):
            with pytest.raises(ImportModelError, match=message):
                take(model, shapes=shapes)


def test_outputs_need_not_say_what_they_are() -> None:
    """Where their extents are data as well: ONNX Runtime runs such models."""
    nodes = [node("Range", "first limit step", "y")]
    made = damage.model("counting", nodes, [tensor("limit", [], TensorProto.INT64)], [])
    made.graph.initializer.extend([whole("first", 0), whole("step", 1)])
    made.graph.output.append(onnx.ValueInfoProto(name="y"))
    net = tilewright.compile(made)
    np.testing.assert_array_equal(net(np.array(4)), np.arange(4))
