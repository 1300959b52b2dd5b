"""Whose turn it is on a device, and what a device's reference says of the costs it measured."""

import heapq

import pytest

from tilewright.fleet.ahead import AHEAD, Window, parcel_size
from tilewright.fleet.clocks import DRIFT, Clocks
from tilewright.fleet.share import Share, Turns


def served(shares: dict[str, Share], begin: dict[str, int], count: int) -> list[str]:
    """Who is served by one device, to which each search keeps two candidates on the way."""
    queue: list[tuple[float, str]] = []
    order: list[str] = []
    for now in range(count):
        for name, share in shares.items():
            while begin[name] <= now and sum(n == name for _, n in queue) < 2:
                heapq.heappush(queue, (share.next(), name))
        turn, name = heapq.heappop(queue)
        for share in shares.values():
            share.hear(turn)
        order.append(name)
    return order


@pytest.mark.parametrize("ratio", [1.0, 2.0, 5.0])
def test_searches_have_their_shares(ratio: float) -> None:
    order = served({"a": Share(ratio), "b": Share(1.0)}, {"a": 0, "b": 0}, 600)
    assert order.count("a") / order.count("b") == pytest.approx(ratio, rel=0.03)


def test_one_that_comes_late_is_owed_nothing() -> None:
    """It would take the device for itself for 300 turns otherwise."""
    order = served({"a": Share(1.0), "b": Share(1.0)}, {"a": 0, "b": 300}, 600)
    assert order[:300].count("b") == 0
    assert 140 <= order[300:].count("b") <= 160
    assert order[300:340].count("a") >= 15


def test_candidates_that_go_together_take_a_turn_each() -> None:
    share = Share(2.0)
    assert share.next(4) == 0.0 and share.next() == 2.0 and share.next() == 2.5


def test_a_task_is_late_where_it_could_have_begun_earlier() -> None:
    turns = Turns()
    assert not turns.begin(5.0)  # the first
    turns.end(waiting=1)
    assert not turns.begin(6.0) and turns.last == 6.0
    turns.end(waiting=1)
    assert turns.begin(5.5) and turns.last == 6.0  # another was served in its turn
    turns.end(waiting=0)
    assert turns.begin(7.0)  # the device had nothing to do


def test_a_window_is_as_wide_as_the_link_is_long() -> None:
    window = Window()
    assert window.of(3) == 3 * AHEAD
    for _ in range(6):
        window.hear(True, 3)
    assert window.of(3) == 3 * AHEAD + 6
    for _ in range(16 * 4):
        window.hear(False, 3)
    assert window.of(3) == 3 * AHEAD + 2
    for _ in range(1000):
        window.hear(True, 3)
    assert window.of(3) == 24  # and no further
    for _ in range(1000):
        window.hear(False, 3)
    assert window.of(3) == 3 * AHEAD


def test_candidates_travel_together_where_a_crowd_is_owed_many() -> None:
    assert {parcel_size(n, 64) for n in (0, 1, 10**6)} == {1}
    assert [parcel_size(n, 1000) for n in (0, 999, 3999, 4000, 15000, 10**6)] == [1, 1, 1, 2, 7, 32]


def test_costs_are_as_on_the_device_at_its_best() -> None:
    clocks = Clocks()
    assert [clocks.judge("one", 1.0) for _ in range(5)] == [1.0] * 5
    factors = [clocks.judge("one", 1.2) for _ in range(5)]
    assert factors[0] == 1.0  # one that passes is no drift
    assert factors[-1] == pytest.approx(1 / 1.2)
    assert not clocks.aside


def test_a_device_that_grows_hot_is_set_aside() -> None:
    clocks = Clocks()
    for _ in range(5):
        clocks.judge("one", 1.0)
    for _ in range(6):
        clocks.judge("one", 1.0 * DRIFT * 1.1)
    assert "at its best" in clocks.aside["one"]


def test_a_device_unlike_the_others_is_set_aside_and_the_rest_compare() -> None:
    clocks = Clocks()
    for _ in range(10):
        factors = {n: clocks.judge(n, s) for n, s in (("a", 1.0), ("b", 1.1), ("c", 0.95))}
        clocks.judge("slow", 1.6)
    assert list(clocks.aside) == ["slow"] and "of its kind" in clocks.aside["slow"]
    assert factors["b"] < factors["a"] < factors["c"]
    assert factors["b"] * 1.1 == pytest.approx(factors["c"] * 0.95)


def test_what_has_no_reference_stays_as_it_is() -> None:
    assert Clocks().judge("gpu", None) == 1.0
