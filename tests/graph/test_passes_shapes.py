"""Reshapes behind element-wise operations, views, activations that join the kernel before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

from tests.graph.ort import reference
from tests.narrow import as_a
from tilewright import graph
from tilewright.graph.build import prepare
from tilewright.target.target import Target

HEAD = '<ir_version: 9, opset_import: ["" : 20]>\n'
RNG = np.random.default_rng(9)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def kernels(text: str, **weights: Any) -> tuple[Any, list[str]]:
    """A model with these weights, and the operations of each of its groups."""
    from onnx import numpy_helper

    model = parser.parse_model(HEAD + text)
    model.graph.initializer.extend(numpy_helper.from_array(w, n) for n, w in weights.items())
    groups = prepare(graph.load_onnx(model), Target("llvm"))[1]
    return model, ["+".join(n.op for n in g.nodes) for g in groups]


def check(model: Any, **inputs: Any) -> Any:
    compiled = as_a(graph.Executable, graph.compile(graph.load_onnx(model)))
    got, want = compiled.run(inputs), reference(model, inputs)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-5, atol=2e-5)
    return compiled


LAYERS = """
net (float[2, 5, 12] x) => (float[2, 5, 12] y) {
    a = MatMul (x, w)
    b = Add (a, bias)
    half = Constant <value_float = 0.5> ()
    root = Constant <value_float = 1.4142135> ()
    one = Constant <value_float = 1.0> ()
    d = Div (b, root)
    e = Erf (d)
    f = Add (e, one)
    g = Mul (b, f)
    h = Mul (g, half)
    i = MatMul (h, v)
    j = Add (i, offset)
    y = Add (j, x)
}
"""


def test_dense_layers_take_what_follows_them() -> None:
    """Bias, GELU, which reads its argument twice, and the residual."""
    weights = {"w": floats(12, 20), "bias": floats(20), "v": floats(20, 12), "offset": floats(12)}
    model, found = kernels(LAYERS, **weights)
    assert [f for f in found if f != "reshape"] == [
        "dense+add+multiply+erf+add+multiply+multiply", "dense+add+add"
    ]  # fmt: skip
    compiled = check(model, x=floats(2, 5, 12))
    assert len(compiled.calls) == 2  # x and y are views of matrices


def test_values_that_others_read_stay_outside() -> None:
    text = LAYERS.replace("float[2, 5, 12] y)", "float[2, 5, 12] y, float[2, 5, 20] b)")
    weights = {"w": floats(12, 20), "bias": floats(20), "v": floats(20, 12), "offset": floats(12)}
    model, found = kernels(text, **weights)
    assert "dense+add" in found
    check(model, x=floats(2, 5, 12))


@pytest.mark.parametrize(
    "other", ["float[6, 4] z", "float[1, 1, 4] z", "float[2, 1, 1] z", "float z"]
)
def test_operands_of_many_shapes(other: str) -> None:
    """Those that do not fit the shape before stay behind the reshape."""
    text = f"""
    net (float[6, 4] x, {other}) => (float[2, 3, 4] y) {{
        shape = Constant <value_ints = [2, 3, 4]> ()
        n = Neg (x)
        r = Reshape (n, shape)
        {"q = Reshape (z, shape)" if "[6" in other else "q = Identity (z)"}
        y = Mul (r, q)
    }}
    """
    model, _ = kernels(text)
    shape = {"float[6, 4] z": (6, 4), "float[1, 1, 4] z": (1, 1, 4), "float[2, 1, 1] z": (2, 1, 1)}
    check(model, x=floats(6, 4), z=floats(*shape.get(other, ())))


def test_views_share_the_place_of_what_they_view() -> None:
    text = """
    net (float[4, 6] x) => (float[24] y, float[3, 8] z) {
        flat = Constant <value_ints = [24]> ()
        rows = Constant <value_ints = [3, 8]> ()
        axis = Constant <value_ints = [0]> ()
        s = Softmax <axis = 1> (x)
        f = Reshape (s, flat)
        t = Softmax <axis = 0> (f)
        y = Exp (t)
        r = Reshape (s, rows)
        u = Softmax <axis = 1> (r)
        z = Add (u, r)
    }
    """
    model, found = kernels(text)
    compiled = check(model, x=floats(4, 6))
    assert len(compiled.calls) == len(found) - found.count("reshape")
    assert compiled.workspace_bytes < 24 * 4 * 4 + 64 * 4


def test_outputs_are_written_in_their_place_once() -> None:
    """Two views of one value, of which the first is where it is computed, and one of an input."""
    text = """
    net (float[4, 6] x) => (float[24] y, float[3, 8] z, float[2, 12] w, float[6, 4] v) {
        flat = Constant <value_ints = [24]> ()
        rows = Constant <value_ints = [3, 8]> ()
        pair = Constant <value_ints = [2, 12]> ()
        more = Constant <value_ints = [6, 4]> ()
        s = Softmax <axis = 1> (x)
        y = Reshape (s, flat)
        z = Reshape (y, rows)
        w = Reshape (x, pair)
        u = Exp (s)
        v = Reshape (u, more)
    }
    """
    model, found = kernels(text)
    compiled = check(model, x=floats(4, 6))
    assert len(compiled.calls) == len(found) - 1
    assert compiled.workspace_bytes == 0


def test_blocks_of_channels_go_through_activations_and_gates() -> None:
    """Squeeze-and-excite: a pooled value scales channels; nothing is unpacked in between. 16
    channels are whole blocks of any vectors."""
    text = """
    net (float[1, 3, 12, 12] x) => (float[1, 16, 12, 12] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w)
        b = HardSwish (a)
        c = Conv (b, v)
        p = ReduceMean <keepdims = 1> (c, axes)
        g = Conv (p, u)
        s = HardSigmoid (g)
        m = Mul (c, s)
        k = Mul (m, each)
        y = Conv (k, v)
    }
    """
    weights = {
        "w": floats(16, 3, 3, 3), "v": floats(16, 16, 1, 1), "u": floats(16, 16, 1, 1),
        "each": floats(16, 1, 1), "axes": np.array([2, 3]),
    }  # fmt: skip
    model, found = kernels(text, **weights)
    assert sum("unpack_channels" in f for f in found) == 1
    check(model, x=floats(1, 3, 12, 12))


def test_what_fills_up_blocks_stays_finite() -> None:
    """Seven filters: the eighth channel of a block holds zeros, of which a division makes NaN."""
    text = """
    net (float[1, 8, 5, 5] x) => (float[1, 8, 5, 5] y) {
        a = Conv (x, w)
        b = Sigmoid (a)
        c = Reciprocal (b)
        d = Sub (a, a)
        e = Exp (d)
        f = Mul (c, e)
        y = Conv (f, v)
    }
    """
    model, _ = kernels(text, w=floats(7, 8, 1, 1) / 10, v=floats(8, 7, 1, 1))
    check(model, x=floats(1, 8, 5, 5))
