"""Networks as tuning tasks, and compiled with what records say of these."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.graph.ort import model_of, reference
from tests.narrow import as_a
from tilewright import auto_scheduler, graph
from tilewright.auto_scheduler import SketchPolicy, State
from tilewright.auto_scheduler.measure import MeasureInput, MeasureResult
from tilewright.base.errors import CompileError, UsageError

RNG = np.random.default_rng(5)
LANES = 16


def floats(*shape: int) -> Any:
    return (RNG.standard_normal(shape) * 0.2).astype(np.float32)


def node(kind: str, inputs: str, output: str, **attrs: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], name=output, **attrs)


def network() -> tuple[Any, dict[str, Any]]:
    """Two equal convolutions, one with a residual, pooling and a dense layer."""
    c = LANES * 2
    nodes = [
        node("Conv", "x w1 b1", "c1", pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 w2 b2", "c2", pads=[1, 1, 1, 1]),
        node("Relu", "c2", "r2"),
        node("Conv", "r2 w3", "c3", strides=[2, 2]),
        node("MaxPool", "c3", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"),
        node("Gemm", "f w4 b4", "g", transB=1),
        node("Softmax", "g", "y"),
    ]
    weights = {
        "w1": floats(c, c, 3, 3), "b1": floats(c), "w2": floats(c, c, 3, 3), "b2": floats(c),
        "w3": floats(c, c, 1, 1), "w4": floats(10, c * 4), "b4": floats(10),
    }  # fmt: skip
    x = {"x": floats(1, c, 8, 8)}
    return model_of(nodes, x, ["y"], weights), x


def result(cost: float) -> MeasureResult:
    return MeasureResult((cost,), 0, "", 0.1, 1.0)


def records_of(tasks: list[Any], seed: int, file: Path) -> None:
    """A random schedule of each task, as if it had been measured."""
    inputs = []
    for task in tasks:
        policy = SketchPolicy(task, None, seed=seed, verbose=0)
        inputs.append(MeasureInput(task, policy.sample_initial_population(1)[0]))
    auto_scheduler.save_records(file, inputs, [result(1e-3)] * len(inputs))


def test_equal_kernels_are_one_task() -> None:
    model = graph.load_onnx(network()[0])
    tasks, weights = graph.extract_tasks(model)
    kinds = [t.desc.split()[0] for t in tasks]
    assert dict(zip(kinds, weights)) == {
        "conv2d+bias_add+relu": 2, "conv2d": 1, "pool2d": 1, "dense+add": 1, "softmax": 1,
    }  # fmt: skip
    more, _ = graph.extract_tasks(model, include_simple_tasks=True)
    assert {t.workload_key for t in tasks} < {t.workload_key for t in more}


def test_constant_weights_have_a_free_layout_and_activations_none() -> None:
    tasks, _ = auto_scheduler.extract_tasks(graph.load_onnx(network()[0]), "llvm")
    free = {t.desc.split()[0]: [op.name for op in t.compute_dag.layout_free] for t in tasks}
    assert free == {
        "conv2d+bias_add+relu": ["p1"], "conv2d": ["p1"], "pool2d": [], "dense+add": ["p1"],
        "softmax": [],
    }  # fmt: skip
    pre = auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    assert {t.layout_rewrite_option for t in tasks} == {pre}


def test_extraction_does_not_change_the_graph() -> None:
    model = graph.load_onnx(network()[0])
    before = str(model)
    first, _ = graph.extract_tasks(model)
    again, _ = graph.extract_tasks(model)
    assert str(model) == before
    assert [t.workload_key for t in first] == [t.workload_key for t in again]


def test_extraction_says_what_it_takes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes a Graph or an ONNX file"):
        graph.extract_tasks(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_networks_with_random_schedules_give_the_same_results(seed: int, tmp_path: Path) -> None:
    model, x = network()
    tasks, _ = graph.extract_tasks(graph.load_onnx(model))
    records_of(tasks, seed, tmp_path / "a.db")
    net = graph.compile(graph.load_onnx(model), records=tmp_path / "a.db")
    assert isinstance(net, graph.Executable)
    assert net.tuned == len(tasks) < net.distinct
    expected = reference(model, x)["y"]
    np.testing.assert_allclose(net.run(x)["y"], expected, rtol=1e-4, atol=1e-5)


def test_layouts_of_weights_follow_the_schedule(tmp_path: Path) -> None:
    model, x = network()
    plain = as_a(graph.Executable, graph.compile(graph.load_onnx(model)))
    tasks, _ = graph.extract_tasks(graph.load_onnx(model))
    conv = next(t for t in tasks if t.desc.startswith("conv2d+"))
    policy = SketchPolicy(conv, None, seed=2, verbose=0)
    state = next(s for s in policy.sample_initial_population(20) if conv.rearranged(s))
    auto_scheduler.save_records(tmp_path / "a.db", [MeasureInput(conv, state)], [result(1e-3)])
    net = as_a(graph.Executable, graph.compile(graph.load_onnx(model), records=tmp_path / "a.db"))
    assert net.tuned == 1
    shapes = [{a.shape for a in n.constants} for n in (plain, net)]
    assert shapes[0] != shapes[1]
    assert sum(a.size for a in plain.constants) == sum(a.size for a in net.constants)
    np.testing.assert_allclose(net.run(x)["y"], plain.run(x)["y"], rtol=1e-4, atol=1e-6)


def test_the_default_schedule_is_kept_where_it_is_faster(tmp_path: Path) -> None:
    model, x = network()
    tasks, _ = graph.extract_tasks(graph.load_onnx(model))
    records_of(tasks, 1, tmp_path / "a.db")
    inputs = [
        MeasureInput(t, State.from_rows(t.compute_dag, [("DS", str(t.target))])) for t in tasks
    ]
    auto_scheduler.save_records(tmp_path / "a.db", inputs, [result(1e-4)] * len(inputs))
    net = graph.compile(graph.load_onnx(model), records=tmp_path / "a.db")
    assert net.tuned == 0
    expected = reference(model, x)["y"]
    np.testing.assert_allclose(net.run(x)["y"], expected, rtol=1e-4, atol=1e-5)


def test_history_applies_inside_its_context_only(tmp_path: Path) -> None:
    model = graph.load_onnx(network()[0])
    tasks, _ = graph.extract_tasks(model)
    records_of(tasks[:1], 3, tmp_path / "a.json")
    with auto_scheduler.ApplyHistoryBest(tmp_path / "a.json"):
        assert graph.compile(model).tuned == 1
    assert graph.compile(model).tuned == 0


def test_records_of_another_network_change_nothing(tmp_path: Path) -> None:
    c = floats(4, 4)
    small = model_of([node("MatMul", "x w", "y")], {"x": c}, ["y"], {"w": floats(4, 4)})
    tasks, _ = graph.extract_tasks(graph.load_onnx(small))
    records_of(tasks, 0, tmp_path / "a.db")
    assert graph.compile(graph.load_onnx(network()[0]), records=tmp_path / "a.db").tuned == 0


def test_steps_that_do_not_fit_name_the_kernel(tmp_path: Path) -> None:
    model = graph.load_onnx(network()[0])
    tasks, _ = graph.extract_tasks(model)
    history = auto_scheduler.ApplyHistoryBest([])
    history.update(tasks[0].target, tasks[0].workload_key, [("AN", 2, 40, 3)])
    with pytest.raises(CompileError, match=r"record of c1, .* does not fit"):
        graph.compile(model, records=history)


def test_weights_that_flow_in_keep_their_layout(tmp_path: Path) -> None:
    """One product by a constant, one by an input: the same shapes, but not the same task."""
    x = {"x": floats(8, 16), "v": floats(16, 16)}
    nodes = [node("MatMul", "x w", "a"), node("MatMul", "a v", "y")]
    model = model_of(nodes, x, ["y"], {"w": floats(16, 16)})
    tasks, _ = graph.extract_tasks(graph.load_onnx(model))
    assert sorted(len(t.compute_dag.layout_free) for t in tasks) == [0, 1]
    records_of(tasks, 4, tmp_path / "a.db")
    net = graph.compile(graph.load_onnx(model), records=tmp_path / "a.db")
    assert net.tuned == 2
    np.testing.assert_allclose(net.run(x)["y"], reference(model, x)["y"], rtol=1e-4, atol=1e-5)


def test_half_precision_has_tasks_of_its_own() -> None:
    model = graph.load_onnx(network()[0])
    wide, _ = graph.extract_tasks(model)
    half, _ = graph.extract_tasks(model, dtype="float16")
    known = {t.workload_key for t in wide}
    same = [t.desc.split()[0] for t in half if t.workload_key in known]
    assert len(half) == len(wide) and same == ["pool2d", "softmax"]  # these read no weights


def test_a_convolution_by_minimal_filtering_is_a_task():
    """Its products have no strides of their own: naming the task failed."""
    x = {"x": floats(1, 64, 32, 32)}
    nodes = [node("Conv", "x w", "y", pads=[1, 1, 1, 1])]
    model = graph.load_onnx(model_of(nodes, x, ["y"], {"w": floats(64, 64, 3, 3)}))
    tasks, counts = auto_scheduler.extract_tasks(model, "llvm -mcpu=x86-64-v3")
    products = [task.desc for task in tasks if task.desc.startswith("winograd_product")]
    assert len(products) == 1 and len(counts) == len(tasks)
