"""How the task scheduler spends rounds, with searches that only follow a curve."""

import io
import math
import re
import sys
from types import SimpleNamespace

import pytest

from benchmarks.task_scheduler import FAMILIES, LIMIT, compare
from tilewright.auto_scheduler.scheduler_callbacks import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskSchedulerCallback,
)
from tilewright.auto_scheduler.slope import (
    UNKNOWN_COST,
    Groups,
    derive_similarity_tag,
    objective_slopes,
    unit_slope,
)
from tilewright.auto_scheduler.task_scheduler import TaskScheduler
from tilewright.base.errors import TilewrightError, UsageError


def task(key="t", flop=1e9, tags=(), desc=""):
    ops = [SimpleNamespace(tag=t, attrs={}) for t in tags]
    dag = SimpleNamespace(flop_ct=flop, ops=ops)
    return SimpleNamespace(compute_dag=dag, workload_key=key, target="cpu", desc=desc)


class Curve:
    """A search whose round t takes `seconds(t)`; None: the round's programs all fail. It has no
    more programs after `rounds` rounds."""

    def __init__(self, seconds, rounds=10**9):
        self.seconds, self.rounds, self.asked = seconds, rounds, []

    def continue_search_one_round(self, num_measure, measurer):
        self.asked.append(num_measure)
        if len(self.asked) > self.rounds:
            return [], []
        cost = self.seconds(len(self.asked))
        failed = SimpleNamespace(costs=[], error_no=4)
        good = SimpleNamespace(costs=[cost], error_no=0)
        results = [failed] * (num_measure - 1) + [failed if cost is None else good]
        return [None] * num_measure, results


class Order(TaskSchedulerCallback):
    def __init__(self):
        self.order, self.ended = [], 0

    def pre_tune(self, task_scheduler, task_id):
        self.order.append(task_id)

    def end_tune(self, task_scheduler):
        self.ended += 1


def options(trials, per_round=1, early_stopping=None, verbose=0):
    return SimpleNamespace(
        num_measure_trials=trials,
        num_measures_per_round=per_round,
        early_stopping=early_stopping,
        verbose=verbose,
    )


def run(curves, trials, per_round=1, tasks=None, weights=None, tune=None, **params):
    """A scheduler after tuning, and the order of its tasks."""
    order = Order()
    tasks = tasks or [task(f"t{i}") for i in range(len(curves))]
    scheduler = TaskScheduler(tasks, weights, callbacks=[order], **params)
    tune = dict(tune or {})
    early = tune.pop("early_stopping", None)
    scheduler.tune(options(trials, per_round, early), curves, measurer=object(), **tune)
    assert order.ended == 1
    return scheduler, order.order


def flat(seconds):
    return Curve(lambda t: seconds)


# -- point 9 of issue 4


@pytest.mark.parametrize("units", [12, 24])
def test_the_gradient_needs_at_most_70_percent_of_round_robins_units(units):
    rows = compare(seeds=20, units=units)
    assert [r["family"] for r in rows] == [*FAMILIES, "all"]
    assert all(len(r["shares"]) >= 20 for r in rows)
    assert {r["family"]: r["median"] for r in rows if r["median"] > LIMIT} == {}


# -- strategies


def test_round_robin():
    _, order = run([flat(1.0), flat(2.0), flat(3.0)], 8, strategy="round-robin")
    assert order == [0, 1, 2, 0, 1, 2, 0, 1]


def test_the_gradient_warms_up_and_then_follows_promise():
    curves = [flat(1e-3), Curve(lambda t: 1e-3 * (1 - 0.02 * t)), flat(1e-6)]
    scheduler, order = run(curves, 30)
    assert order[:3] == [0, 1, 2]
    units = scheduler.task_cts
    assert units[1] > units[0] > units[2] and sum(units) == 30


def test_weights_draw_units():
    curves = [Curve(lambda t: 1e-3 / t) for _ in range(2)]
    scheduler, _ = run(curves, 40, weights=[1, 9])
    assert scheduler.task_cts[1] > 1.5 * scheduler.task_cts[0]
    best = scheduler.best_costs
    assert scheduler.cur_score == pytest.approx(best[0] + 9 * best[1])


def test_the_slope_is_the_papers_formula():
    history = [8.0, 6.0, 5.0, 4.5, 4.0]
    behind = (4.0 - 6.0) / 3
    assert unit_slope(history, 0.2, 2, 3) == pytest.approx(0.2 * behind - 0.8 * 4.0 / 5)
    similar = unit_slope(history, 0.2, 2, 3, similar_seconds=1.0)
    assert similar == pytest.approx(0.2 * behind + 0.8 * (2 * 1.0 - 4.0))
    assert unit_slope(history, 0.2, 2, 3, similar_seconds=3.9) == unit_slope(history, 0.2, 2, 3)
    assert unit_slope([4.0], 0.2, 2, 3) == pytest.approx(-0.8 * 4.0)
    # two units' history is shorter than the window
    assert unit_slope([5.0, 4.0], 1.0, 2, 3) == pytest.approx(-1.0)


def test_less_optimism_expects_what_was_seen():
    settled, moving = [8.0] + [4.0] * 9, [8.0 - 0.4 * t for t in range(10)]
    for history in (settled, moving):
        full, held = (unit_slope(history, 0.2, 2, 3, optimism=o) for o in (1.0, 0.2))
        assert full <= held < 0
    assert unit_slope(settled, 0.2, 2, 3, optimism=0.2) == pytest.approx(-0.8 * 0.2 * 4.0 / 10)
    rows = [unit_slope(h, 0.2, 2, 3, optimism=0.2) for h in (settled, moving)]
    assert rows[1] < 3 * rows[0]


def test_similar_tasks_raise_hopes():
    """Both stand still; the second is far from the rate that the first one reached."""
    tasks = [task("a", 1e9, ("conv2d",)), task("b", 1.1e9, ("conv2d",)), task("c", 1e9)]
    curves = [flat(1e-3), flat(1e-2), flat(1e-2)]
    scheduler = run(curves, 9, tasks=tasks, strategy="round-robin")[0]
    assert scheduler.groups.similar(0) == {0, 1}
    slopes = scheduler.gradients()
    wanted = -0.8 * (1e-2 - 2 * 1.1e-3)
    assert slopes[1] == pytest.approx(wanted, rel=1e-6)
    assert abs(slopes[2]) < 0.3 * abs(slopes[1])


def test_a_task_that_stays_behind_leaves_its_group():
    groups = Groups(["x", "x", ""])
    costs, flops = [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]
    assert groups.similar(2) == frozenset() and groups.similar(0) == {0, 1}
    assert not groups.evict_if_slow(1, flops, costs, [1, 6, 1], beta=2)  # not tried enough
    assert not groups.evict_if_slow(0, flops, costs, [9, 1, 1], beta=2)  # not slow
    assert not groups.evict_if_slow(1, flops, [1.0, 1.9, 1.0], [1, 7, 1], beta=2)
    assert groups.evict_if_slow(1, flops, costs, [1, 7, 1], beta=2)
    assert groups.similar(0) == frozenset() and groups.similar(1) == frozenset()
    assert groups.seconds_at_best_rate(1, flops, costs) == math.inf


def test_rates_of_tasks_that_never_ran_are_unknown():
    groups = Groups(["x", "x"])
    assert groups.seconds_at_best_rate(0, [1, 1], [UNKNOWN_COST] * 2) == math.inf
    assert groups.seconds_at_best_rate(0, [2, 1], [UNKNOWN_COST, 0.5]) == 1.0


def test_similarity_tags():
    assert derive_similarity_tag(task(tags=("", "elemwise", "broadcast")).compute_dag) == ""
    one = derive_similarity_tag(task(flop=1e9, tags=("conv2d_nchw", "elemwise")).compute_dag)
    assert one == f"conv2d_nchw_{int(math.log(1e9 + 1) / math.log(1.618))}"
    assert one == derive_similarity_tag(task(flop=1.1e9, tags=("conv2d_nchw",)).compute_dag)
    assert one != derive_similarity_tag(task(flop=2e9, tags=("conv2d_nchw",)).compute_dag)
    marked = task(tags=("dense",))
    marked.compute_dag.ops[0].attrs["auto_scheduler_task_scheduler_tag"] = "mine"
    assert derive_similarity_tag(marked.compute_dag).startswith("mine_")


# -- objectives


def test_users_objectives():
    """A latency requirement that the first task meets at once: the second gets the units."""

    def objective(costs):
        return max(costs[0], 2e-3) + max(costs[1], 1e-4)

    curves = [Curve(lambda t: 1e-3 / t), Curve(lambda t: 1e-3 / t)]
    scheduler, _ = run(curves, 11, objective_func=objective)
    assert scheduler.task_cts == [1, 10]
    assert scheduler.cur_score == objective(scheduler.best_costs)


def test_where_nothing_promises_units_are_spread():
    scheduler, _ = run([flat(1.0)] * 3, 30, objective_func=lambda costs: 7.0)
    assert scheduler.task_cts == [10, 10, 10]


def test_slopes_of_an_objective():
    slopes = objective_slopes(lambda c: 3 * c[0] + max(c[1], 5.0) + c[2] ** 2, [1e-6, 5.0, 2.0])
    assert slopes == pytest.approx([3.0, 0.0, 4.0], rel=1e-3)


# -- ends


def test_dead_tasks_get_nothing_more():
    curves = [Curve(lambda t: 1.0, rounds=2), Curve(lambda t: 1e-3)]
    scheduler, order = run(curves, 12)
    assert scheduler.dead_tasks == {0}
    assert order.count(0) == 3 and scheduler.ct == 12


@pytest.mark.parametrize("strategy", ["gradient", "round-robin"])
def test_when_all_are_dead_the_search_ends(strategy):
    scheduler, _ = run([Curve(lambda t: 1.0, rounds=2)] * 2, 100, strategy=strategy)
    assert scheduler.dead_tasks == {0, 1} and scheduler.ct == 2


def test_tasks_that_only_fail_do_not_eat_the_budget():
    curves = [Curve(lambda t: None), Curve(lambda t: 1.0 / t)]
    scheduler, _ = run(curves, 40)
    assert scheduler.task_cts == [3, 37]
    assert scheduler.best_costs[0] == UNKNOWN_COST


def test_when_all_fail_all_are_tried():
    scheduler, _ = run([Curve(lambda t: None) for _ in range(3)], 30)
    assert scheduler.task_cts == [10, 10, 10] and scheduler.best_costs == [UNKNOWN_COST] * 3


def test_late_first_success():
    scheduler, _ = run([Curve(lambda t: None if t < 3 else 1e-3), flat(1e-3)], 40)
    assert scheduler.best_costs == [1e-3, 1e-3] and min(scheduler.task_cts) >= 15


def test_early_stopping():
    tune = {"early_stopping": 20}
    scheduler, _ = run([Curve(lambda t: 1 / min(t, 5)), flat(1e-3)], 1000, tune=tune)
    assert scheduler.best_ct + 20 == scheduler.ct < 200


def test_early_stopping_of_a_task():
    curves = [flat(1.0), Curve(lambda t: 1e-3 / t)]
    scheduler, _ = run(curves, 200, per_round=4, tune={"per_task_early_stopping": 12})
    assert scheduler.dead_tasks == {0} and scheduler.ct == 200
    assert scheduler.task_trials[0] == 16  # the last of the first four was the best


def test_trials_are_spent_exactly():
    curves = [flat(1.0), flat(1.0), flat(1.0)]
    scheduler, _ = run(curves, 100, per_round=64)
    assert scheduler.num_measures_per_round == 33 and scheduler.ct == 100
    assert [max(c.asked) for c in curves] == [33] * 3


def test_no_trials_measure_nothing():
    scheduler = TaskScheduler([task()])
    scheduler.tune(options(0), [flat(1.0)])
    assert scheduler.ct == 0


def test_wrong_arguments():
    with pytest.raises(UsageError, match="no task"):
        TaskScheduler([])
    with pytest.raises(UsageError, match="Invalid strategy: 'best'; there are round-robin"):
        TaskScheduler([task()], strategy="best")
    with pytest.raises(UsageError, match="2 task_weights were given for 1 tasks"):
        TaskScheduler([task()], [1, 2])
    with pytest.raises(UsageError, match="backward_window_size"):
        TaskScheduler([task()], backward_window_size=0)
    two = TaskScheduler([task(), task()])
    with pytest.raises(UsageError, match="num_measure_trials is too small"):
        two.tune(options(1), [flat(1.0)] * 2)
    with pytest.raises(UsageError, match="1 search policies were given for 2 tasks"):
        two.tune(options(10), [flat(1.0)])
    with pytest.raises(UsageError, match="Invalid search policy: 'grid'"):
        two.tune(options(10), "grid")


# -- going on from records


def record(key, cost):
    error = 0 if math.isfinite(cost) else 2
    item = SimpleNamespace(task=SimpleNamespace(workload_key=key, target="cpu"))
    return item, SimpleNamespace(costs=[cost] if not error else [], error_no=error)


def test_records_restore_the_state():
    found = [record("a", c) for c in (9.0, math.inf, 7.0, 8.0, 5.0)]
    found += [record("else", 1.0), record("b", math.inf)]
    curves = [flat(6.0), flat(3.0), flat(2.0)]
    tasks = [task("a"), task("b"), task("c")]
    order = Order()
    scheduler = TaskScheduler(tasks, load_log_file=iter(found), callbacks=[order])
    scheduler.tune(options(6, per_round=2), curves, measurer=object())
    assert order.order[0] == 2  # "b" has had a round already
    assert scheduler.task_costs_history[0][:3] == [9.0, 7.0, 5.0]
    assert scheduler.best_costs == [5.0, 3.0, 2.0]
    assert scheduler.task_trials[2] == 2 * scheduler.task_cts[2]
    assert scheduler.ct == 6


# -- callbacks


def test_the_log_of_latencies(tmp_path):
    file = tmp_path / "latency.tsv"
    file.write_text("old\n")
    tasks = [task("a"), task("b")]
    log = LogEstimatedLatency(file)
    assert file.read_text() == ""
    scheduler = TaskScheduler(tasks, [2, 1], callbacks=[log])
    scheduler.tune(options(3), [flat(1e-3), flat(2e-3)], measurer=object())
    lines = file.read_text().splitlines()
    assert [re.sub(r"\)\t\d+\t", ")\tS\t", line, count=1) for line in lines] == [
        f"ElapsedTime(s)\tS\tEstimatedLatency(ms)\t{ms}\tTrials\t{k}"
        for k, ms in ((1, "N/A"), (2, "4.000"), (3, "4.000"))
    ]
    with pytest.raises(TilewrightError, match="cannot write to"):
        LogEstimatedLatency(tmp_path / "none" / "latency.tsv")


def tuned_with_table(verbose=1, callbacks=None):
    tasks = [task("a", 1e9, desc="conv"), task("b", 2e9, desc="d" * 80), task("c")]
    scheduler = TaskScheduler(tasks, callbacks=callbacks)
    curves = [flat(1e-3), flat(4e-3), Curve(lambda t: None)]
    scheduler.tune(options(6, verbose=verbose), curves, measurer=object())


def test_lines_and_a_table_where_there_is_no_terminal(capsys):
    tuned_with_table(callbacks=[PrintTableInfo()])
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0].startswith("task 0 conv: 1.000 ms, 1000.00 GFLOPS; Estimated total latency: -")
    titles = "ID Task Description Latency (ms) Speed (GFLOPS) Trials"
    assert " ".join(lines[6].split()) == titles
    assert len({len(line) for line in lines[6:10]}) == 1
    assert lines[8].split()[2:4] == ["4.000", "500.00"] and "ddd..." in lines[8]
    assert lines[9].split()[:5] == ["2", "task", "2", "-", "-"]
    assert lines[10].startswith("Estimated total latency: -  Trials: 6  Used time:")


def test_a_live_table_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    tuned_with_table(callbacks=[PrintTableInfo()])
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "Next ID: 2" in text and "Task Scheduler" in text
    last = text[text.rindex("Task Scheduler") :]
    assert re.search(r"0 │ conv +│ +1\.000 │ +1000\.00 │", last)
    assert "Next ID" not in last and "Trials: 6" in last


def test_quiet(capsys):
    tuned_with_table(verbose=0)
    assert capsys.readouterr() == ("", "")
    tuned_with_table(verbose=1)
    assert "Speed (GFLOPS)" in capsys.readouterr().err


def test_callbacks_end_after_an_error():
    class Broken:
        def continue_search_one_round(self, num_measure, measurer):
            raise ValueError("broken")

    order = Order()
    with pytest.raises(ValueError, match="broken"):
        TaskScheduler([task()], callbacks=[order]).tune(options(2), [Broken()], measurer=object())
    assert order.ended == 1 and order.order == [0]
