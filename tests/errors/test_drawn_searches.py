"""Tuning, measuring and what lies around them, drawn by chance, raise what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.errors.drawn import Row, S, T, U, check, t, tables
from tilewright import auto_scheduler, autotvm, te, topi
from tilewright.base.errors import TargetError
from tilewright.fleet.facts import FleetError
from tilewright.template.space import OutOfSpaceError
from tilewright.template.task import FlopCalculationError

NOWHERE = "/nowhere/at/all"


@auto_scheduler.register_workload
def drawn_row(n: int) -> list[Any]:
    a = te.placeholder((n, n), name="a")
    return [a, te.compute((n, n), lambda i, j: a[i, j] + 1, "b")]


@autotvm.template("tests/drawn")
def drawn_template(n: int) -> Any:
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1, "b")
    s = te.create_schedule(b.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", s[b].op.axis[0], num_outputs=2)
    return s, [a, b]


def space() -> Any:
    return autotvm.task.create("tests/drawn", (8,), "llvm").config_space


def task() -> Any:
    return auto_scheduler.SearchTask(func=drawn_row, args=(8,), target="llvm")


def split_state() -> Any:
    """The first axis of the second stage is split."""
    made = state()
    made.split(1, made.stages[1].iters[0], [2])
    return made


def other_dag() -> Any:
    """A computation without that axis."""
    a = t()
    return auto_scheduler.ComputeDAG([a, te.compute((), lambda: a() + 1)])


def state() -> Any:
    return task().compute_dag.get_init_state()


def empty(name: str, text: str = "") -> str:
    """A file without records."""
    path = Path(HERE) / name
    path.write_text(text)
    return str(path)


HERE = ""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "HERE", str(tmp_path))


def moves() -> Any:
    """A schedule that only moves elements."""
    return te.create_schedule(topi.transpose(t(4, 3)).op)


def network() -> Any:
    from tests.errors.test_graph_errors import relu

    return tilewright.compile(relu(), "llvm")


def executor() -> Any:
    from tilewright.contrib import graph_executor

    return graph_executor.GraphModule(network())


ROWS: list[Row] = [
    ("auto_scheduler.feature.features_from_primfunc", U, "PrimFunc", lambda f: f(3)),
    ("auto_scheduler.feature.features_from_primfunc", T, "max_n_bufs is from 1 to",
     lambda f: f(te.create_prim_func(drawn_row(4)), max_n_bufs=10**9)),
    ("auto_scheduler.feature.get_per_store_features_from_states", T, "max_n_bufs is from 1 to",
     lambda f: f([state()], task(), 10**9)),
    ("auto_scheduler.XGBModel.fit_rows", U, "",
     lambda f: f(auto_scheduler.XGBModel(), np.zeros((3, 164)), np.array([0, 2]), np.zeros(1),
       np.zeros(1))),
    ("auto_scheduler.join_networks", U, "weights", lambda f: f({"net": ([task()], [1.0, 2.0])})),
    ("auto_scheduler.ApplyHistoryBest", T, "nowhere", lambda f: f(NOWHERE)),
    ("auto_scheduler.ApplyHistoryBest.steps", TargetError, "quantum",
     lambda f: f(auto_scheduler.ApplyHistoryBest(None), "quantum", "key")),
    ("auto_scheduler.DaskBuilder", FleetError, "HOST:PORT", lambda f: f(3)),
    ("auto_scheduler.State.fusible_reader", S, "99", lambda f: f(state(), 99)),
    ("auto_scheduler.State.compute_root", S, "99", lambda f: f(state(), 99)),
    ("auto_scheduler.State", S, "", lambda f: f(split_state(), other_dag())),
    ("auto_scheduler.PreloadCustomSketchRule.meet", T, "",
     lambda f: f(auto_scheduler.PreloadCustomSketchRule(lambda p, s, i: 17, lambda p, s, i: []),
       None, state(), 0)),
    ("auto_scheduler.TaskScheduler", U, "task", lambda f: f([])),
    ("auto_scheduler.TaskScheduler", U, "weights", lambda f: f([task()], [1.0, 2.0])),
    ("auto_scheduler.TaskScheduler", U, "strategy", lambda f: f([task()], strategy="greedy")),
    ("auto_scheduler.make_workload_key", T, "", lambda f: f(drawn_row, (object(),))),
    ("auto_scheduler.make_workload_key", T, "", lambda f: f("no_such_workload", (1,))),
    ("auto_scheduler.workload_key_to_tensors", T, "", lambda f: f("not json")),
    ("auto_scheduler.workload_key_to_tensors", U, "no workload",
     lambda f: f('["no_such_workload", 1]')),
    ("auto_scheduler.workload_key_to_tensors", T, "argument",
     lambda f: f('["drawn_row", 1, 2, 3]')),
    ("auto_scheduler.load_record_from_string", T, "", lambda f: f("{}")),
    ("auto_scheduler.LogEstimatedLatency", T, "nowhere", lambda f: f(NOWHERE)),
    ("auto_scheduler.extract_tasks", U, "ONNX", lambda f: f(3)),
    ("auto_scheduler.extract_tasks", TargetError, "quantum",
     lambda f: f(tilewright.graph.load_onnx(relu_model()), "quantum")),
    ("testing.auto_scheduler.zero_rank_reduce_auto_scheduler_test", T, "integers",
     lambda f: f("x")),
    ("testing.auto_scheduler.conv2d_winograd_nhwc_auto_scheduler_test", T, "integers",
     lambda f: f(1, 8, 8, "x", 4)),
    ("testing.parameter", ValueError, "by_dict", lambda f: f(1, by_dict={"a": 1})),
    ("testing.strtobool", ValueError, "maybe", lambda f: f("maybe")),
    ("testing.check_int_constraints_trans_consistency", AssertionError, "",
     lambda f: f(wrong_transformation())),
    ("autotvm.feature.get_flatten_name", T, "record", lambda f: f("no record")),
    ("autotvm.feature.ana_lower", T, "simple_mode", lambda f: f(moves(), [], simple_mode=False)),
    ("autotvm.record.pick_best", T, "", lambda f: f(empty("a", "no JSON"), str(Path(HERE) / "b"))),
    ("autotvm.record.split_workload", T, "nowhere", lambda f: f(NOWHERE)),
    ("autotvm.task.create", T, "too many", lambda f: f("tests/drawn", ("x", 3), "llvm")),
    ("autotvm.task.compute_flop", FlopCalculationError, "", lambda f: f(moves())),
    ("autotvm.task.extract_from_multiple_program", T, "Relay", lambda f: f()),
    ("autotvm.ConfigSpace.subrange_length", OutOfSpaceError, "", lambda f: f(space(), 0, 10**9)),
    ("autotvm.task.space.OtherOptionSpace", T, "numbers, texts, booleans",
     lambda f: f([], "other", [object()])),
    ("autotvm.task.space.OtherOptionSpace", T, "choice|candidate", lambda f: f([], "other", [])),
    ("autotvm.task.space.AnnotateEntity.apply", T, "spin",
     lambda f: f(autotvm.task.space.AnnotateEntity(["spin"]), *schedule_of_one())),
    ("autotvm.tuner.XGBTuner", T, "optimizer", lambda f: f(autotvm_task(), optimizer="best")),
    ("autotvm.tuner.XGBTuner", T, "feature_type", lambda f: f(autotvm_task(), feature_type="best")),
    ("autotvm.tuner.XGBTuner", T, "diversity",
     lambda f: f(autotvm_task(), diversity_filter_ratio=0.5)),
    ("autotvm.tuner.XGBTuner", T, "loss_type", lambda f: f(autotvm_task(), loss_type="best")),
    ("autotvm.tuner.Tuner.tune", T, "Store",
     lambda f: f(autotvm.tuner.RandomTuner(autotvm_task()), 1, OPTION(), store=3)),
    ("contrib.sparse.CSRPlaceholderOp", T, "float3", lambda f: f((4, 4), 3, "float3", "a")),
    ("contrib.sparse.CSRNDArray", U, "", lambda f: f(3)),
    ("contrib.sparse.CSRNDArray", U, "int32",
     lambda f: f(tuple(tilewright.nd.array(np.zeros(2, k)) for k in ("float32", "int8", "int8")),
       shape=(2, 2))),
    ("contrib.cblas.product", T, "tensor",
     lambda f: f("tvm.contrib.cblas.matmul", 3, t(2, 2), False, False)),
    ("contrib.tedd.viz_dataflow_graph", U, "schedule", lambda f: f(3)),
    ("contrib.debugger.debug_executor.create", U, "JSON|Relay",
     lambda f: f("{}", network(), tilewright.cpu())),
    ("contrib.debugger.debug_executor.create", U, "network",
     lambda f: f(None, 3, tilewright.cpu())),
    ("contrib.graph_executor.GraphModule.benchmark", U, "walk",
     lambda f: f(executor(), tilewright.cpu(), "walk")),
    ("contrib.graph_executor.GraphModule.load_params", U, "", lambda f: f(executor(), b"")),
    ("contrib.graph_executor.GraphModule.share_params", U, "", lambda f: f(executor(), None, b"")),
    ("contrib.clang.create_llvm", T, "Compilation error", lambda f: f("int f( {", cc="false")),
    ("contrib.clang.find_clang", T, "clang", lambda f: without_programs(f)),
    ("contrib.cc.create_executable", T, "compiler",
     lambda f: without_programs(lambda: f(str(Path(HERE) / "a"), ["b.o"]))),
    ("contrib.nnpack.convolution_inference_weight_transform", TargetError, "NNPACK", lambda f: f()),
    ("contrib.rocm.get_rocm_arch", TargetError, "ROCm", lambda f: f()),
    ("contrib.cudnn.conv_backward_filter", TargetError, "cuDNN", lambda f: f()),
    ("contrib.rocblas.matmul", TargetError, "rocBLAS", lambda f: f()),
    ("contrib.xcode.compile_metal", TargetError, "Xcode", lambda f: f()),
    ("rpc.RPCSession.context", T, "-1",
     lambda f: f(SimpleNamespace(_link=None, _number=0), "cpu", -1)),
    ("report.records_page", T, "", lambda f: f(empty("a.json"))),
]  # fmt: skip


def OPTION() -> Any:
    return autotvm.measure_option(autotvm.LocalBuilder(), autotvm.LocalRunner())


def autotvm_task() -> Any:
    return autotvm.task.create("tests/drawn", (8,), "llvm")


def schedule_of_one() -> Any:
    a = t(8)
    b = te.compute((8,), lambda i: a[i] + 1)
    s = te.create_schedule(b.op)
    return s, b, [s[b].op.axis[0]]


def relu_model() -> Any:
    from tests.errors.test_graph_errors import relu

    return relu()


def wrong_transformation() -> Any:
    """2x = y is no change of variables of 0 <= x < 4 and 0 <= y < 4."""
    from tilewright import arith, tir

    a, b = tir.Var("a", "int32"), tir.Var("b", "int32")
    limits = tilewright.ir.Range(0, 4)
    first = arith.IntConstraints([a], {a: limits}, [])
    second = arith.IntConstraints([b], {b: limits}, [])
    return arith.IntConstraintsTransform(first, second, {a: b * 2}, {b: a * 2})


def without_programs(call: Callable[[], object]) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", NOWHERE)
        return call()


@tables(ROWS)
def test_searches_and_helpers_raise_what_is_said(
    path: str, error: type[BaseException], reason: str, call: Callable[[Any], object]
) -> None:
    check(path, error, reason, call)
