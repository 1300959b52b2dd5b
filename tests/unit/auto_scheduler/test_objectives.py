"""Objectives of several networks: their values, slopes and corners, and when a search ends."""

import math

import numpy as np
import pytest

from tests.unit.auto_scheduler.test_task_scheduler import Curve, flat, options, record, run, task
from tilewright.auto_scheduler.objectives import (
    OBJECTIVES,
    EarlyStopping,
    GeomeanSpeedup,
    LatencyRequirement,
    LatencySum,
    NetworkObjective,
    objective_of,
)
from tilewright.auto_scheduler.scheduler_callbacks import LogEstimatedLatency, PrintTableInfo
from tilewright.auto_scheduler.slope import UNKNOWN_COST, objective_slopes
from tilewright.auto_scheduler.task_scheduler import TaskScheduler
from tilewright.base.errors import UsageError

# Two networks of three tasks; the second task is of both.
COUNTS = [[3, 1, 0], [0, 2, 1]]


def test_values_are_those_of_the_paper():
    costs = [1.0, 2.0, 4.0]  # the networks take 5 and 8
    assert LatencySum(COUNTS).latencies(costs) == [5.0, 8.0]
    assert LatencySum(COUNTS)(costs) == EarlyStopping(COUNTS, 8)(costs) == 13.0
    assert LatencyRequirement(COUNTS, [6.0, 7.0])(costs) == 6.0 + 8.0
    assert GeomeanSpeedup(COUNTS, [10.0, 4.0])(costs) == pytest.approx(-math.sqrt(2.0 * 0.5))


@pytest.mark.parametrize("seed", range(5))
def test_slopes_are_derivatives(seed):
    """Against central differences, of random networks away from corners."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, (3, 7)).tolist()
    counts[0][0] = counts[1][1] = counts[2][2] = 1
    costs = [float(c) for c in 10 ** rng.uniform(-5, -2, 7)]
    found = LatencySum(counts).latencies(costs)
    wanted = [found[0] * 1.5, found[1] * 0.5, found[2] * 0.9]
    for objective in (
        LatencySum(counts),
        LatencyRequirement(counts, wanted),
        GeomeanSpeedup(counts, wanted),
    ):
        slopes = objective.slopes(costs)
        for place, slope in enumerate(slopes):
            step = 1e-5 * costs[place]
            up, down = list(costs), list(costs)
            up[place] += step
            down[place] -= step
            numeric = (objective(up) - objective(down)) / (2 * step)
            assert slope == pytest.approx(numeric, rel=1e-4, abs=1e-6), objective.name
        # differences that know nothing of the objective say the same, a little less exactly
        assert objective_slopes(objective, costs) == pytest.approx(slopes, rel=1e-3, abs=1e-6)


def test_slopes_at_corners_look_towards_lower_costs():
    counts, at = [[1, 0, 1], [0, 1, 1]], [2.0, 3.0, 1.0]  # 3 and 4
    exact = LatencyRequirement(counts, [3.0, 2.0])
    assert exact.slopes(at) == [0.0, 1.0, 1.0]  # the first is met exactly; the third is of both
    above = LatencyRequirement(counts, [3.0 * (1 - 1e-9), 2.0])
    assert above.slopes(at) == [1.0, 1.0, 2.0]
    assert LatencyRequirement(counts, [3.0, 4.0]).slopes(at) == [0.0] * 3


def test_all_satisfied_has_a_reason_and_one_unmet_has_none():
    objective = LatencyRequirement(COUNTS, [6.0, 7.0], ["a", "b"])
    assert objective.satisfied([1.0, 2.0, 4.0]) == ""
    reason = objective.satisfied([1.0, 2.0, 3.0])
    assert "a 5000.000 ms of 6000.000 ms required; b 7000.000 ms of 7000.000 ms required" in reason
    assert objective.satisfied([1.0, 2.0, UNKNOWN_COST]) == ""


def test_a_task_that_never_ran_does_not_hide_the_others():
    objective = GeomeanSpeedup(COUNTS, [10.0, 10.0])
    slopes = objective.slopes([1.0, UNKNOWN_COST, 1.0])
    assert slopes[0] == 3 * slopes[2] / 3 > 0  # 3 of 3 seconds, 1 of 1
    assert min(objective.slopes([UNKNOWN_COST] * 3)) > 0
    assert not objective.known([1.0, UNKNOWN_COST, 1.0])
    assert LatencySum([[1, 0]]).known([1.0, UNKNOWN_COST])


def test_geomean_gives_units_by_share_and_sum_by_seconds():
    """Two networks, a thousandfold apart, whose tasks get better alike."""

    def units(objective):
        curves = [Curve(lambda t: 1e-2 / t), Curve(lambda t: 1e-5 / t)]
        return run(curves, 40, objective_func=objective)[0].task_cts

    apart = [[1, 0], [0, 1]]
    assert units(LatencySum(apart))[1] <= 3
    assert units(GeomeanSpeedup(apart, [1e-2, 1e-5])) == [20, 20]


def test_the_sum_is_that_of_the_weights():
    def made():
        return [Curve(lambda t: 1e-3 / t), Curve(lambda t: 2e-3 / t), flat(1e-4)]

    by_weights, first = run(made(), 40, weights=[3, 3, 1])
    by_networks, second = run(made(), 40, objective_func=LatencySum(COUNTS))
    assert first == second and by_weights.gradients() == pytest.approx(by_networks.gradients())


@pytest.mark.parametrize("strategy", ["gradient", "round-robin"])
def test_a_met_network_gets_nothing_more(strategy):
    """The first meets its requirement in round 2, the second after twenty; then the search ends."""
    curves = [Curve(lambda t: 2e-3 / t), Curve(lambda t: 2e-2 / t)]
    objective = LatencyRequirement([[1, 0], [0, 1]], [1e-3, 1e-3])
    scheduler, _ = run(curves, 1000, objective_func=objective, strategy=strategy)
    assert scheduler.task_cts == [2, 20] and scheduler.ct == 22
    assert scheduler.stopped.startswith("every network is as fast as required")
    assert scheduler.cur_score == 2e-3


def test_a_task_that_two_networks_share_is_searched_until_both_are_met():
    curves = [flat(1e-3), Curve(lambda t: 1e-2 / t), flat(1e-3)]
    objective = LatencyRequirement([[1, 1, 0], [0, 1, 1]], [3e-3, 2e-3])
    scheduler, _ = run(curves, 200, objective_func=objective)
    assert scheduler.best_costs[1] <= 1e-3 and scheduler.stopped


def test_what_cannot_help_gets_nothing():
    """The network above its requirement has no programs left; the met one is left alone."""
    curves = [Curve(lambda t: 1e-3, rounds=3), Curve(lambda t: 1e-3 / t)]
    objective = LatencyRequirement([[1, 0], [0, 1]], [1e-4, 1e-2])
    scheduler, order = run(curves, 100, objective_func=objective)
    assert order.count(1) == 1
    assert scheduler.stopped == "no task that is left to search could lower the objective"


def test_a_task_that_only_fails_keeps_its_network_unmet():
    curves = [Curve(lambda t: None), Curve(lambda t: 1e-3 / t)]
    scheduler, _ = run(curves, 40, objective_func=LatencyRequirement([[1, 1]], [1.0]))
    assert scheduler.ct == 40 and scheduler.task_cts == [3, 37] and scheduler.stopped == ""


def test_early_stopping_is_of_each_task_and_ends_the_search():
    curves = [flat(1.0), Curve(lambda t: 1 / min(t, 5))]
    scheduler, _ = run(curves, 1000, per_round=4, objective_func=EarlyStopping([[1, 1]], 12))
    assert scheduler.task_trials == [16, 4 * 5 + 12]
    assert scheduler.stopped == (
        "every task has no program left to measure, or found no better one in 12 measurements"
    )
    more = run([flat(1.0)], 40, objective_func=EarlyStopping([[1]], 12),
               tune={"per_task_early_stopping": 20})[0]  # fmt: skip
    assert more.task_trials == [21]


def test_measurements_in_records_count_for_early_stopping():
    found = [record("a", c) for c in (9.0, 7.0, 8.0, 8.0, 8.0, 8.0)]
    tasks = [task("a"), task("b")]
    scheduler = TaskScheduler(tasks, objective_func=EarlyStopping([[1, 1]], 4), load_log_file=found)
    scheduler.tune(options(50, per_round=2), [flat(1.0), flat(1.0)], measurer=object())
    assert scheduler.task_trials == [0, 6] and scheduler.dead_tasks == {0, 1}
    assert scheduler.stopped


def test_records_that_meet_the_requirement_end_the_search_at_once():
    scheduler = TaskScheduler(
        [task("a")], objective_func=LatencyRequirement([[2]], [2e-3]),
        load_log_file=[record("a", 1e-3)],
    )  # fmt: skip
    scheduler.tune(options(50), [flat(1.0)], measurer=object())
    assert scheduler.ct == 0 and scheduler.stopped


def test_other_ends_say_why():
    ended, _ = run([Curve(lambda t: 1.0, rounds=2)], 100)
    assert ended.stopped == "every task has no program left to measure"
    idle, _ = run([flat(1.0)], 100, tune={"early_stopping": 20})
    assert idle.stopped == "20 measurements did not lower the objective"
    assert run([flat(1.0)], 10)[0].stopped == ""


def test_epsilon_draws_tasks_at_random_from_the_seed():
    def order(**params):
        return run([flat(1.0), flat(1e-9)], 200, **params)[1]

    assert order().count(1) == 1
    assert 5 <= order(epsilon=0.1).count(1) <= 25
    assert order(epsilon=0.1) == order(epsilon=0.1) != order(epsilon=0.1, seed=1)
    with pytest.raises(UsageError, match="epsilon is a share of the rounds, from 0 to 1, got 5"):
        TaskScheduler([task()], epsilon=5)


# -- what users see


def shown(objective, capsys, curves=(1e-3, 2e-3)):
    tasks = [task(f"t{i}") for i in range(len(curves))]
    scheduler = TaskScheduler(tasks, objective_func=objective, callbacks=[PrintTableInfo()])
    scheduler.tune(options(20), [flat(c) for c in curves], measurer=object())
    return capsys.readouterr().err.splitlines()


def test_the_objective_is_shown(capsys):
    apart = [[1, 0], [0, 2]]
    lines = shown(LatencySum(apart), capsys)
    assert "Estimated total latency: -  Trials: 1" in lines[0]
    assert lines[-1].startswith("Estimated total latency: 5.000 ms  Trials: 20")
    lines = shown(GeomeanSpeedup(apart, [2e-3, 8e-3]), capsys)
    assert lines[-1].startswith("Geometric mean of speed-ups: 2.000  Trials: 20")
    lines = shown(LatencyRequirement(apart, [1e-3, 5e-3], ["a", "b"]), capsys)
    assert "Estimated latency: a 1.000 ms of 1.000 ms required; b - of 5.000 ms" in lines[0]
    assert lines[-1].startswith("stopped: every network is as fast as required: a 1.000 ms of")


def test_the_log_has_latencies_whatever_the_objective(tmp_path):
    log = LogEstimatedLatency(tmp_path / "log.tsv")
    objective = GeomeanSpeedup([[1, 2]], [1.0])
    scheduler = TaskScheduler([task("a"), task("b")], objective_func=objective, callbacks=[log])
    scheduler.tune(options(2), [flat(1e-3), flat(2e-3)], measurer=object())
    assert "EstimatedLatency(ms)\t5.000\tTrials\t2" in (tmp_path / "log.tsv").read_text()


# -- by name

NETWORKS = {"a": [3, 1, 0], "b": [0, 2, 1]}


def test_objectives_by_name():
    assert OBJECTIVES == ("sum", "requirement", "geomean", "early-stopping")
    made = [
        objective_of("sum", NETWORKS),
        objective_of("requirement", NETWORKS, requirement={"b": 2.0, "a": 1.0}),
        objective_of("geomean", NETWORKS, reference=3),
        objective_of("early-stopping", NETWORKS, stop_after=64),
    ]
    assert [type(m).name for m in made] == list(OBJECTIVES)
    assert all(m.names == ("a", "b") and m.counts == ((3, 1, 0), (0, 2, 1)) for m in made)
    assert [getattr(m, "seconds", None) for m in made] == [None, (1.0, 2.0), (3.0, 3.0), None]
    assert [m.stop_after for m in made] == [None, None, None, 64]


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("geomaen", {}, r"no objective 'geomaen' \(did you mean geomean\?\); there are sum, req"),
        (
            "sum",
            {"stop_after": 8},
            "'sum' has no stop_after; that is of objective='early-stopping'",
        ),
        (
            "geomean",
            {"requirement": 1.0},
            "'geomean' has no requirement; .*--objective requirement",
        ),
        ("requirement", {}, "a requirement in seconds for each network, and a has none: "),
        ("requirement", {"requirement": {"a": 1.0}}, r"b has none: .*, or --requirement b=0.005"),
        ("geomean", {}, "'geomean' needs a reference in seconds for each network, and a has none"),
        (
            "geomean",
            {"reference": {"c": 1.0}},
            "reference: there is no network 'c'; there are a, b",
        ),
        ("requirement", {"requirement": 0}, "the requirement of a is in seconds, above 0 and fin"),
        ("geomean", {"reference": math.inf}, "the reference of a is in seconds, above 0 and finit"),
        ("geomean", {"reference": "5 ms"}, "got '5 ms'"),
        ("early-stopping", {}, "stop_after=128, or --stop-after 128"),
        ("early-stopping", {"stop_after": 0}, "measurements, at least 1, got 0"),
    ],
)
def test_wrong_parameters_say_what_would_be_right(name, given, words):
    with pytest.raises(UsageError, match=words):
        objective_of(name, NETWORKS, **given)


def test_wrong_counts():
    with pytest.raises(UsageError, match="needs a network with a task at least"):
        LatencySum([])
    with pytest.raises(UsageError, match="the rows have 1, 2 numbers"):
        LatencySum([[1], [1, 2]])
    with pytest.raises(UsageError, match="finite and at least 0"):
        LatencySum([[-1]])
    with pytest.raises(UsageError, match="1 names were given for 2 networks"):
        LatencySum([[1], [1]], ["a"])
    with pytest.raises(UsageError, match="a requirement for each network: got 1 for 2 networks"):
        LatencyRequirement([[1], [1]], [1.0])
    with pytest.raises(UsageError, match="'sum' was made for 2 tasks, and there are 1"):
        TaskScheduler([task()], objective_func=LatencySum([[1, 2]]))


def test_objectives_of_ones_own_derive():
    class Slowest(NetworkObjective):
        """The latency of the slowest network."""

        name = "slowest"

        def __call__(self, costs):
            return max(self.latencies(costs))

        def pulls(self, costs):
            found = self.latencies(costs)
            return [float(x == max(found)) for x in found]

    curves = [Curve(lambda t: 1e-3 / t), Curve(lambda t: 4e-3 / t)]
    scheduler, _ = run(curves, 20, objective_func=Slowest([[1, 0], [0, 1]]))
    assert scheduler.task_cts == [4, 16]
