"""Tasks tuned together: the default schedule first, and on from what the records have."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tilewright import auto_scheduler, te
from tilewright.auto_scheduler import MeasureResult, State
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
    return tune_tasks(tasks, weights or [1] * len(tasks), trials, file, verbose=0, **more)


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
    rows = history.query("llvm", outcome.tasks[0].task.workload_key)
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


def test_the_default_schedule_is_a_state_of_one_step() -> None:
    state = State.default(task(64))
    assert state.rows == (("DS", "llvm"),) and not state.open
    assert state.copy().rows == state.rows
    with pytest.raises(ScheduleError, match="only step"):
        State.from_rows(state.dag, [("CR", 2), ("DS", "llvm")])
