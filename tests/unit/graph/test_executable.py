"""Executable: calls, profiles, threads; what graphs print."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tests.narrow import as_a, some
from tilewright import graph
from tilewright.base.errors import ArgumentError, CompileError, TilewrightError
from tilewright.graph.ir import Graph, Value
from tilewright.graph.onnx.convert import Builder


def network() -> Graph:
    """y = softmax(relu(x @ w) + b)"""
    b = Builder(17)
    x = Value("x", (4, 6), "float32")
    rng = np.random.default_rng(0)
    weight = b.constant(rng.standard_normal((10, 6)).astype(np.float32), "w")
    shift = b.constant(rng.standard_normal(10).astype(np.float32), "b")
    y = b.add("add", [b.add("relu", [b.add("dense", [x, weight], "d")], "r"), shift], "s")
    y = b.add("softmax", [y], "y", axis=1)
    return Graph("net", [x], [y], b.nodes)


def expected(net: Graph, x: Any) -> Any:
    weight, shift = (some(v.data) for v in net.constants())
    s = np.maximum(x @ weight.T, 0) + shift
    power = np.exp(s - s.max(1, keepdims=True))
    return power / power.sum(1, keepdims=True)


def test_inputs_that_have_no_names_are_refused() -> None:
    compiled = as_a(graph.Executable, graph.compile(network()))
    x = np.zeros((4, 6), np.float32)
    wrong: list[Any] = [[x], x, None]
    for given in wrong:
        with pytest.raises(ArgumentError, match=r"dict of arrays by .* net\(array, ...\)"):
            compiled.run(given)
        with pytest.raises(ArgumentError, match="dict of arrays"):
            compiled.prepare(given)


@pytest.mark.parametrize("target", ["metal", "vulkan", "c"])
def test_a_target_without_a_code_generator_is_named(target: str) -> None:
    with pytest.raises(CompileError, match="for 'llvm', 'cuda', 'opencl' targets, not"):
        graph.compile(network(), target)


def test_run_and_profile() -> None:
    net = network()
    compiled = as_a(graph.Executable, graph.compile(net))
    x = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    np.testing.assert_allclose(compiled.run({"x": x})["y"], expected(net, x), rtol=1e-5)
    rows = compiled.profile({"x": x}, repeat=2)
    assert len(rows) == len(compiled.calls)
    assert all(seconds > 0 for _, seconds in rows)
    assert [name for name, _ in rows][-1] == "y"
    compiled.prepare({"x": x})()


def test_compiling_leaves_the_graph_alone() -> None:
    net = network()
    text = str(net)
    graph.compile(net)
    assert str(net) == text
    assert text.startswith("graph net(x: float32[4, 6])")
    assert text.endswith("return y")


def test_progress_counts_kernels() -> None:
    steps: list[tuple[int, int, str]] = []
    compiled = as_a(
        graph.Executable, graph.compile(network(), progress=lambda *step: steps.append(step))
    )
    total = len(compiled.kernels)
    assert [(done, count) for done, count, _ in steps] == [(k + 1, total) for k in range(total)]


def test_threads_take_turns() -> None:
    net = network()
    compiled = graph.compile(net)
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal((4, 6)).astype(np.float32) for _ in range(4)]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(50):
            if not np.allclose(compiled.run({"x": inputs[k]})["y"], expected(net, inputs[k])):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_code_of_another_machine_does_not_run() -> None:
    compiled = graph.compile(network(), "llvm -mtriple=aarch64-linux-gnu")
    with pytest.raises(TilewrightError, match="cannot run code for"):
        compiled.run({"x": np.zeros((4, 6), np.float32)})


def test_names_of_the_room() -> None:
    assert {"compile", "load_onnx", "Executable", "Graph"} <= set(dir(graph))
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        graph.fly  # type: ignore[attr-defined]  # noqa: B018
