"""The names of auto_scheduler: modules, helpers, features by name, searches and models of users."""

import importlib
import json
import math
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.auto_scheduler import computations as C
from tilewright import auto_scheduler as A
from tilewright import build, nd, te, topi
from tilewright.auto_scheduler import _ffi_api, feature, utils, workload, workload_registry
from tilewright.auto_scheduler.cost_model import xgb_model
from tilewright.auto_scheduler.cost_model.cost_model import PythonBasedModel
from tilewright.auto_scheduler.features import NAMES
from tilewright.auto_scheduler.search_policy import SearchPolicy
from tilewright.base.errors import TilewrightError
from tilewright.contrib.popen_pool import PopenWorker
from tilewright.driver.transform import PassContext
from tilewright.testing.auto_scheduler import (
    conv2d_winograd_nhwc_auto_scheduler_test,
    double_matmul_auto_scheduler_test,
    invalid_compute_definition,
    matmul_auto_scheduler_test,
)

MODULES = [
    "compute_dag",
    "cost_model",
    "cost_model.cost_model",
    "cost_model.xgb_model",
    "dispatcher",
    "feature",
    "loop_state",
    "measure",
    "measure_record",
    "relay_integration",
    "search_policy",
    "search_task",
    "task_scheduler",
    "utils",
    "workload_registry",
]


def task_of(n: int = 16) -> Any:
    return A.SearchTask(func=matmul_auto_scheduler_test, args=(n, n, n), target="llvm")


@pytest.mark.parametrize("name", MODULES)
def test_modules_import(name: str) -> None:
    module = importlib.import_module(f"tilewright.auto_scheduler.{name}")
    assert module.__doc__


def test_names_resolve() -> None:
    for name in A.__all__:  # type: ignore[attr-defined]
        assert getattr(A, name) is not None
    policy = importlib.import_module("tilewright.auto_scheduler.search_policy")
    assert issubclass(policy.SketchPolicy, policy.SearchPolicy)
    assert policy.PreloadCustomSketchRule.APPLY_AND_SKIP_REST == 2
    assert issubclass(policy.PreloadMeasuredStates, policy.SearchCallback)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = policy.Nothing
    measure = importlib.import_module("tilewright.auto_scheduler.measure")
    assert measure.recover_measure_input is A.recover_measure_input


def test_helpers() -> None:
    key = json.dumps(["conv", [8, 3, 64], [2, 2], "float32"])
    pair = utils.decode_workload_key(key)
    assert pair == ("conv", [[8, 3, 64], [2, 2], "float32"])
    assert utils.decode_workload_key("no json") == ("no json", None)
    known = utils.decode_workload_key(json.dumps(["conv", [1, 3, 16], [2, 1], "float32"]))
    assert utils.calc_workload_dis_factor(pair, known) == 8 * 4 * 2
    other: Any
    for other in (["conv", [8, 3, 64], [0, 2], "float32"], ["fc", [8, 3, 64], [2, 2], "float32"]):
        assert utils.calc_workload_dis_factor(pair, (other[0], other[1:])) == math.inf
    zero = ("conv", [0, 4])
    assert utils.calc_workload_dis_factor(zero, ("conv", [1, 4])) == math.inf
    assert utils.calc_workload_dis_factor(zero, ("conv", [0, 2])) == 2
    assert utils.list_to_tuple([1, [2, [3]]]) == (1, (2, (3,)))
    assert utils.array_mean([1.0, 2.0, 6.0]) == 3.0
    assert utils.to_str_round({"a": [0.12345, "b"], "c": 7}, 2) == str(
        {"a": "[0.123450, b]", "c": "7"}
    )
    with pytest.raises(ValueError, match="Invalid value"):
        utils.to_str_round(object())
    assert utils.call_func_with_thread(lambda a, b: a - b, (5,), {"b": 2}) == 3
    try:
        raise KeyError("x" * 2000)
    except KeyError:
        assert 500 < len(utils.make_traceback_info()) < 530
    with pytest.raises(TilewrightError, match="which tracker"):
        utils.request_remote("board")
    assert not utils.check_remote("board")


def halves(n: int) -> float:
    if n < 0:
        raise ValueError("below zero")
    while n > 9:
        time.sleep(1)
    return n / 2


def test_functions_with_a_limit_of_time() -> None:
    worker = PopenWorker()
    assert utils.call_func_with_timeout(worker, 60, halves, (3,)) == 1.5
    assert "below zero" in str(utils.call_func_with_timeout(worker, 60, halves, kwargs={"n": -1}))
    assert "TimeoutError" in str(utils.call_func_with_timeout(worker, 0.2, halves, (10,)))
    worker.kill()


def test_what_is_registered_in_files(tmp_path: Path) -> None:
    known, tensors = dict(workload.WORKLOAD_FUNC_REGISTRY), task_of(8).compute_dag.tensors
    try:
        workload.WORKLOAD_FUNC_REGISTRY.clear()
        A.register_workload("halves", halves)
        A.register_workload_tensors('["mine"]', tensors)
        path = tmp_path / "workloads.pkl"
        workload_registry.save_workload_func_registry(path)
        workload.WORKLOAD_FUNC_REGISTRY.clear()
        A.register_workload("other", halves)
        workload_registry.load_workload_func_registry(path)
        found = workload.WORKLOAD_FUNC_REGISTRY
        assert found.keys() >= {"halves", '["mine"]'} and "other" not in found
        assert found["halves"] is halves and len(found['["mine"]']) == len(tensors)
        path.write_bytes(pickle.dumps({"halves": time.struct_time(range(9))}))
        with pytest.raises(TilewrightError, match="it calls functions"):
            workload_registry.load_workload_func_registry(path)
        A.register_workload("inside", lambda n: n)
        with pytest.raises(TilewrightError, match="cannot be written"):
            workload_registry.save_workload_func_registry(path)
    finally:
        workload.WORKLOAD_FUNC_REGISTRY.clear()
        workload.WORKLOAD_FUNC_REGISTRY.update(known)


def test_whether_networks_ask_for_searches() -> None:
    assert not A.is_auto_scheduler_enabled()
    with PassContext(config={"relay.backend.use_auto_scheduler": True}):
        assert A.is_auto_scheduler_enabled()


def test_inputs_that_lie_in_the_order_of_tiles() -> None:
    """x[k, j] lies as 2 x 3 tiles of 4 x 2: what is computed is what it was."""
    values = np.arange(48, dtype="float32").reshape(8, 6)
    x = te.placeholder((2, 3, 4, 2), name="X")
    layout = "2k3j4k2j"
    A.remove_index_check(x)
    k = te.reduce_axis((0, 8), name="k")
    y = te.compute(
        (6,), lambda j: te.sum(x[k, j] * (j + 1.0), axis=k), "Y",
        attrs={"layout_free_placeholders": [x]},
    )  # fmt: skip
    z = A.rewrite_compute_body(y, layout)
    s = te.create_schedule(z.op)
    laid = values.reshape(2, 4, 3, 2).transpose(0, 2, 1, 3).copy()
    result = nd.array(np.zeros(6, "float32"))
    build(s, [x, z], "llvm")(nd.array(laid), result)
    assert result.numpy().tolist() == (values.sum(axis=0) * np.arange(1.0, 7.0)).tolist()
    with pytest.raises(TilewrightError, match="X is not read at i"):
        A.rewrite_compute_body(y, "2i3j4k2j")
    with pytest.raises(TilewrightError, match="one input of free layout"):
        A.rewrite_compute_body(te.compute((4,), lambda i: x[i], "W"), "4i")
    A.rewrite_tensor_shape(x, (8, 6))
    made: Any = x.op
    assert [int(d) for d in x.shape] == [int(d) for d in made.shape] == [8, 6]
    with pytest.raises(TilewrightError, match="takes a placeholder"):
        A.rewrite_tensor_shape(y, (3, 2))


def test_programs_as_matrices_of_their_statements() -> None:
    programs = [np.full((n, 4), n, np.float32) for n in (2, 1, 3)]
    matrix, numbers = xgb_model.feature_to_pack_sum_xgbmatrix(programs)
    assert matrix.num_row() == 6 and numbers == [0, 0, 1, 2, 2, 2]
    speeds, groups = np.array([0.5, 1.0, 0.25]), np.array([1, 0, 1])
    packed = xgb_model.pack_sum_xgbmatrix(programs, speeds, groups, weights=10 * speeds)
    assert packed.get_label().tolist() == [1.0, 0.5, 0.5, 0.25, 0.25, 0.25]
    assert packed.get_weight().tolist() == [10.0, 5.0, 5.0, 2.5, 2.5, 2.5]
    sums = xgb_model.predict_throughput_pack_sum(np.arange(6.0), numbers)
    assert sums.tolist() == [1.0, 2.0, 12.0]
    relu = task_of(8).workload_key
    assert xgb_model.get_workload_embedding(relu) == [0] * 9
    assert xgb_model.get_workload_embedding(key_of_softmax()) == [1, 0, 0, 0, 0, 0, 0, 1, 0]


def key_of_softmax() -> str:
    x = te.placeholder((4, 8), name="X")
    dag = A.ComputeDAG([x, topi.nn.softmax(x)])
    return A.register_workload_tensors(dag.workload_key(), dag.tensors)


def test_scores_of_statements() -> None:
    task = task_of(8)
    model = A.XGBModel(num_warmup_sample=1, seed=1)
    states = [task.compute_dag.init_state for _ in range(2)]
    unknown = model.predict_stages(task, states)
    assert len(unknown) == 4 and unknown[2:].tolist() == [0, 0]
    inputs = [A.MeasureInput(task, s) for s in states]
    model.update(inputs, [A.MeasureResult([0.5], 0, "", 0.1, 0) for _ in states])
    found = model.predict_stages(task, states)
    assert found[:2].tolist() == model.predict(task, states).tolist()
    assert found[2:].tolist() == [1, found[0], 1, found[1]]


def test_layouts_as_text() -> None:
    assert A.get_shape_from_rewritten_layout("4co8ci2co", ["ci", "co"]) == [8, 8]
    with pytest.raises(TilewrightError, match="a layout looks like"):
        A.get_shape_from_rewritten_layout("co4", ["co"])


def test_features_by_their_names() -> None:
    names = feature.get_per_store_feature_names()
    assert len(names) == len(set(names)) == len(NAMES) == feature.DEFAULT_FEATURE_VEC_LEN
    fewer = feature.get_per_store_feature_names(max_n_bufs=2)
    assert len(fewer) == 164 - 3 * 18 and "B1.acc_type.kRead" in fewer and "B2.stride" not in fewer
    task = task_of(32)
    state = task.compute_dag.get_init_state()
    i, _, _ = state[2].iters
    outer, _ = state.split(2, i, [4])
    state.parallel(2, outer)
    (rows,) = feature.get_per_store_features_from_states([state], task)
    found = dict(zip(names, rows[0]))
    assert found["parallel_prod"] == math.log2(8 + 1) and found["is_gpu"] == 0
    kinds = [k for k in range(5) if found[f"B{k}.acc_type.kReadWrite"]]
    assert len(kinds) == 1 and found[f"B{kinds[0]}.unique_bytes"] == math.log2(32 * 32 * 4 + 1)
    with pytest.raises(TilewrightError, match="max_n_bufs is from 1 to 5"):
        feature.get_per_store_feature_names(6)
    with pytest.raises(TilewrightError, match="takes a PrimFunc"):
        feature.named_features_from_primfunc(None)


def test_features_of_measurements(tmp_path: Path) -> None:
    tasks = [task_of(8), task_of(16)]
    inputs = [A.MeasureInput(t, t.compute_dag.init_state) for t in (tasks[0], tasks[1], tasks[0])]
    results = [A.MeasureResult([c], 0, "", 0.1, 0) for c in (0.5, 0.25)]
    results.append(A.MeasureResult([], 4, "died", 0.1, 0))
    rows, speeds, numbers = feature.get_per_store_features_from_measure_pairs(inputs, results, 1)
    assert speeds.tolist() == [1.0, 1.0, 0.0] and numbers.tolist() == [0, 1, 0]
    assert not rows[0].any() and rows[2].any()
    A.save_records(tmp_path / "a.json", inputs, results)
    again = feature.get_per_store_features_from_file(str(tmp_path / "a.json"), 2)
    assert len(again[0]) == 2 and np.array_equal(again[0][1], rows[1])


def test_a_model_of_ones_own_leads_the_search() -> None:
    class Likes(PythonBasedModel):
        """Programs whose reduction has an inner loop of 2."""

        asked = 0

        def good(self, state: Any) -> bool:
            lines = str(state).splitlines()
            return any("k.1" in line and "(0,2)" in line for line in lines)

        def predict(self, task: Any, states: Any) -> Any:
            Likes.asked += len(states)
            return [float(self.good(s)) for s in states]

    task = A.SearchTask(func=matmul_auto_scheduler_test, args=(6, 10, 4), target="llvm")
    params = {"evolutionary_search_population": 40, "evolutionary_search_num_iters": 2}
    model = Likes()
    policy = A.SketchPolicy(task, model, verbose=0, params=params, seed=1)
    states = policy.sample_initial_population(30)
    bad = [s for s in states if not model.good(s)]
    found = policy.evolutionary_search(bad, 12)
    assert any(map(model.good, found)) and Likes.asked > 0
    with pytest.raises(NotImplementedError, match="has to define predict"):
        PythonBasedModel().predict(task, states)


def test_a_policy_of_ones_own(tmp_path: Path) -> None:
    """One that measures the program as it is, and one that measures nothing."""
    task = task_of(8)
    log = tmp_path / "a.json"
    told: list[Any] = []
    policy = A.EmptyPolicy(task, init_search_callbacks=[told.append])
    assert told == [policy] and policy.search_task is task
    runner = A.LocalRunner(min_repeat_ms=1, timeout=60)
    options = A.TuningOptions(
        num_measure_trials=2, runner=runner, measure_callbacks=[A.RecordToFile(log)], verbose=0
    )
    task.tune(options, search_policy=policy)
    states = [inp.state for inp, _ in A.load_records(log)]
    assert len(states) == 2 and all(s.transform_steps == () for s in states)
    policy.set_verbose(0)
    assert policy.verbose == 0 and policy.best_unmeasured() == task.compute_dag.init_state
    with pytest.raises(NotImplementedError, match="no continue_search_one_round"):
        SearchPolicy(task).continue_search_one_round(1, None)


@pytest.mark.parametrize("verbose", [0, 1])
def test_how_far_a_search_is(
    verbose: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Told on standard error where it takes its time, and not where nobody wants to hear it."""
    monkeypatch.setattr("tilewright.measure.progress._SILENT_SECONDS", 0.0)
    monkeypatch.setattr("tilewright.measure.progress._LINE_SECONDS", 0.0)
    monkeypatch.setattr("tilewright.auto_scheduler.search._FIRST_SECONDS", 0.0)
    runner = A.LocalRunner(min_repeat_ms=1, timeout=60)
    options = A.TuningOptions(num_measure_trials=2, runner=runner, verbose=verbose)
    task_of(8).tune(options, search_policy=A.EmptyPolicy(task_of(8)))
    told = capsys.readouterr()
    lines = [line for line in told.err.splitlines() if " best " in line and " ms " in line]
    assert ("0/2 searching" in told.err) == bool(verbose)
    assert told.out == "" and ("2/2" in lines[-1] if verbose else not lines)


def test_sketches_with_copies_in_the_order_of_tiles_are_ours() -> None:
    task = A.SearchTask(func=double_matmul_auto_scheduler_test, args=(64,), target="llvm")
    policy = A.SketchPolicy(task, None, verbose=0)
    assert len(policy.generate_sketches()) < len(policy.all_sketches())


def test_what_a_state_is_made_by() -> None:
    task = A.SearchTask(
        func=conv2d_winograd_nhwc_auto_scheduler_test, args=(1, 12, 12, 16, 16), target="llvm"
    )
    plain, *cached = A.SketchPolicy(task, None, verbose=0).generate_sketches()
    assert len(cached) == 2
    tiled = [_ffi_api.SearchPolicyUtilsIsTiled(s) for s in plain.stages]
    assert tiled == [i in (4, 6, 8) for i in range(len(plain.stages))]
    assert [s.compute_at for s in plain.stages][3] == [s.compute_at for s in plain.stages][7] == 1
    for sketch in cached:
        assert _ffi_api.SearchPolicyUtilsHasCacheWriteStage(sketch, 6)
        assert not _ffi_api.SearchPolicyUtilsHasCacheWriteStage(sketch, 4)
    gpu = A.SearchTask(func=matmul_auto_scheduler_test, args=(8, 8, 1024), target="cuda")
    crossing, tiles = A.SketchPolicy(gpu, None, verbose=0).generate_sketches()
    assert _ffi_api.SearchPolicyUtilsHasCrossThreadReduction(crossing, 2)
    assert not _ffi_api.SearchPolicyUtilsHasCrossThreadReduction(tiles, 4)
    assert _ffi_api.SearchPolicyUtilsHasCacheReadStage(tiles, 0)
    split = A.SketchPolicy(task_of_tall(), None, verbose=0).generate_sketches()[0]
    assert _ffi_api.SearchPolicyUtilsHasRfactorStage(split, 2)


def task_of_tall() -> Any:
    hardware = A.HardwareParams(num_cores=4, target="llvm")
    return A.SearchTask(
        func=matmul_auto_scheduler_test, args=(8, 8, 512), target="llvm", hardware_params=hardware
    )


def test_the_winograd_workload_is_a_convolution() -> None:
    """Against a direct sum, with the filter transformed as the matrices say."""
    from tilewright.interp.te_eval import te_eval
    from tilewright.topi.nn.winograd import transforms

    inputs, weight, out = conv2d_winograd_nhwc_auto_scheduler_test(1, 6, 7, 2, 3, 3, 1, 1)
    rng = np.random.default_rng(5)
    data = rng.integers(-3, 4, (1, 6, 7, 2)).astype("float32")
    taps = rng.integers(-3, 4, (3, 3, 2, 3)).astype("float32")
    g = np.array(transforms(4).filter)
    moved = np.einsum("ai,bj,ijcf->abcf", g, g, taps).astype("float32")
    (found,) = te_eval(out, {inputs: data, weight: moved})
    padded = np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    expected = np.einsum("nhwcij,ijcf->nhwf", windows, taps)
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_loops_of_one_name_are_refused() -> None:
    with pytest.raises(TilewrightError, match="several loops that are called r1"):
        A.ComputeDAG(invalid_compute_definition())


def test_registry_entries_travel() -> None:
    name = utils.get_func_name(matmul_auto_scheduler_test)
    entry = pickle.loads(pickle.dumps(workload_registry.serialize_workload_registry_entry(name)))
    assert entry == (name, matmul_auto_scheduler_test)
    key = A.make_workload_key(name, (4, 4, 4))
    assert workload_registry.serialize_workload_registry_entry(key) == entry
    dag = A.ComputeDAG(C.matmul(8, 8, 8))
    other = A.register_workload_tensors(dag.workload_key(), dag.tensors)
    data = pickle.loads(pickle.dumps(workload_registry.serialize_workload_registry_entry(other)))
    del workload_registry.WORKLOAD_FUNC_REGISTRY[other]
    workload_registry.deserialize_workload_registry_entry(data)
    assert str(A.ComputeDAG(other)) == str(dag)
    with pytest.raises(TilewrightError, match="there is no workload 'none'"):
        workload_registry.serialize_workload_registry_entry('["none"]')


def test_tasks_as_text() -> None:
    task = task_of()
    text = _ffi_api.SerializeSearchTask(task)
    found = _ffi_api.DeserializeSearchTask(text)
    assert found.workload_key == task.workload_key and str(found.target) == str(task.target)
    shorter = json.dumps(json.loads(text)[:2])
    assert _ffi_api.DeserializeSearchTask(shorter).hardware_params is None
    for bad in ("[]", "7", "[1, 2]", "no"):
        with pytest.raises(TilewrightError, match="no search task"):
            _ffi_api.DeserializeSearchTask(bad)


def test_results_are_read_as_tvm_has_them() -> None:
    result = A.MeasureResult([0.25], 0, "", 1, 2)
    assert [c.value for c in result.costs] == [0.25] and result.costs == (0.25,)
    assert str(result) == "MeasureResult(cost:[0.25], error_no:0, all_cost:1, Tstamp:2.00)"
    nothing: Any = None
    failed = A.MeasureResult([], 4, nothing, 0.5, 2)
    assert "error_type:RUNTIME_DEVICE" in str(failed) and failed.error_msg == ""


def test_what_was_not_built_is_not_run() -> None:
    task = task_of(4)
    item = A.MeasureInput(task, task.compute_dag.init_state)
    failed = A.BuildResult("", [], 2, "it did not compile", 0.5)
    (result,) = A.LocalRunner().run([item], [failed])
    assert result.error_no == 2 and "did not compile" in result.error_msg
    with pytest.raises(TilewrightError, match="1 builds of 2 inputs"):
        A.LocalRunner().run([item, item], [failed])
    with pytest.raises(RuntimeError, match="Cannot get remote devices from the tracker"):
        A.RPCRunner("board", "127.0.0.1", 1, timeout=5)


def test_helpers_of_contrib_are_loaded_when_first_named() -> None:
    import tilewright

    folder = tilewright.contrib.utils.tempdir()
    assert Path(folder.relpath("a")).parent.is_dir() and "utils" in dir(tilewright.contrib)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tilewright.contrib.nothing


def test_a_policy_begins_with_chance_and_the_parameters_that_tvm_names() -> None:
    policies = [A.SketchPolicy(task_of(8), seed=3, verbose=0) for _ in range(2)]
    models = [policy.model for policy in policies]
    assert all(isinstance(m, A.RandomModel) for m in models) and models[0] is not models[1]
    assert isinstance(A.SketchPolicy(task_of(8), None, verbose=0).model, A.XGBModel)
    assert A.SketchPolicy.DEFAULT_PARAMS == {
        "eps_greedy": 0.05, "retry_search_one_round_on_empty": 1, "sample_init_min_population": 50,
        "sample_init_use_measured_ratio": 0.2, "evolutionary_search_population": 2048,
        "evolutionary_search_num_iters": 4, "evolutionary_search_mutation_prob": 0.85,
        "cpu_multi_level_tiling_structure": "SSRSRS",
        "gpu_multi_level_tiling_structure": "SSSRRSRS",
        "max_innermost_split_factor": 64, "max_vectorize_size": 16,
        "disable_change_compute_location": 0,
    }  # fmt: skip
    assert policies[0].params.items() >= A.SketchPolicy.DEFAULT_PARAMS.items()
