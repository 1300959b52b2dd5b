"""Whether the first runs of a candidate are enough to give it up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.measure import timing
from tilewright.measure.repeats import Best
from tilewright.rt.device import device

BEST = Best(40e-6)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of the next runs."""
    seconds: list[float] = []
    monkeypatch.setattr(timing, "_timed", lambda *_: seconds.pop(0))
    return seconds


class _Function:
    """What takes long to load."""

    def prepare(self, *_: Any) -> Any:
        return lambda: None


def first_runs(best: Best | None = BEST) -> float | None:
    none: Any = None
    function: Any = _Function()
    return timing._first_runs(none, function, [], device("cpu", 0), best)


@pytest.mark.parametrize("disturbed", [[1.2e-3], [1.2e-3, 1.1e-3], [3e-3, 1.5e-3]])
def test_time_slices_of_other_programs_are_no_reason(
    runs: list[float], disturbed: list[float]
) -> None:
    """Each is more than 20 times the best, yet all of them together take a few milliseconds."""
    runs += [*disturbed, 41e-6]
    assert first_runs() is None
    assert not runs


def test_a_slow_kernel_is_given_up_after_a_few_milliseconds(runs: list[float]) -> None:
    runs += [2e-3] * 100
    assert first_runs() == 2e-3
    assert len(runs) == 97


def test_a_hopeless_kernel_is_run_once(runs: list[float]) -> None:
    runs += [0.5, 41e-6]
    assert first_runs() == 0.5
    assert len(runs) == 1


def test_a_long_kernel_that_is_not_hopeless_gets_two_more_runs(runs: list[float]) -> None:
    runs += [0.5, 0.4, 0.3, 0.2]
    assert first_runs(Best(0.1)) == 0.3
    assert len(runs) == 1


@pytest.mark.parametrize("seconds, best", [(90e-6, BEST), (9e-4, BEST), (0.5, None)])
def test_one_run_is_enough_to_go_on(runs: list[float], seconds: float, best: Best | None) -> None:
    runs += [seconds]
    assert first_runs(best) is None


def test_what_a_first_call_loads_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second worker's first candidate was given up, the pool of threads being compiled."""
    order: list[str] = []

    class Slow(_Function):
        def prepare(self, *_: Any) -> Any:
            order.append("loaded")
            return lambda: order.append("run")

    none: Any = None
    slow: Any = Slow()
    monkeypatch.setattr(timing, "_timed", lambda run, _: run())
    timing._first_runs(none, slow, [], device("cpu", 0), None)
    assert order == ["loaded", "run"]


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        ([9e-6, 2.1e-6], None),  # alone it is the launch's time
        ([9e-6, 5.1e-6], 5.1e-6),
        ([4.9e-6], None),
        ([51e-6], 51e-6),
    ],
)
def test_a_short_kernel_of_a_device_is_timed_by_twenties_before_it_is_given_up(
    seconds: list[float], found: float | None
) -> None:
    numbers: list[int] = []

    class Timed:
        def time_evaluator(self, name: str, dev: Any, number: int) -> Any:
            numbers.append(number)
            return lambda *_: SimpleNamespace(median=seconds[len(numbers) - 1])

    class Named(_Function):
        name = "f"

    module: Any = Timed()
    function: Any = Named()
    with pytest.MonkeyPatch.context() as context:
        context.setattr(timing, "_timed", lambda *_: 1.0)
        assert timing._first_runs(module, function, [], device("cuda", 0), Best(2e-6)) == found
    assert numbers == [1, 20][: len(seconds)]
