"""Loops and scans: a step looks up nothing, and where its body is one graph, calls that alone."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from onnx import parser

from tests.graph.test_staged import HEAD, floats, same_as_reference, staged
from tests.narrow import as_a
from tilewright import graph
from tilewright.graph.onnx.course import Stage
from tilewright.graph.onnx.program import Program
from tilewright.graph.staged import StagedExecutable
from tilewright.rt.network import Executable


def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of programs, one for each stage that is made from here on."""
    made: list[str] = []
    start = Stage.__init__

    def counted(self: Stage, program: Program, *others: Any) -> None:
        made.append(program.name)
        start(self, program, *others)

    monkeypatch.setattr(Stage, "__init__", counted)
    return made


STEPS = """
net (int64 most, float[3] x, float[3] w) => (float[3] last, float[N, 3] all) {
    go = Constant <value = bool {1}> ()
    last, all = Loop (most, go, x) <body = step (int64 i, bool c, float[3] v)
        => (bool more, float[3] next, float[3] out) {
            more = Identity (c)
            two = Constant <value_int = 2> ()
            odd = Mod (i, two)
            is_odd = Cast <to = 9> (odd)
            next = If (is_odd) <
                then_branch = g1 () => (float[3] p) { p = Add (v, w) },
                else_branch = g2 () => (float[3] q) { q = Mul (v, w) }>
            out = Neg (next)
        }>
}
"""


def test_steps_of_a_loop_look_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step does is made at the first step, for all others and for all calls."""
    net, x, w = staged(STEPS), floats(3), np.array([1, -1, 0.5], np.float32)
    made = looked_up(monkeypatch)
    net.run({"most": np.array(2), "x": x, "w": w})
    assert made
    made.clear()
    for most in (2, 50):
        same_as_reference(STEPS, net, most=np.array(most), x=x, w=w)
    assert not made


def test_steps_of_a_scan_look_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    net (float[2] s, float[40, 2] x) => (float[2] end, float[40, 2] all) {
        end, all = Scan <num_scan_inputs = 1,
            body = step (float[2] state, float[2] a) => (float[2] next, float[2] out) {
                next = Add (state, a)
                out = Mul (next, a)
            }> (s, x)
    }
    """
    net = staged(text)
    made = looked_up(monkeypatch)
    same_as_reference(text, net, s=floats(2), x=floats(40, 2))
    assert len(made) <= 4
    made.clear()
    same_as_reference(text, net, s=floats(2) + 1, x=floats(40, 2))
    assert not made


def loop_of(body: str, results: str = "float[3] next", carried: str = "float[3] v") -> str:
    """A loop with a number of steps and a condition that are inputs."""
    names = ", ".join(f"r{k}" for k in range(results.count("[")))
    count = carried.count("[")
    ends = ", ".join(
        f"float[{'' if k < count else 'N, '}3] r{k}" for k in range(results.count("["))
    )
    firsts = ", ".join(["x", "w"][:count])
    return f"""
    net (int64 most, bool go, float[3] x, float[3] w, float limit) => ({ends}) {{
        {names} = Loop (most, go, {firsts}) <body = step (int64 i, bool c, {carried})
            => (bool more, {results}) {{ {body} }}>
    }}
    """


LESS = "top = ReduceSum <keepdims = 0> (next)  more = Less (top, limit)"
ONE_GRAPH = {
    "counted": loop_of("next = Add (v, w)  more = Identity (c)"),
    "ended": loop_of(f"next = Add (v, w)  {LESS}"),
    "asks_its_condition": loop_of(
        f"next = Add (v, w)  {LESS.replace('more', 'low')}  more = And (low, c)  "
        "number = Cast <to = 1> (c)  out = Mul (next, number)",
        "float[3] next, float[3] out",
    ),
    "once": loop_of("next = Add (v, w)  more = Constant <value = bool {0}> ()"),
    "always": loop_of("next = Add (v, w)  more = Constant <value = bool {1}> ()"),
    "numbered": loop_of("k = Cast <to = 1> (i)  next = Add (v, k)  more = Identity (c)"),
    "carried_and_put_out": loop_of(
        f"next = Add (v, w)  out = Identity (next)  minus = Neg (v)  {LESS}",
        "float[3] next, float[3] out, float[3] minus",
    ),
    "stays": loop_of(
        "next = Add (v, u)  stay = Identity (u)  more = Identity (c)",
        "float[3] next, float[3] stay", "float[3] v, float[3] u",
    ),
    "two": loop_of(
        "next = Add (v, u)  low = Sub (u, v)  more = Identity (c)",
        "float[3] next, float[3] low", "float[3] v, float[3] u",
    ),
}  # fmt: skip
OTHERS = {
    "shifted": loop_of(
        "next = Add (v, u)  old = Identity (v)  more = Identity (c)",
        "float[3] next, float[3] old", "float[3] v, float[3] u",
    ),
    "exchanged": loop_of(
        "next = Neg (u)  old = Identity (v)  more = Identity (c)",
        "float[3] next, float[3] old", "float[3] v, float[3] u",
    ),
    "twice": loop_of(
        "next = Add (v, u)  same = Identity (next)  more = Identity (c)",
        "float[3] next, float[3] same", "float[3] v, float[3] u",
    ),
    "puts_out_what_it_is_given": loop_of(
        "next = Add (v, w)  out = Identity (v)  more = Identity (c)", "float[3] next, float[3] out"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*ONE_GRAPH, *OTHERS])
def test_loops_whose_body_is_one_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their steps are calls of compiled code on places that are known ahead."""
    text = {**ONE_GRAPH, **OTHERS}[name]
    net, w = staged(text), np.array([1, -0.5, 0.25], np.float32)
    calls: list[str] = []
    apply = Executable.apply

    def counted(self: Executable, arrays: Any) -> Any:
        calls.append(self.name)
        return apply(self, arrays)

    monkeypatch.setattr(Executable, "apply", counted)
    for most, go, limit in ((1, True, 1e9), (7, True, 1e9), (40, True, 3.0), (200, True, 120.0)):
        given = {"most": np.array(most), "go": np.array(go), "limit": np.array(limit, np.float32)}
        same_as_reference(text, net, **given, x=np.zeros(3, np.float32), w=w)
    assert (not calls) == (name in ONE_GRAPH)


def test_what_loops_give_is_apart() -> None:
    """Results that are the same values share no memory, nor do those of two calls."""
    net = staged(ONE_GRAPH["carried_and_put_out"])
    given = {"most": np.array(5), "go": np.array(True), "limit": np.array(1e9, np.float32),
             "x": floats(3), "w": floats(3)}  # fmt: skip
    first, second = net.run(given), net.run(given)
    arrays = [*first.values(), *second.values()]
    assert not any(np.may_share_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])


def test_conditions_of_one_element() -> None:
    text = ONE_GRAPH["ended"].replace("bool go", "bool[1] go").replace("bool c", "bool[1] c")
    text = text.replace("bool more", "bool[1] more").replace("keepdims = 0", "keepdims = 1")
    net, w = staged(text), np.array([1, 0, 0], np.float32)
    given = {"most": np.array(90), "x": np.zeros(3, np.float32), "w": w}
    for limit in (70.0, 3.0):
        found = net.run({**given, "go": np.array([True]), "limit": np.array(limit, np.float32)})
        assert found["r0"].tolist() == [limit, 0, 0]


def test_profile_of_a_loop() -> None:
    """Each step's kernels are there."""
    net = staged(ONE_GRAPH["counted"])
    given = {"most": np.array(5), "go": np.array(True), "limit": np.array(1e9, np.float32),
             "x": floats(3), "w": floats(3)}  # fmt: skip
    assert len(net.profile(given, repeat=1)) == 6


def test_types_that_change_within_a_loop() -> None:
    """Extents that depend on data in the middle of a step, and come back to what they were."""
    text = """
    net (int64 most, float[4] x, float[4, 4] rows) => (float[K] last, int64[N] counts) {
        go = Constant <value = bool {1}> ()
        last, counts = Loop (most, go, x) <body = step (int64 i, bool c, float[M] v)
            => (bool more, float[L] next, int64 count) {
                more = Identity (c)
                axis = Constant <value_int = 0> ()
                row = Gather (rows, i)
                positive = Relu (row)
                where = NonZero (positive)
                flat = Constant <value_ints = [-1]> ()
                places = Reshape (where, flat)
                next = Gather (row, places)
                count = Size (v)
            }>
    }
    """
    rows = np.array([[1, -1, 2, 3], [-1, -1, 5, -2], [4, 4, 4, -1], [1, 2, -3, 4]], np.float32)
    net = staged(text)
    for most in (1, 4, 3, 4):
        got = net.run({"most": np.array(most), "x": floats(4), "rows": rows})
        row = rows[most - 1]
        assert got["last"].tolist() == row[row > 0].tolist()
        assert got["counts"].tolist() == [4, 3, 1, 3][:most]


def test_two_networks_of_one_graph() -> None:
    """Each has code of its own, which goes with it."""
    network = graph.load_onnx(parser.parse_model(HEAD + STEPS))
    nets = [as_a(StagedExecutable, graph.compile(network)) for _ in range(2)]
    given = {"most": np.array(5), "x": floats(3), "w": floats(3)}
    first, second = (net.run(given) for net in nets)
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])
    assert all(net.distinct for net in nets)
    gone = weakref.ref(nets.pop())
    gc.collect()
    assert gone() is None
    np.testing.assert_array_equal(nets[0].run(given)["all"], first["all"])
