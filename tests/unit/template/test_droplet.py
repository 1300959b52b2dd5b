"""DropletTuner: it goes downhill, keeps to the filters, and asks statistics."""

from typing import Any

import pytest

from tests.unit.template.test_tuners import a_task, speeds
from tilewright import autotvm
from tilewright.base.errors import TilewrightError
from tilewright.template.droplet import DropletTuner, _tail
from tilewright.testing.autotvm import get_sample_records, get_sample_task


def test_it_finds_the_bottom_of_a_bowl() -> None:
    task, _ = get_sample_task(128)
    space = task.config_space

    def speed(config: Any) -> float:
        y, x = space.point2knob(config.index)
        return 1.0 / (1.0 + (y - 5) ** 2 + (x - 6) ** 2)

    tuner = DropletTuner(task)
    assert (tuner.execution, tuner.step, tuner.total_execution) == (1, 1, 8)
    assert tuner.next == [(0, [0, 0])] and tuner.batch >= 16
    found = speeds(task, speed, tuner, 64)
    assert max(found) == 1.0 and tuner.best_choice[1] == [5, 6]


def test_it_begins_where_it_is_told() -> None:
    task, _ = get_sample_task(32)
    tuner = DropletTuner(task, start_position=[2, 3])
    assert [c.index for c in tuner.next_batch(4)] == [task.config_space.knob2point([2, 3])]
    with pytest.raises(TilewrightError, match="a place for each knob"):
        DropletTuner(task, start_position=[1])


def test_it_keeps_to_the_filters() -> None:
    task, _ = get_sample_task(128)
    task.config_space.multi_filter(lambda e: e["tile_x"].size[1] * e["tile_y"].size[1] >= 32)
    tuner = DropletTuner(task)
    kept = set(task.config_space.indices())
    assert tuner.has_next() and tuner.visited <= kept
    speeds(task, lambda c: float(c.index), tuner, len(kept))
    assert tuner.visited <= kept


def test_it_learns_from_records_and_failures() -> None:
    task, _ = get_sample_task()
    tuner = DropletTuner(task)
    inputs, results = zip(*get_sample_records(5))
    tuner.update(inputs, results)
    assert tuner.best_choice[0] == 0 and tuner.visited >= {0, 1, 2, 3, 4}
    failed = autotvm.MeasureResult((ValueError("no"),), 4, 0.1, 0.0)
    tuner.update(inputs[:1], [failed])
    assert tuner.best_choice[0] == 0
    tuner.reset()
    assert tuner.best_choice[2] == [] and tuner.visited == {0}
    assert a_task() is not task


@pytest.mark.parametrize("degrees, t, chance", [(1, 1.0, 0.5), (2, 2.92, 0.1), (10, 2.228, 0.05)])
def test_students_distribution(degrees: int, t: float, chance: float) -> None:
    """Values from tables."""
    assert _tail(t, degrees) == pytest.approx(chance, rel=2e-3)


def test_differences_have_to_be_sure() -> None:
    tuner = DropletTuner(get_sample_task(8)[0])
    assert tuner.p_value([1.0], [2.0, 3.0])
    assert tuner.p_value([1.0, 1.01, 0.99], [2.0, 2.01, 1.99])
    assert not tuner.p_value([1.0, 2.0, 3.0], [1.1, 2.1, 2.9])
    assert tuner.p_value([1.0, 1.0], [2.0, 2.0]) and not tuner.p_value([1.0, 1.0], [1.0, 1.0])
