"""Networks of which parts are compiled while they run: branches, loops, extents that depend on
data, text."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx import parser

from tests.graph.ort import reference
from tests.narrow import as_a
from tilewright import graph
from tilewright.base.errors import ArgumentError, ImportModelError, TilewrightError
from tilewright.graph.staged import StagedExecutable

HEAD = '<ir_version: 9, opset_import: ["" : 20]>\n'


def staged(text: str) -> StagedExecutable:
    network = graph.load_onnx(parser.parse_model(HEAD + text))
    assert network.rest is not None
    return as_a(StagedExecutable, graph.compile(network))


def floats(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def same_as_reference(text: str, net: StagedExecutable, **inputs: Any) -> None:
    wanted = reference(parser.parse_model(HEAD + text), inputs)
    for got, want in zip(net.run(inputs).values(), wanted.values()):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


FOUND = """
net (float[4, 6] x, float[6, 3] w) => (float[N, 3] y, int64[2, N] where) {
    nought = Constant <value_float = 0.5> ()
    large = Greater (x, nought)
    where = NonZero (large)
    rows = Constant <value_int = 0> ()
    row = Gather (where, rows)
    chosen = Gather (x, row)
    y = MatMul (chosen, w)
}
"""


def test_extents_that_depend_on_data() -> None:
    net, w = staged(FOUND), floats(6, 3)
    for x in (floats(4, 6), np.zeros((4, 6), np.float32), np.ones((4, 6), np.float32)):
        same_as_reference(FOUND, net, x=x, w=w)


def test_the_same_shapes_are_compiled_once() -> None:
    net, x, w = staged(FOUND), floats(4, 6), floats(6, 3)
    net.run({"x": x, "w": w})
    made = net.distinct
    same_count = np.where(np.sort(x.reshape(-1))[::-1].reshape(4, 6) > 0.5, 1, 0).astype(np.float32)
    net.run({"x": same_count, "w": w})
    assert net.distinct == made
    net.run({"x": np.ones((4, 6), np.float32), "w": w})
    assert net.distinct > made


BRANCH = """
net (bool c, float[2, 3] x) => (float[2, 3] y) {
    d = Mul (x, x)
    y = If (c) <then_branch = g1 () => (float[2, 3] p) { p = Add (d, x) },
                else_branch = g2 () => (float[2, 3] q) {
                    deep = If (c) <then_branch = g3 () => (float[2, 3] r) { r = Neg (d) },
                                   else_branch = g4 () => (float[2, 3] s) { s = Sub (x, d) }>
                    q = Exp (deep)
                }>
}
"""


@pytest.mark.parametrize("c", [True, False])
def test_branches_read_what_stands_around_them(c: bool) -> None:
    large = BRANCH.replace("[2, 3]", "[200, 300]")
    same_as_reference(large, staged(large), c=np.array(c), x=floats(200, 300))


def test_a_known_condition_leaves_one_graph() -> None:
    text = BRANCH.replace("bool c, ", "").replace(
        "d = Mul", "c = Constant <value_int = 1> ()\nd = Mul"
    )
    text = text.replace("value_int = 1", "value = bool {1}")
    network = graph.load_onnx(parser.parse_model(HEAD + text))
    assert network.rest is None
    x = floats(2, 3)
    np.testing.assert_allclose(graph.compile(network).run({"x": x})["y"], x * x + x, rtol=1e-6)


def test_branches_may_use_the_same_names() -> None:
    """Also where both are known to be taken, and are computed late."""
    text = """
    net (float[4] x) => (int64[1, N] y, int64[1, M] z, float[4] same) {
        c = Constant <value = bool {1}> ()
        n = Neg (x)
        y = If (c) <then_branch = g1 () => (int64[1, K] o) { t = Relu (x)  o = NonZero (t) },
                    else_branch = g2 () => (int64[1, K] p) { p = NonZero (x) }>
        z = If (c) <then_branch = g3 () => (int64[1, K] o) { t = Relu (n)  o = NonZero (t) },
                    else_branch = g4 () => (int64[1, K] p) { p = NonZero (n) }>
        same = Identity (x)
    }
    """
    x = np.array([1, -2, 3, -4], np.float32)
    found = staged(text).run({"x": x})
    assert found["y"].tolist() == [[0, 2]] and found["z"].tolist() == [[1, 3]]
    found["same"][:] = 0
    assert x.tolist() == [1, -2, 3, -4]


LOOP = """
net (int64 most, float[3] x, float limit) => (float[3] last, float[N, 3] all, int64[N] numbers) {
    go = Constant <value = bool {1}> ()
    last, all, numbers = Loop (most, go, x) <body = step (int64 i, bool c, float[3] v)
        => (bool more, float[3] next, float[3] out, int64 number) {
            two = Constant <value_float = 2.0> ()
            next = Mul (v, two)
            out = Add (next, x)
            number = Identity (i)
            top = ReduceMax <keepdims = 0> (next)
            more = Less (top, limit)
        }>
}
"""


@pytest.mark.parametrize("most, limit", [(5, 1e9), (9, 20.0), (1, 0.0)])
def test_loops(most: int, limit: float) -> None:
    x = np.array([1, 2, 3], np.float32)
    given = {"most": np.array(most), "x": x, "limit": np.array(limit, np.float32)}
    same_as_reference(LOOP, staged(LOOP), **given)


def test_a_loop_that_never_runs() -> None:
    x = np.array([1, 2, 3], np.float32)
    given = {"most": np.array(0), "x": x, "limit": np.array(1, np.float32)}
    last, every, numbers = staged(LOOP).run(given).values()
    np.testing.assert_array_equal(last, x)
    assert every.shape == (0, 3) and every.dtype == np.float32
    assert numbers.shape == (0,) and numbers.dtype == np.int64


def test_values_that_grow_from_step_to_step() -> None:
    text = """
    net (int64 most, float[1, 2] x) => (float[N, 2] last) {
        go = Constant <value = bool {1}> ()
        last = Loop (most, go, x) <body = step (int64 i, bool c, float[K, 2] v)
            => (bool more, float[M, 2] next) {
                more = Identity (c)
                next = Concat <axis = 0> (v, x)
            }>
    }
    """
    x = floats(1, 2)
    got = staged(text).run({"most": np.array(4), "x": x})["last"]
    np.testing.assert_array_equal(got, np.repeat(x, 5, 0))


def test_scans_in_both_directions() -> None:
    text = """
    net (float[2] s, float[4, 2] x, float[2, 4] z) => (float[2] end, float[2, 4] all) {
        end, all = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1],
                         scan_input_directions = [0, 1], scan_output_axes = [1],
                         scan_output_directions = [1],
            body = step (float[2] state, float[2] a, float[2] b)
                => (float[2] next, float[2] out) {
                next = Add (state, a)
                out = Mul (next, b)
            }> (s, x, z)
    }
    """
    same_as_reference(text, staged(text), s=floats(2), x=floats(4, 2), z=floats(2, 4))


def test_text() -> None:
    text = """
    net (string[N] words, float[2] x) => (string[2] y, float[2] z) {
        ending = Constant <value_string = "!"> ()
        y = StringConcat (words, ending)
        z = Neg (x)
    }
    """
    net = staged(text)
    found = net.run({"words": np.array(["a", "bc"], object), "x": np.ones(2, np.float32)})
    assert found["y"].tolist() == ["a!", "bc!"]
    np.testing.assert_array_equal(found["z"], -np.ones(2))
    with pytest.raises(ArgumentError, match="input 'words' is missing"):
        net.run({"x": np.ones(2, np.float32)})
    with pytest.raises(ArgumentError, match=r"'x' has shape \(3,\), expected \(2,\)"):
        net.run({"words": np.array(["a"], object), "x": np.ones(3, np.float32)})


def test_what_reads_constants_alone_is_computed_once() -> None:
    """Also where compiled code holds none of them, as text."""
    network = graph.load_onnx(
        parser.parse_model(
            HEAD
            + """
    net (float[2] x) => (float[2] y) {
        one = Constant <value_strings = ["1", "2"]> ()
        number = Cast <to = 1> (one)
        y = Add (x, number)
    }
    """
        )
    )
    assert network.rest is None
    assert graph.compile(network).run({"x": np.zeros(2, np.float32)})["y"].tolist() == [1, 2]


def test_values_that_decide_what_is_compiled() -> None:
    """An axis that is an input: known when the network runs."""
    text = """
    net (float[2, 3, 4] x, int64 axis) => (float[2, 3, 4] y) { y = CumSum (x, axis) }
    """
    network = graph.load_onnx(parser.parse_model(HEAD + text))
    assert network.rest is not None and network.rest.asked == {"axis"}
    net = as_a(StagedExecutable, graph.compile(network))
    for axis in (0, 2, -2):
        same_as_reference(text, net, x=floats(2, 3, 4), axis=np.array(axis))


def test_calls_from_several_threads() -> None:
    net, w = staged(FOUND), floats(6, 3)
    data = [np.roll(floats(4, 6) * (k + 1), k) for k in range(6)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: net.run({"x": x, "w": w})["y"], data))
    for x, got in zip(data, together):
        np.testing.assert_array_equal(got, net.run({"x": x, "w": w})["y"])


def test_profile_names_what_python_does() -> None:
    net = staged(FOUND)
    rows = net.profile({"x": floats(4, 6), "w": floats(6, 3)}, repeat=2)
    assert rows[-1][0] == "host and compilation" and all(t >= 0 for _, t in rows)
    assert len(rows) > 1


def test_errors_say_which_node() -> None:
    text = """
    net (bool[2] c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = g1 () => (float[2] p) { p = Neg (x) },
                    else_branch = g2 () => (float[2] q) { q = Abs (x) }>
    }
    """
    with pytest.raises((TilewrightError, ImportModelError), match=r"one truth value|If"):
        staged(text).run({"c": np.array([True, False]), "x": floats(2)})


def test_unsupported_operators_in_branches_are_named_with_the_others() -> None:
    text = BRANCH.replace("Neg (d)", "my.Thing (d)").replace("Exp (deep)", "Unheard (deep)")
    made = parser.parse_model(HEAD.replace("]", ', "my" : 1]') + text)
    with pytest.raises(ImportModelError, match=r"(?s)Unheard: .*my\.Thing: "):
        graph.load_onnx(made)
