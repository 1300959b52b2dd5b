"""Clearly slow candidates are run seldom, those that may be the best often."""

from collections.abc import Callable, Iterator

import pytest

from tilewright.measure.repeats import REPETITIONS, Best, repetitions, undisturbed

BUDGET = 0.1


def clock(*costs: float) -> tuple[Callable[[int], float], list[int]]:
    """Runs that cost what is given, one entry a call, the last again and again."""
    calls: list[int] = []

    def costs_of() -> Iterator[float]:
        yield from costs
        while True:
            yield costs[-1]

    each = costs_of()

    def seconds(number: int) -> float:
        calls.append(number)
        return number * next(each)

    return seconds, calls


def noisy() -> tuple[Callable[[int], float], list[int]]:
    """Runs that differ by some percent."""
    return clock(*(1e-3 * (1 + 0.01 * (k * 7 % 10)) for k in range(10 * REPETITIONS)))


def test_a_leader_whose_runs_differ_gets_all_of_the_time() -> None:
    seconds, calls = noisy()
    costs, slow = repetitions(seconds, BUDGET, Best(1e-3))
    assert not slow and len(costs) == REPETITIONS // 2
    assert sum(calls) * 1e-3 == pytest.approx(BUDGET, rel=0.3)
    assert max(costs) < 1.06e-3


def test_a_leader_whose_runs_agree_gets_less() -> None:
    seconds, calls = clock(1e-3)
    costs, slow = repetitions(seconds, BUDGET, Best(1e-3))
    assert not slow and costs == pytest.approx([1e-3] * len(costs))
    assert 8 < len(calls) < REPETITIONS // 2


@pytest.mark.parametrize(("factor", "most"), [(3.0, 3), (1.8, 5), (1.3, 7), (1.08, 11)])
def test_the_slower_a_candidate_the_fewer_its_runs(factor: float, most: int) -> None:
    seconds, calls = clock(factor * 1e-3)
    _, slow = repetitions(seconds, BUDGET, Best(1e-3))
    assert slow and len(calls) <= most


def test_a_candidate_clearly_ahead_is_believed_sooner() -> None:
    seconds, calls = clock(0.5e-3)
    costs, slow = repetitions(seconds, BUDGET, Best(1e-3))
    even, longer = clock(1e-3)
    repetitions(even, BUDGET, Best(1e-3))
    assert not slow and len(calls) < len(longer) and len(costs) >= 4


def test_disturbed_runs_do_not_make_a_candidate_slow() -> None:
    seconds, _ = clock(1e-3, 9e-3, 1e-3, 9e-3, 1e-3, 9e-3, 1e-3, 9e-3, 1e-3)
    costs, slow = repetitions(seconds, BUDGET, Best(1e-3))
    assert not slow and max(costs) == pytest.approx(1e-3)


def test_a_bad_start_does_not_make_a_candidate_slow() -> None:
    """As of threads that share a core until the system moves one: twice as long at first."""
    seconds, _ = clock(2e-3, 2e-3, 2e-3, 1e-3)
    costs, slow = repetitions(seconds, BUDGET, Best(1e-3))
    assert not slow and costs[len(costs) // 2] == pytest.approx(1e-3)


def test_noise_of_the_best_counts() -> None:
    """Candidates within the noise of the best are told apart by more repetitions only."""
    sure, unsure = (clock(1.1e-3) for _ in range(2))
    repetitions(sure[0], BUDGET, Best(1e-3))
    repetitions(unsure[0], BUDGET, Best(1e-3, noise=0.2))
    assert len(sure[1]) < len(unsure[1])


def test_the_first_candidate_is_run_until_it_is_quiet() -> None:
    quiet, calls = clock(1e-3)
    repetitions(quiet, BUDGET, None)
    assert len(calls) < REPETITIONS
    seconds, calls = noisy()
    repetitions(seconds, BUDGET, None)
    assert len(calls) >= REPETITIONS


def test_long_runs_are_few() -> None:
    seconds, calls = clock(1.0)
    costs, slow = repetitions(seconds, BUDGET, Best(1.0))
    assert calls == [1, 1, 1] and len(costs) == 2 and not slow


def test_short_runs_are_many_in_a_repetition() -> None:
    seconds, calls = clock(1e-6)
    repetitions(seconds, BUDGET, Best(1e-6))
    assert calls[0] == 1 and all(n == 2500 for n in calls[1:])


def test_cold_runs_stand_alone() -> None:
    seconds, calls = noisy()
    repetitions(seconds, BUDGET, Best(1e-3), cold=True)
    assert calls == [1] * REPETITIONS


def test_a_clock_that_does_not_tick_is_no_error() -> None:
    costs, _ = repetitions(lambda _: 0.0, BUDGET, None)
    assert set(costs) == {0.0}


def test_the_faster_half() -> None:
    assert undisturbed([3.0, 1.0, 2.0]) == [1.0, 2.0]
    assert undisturbed([3.0, 1.0, 2.0, 9.0]) == [1.0, 2.0]
    assert undisturbed([5.0]) == [5.0]
