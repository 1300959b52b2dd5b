"""The smaller parts of autotvm: databases, helpers, marks of code, contexts, refusals."""

import base64
import copy
import copyreg
import importlib
import pathlib
import pickle
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright import autotvm, te
from tilewright.autotvm import database, utils
from tilewright.autotvm.env import GLOBAL_SCOPE, AutotvmGlobalScope, reset_global_scope
from tilewright.autotvm.record import decode, encode
from tilewright.autotvm.task import attach_code_hash, attach_code_hash_to_arg
from tilewright.autotvm.task.dispatcher import ApplyGraphBest, clear_fallback_cache
from tilewright.autotvm.task.space import TransformSpace, VirtualAxis
from tilewright.autotvm.task.task import TaskTemplate, compute_flop
from tilewright.base.errors import TilewrightError
from tilewright.loopir.stmt import For
from tilewright.loopir.visit import nodes
from tilewright.template.measure import MeasureError
from tilewright.testing.autotvm import bad_matmul, get_sample_records, get_sample_task


def test_a_database_keeps_the_latest_result_of_each_input() -> None:
    (one, first), (two, second) = get_sample_records(2)
    db = database.DummyDatabase()
    db.save(one, first._replace(timestamp=1.0))
    db.save(one, first._replace(timestamp=3.0), extend=True)
    db.save(one, first._replace(timestamp=2.0), extend=True)
    assert db.load(one).timestamp == 3.0
    assert [r.timestamp for r in db.load(one, get_all=True)] == [1.0, 3.0, 2.0]
    assert db.load(two) is None
    failed = second._replace(error_no=4, costs=(ValueError("no"),))
    db.save(two, failed)
    found, missing = database.filter_inputs(db, [one, two])
    assert [r is None for r in found] == [False, False] and not missing
    found, missing = database.filter_inputs(db, [one, two], retry=True)
    assert found[1] is None and missing == [two]
    assert [i.config.index for i, _ in db.filter(lambda i, r: r[0].error_no == 0)] == [0]
    other = copy.deepcopy(one)
    other.config.code_hash = "changed"
    assert db.load(other) is None  # of other code
    db.flush()
    assert db.load(one) is None
    with pytest.raises(NotImplementedError, match="Database has to define load"):
        database.Database().load(one)


def test_helpers() -> None:
    values = np.array([0.5, 4.0, -1.0, 2.0])
    ranks = utils.get_rank(values)
    assert all(ranks[i] == sum(values > v) for i, v in enumerate(values))
    assert sorted(utils.sample_ints(3, 9, 6)) == [3, 4, 5, 6, 7, 8]
    with pytest.raises(ValueError, match="there are no 7 different"):
        utils.sample_ints(3, 9, 7)
    squares = utils.pool_map(lambda x: [x, x * x], range(5), batch_size=2)
    assert squares.tolist() == [[x, x * x] for x in range(5)]
    assert utils.format_si_prefix(3e9, "G") == 3 and utils.format_si_prefix(5, "m") == 5000
    assert utils.format_si_prefix(7, " ") == 7
    with pytest.raises(ValueError, match="'Q' is no prefix"):
        utils.format_si_prefix(1, "Q")
    assert utils.get_func_name(test_helpers) == "test_helpers"
    assert utils.get_const_tuple(te.placeholder((2, 3)).shape) == (2, 3)


def test_records_by_workload(tmp_path: Path) -> None:
    path = tmp_path / "all.log"
    small, _ = get_sample_task(4)
    pairs = get_sample_records(3)
    pairs += [(i._replace(task=small), r) for i, r in pairs[:1]]
    pairs += pairs[:1]
    with path.open("w") as file:
        autotvm.callback.log_to_file(file)(None, *map(list, zip(*pairs)))
    autotvm.record.split_workload(path)
    counts = [len(p.read_text().splitlines()) for p in sorted(tmp_path.glob("*.wkl"))]
    assert counts == [3, 1]
    autotvm.record.split_workload(path, clean=False)
    counts = [len(p.read_text().splitlines()) for p in sorted(tmp_path.glob("*.wkl"))]
    assert counts == [4, 1]
    key = autotvm.record.measure_str_key
    assert key(pairs[0][0]) != key(pairs[1][0]) and key(pairs[0][0], False) == key(
        pairs[1][0], False
    )


def test_configurations_know_the_code_of_their_schedule() -> None:
    task, _ = get_sample_task(8)
    space = task.config_space

    @attach_code_hash(space)
    def make(n: int) -> int:
        return n + 1

    assert space.code_hash is None and make(2) == 3
    first = space.code_hash
    assert isinstance(first, str) and space.get(0).code_hash == first

    @attach_code_hash_to_arg(1)
    def other(n: int, cfg: Any) -> int:
        return n

    other(1, space)
    assert space.code_hash not in (first, None)


def test_configurations_in_the_order_of_calls() -> None:
    task, target = get_sample_task()
    records = get_sample_records(2)
    with target, ApplyGraphBest(records) as context:
        assert context.query(target, task.workload).index == 0
        assert context.query(target, ("other",)).index == 1
        assert context.query(target, task.workload).index == 0
        assert context.query(target, ("third",)).is_fallback
        context.update(target, ("third",), records[1][0].config)
        assert context.query(target, ("third",)).index == 1


def test_fallbacks_are_made_anew() -> None:
    task, target = get_sample_task()
    with autotvm.FallbackContext() as context:
        context.silent = True
        first = context.query(target, task.workload)
        assert context.query(target, task.workload) is first
        clear_fallback_cache(target, task.workload)
        assert context.query(target, task.workload) is not first


def test_the_scope_of_the_process() -> None:
    assert AutotvmGlobalScope.current is GLOBAL_SCOPE
    other = AutotvmGlobalScope()
    other.silent = True
    was = GLOBAL_SCOPE.silent
    try:
        reset_global_scope(other)
        assert GLOBAL_SCOPE.silent
    finally:
        GLOBAL_SCOPE.silent = was


def test_operations_of_schedules() -> None:
    A = te.placeholder((7, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    total = te.compute((7,), lambda i: te.sum(A[i, k] * 2.0, axis=k))
    assert compute_flop(te.create_schedule(total.op)) == 2 * 7 * 5
    with pytest.raises(RuntimeError, match="Cannot find float number operation"):
        compute_flop(te.create_schedule(te.compute((7,), lambda i: A[i, 0]).op))


@pytest.mark.parametrize(
    "call, words",
    [
        ("autotvm.task.extract_from_program", "there are no networks of Relay"),
        ("autotvm.graph_tuner.DPTuner", "DPTuner is for Relay's graphs"),
        ("autotvm.graph_tuner.PBQPTuner", "PBQPTuner is for Relay's graphs"),
        ("autotvm.testing.tune_relay.main", "tilewright tune MODEL.onnx"),
    ],
)
def test_what_relay_had_is_named_with_the_way_here(call: str, words: str) -> None:
    found: Any = autotvm
    importlib.import_module("tilewright.autotvm.testing.tune_relay")
    for part in call.split(".")[1:]:
        found = getattr(found, part)
    with pytest.raises(TilewrightError, match=words):
        found()


def test_there_is_no_collection_of_parameters(tmp_path: Path) -> None:
    task, target = get_sample_task()
    assert not autotvm.tophub.check_backend("", "llvm")
    with pytest.raises(TilewrightError, match="no collection to download cuda"):
        autotvm.tophub.download_package("", "cuda")
    path = tmp_path / "mine.log"
    with path.open("w") as file:
        autotvm.callback.log_to_file(file)(None, *map(list, zip(*get_sample_records(1))))
    with autotvm.tophub.context(target, [str(path)]) as context:
        assert context.query(target, task.workload).index == 0
    assert autotvm.tophub.context(target).query(target, None).is_fallback


def test_a_template_that_is_wrong_for_a_target() -> None:
    """It leaves out one term of the sums."""
    args = (4, 8, 4, "float32")
    wrong = autotvm.task.create("testing/bad_matmul", args, "llvm -keys=bad_device")
    right = autotvm.task.create("testing/bad_matmul", args, "llvm")
    assert (wrong.flop, right.flop) == (2 * 4 * 7 * 4, 2 * 4 * 8 * 4)
    assert bad_matmul(*args)[1][2].name == "C"


def test_a_database_on_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is one of our own: what is asked of it is what Redis's has."""

    class Client:
        def __init__(self, **where: Any) -> None:
            self.where = where
            self.kept: dict[str, bytes] = {}

        def get(self, key: str) -> Any:
            return self.kept.get(key)

        def set(self, key: str, value: str) -> None:
            self.kept[key] = value.encode()

        def keys(self) -> list[str]:
            return list(self.kept)

        def flushdb(self) -> None:
            self.kept.clear()

    monkeypatch.setitem(sys.modules, "redis", SimpleNamespace(StrictRedis=Client))
    monkeypatch.setenv("TVM_FLEET_HOST", "far.example")
    assert database.RedisDatabase().db.where == {"host": "far.example", "port": 6379, "db": 15}
    db = database.RedisDatabase(database.RedisDatabase.REDIS_TEST)
    assert db.db.where["host"] == "localhost"
    (one, early), (two, late) = get_sample_records(2)
    db.save(one, early)
    db.save(one, late, extend=True)
    db.save(two, early)
    assert db.load(one) == late and db.load(one, get_all=True) == [early, late]
    assert [r for _, r in db.filter(lambda _, results: len(results) == 2)] == [late]
    db.flush()
    assert db.load(one) is None


def test_records_as_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    # as Dask has it for the classes of errors that are known when it is imported
    monkeypatch.setitem(copyreg.dispatch_table, MeasureError, lambda e: (print, e.args))
    for inp, result in get_sample_records(2):
        found = decode(encode(inp, result, "pickle"), "pickle")
        assert found is not None and found[1] == result
        assert found[0].config.to_json_dict() == inp.config.to_json_dict()
        assert found[0].task.workload == inp.task.workload
    bad = result._replace(costs=(MeasureError("it broke"),), error_no=2)
    found = decode(encode(inp, bad, "pickle"), "pickle")
    assert found is not None and str(found[1].costs[0]) == "it broke"
    parts = encode(inp, bad, "pickle").split("\t")
    for harmful in (print, pathlib.Path, tempfile.mkdtemp):  # what a pickle would call
        parts[2] = base64.b64encode(pickle.dumps(harmful)).decode()
        with pytest.raises(TilewrightError, match=f"it names {harmful.__module__}"):
            decode("\t".join(parts), "pickle")
    with pytest.raises(TilewrightError, match="'json' and 'pickle'"):
        encode(inp, result, "yaml")


def test_records_of_the_first_version_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    assert decode('{"v": 0.1, "i": []}') is None
    assert "tune again" in caplog.text


def test_tasks_of_what_is_called_are_noted() -> None:
    @autotvm.register_topi_compute("tests/parts/triple")
    def triple(cfg: Any, data: Any, by: int) -> Any:
        return te.compute(data.shape, lambda i: data[i] * by, name="out")

    env = autotvm.task.TaskExtractEnv.get()
    A = te.placeholder((6,), "int32", name="A")
    with env:
        triple(A, 3)
        triple(A, 3)
        triple(A, 4)
    triple(A, 5)  # behind the end
    noted = [("tests/parts/triple", (("TENSOR", (6,), "int32"), by)) for by in (3, 4)]
    assert env.get_tasks() == noted
    with autotvm.task.TaskExtractEnv.get(allow_duplicate=True) as again:
        triple(A, 3)
        triple(A, 3)
    assert again is env and env.get_tasks() == noted[:1] * 2
    env.reset()
    assert env.get_tasks() == []


def test_a_template_as_an_object() -> None:
    made = TaskTemplate()
    with pytest.raises(TilewrightError, match="has no compute"):
        made()
    made.fcompute = lambda a, b: te.compute((4,), lambda i: a[i] + b[i] * a[i], name="C")
    made.fschedule = lambda outs: te.create_schedule([t.op for t in outs])
    s, (c, a, b) = made(("TENSOR", (4,), "float32"), ("TENSOR", (4,), "int32"))
    assert s[c].op is c.op and (a.dtype, b.dtype) == ("float32", "int32")
    made.fcustomized = lambda *args: (None, list(args))
    assert made(3) == (None, [3])


def test_axes_without_a_tensor() -> None:
    bare = VirtualAxis(te.reduce_axis((0, 6), name="k"))
    assert (bare.name, bare.length, bare.num_output, len(bare)) == ("k", 6, 1, 0)
    assert isinstance(bare, TransformSpace) and VirtualAxis(bare).length == 6
    open_ended = VirtualAxis(te.thread_axis("threadIdx.x"))
    assert open_ended.length == -1
    with pytest.raises(TilewrightError, match=r"axis threadIdx\.x has no length yet"):
        autotvm.ConfigSpace().define_split("x", open_ended)


def test_the_loops_of_a_schedule_with_all_their_axes() -> None:
    A = te.placeholder((1, 8), name="A")
    B = te.compute((1, 8), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].op.axis[1])
    loops = [n for n in nodes(autotvm.feature.ana_lower(s, [A, B])) if isinstance(n, For)]
    assert [(loop.loop_var.name, int(loop.extent)) for loop in loops] == [("i", 1), ("j", 8)]
    with pytest.raises(TilewrightError, match="simple_mode=True"):
        autotvm.feature.ana_lower(s, [A, B], simple_mode=False)
