"""What is between a search and its devices: nothing is lost, doubled or kept waiting."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tilewright.fleet.feeder import Feeder, Judged, Load
from tilewright.measure.repeats import Best
from tilewright.measure.result import Measurement


class Future:
    """An answer that comes when the test says so."""

    def __init__(self, load: Load, best: Best | None) -> None:
        self.load, self.best = load, best
        self.heard: list[Callable[[Any], None]] = []

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        self.heard.append(call)

    def come(self) -> None:
        for call in self.heard:
            call(self)


class Fleet:
    """Devices that answer with the number of the ticket, in seconds."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.sent: list[Future] = []
        self.again: set[int] = set()
        self.gone: list[Future] = []
        self.more: list[bool] = []

    def room(self) -> int:
        if not self.places:
            raise OSError("no device is left")
        return self.places

    def send(self, load: Load, best: Best | None) -> Future:
        self.sent.append(Future(load, best))
        return self.sent[-1]

    def judge(self, future: Any, load: Load, more: bool) -> Iterable[tuple[int, Judged]]:
        assert load == future.load
        self.more.append(more)
        for ticket in load:
            yield ticket, None if ticket in self.again else Measurement((float(ticket),))
            self.again.discard(ticket)

    def cancel(self, futures: list[Any]) -> None:
        self.gone += futures

    def wait_for(self, count: int) -> list[Load]:
        end = time.monotonic() + 30
        while len(self.sent) < count and time.monotonic() < end:
            time.sleep(0.002)
        return [f.load for f in self.sent]


@pytest.fixture(name="fleet")
def _fleet() -> Fleet:
    return Fleet(2)


@pytest.fixture(name="feeder")
def _feeder(fleet: Fleet) -> Iterator[Feeder]:
    made = Feeder(fleet)
    yield made
    made.close()
    assert not [t for t in threading.enumerate() if t.name == "tilewright-fleet"]


def ones(*tickets: int) -> list[Load]:
    """Each candidate for itself."""
    return [(t,) for t in tickets]


def taken(feeder: Feeder) -> tuple[int, Measurement]:
    done = feeder.take()
    assert done is not None
    return done


def test_a_few_are_on_their_way_whether_results_are_taken_or_not(
    fleet: Fleet, feeder: Feeder
) -> None:
    feeder.start(ones(1, 2, 3, 4), None)
    assert fleet.wait_for(2) == ones(1, 2)
    fleet.sent[1].come()
    assert fleet.wait_for(3) == ones(1, 2, 3)
    fleet.sent[0].come()
    fleet.sent[2].come()
    assert fleet.wait_for(4) == ones(1, 2, 3, 4)
    assert {taken(feeder)[0] for _ in range(3)} == {1, 2, 3} and 4 in feeder.known
    assert feeder.take(wait=False) is None
    fleet.sent[3].come()
    ticket, result = taken(feeder)
    assert ticket == 4 and result.costs == (4.0,)


def test_the_best_of_a_round_goes_with_those_that_follow(fleet: Fleet, feeder: Feeder) -> None:
    feeder.start(ones(5, 3, 7), Best(6.0))
    fleet.wait_for(2)
    fleet.sent[1].come()
    fleet.wait_for(3)
    assert [f.best and f.best.cost for f in fleet.sent] == [6.0, 6.0, 3.0]


def test_what_has_to_be_measured_again_is_next(fleet: Fleet, feeder: Feeder) -> None:
    fleet.again = {1}
    feeder.start(ones(1, 2, 3), None)
    fleet.wait_for(2)
    fleet.sent[0].come()
    assert fleet.wait_for(3) == ones(1, 2, 1)
    fleet.sent[0].come()  # the same answer once more counts for nothing
    fleet.sent[2].come()
    assert fleet.wait_for(4) == ones(1, 2, 1, 3) and taken(feeder)[0] == 1


def test_candidates_that_were_dropped_are_not_heard_of(fleet: Fleet, feeder: Feeder) -> None:
    feeder.start(ones(1, 2, 3), None)
    fleet.wait_for(2)
    feeder.forget([1, 3])
    feeder.start(ones(4), None)
    assert fleet.wait_for(3) == ones(1, 2, 4) and [f.load for f in fleet.gone] == ones(1)
    fleet.sent[0].come()
    fleet.sent[2].come()
    assert taken(feeder)[0] == 4


def test_what_goes_wrong_is_raised_where_results_are_taken(fleet: Fleet, feeder: Feeder) -> None:
    feeder.start(ones(1), None)
    fleet.wait_for(1)
    fleet.places = 0
    for _ in range(2):
        with pytest.raises(OSError, match="no device is left"):
            feeder.take()


def test_what_travels_together(fleet: Fleet, feeder: Feeder) -> None:
    """One task of several candidates, of which one has to be measured again, alone."""
    fleet.again = {2}
    feeder.start([(1, 2, 3), (4, 5), (6,)], Best(9.0))
    assert fleet.wait_for(2) == [(1, 2, 3), (4, 5)]
    fleet.sent[0].come()
    assert fleet.wait_for(3)[2:] == [(2,)]  # before what waited
    assert fleet.sent[2].best and fleet.sent[2].best.cost == 1.0
    assert {taken(feeder)[0] for _ in range(2)} == {1, 3}
    feeder.forget([4])  # the other is still wanted
    fleet.sent[1].come()
    assert taken(feeder)[0] == 5 and not fleet.gone
    assert fleet.wait_for(4)[3:] == [(6,)]
    feeder.forget([2])
    fleet.sent[3].come()
    assert taken(feeder)[0] == 6 and [f.load for f in fleet.gone] == [(2,)]
    assert fleet.more == [True, True, False]
