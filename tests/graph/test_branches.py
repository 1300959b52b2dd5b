"""Branches of little work are part of the graph, which selects one's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper, parser

import tilewright
from tests.graph.ort import reference
from tests.graph.test_loops import looked_up
from tests.graph.test_staged import BRANCH, HEAD, floats
from tests.narrow import as_a
from tilewright import graph
from tilewright.graph.open import OpenExecutable
from tilewright.graph.staged import StagedExecutable
from tilewright.rt.network import Executable


def same_in_both(text: str, kind: Any, *conditions: Any, **inputs: Any) -> None:
    made = parser.parse_model(HEAD + text)
    net = as_a(kind, graph.compile(graph.load_onnx(made)))
    for c in conditions or (np.array(True), np.array(False)):
        given = {"c": c, **inputs}
        for got, want in zip(net.run(given).values(), reference(made, given).values()):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, strict=True)


def branches(
    first: str, second: str, types: str = "float[5] y", x: str = "float[5] x", c: str = "bool"
) -> str:
    """A network of an If; results of both branches are named as the network's."""
    names = ", ".join(part.split()[-1] for part in types.split("; "))
    types = types.replace(";", ",")
    return f"""net ({c} c, {x}) => ({types}) {{
        d = Neg (x)
        {names} = If (c) <then_branch = g1 () => ({types}) {{ {first} }},
                          else_branch = g2 () => ({types}) {{ {second} }}>
    }}"""


@pytest.mark.parametrize("shape", [(2, 3), (1,), (7, 0), ()])
def test_nested(shape: tuple[int, ...]) -> None:
    text = BRANCH.replace("[2, 3]", str([*shape]) if shape else "")
    same_in_both(text, Executable, x=floats(*shape))


ONE_GRAPH = {
    "values around": ("y = Identity (d)", "y = Identity (x)"),
    "one value": ("y = Identity (d)", "y = Identity (d)"),
    "names of both": ("t = Exp (x)  y = Add (t, d)", "t = Abs (x)  y = Sub (t, d)"),
    "what is no number": ("y = Log (d)", "y = Sqrt (x)"),
    "constants": ("y = Constant <value = float[5] {1, 2, 3, 4, 5}> ()", "y = Identity (x)"),
    "a sum": ("s = ReduceSum <keepdims = 1> (x)  y = Div (x, s)", "y = Identity (x)"),
    "a row": (
        "w = Constant <value = float[5] {1, 2, 3, 4, 5}> ()  y = Mul (w, x)",
        "n = Constant <value = int64[5] {4, 3, 2, 1, -1}> ()  y = Gather (d, n)",
    ),
}


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name: str) -> None:
    same_in_both(branches(*ONE_GRAPH[name]), Executable, x=floats(5))


def test_several_results_of_several_types() -> None:
    text = branches(
        "y = Exp (x)  z = Greater (x, d)  n = Cast <to = 7> (x)",
        "y = Identity (x)  z = Less (x, d)  n = Cast <to = 7> (d)",
        "float[5] y; bool[5] z; int64[5] n",
    )
    same_in_both(text, Executable, x=floats(5) * 9)


def test_conditions_of_one_element() -> None:
    text = branches("y = Exp (x)", "y = Identity (x)", "float y", "float x", "bool[1]")
    same_in_both(text, Executable, np.array([True]), np.array([False]), x=np.array(2, np.float32))


LEFT = {
    "other shapes": branches("y = NonZero (x)", "y = NonZero (d)", "int64[1, N] y"),
    "other extents": branches("y = Identity (x)", "y = Concat <axis = 0> (x, d)", "float[N] y"),
    "loops": branches(
        """t = Constant <value = bool {1}> ()  n = Constant <value_int = 3> ()
        y = Loop (n, t, x) <body = b (int64 i, bool go, float[5] v) => (bool more, float[5] w) {
            more = Identity (go)  w = Mul (v, v) }>""",
        "y = Identity (x)",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_python(name: str) -> None:
    same_in_both(LEFT[name], StagedExecutable, x=floats(5))


@pytest.mark.parametrize("kind", ["Div", "Mod"])
def test_whole_numbers_divided_by_nought_where_that_is_not_wanted(kind: str) -> None:
    text = branches(f"y = {kind} (d, x)", "y = Identity (x)", "int64[5] y", "int64[5] x")
    x = np.array([5, -3, 1, 2, 7])
    same_in_both(text, Executable, x=x)
    same_in_both(text, Executable, np.array(False), x=x * 0)


def test_much_work_is_done_where_it_is_wanted() -> None:
    shape = "float[300, 700]"
    text = branches("y = Exp (x)", "y = Identity (x)", f"{shape} y", f"{shape} x")
    same_in_both(text, StagedExecutable, x=floats(300, 700))


def test_open_sizes() -> None:
    """As far as they are little work; others are compiled for their shapes."""
    text = branches("t = Exp (x)  y = Add (t, d)", "y = Neg (d)", "float[N, 5] y", "float[N, 5] x")
    made = parser.parse_model(HEAD + text)
    net = as_a(OpenExecutable, tilewright.compile(made))
    assert net.whole is not None
    for rows in (1, 7, 5000):
        for c in (True, False):
            given = {"c": np.array(c), "x": floats(rows, 5)}
            got, want = net.run(given)["y"], reference(made, given)["y"]
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, 21, 23])
def test_operator_sets(opset: int) -> None:
    value = helper.make_tensor_value_info
    part = [
        helper.make_graph(
            [helper.make_node(kind, ["x", "w"], ["z"])], kind, [], [value("z", 1, [3])]
        )
        for kind in ("Add", "Mul")
    ]
    body = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], then_branch=part[0], else_branch=part[1])],
        "net",
        [value("c", 9, []), value("x", 1, [3])],
        [value("y", 1, [3])],
        [numpy_helper.from_array(floats(3), "w")],
    )
    made = helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    net = as_a(Executable, graph.compile(graph.load_onnx(made)))
    x = floats(3) + 1
    np.testing.assert_allclose(net(np.array(True), x), x + floats(3), rtol=1e-6)
    np.testing.assert_allclose(net(np.array(False), x), x * floats(3), rtol=1e-6)


WEIGHTS = """
net (int64 most, float[{rows}, 20] x) => (float[{rows}, 20] last) <float[20, 20] w> {{
    go = Constant <value = bool {{1}}> ()
    last = Loop (most, go, x) <body = step (int64 i, bool c, float[{rows}, 20] v)
        => (bool more, float[{rows}, 20] next) {{
            more = Identity (c)
            nought = Constant <value_float = 0.0> ()
            s = ReduceSum <keepdims = 0> (v)
            large = Greater (s, nought)
            t = If (large) <
                then_branch = g1 () => (float[{rows}, 20] p) {{ p = MatMul (v, w) }},
                else_branch = g2 () => (float[{rows}, 20] q) {{ q = Neg (v) }}>
            next = Tanh (t)
        }}>
}}
"""


@pytest.mark.parametrize("rows", [1, 7, 300])
def test_loops_have_the_weights_around_them(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As constants, which are packed once, also in branches that Python chooses."""
    made = parser.parse_model(
        HEAD
        + WEIGHTS.format(rows=rows).replace(
            "w>", "w = {" + ", ".join(map(str, floats(400) / 5)) + "}>"
        )
    )
    net = as_a(StagedExecutable, graph.compile(graph.load_onnx(made)))
    x = floats(rows, 20)
    for most in (0, 1, 9):
        given = {"most": np.array(most), "x": x}
        got, want = net.run(given)["last"], reference(made, given)["last"]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    parts = [*net._parts.made.values()]
    assert any(c.size >= 400 for part in parts for c in part.constants)
    assert all(v.shape != (20, 20) for part in parts for v in part.inputs)
    stages = looked_up(monkeypatch)
    net.run(given)
    assert not stages
