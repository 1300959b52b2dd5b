"""Tasks tuned together: the default schedule first, and on from what the records have."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tilewright import auto_scheduler, te
from tilewright.auto_scheduler import MeasureResult, State
from tilewright.auto_scheduler.scheduler_callbacks import TaskSchedulerCallback
from tilewright.auto_scheduler.together import tune_tasks
from tilewright.base.errors import ScheduleError, UsageError


def task(n: int) -> Any:
    a, b = te.placeholder((n, 16), name="a"), te.placeholder((16, n), name="b")
    r = te.reduce_axis((0, 16), "r")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    dag = auto_scheduler.ComputeDAG([a, b, c])
    return auto_scheduler.SearchTask(compute_dag=dag, target="llvm", desc=f"c{n}")


def is_default(item: Any) -> bool:
    return bool(item.state.is_default)


class Measurer:
    """Measures without running: the default schedule takes `default` seconds, candidates less and
    less. Dies after `lives` measurements."""

    def __init__(self, callbacks: Any, default: float, lives: float = float("inf")) -> None:
        self.callbacks, self.default, self.lives = callbacks, default, lives
        self.seen: list[Any] = []

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def measure(self, task: Any, policy: Any, inputs: Any) -> list[MeasureResult]:
        results = []
        for item in inputs:
            if len(self.seen) >= self.lives:
                raise KeyboardInterrupt
            self.seen.append(item)
            cost = self.default if item.state.is_default else 1e-3 / len(self.seen)
            results.append(MeasureResult((cost,), 0, "", 0.01, float(len(self.seen))))
            for callback in self.callbacks:
                callback.callback(policy, [item], results[-1:])
        return results


class Maker:
    """Makes measurers in place of those with workers."""

    def __init__(self) -> None:
        self.default, self.lives = 1e-2, float("inf")
        self.made: list[Measurer] = []

    def __call__(self, options: Any) -> Measurer:
        self.made.append(Measurer(options.measure_callbacks, self.default, self.lives))
        return self.made[-1]


DEFAULT = (("DS", "llvm"),)


@pytest.fixture
def maker(monkeypatch: Any) -> Maker:
    made = Maker()
    monkeypatch.setattr("tilewright.auto_scheduler.task_scheduler.make_measurer", made)
    return made


def tune(tasks: Any, trials: int, file: Path, weights: Any = None, **more: Any) -> Any:
    weights = [1] * len(tasks) if weights is None else weights
    return tune_tasks(tasks, weights, trials, file, verbose=0, **more)


def test_the_default_schedule_is_measured_first_and_once(maker: Maker, tmp_path: Path) -> None:
    tasks = [task(32), task(48)]
    outcome = tune(tasks, 20, tmp_path / "a.json", weights=[3, 1])
    (measurer,) = maker.made
    first: dict[str, Any] = {}
    for item in measurer.seen:
        first.setdefault(item.task.desc, item)
    assert all(map(is_default, first.values())) and len(first) == 2
    assert sum(item.state.rows == DEFAULT for item in measurer.seen) == 2
    assert (outcome.measured, outcome.known) == (20, 0)
    assert [t.default_s for t in outcome.tasks] == [1e-2, 1e-2]
    assert sum(t.measurements for t in outcome.tasks) == 20
    assert outcome.default_s == pytest.approx(4e-2) and outcome.best_s < outcome.default_s


def test_a_default_schedule_that_nothing_beats_is_the_best(maker: Maker, tmp_path: Path) -> None:
    maker.default = 1e-9
    outcome = tune([task(32)], 6, tmp_path / "a.json")
    assert outcome.tasks[0].best_s == outcome.tasks[0].default_s == 1e-9
    history = auto_scheduler.ApplyHistoryBest(tmp_path / "a.json")
    rows = history.steps("llvm", outcome.tasks[0].task.workload_key)
    assert rows == (("DS", "llvm"),)


def test_operators_may_do_without_it(maker: Maker, tmp_path: Path) -> None:
    outcome = tune([task(32)], 5, tmp_path / "a.json", defaults=False)
    assert not any(map(is_default, maker.made[0].seen))
    assert outcome.default_s is None and outcome.best_s == 1e-3 / 5


def test_a_search_that_died_goes_on(maker: Maker, tmp_path: Path) -> None:
    tasks = [task(32), task(48)]
    maker.lives = 7
    with pytest.raises(KeyboardInterrupt):
        tune(tasks, 24, tmp_path / "a.db")
    maker.lives = float("inf")
    outcome = tune(tasks, 24, tmp_path / "a.db")
    assert (outcome.known, outcome.measured) == (7, 17)
    seen = [(i.task.desc, i.state.rows) for m in maker.made for i in m.seen]
    assert len(seen) == 24 and max(Counter(seen).values()) == 1, "nothing is measured twice"
    assert sum(rows[0][0] == "DS" for _, rows in seen) == 2


def test_a_finished_search_measures_nothing(maker: Maker, tmp_path: Path) -> None:
    first = tune([task(32)], 4, tmp_path / "a.db")
    again = tune([task(32)], 4, tmp_path / "a.db")
    assert len(maker.made) == 1 and again.measured == 0 and again.known == 4
    assert again.tasks[0].best_s == first.tasks[0].best_s


def test_a_rest_of_fewer_trials_than_tasks_is_measured(maker: Maker, tmp_path: Path) -> None:
    tasks = [task(16), task(32), task(48)]
    tune(tasks, 12, tmp_path / "a.db")
    assert tune(tasks, 13, tmp_path / "a.db").measured == 1


def test_records_of_other_tasks_do_not_count(maker: Maker, tmp_path: Path) -> None:
    tune([task(16)], 4, tmp_path / "a.db")
    outcome = tune([task(32)], 4, tmp_path / "a.db")
    assert (outcome.known, outcome.measured) == (0, 4)


def test_the_same_seed_makes_the_same_search(maker: Maker, tmp_path: Path) -> None:
    for name in "ab":
        tune([task(32)], 12, tmp_path / f"{name}.json", seed=3)
    tune([task(32)], 12, tmp_path / "c.json", seed=4)
    a, b, c = ([i.state.rows for i in m.seen] for m in maker.made)
    assert a == b != c


def test_too_few_trials_are_refused(maker: Maker, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 1, got 0"):
        tune([task(16)], 0, tmp_path / "a.db")
    with pytest.raises(UsageError, match="not even one for each of 2 tasks"):
        tune([task(16), task(32)], 1, tmp_path / "a.db")


# -- several networks


def two_networks() -> Any:
    """The second task is of both, and is extracted anew for each, as `extract_tasks` does."""
    return auto_scheduler.join_networks(
        {"a": ([task(16), task(32)], [3, 1]), "b": ([task(32), task(48)], [2, 1])}
    )


def test_networks_share_tasks() -> None:
    tasks, counts = two_networks()
    assert [t.desc for t in tasks] == ["c16", "c32", "c48"]
    assert counts == {"a": [3, 1, 0], "b": [0, 2, 1]}
    with pytest.raises(UsageError, match="1 weights were given for 2 tasks"):
        auto_scheduler.join_networks({"a": ([task(16), task(32)], [3])})


def test_what_networks_share_is_measured_once(maker: Maker, tmp_path: Path) -> None:
    tasks, counts = two_networks()
    outcome = tune(tasks, 24, tmp_path / "a.db", counts)
    seen = [(i.task.desc, i.state.rows) for i in maker.made[0].seen]
    assert len(seen) == 24 and max(Counter(seen).values()) == 1
    assert [t.weight for t in outcome.tasks] == [3, 3, 1]
    best = [t.best_s for t in outcome.tasks]
    assert [(n.name, n.tasks) for n in outcome.networks] == [("a", 2), ("b", 2)]
    assert outcome.networks[0].best_s == pytest.approx(3 * best[0] + best[1])
    assert outcome.networks[1].default_s == pytest.approx(3e-2)
    assert outcome.score == outcome.best_s == pytest.approx(sum(n.best_s for n in outcome.networks))
    assert outcome.networks[0].met is None and outcome.networks[0].speedup is None
    again = tune(tasks, 24, tmp_path / "a.db", counts)
    assert (again.measured, again.known, again.score) == (0, 24, outcome.score)


def test_a_requirement_that_is_met_ends_the_search(maker: Maker, tmp_path: Path) -> None:
    tasks, counts = two_networks()
    goal = {"objective": "requirement", "requirement": {"a": 0.05, "b": 0.04}}
    outcome = tune(tasks, 40, tmp_path / "a.db", counts, **goal)
    assert outcome.measured == 18 and [n.met for n in outcome.networks] == [True, True]
    assert outcome.stopped.startswith("every network is as fast as required: a ")
    assert outcome.score == pytest.approx(0.09)
    assert tune(tasks, 40, tmp_path / "a.db", counts, **goal).measured == 0
    tight = {"objective": "requirement", "requirement": 1e-9}
    more = tune(tasks, 22, tmp_path / "a.db", counts, **tight)
    assert more.measured == 4 and [n.met for n in more.networks] == [False, False]


def test_speed_ups_are_over_the_references(maker: Maker, tmp_path: Path) -> None:
    tasks, counts = two_networks()
    given = {"a": 0.04, "b": 0.03}  # what their default schedules take
    outcome = tune(tasks, 24, tmp_path / "a.db", counts, objective="geomean", reference=given)
    gains = [n.speedup for n in outcome.networks]
    assert gains == [pytest.approx(n.default_s / n.best_s) for n in outcome.networks]
    assert outcome.score == pytest.approx(-((gains[0] * gains[1]) ** 0.5))


def test_early_stopping_goes_on_where_it_was(maker: Maker, tmp_path: Path) -> None:
    maker.default = 1e-9  # no candidate is better
    goal = {"objective": "early-stopping", "stop_after": 8}
    first = tune([task(16), task(32)], 200, tmp_path / "a.db", **goal)
    assert first.measured < 200 and "no better one in 8 measurements" in first.stopped
    assert tune([task(16), task(32)], 200, tmp_path / "a.db", **goal).measured == 0


def test_objectives_may_be_functions(maker: Maker, tmp_path: Path) -> None:
    outcome = tune([task(16), task(32)], 12, tmp_path / "a.db", objective=max)
    assert outcome.score == max(t.best_s for t in outcome.tasks)
    tasks, counts = two_networks()
    made = auto_scheduler.LatencyRequirement(list(counts.values()), [0.05, 0.04], list(counts))
    outcome = tune(tasks, 24, tmp_path / "b.db", counts, objective=made)
    assert [n.met for n in outcome.networks] == [True, True]
    with pytest.raises(UsageError, match="was made for other networks"):
        tune(tasks, 200, tmp_path / "c.db", [1, 1, 1], objective=made)
    with pytest.raises(UsageError, match="stop_after is for objectives by name"):
        tune(tasks, 200, tmp_path / "c.db", counts, objective=max, stop_after=3)
    with pytest.raises(UsageError, match="2 weights were given for 3 tasks"):
        tune(tasks, 200, tmp_path / "c.db", {"a": [1, 1]})
    with pytest.raises(UsageError, match="there is no task to tune"):
        tune(tasks, 200, tmp_path / "c.db", {})
    assert not (tmp_path / "c.db").exists()


def test_the_default_schedule_is_a_state_of_one_step() -> None:
    state = State.default(task(64))
    assert state.rows == (("DS", "llvm"),) and not state.open
    assert state.copy().rows == state.rows
    with pytest.raises(ScheduleError, match="only step"):
        State.from_rows(state.dag, [("CR", 2), ("DS", "llvm")])


def test_leaders_of_each_task_are_measured_again(maker: Maker, tmp_path: Path) -> None:
    tasks = [task(32), task(48)]
    maker.default = 1.2e-5
    outcome = tune(tasks, 130, tmp_path / "a.json")
    (measurer,) = maker.made
    assert outcome.measured == len(measurer.seen) == 130
    last = [(i.task.desc, i.state.rows) for i in measurer.seen[-12:]]
    for one, turns in zip(tasks, (last[:6], last[6:])):
        best, plain = turns[:2]
        assert turns == [best, plain, plain, best, best, plain]
        assert plain == (one.desc, DEFAULT) != best


class Meanwhile(TaskSchedulerCallback):
    """After the first round, another search of the same tasks and file."""

    def __init__(self, tasks: Any, trials: int, file: Path) -> None:
        self.given: Any = (tasks, trials, file)
        self.outcome: Any = None

    def post_tune(self, task_scheduler: Any, task_id: int) -> None:
        if self.outcome is None:
            self.outcome = tune(*self.given)


def test_searches_at_one_time_share_a_store(maker: Maker, tmp_path: Path) -> None:
    tasks, file = [task(32), task(48)], tmp_path / "a.db"
    other = Meanwhile(tasks, 16, file)
    outcome = tune(tasks, 24, file, callbacks=[other])
    first = outcome.measured - (24 - 16)
    assert 0 < first < 16 and outcome.known == 16 - first
    assert (other.outcome.known, other.outcome.measured) == (first, 16 - first)
    seen = [(i.task.desc, i.state.rows) for m in maker.made for i in m.seen]
    assert len(seen) == 24 and max(Counter(seen).values()) == 1, "nothing is measured twice"
    assert len(list(auto_scheduler.load_records(file))) == 24
    assert outcome.tasks[0].best_s <= other.outcome.tasks[0].best_s


def test_a_search_ends_where_others_made_the_rest(maker: Maker, tmp_path: Path) -> None:
    tasks, file = [task(32), task(48)], tmp_path / "a.db"
    outcome = tune(tasks, 24, file, callbacks=[Meanwhile(tasks, 24, file)])
    assert outcome.measured + outcome.known == 24 and 0 < outcome.measured < 24


def test_a_search_measures_nothing_where_others_made_more(maker: Maker, tmp_path: Path) -> None:
    tasks, file = [task(32), task(48)], tmp_path / "a.db"
    outcome = tune(tasks, 24, file, callbacks=[Meanwhile(tasks, 40, file)])
    assert outcome.measured + outcome.known == 40
    assert maker.made[0].seen and len(maker.made[0].seen) == outcome.measured <= 12
