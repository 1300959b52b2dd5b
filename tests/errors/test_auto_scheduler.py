"""What users of the auto-scheduler are told when something cannot be, and what works all the
same."""

import warnings

import pytest

import tilewright as tvm
from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import Formula, policy_of, task_of
from tilewright import auto_scheduler as A
from tilewright import te
from tilewright.auto_scheduler.measure import MeasureInput
from tilewright.base.errors import TargetError, TilewrightError

SMALL = {"evolutionary_search_population": 32, "evolutionary_search_num_iters": 1}


@A.register_workload
def errors_matmul(n):
    return C.matmul(n, n, n)


def task(n=64, target="llvm", **more):
    return A.SearchTask(func=errors_matmul, args=(n,), target=target, **more)


def options(trials, **more):
    return A.TuningOptions(num_measure_trials=trials, verbose=0, **more)


def records(path, n=64, count=3):
    """A file of records of the matrix product of size n."""
    policy = A.SketchPolicy(task(n), A.RandomModel(), SMALL, verbose=0)
    inputs = [MeasureInput(policy.task, s) for s in policy.sample_initial_population(count)]
    A.save_records(path, inputs, Formula().measure(policy.task, policy, inputs))
    return path


def told(call, *words, kind=TilewrightError):
    with pytest.raises(kind) as error:
        call()
    for word in words:
        assert word in str(error.value)


# -- computations


def test_symbolic_sizes():
    n = te.var("n")
    a = te.placeholder((n, 8), name="a")
    b = te.compute((n, 8), lambda i, j: a[i, j] + 1.0, name="b")
    for make in (lambda: A.ComputeDAG([a, b]), lambda: task_of([a, b])):
        told(make, "dimension 0 of a is n", "a search is for one size")


def test_symbolic_sizes_as_arguments_of_a_workload():
    told(lambda: task(te.var("n")), "argument 0", "errors_matmul")


def test_a_task_without_reduction_and_reuse_is_searched():
    policy, measurer = policy_of(C.chain(), **SMALL), Formula()
    best = policy.search(4, None, 2, measurer)
    assert best is not None
    assert measurer.seen


def test_a_task_without_any_loop_is_searched():
    a = te.placeholder((), name="a")
    b = te.compute((), lambda: a[()] * 2.0, name="b")
    schedule, args = A.auto_schedule(task_of([a, b]), policy_of([a, b], **SMALL))
    assert len(args) == 2
    tvm.build(schedule, args, "llvm")


def test_scans_are_refused():
    """By the search; the library's schedule takes them."""
    told(
        lambda: policy_of(C.scan(), default_schedule_first=0).best_unmeasured(),
        "scan", "te.compute operations only",
    )  # fmt: skip
    state = policy_of(C.scan()).best_unmeasured()
    assert state is not None and state.is_default


def test_a_stage_that_an_extern_reads_is_stored():
    sketches = policy_of(C.extern()).generate_sketches()
    assert all("Inlined: A" not in str(s) for s in sketches)


def test_inputs_alone():
    told(lambda: task_of([te.placeholder((4,), name="a")]), "nothing is computed")


# -- trials


def test_zero_trials_choose_without_measuring(tmp_path):
    log = tmp_path / "records.json"
    t = task()
    t.tune(options(0, measure_callbacks=[A.RecordToFile(str(log))]))
    assert not log.exists()
    for given in (None, options(0)):
        schedule, args = A.auto_schedule(t, tuning_options=given)
        assert len(args) == 3
        tvm.build(schedule, args, "llvm")
    told(lambda: t.apply_best(str(log)), "there is no file", "records.json")


@pytest.mark.parametrize("value", [-1, 1.5, "8", True, None])
def test_trials_are_whole_numbers(value):
    told(lambda: options(value), "num_measure_trials is a whole number", repr(value))


def test_rounds_and_patience_are_positive():
    told(lambda: options(8, num_measures_per_round=0), "num_measures_per_round is at least 1")
    for value in (0, 2.5):
        told(lambda v=value: options(8, early_stopping=v), "early_stopping is None or", repr(value))


def test_options_are_tuning_options():
    told(lambda: task().tune(100), "TuningOptions(num_measure_trials=...), got 100")


# -- records


def test_records_of_another_task(tmp_path):
    path = records(tmp_path / "records.json")
    task(64).apply_best(path)
    told(lambda: task(32).apply_best(path), "has no record of this workload for llvm", "tune it")


def test_records_of_another_target(tmp_path):
    path = records(tmp_path / "records.json")
    told(lambda: task(target="opencl").apply_best(path), "no record of this workload for opencl")


def test_records_of_other_tasks_are_passed_over(tmp_path):
    path = records(tmp_path / "records.json", 32)
    records(path, 64, 2)
    policy = A.SketchPolicy(
        task(64), A.RandomModel(), init_search_callbacks=[A.PreloadMeasuredStates(path)]
    )
    assert len(policy.measured) == 2


def test_half_a_line(tmp_path):
    path = records(tmp_path / "records.json")
    path.write_text(path.read_text()[:-40])
    with pytest.warns(UserWarning, match="left out 1 damaged record"):
        task().apply_best(path)


def test_a_file_without_a_record(tmp_path):
    path = tmp_path / "records.json"
    path.write_text("hello\n")
    told(lambda: task().apply_best(path), f"{path} is no file of records")


@pytest.mark.parametrize("text", ["[1, 2]\n", '{"i": 3}\n'])
def test_a_file_of_something_else(tmp_path, text):
    path = tmp_path / "records.json"
    path.write_text(text)
    with pytest.warns(UserWarning, match="left out 1 .*record"):
        told(lambda: task().apply_best(path), "has no record of this workload")


def test_a_version_of_the_future(tmp_path):
    path = records(tmp_path / "records.json")
    lines = path.read_text().replace('"v":"v0.6"', '"v":"v9.9"').replace('"v": "v0.6"', '"v":"v9"')
    path.write_text(lines)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "v9" not in lines:
            pytest.fail("the version is written another way now")
        kept = [r for _, r in A.load_records(path)]
    assert len(kept) < 3


@pytest.mark.parametrize("mode", ["missing", "folder"])
def test_a_file_that_is_not_there(tmp_path, mode):
    path = tmp_path / "none.json" if mode == "missing" else tmp_path
    told(lambda: task().apply_best(path), str(path))
    load = A.PreloadMeasuredStates(path)
    told(lambda: A.SketchPolicy(task(), None, init_search_callbacks=[load]), str(path))


def test_where_records_cannot_be_written(tmp_path):
    for path in (tmp_path, tmp_path / "no" / "folder.json", "/dev/full"):
        told(lambda p=path: A.RecordToFile(str(p)), "cannot write", str(path))


def test_sources_that_there_are_not(tmp_path):
    path = records(tmp_path / "records.json")
    assert "s[C" in task().print_best(path)
    told(lambda: task().print_best(path, "cuda"), 'no "cuda" source', '"schedule", "ll" and "asm"')


# -- targets


def test_a_target_without_a_compiler():
    t = task(target="c")
    told(lambda: t.tune(options(2)), "candidates for c cannot be measured", "no code generator")
    schedule, args = A.auto_schedule(t)  # still finds one for its cores
    assert "parallel" in schedule.as_python()
    assert len(args) == 3


def test_a_device_that_is_not_there():
    if tvm.cuda(0).exist:
        pytest.skip("a CUDA device is here")
    t = task(target="cuda")
    told(lambda: t.tune(options(2)), "candidates for cuda cannot be measured here", "auto_schedule")
    scheduler = A.TaskScheduler([t])
    told(lambda: scheduler.tune(options(2), "sketch.random"), "cannot be measured here")


def test_unknown_targets():
    told(lambda: task(target="quantum"), "unknown target kind 'quantum'", kind=TargetError)
    told(lambda: A.SearchTask(func=errors_matmul, args=(8,)), 'target="llvm"', kind=TargetError)


def test_the_target_of_a_scope():
    with tvm.target.Target("llvm"):
        assert A.SearchTask(func=errors_matmul, args=(8,)).target.kind.name == "llvm"


# -- tasks


def test_a_task_without_a_workload():
    told(lambda: A.SearchTask(target="llvm"), "needs a workload", "func=", "compute_dag=")


def test_wrong_arguments_of_a_workload():
    told(
        lambda: A.SearchTask(func=errors_matmul, args=(8, 8), target="llvm"),
        "errors_matmul", "does not take these arguments",
    )  # fmt: skip


def test_a_workload_that_nobody_registered():
    def stranger(n):
        return C.matmul(n)

    told(lambda: A.SearchTask(func=stranger, args=(8,), target="llvm"), "stranger", "register")


def test_ways_with_layouts_that_there_are_not():
    told(lambda: task(layout_rewrite_option=7), "layout_rewrite_option is one of", "got 7")


# -- policies


def test_unknown_policies_and_models():
    told(lambda: task().tune(options(2), "genetic"), '"default", "sketch.random" or a SketchPolicy')
    told(lambda: A.SketchPolicy(task(), "xgb"), "RandomModel or an XGBModel, got 'xgb'")
    told(lambda: policy_of(C.matmul(), callbacks=["records.json"]), "init_search_callbacks are")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("population", 9, "has no parameters ['population']"),
        ("eps_greedy", 1.5, "eps_greedy is a share from 0 to 1, got 1.5"),
        ("eps_greedy", "all", "eps_greedy is a share from 0 to 1, got 'all'"),
        ("evolutionary_search_population", 0, "at least 1, got 0"),
        ("evolutionary_search_num_iters", -1, "at least 0, got -1"),
        ("max_innermost_split_factor", 2.5, "a whole number of at least 1, got 2.5"),
        ("cpu_multi_level_tiling_structure", "SSX", "made of at least two S and one R"),
        ("gpu_multi_level_tiling_structure", "RR", "S and one R, like SSSRRSRS; got 'RR'"),
        ("cpu_multi_level_tiling_structure", "", "made of at least two S and one R"),
    ],
)
def test_parameters_that_make_no_sense(name, value, words):
    told(lambda: policy_of(C.matmul(), **{name: value}), words)


RULE = A.PreloadCustomSketchRule


def test_rules_that_are_no_functions():
    told(lambda: RULE(3, lambda *_: [], "mine"), "mine: the condition is a function, got 3")
    told(lambda: RULE(lambda *_: 0, None, "mine"), "mine: the action is a function, got None")


def test_conditions_that_are_none():
    rule = RULE(lambda *_: "yes", lambda p, s, i: [[s, i - 1]], "mine")
    policy = policy_of(C.matmul(), callbacks=[rule])
    told(policy.generate_sketches, "the condition of mine gives PASS, APPLY or", "'yes'")


@pytest.mark.parametrize("result", [None, 5, ["x"], [["state", 1]], [[None, 0]]], ids=repr)
def test_actions_that_give_something_else(result):
    rule = RULE(lambda *_: RULE.APPLY_AND_SKIP_REST, lambda *_: result, "mine")
    policy = policy_of(C.matmul(), callbacks=[rule])
    told(policy.generate_sketches, "mine")


def test_rules_that_leave_nothing():
    rule = RULE(lambda *_: RULE.APPLY_AND_SKIP_REST, lambda *_: [], "mine")
    policy = policy_of(C.matmul(), callbacks=[rule])
    told(policy.generate_sketches, "mine", "derive no sketch")


def test_a_rule_that_never_ends():
    rule = RULE(lambda *_: RULE.APPLY_AND_SKIP_REST, lambda p, s, i: [[s, i]], "mine")
    policy = policy_of(C.chain(1), callbacks=[rule])
    told(policy.generate_sketches, "do not come to an end")


def test_a_rule_with_a_wrong_step():
    def apply(policy, state, stage_id):
        state.split(stage_id, 9, [None])
        return [[state, stage_id - 1]]

    rule = RULE(lambda *_: RULE.APPLY, apply, "mine")
    policy = policy_of(C.matmul(), callbacks=[rule])
    told(policy.generate_sketches, "C has loops 0 to 2, not 9")
