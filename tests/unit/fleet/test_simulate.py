"""A fleet as discrete events: nothing is lost, and what limits it is named."""

import pytest

from tilewright.base.errors import UsageError
from tilewright.fleet.ahead import candidates_ahead
from tilewright.fleet.simulate import Costs, Simulation

EVEN = Costs(build_spread=0.0, run_spread=0.0)


def test_one_device_is_what_a_search_waits_for() -> None:
    found = Simulation(1, 4, EVEN, round=64).run(128)
    assert found.limit == "devices" and found.devices > 0.97
    assert 128 < found.seconds < 128 * 1.05


def test_few_builders_are_the_limit() -> None:
    found = Simulation(64, 1, Costs(build=1.0, run=1.0)).run(256)
    assert found.limit == "builders" and found.devices < 0.05


def test_a_search_that_thinks_for_longer_than_devices_run_is_the_limit() -> None:
    found = Simulation(256, 256, Costs(think=0.3)).run(1024)
    assert found.limit == "search"


def test_the_ends_of_rounds_are_the_limit_where_rounds_are_short() -> None:
    quick = Costs(think=0.0)
    short = Simulation(32, 32, quick, round=32, ahead=0).run(256)
    long = Simulation(32, 32, quick, round=256, ahead=0).run(256)
    assert short.limit == "rounds" and long.devices > 1.2 * short.devices


def test_rounds_that_are_out_keep_devices_busy() -> None:
    waits, goes_on = (Simulation(32, 32, round=64, ahead=n).run(2048) for n in (0, 96))
    assert waits.limit == "rounds" and goes_on.devices > 0.95 > waits.devices


@pytest.mark.parametrize("devices, ahead", [(1, 0), (4, 0), (5, 15), (1000, 3000)])
def test_small_fleets_wait_for_each_round(devices: int, ahead: int) -> None:
    assert candidates_ahead(devices) == ahead == Simulation(devices, 1, round=64).ahead


def test_results_are_in_one_after_the_other() -> None:
    found = Simulation(3, 3, round=10).run(35)
    assert len(found.results) == 35 and found.results == sorted(found.results)
    assert found.seconds_until(35) == found.seconds


def test_devices_that_die_cost_time_and_no_candidate() -> None:
    calm, hard = (
        Simulation(8, 8, Costs(fails=fails), round=128, seed=3).run(256) for fails in (0.0, 40.0)
    )
    assert calm.repeated == 0 < hard.repeated
    assert hard.trials == calm.trials == 256 and hard.seconds > calm.seconds


def test_stragglers_cost_what_they_are_slower() -> None:
    even = Simulation(16, 16, EVEN, round=256).run(256)
    mixed = Simulation(16, 16, Costs(straggler=0.5, straggle=4.0), round=256).run(256)
    assert mixed.seconds > 1.2 * even.seconds


def test_a_seed_gives_the_same_figures() -> None:
    assert Simulation(8, 4, seed=7).run(100) == Simulation(8, 4, seed=7).run(100)
    assert Simulation(8, 4, seed=7).run(100) != Simulation(8, 4, seed=8).run(100)


@pytest.mark.parametrize("wrong", [{"build": -1.0}, {"run": 0.0}, {"link": float("inf")}])
def test_costs_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Costs(**wrong)
    with pytest.raises(UsageError):
        Simulation(0, 1)
