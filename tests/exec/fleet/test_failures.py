"""What is killed costs its candidates in flight, which others run: none is lost or counted twice.

Devices make costs up, so that it is known what each candidate has to give.
"""

import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.exec.fleet.rpc_kit import with_tests
from tests.unit.measure.runner_kit import FAST, product
from tilewright.fleet import ahead
from tilewright.fleet.client import Fleet
from tilewright.fleet.facts import FleetError
from tilewright.fleet.local import LocalFleet
from tilewright.fleet.measurer import FleetMeasurer
from tilewright.fleet.work import digest, pretended_cost
from tilewright.measure.runner import Timing

PROGRAMS = [product(factor, n) for n in (16, 24) for factor in range(2, 14)]
TIMING = Timing(**FAST)


def require_all(found: list[tuple[int, float]]) -> None:
    assert sorted(n for n, _ in found) == list(range(len(PROGRAMS)))
    for n, cost in found:
        assert cost == pretended_cost(digest(PROGRAMS[n])), n


def test_workers_are_killed_and_replaced() -> None:
    rng = random.Random(0)
    kills = 0
    with LocalFleet(3, 1, pretends=0.2) as fleet:
        fleet.add_builder("builder-b")
        with FleetMeasurer(Fleet(fleet.address), "local", TIMING) as measurer:
            found = []
            for n, result in measurer.measure(PROGRAMS):
                found.append((n, result.cost))
                if len(found) % 4 == 1:
                    victim = rng.choice(fleet.servers[1:])
                    victim.kill()
                    fleet.servers.remove(victim)
                    kills += 1
                    name = f"{victim.role}-{kills}"
                    (fleet.add_device if victim.role == "device" else fleet.add_builder)(name)
    assert kills >= 5
    require_all(found)


def test_parcels_whose_workers_die(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd's devices are sent several candidates at a time; with two lost, each goes alone."""
    monkeypatch.setattr(ahead, "_CROWD", 1)
    with (
        LocalFleet(2, 1, pretends=0.1) as fleet,
        FleetMeasurer(Fleet(fleet.address), "local", TIMING) as measurer,
    ):
        tickets = [measurer.submit(p) for p in PROGRAMS]
        measurer.forget([tickets[3]])  # before it is in a parcel
        wanted = [t for t in tickets if t not in (tickets[3], tickets[20])]
        measurer.start(wanted, None)
        assert {len(p.programs) for p in measurer._parcels.values()} == {5, 3}  # two a device
        measurer.forget([tickets[20]])  # one of five, which are built
        found: dict[int, float] = {}
        while len(found) < len(wanted):
            done = measurer.take()
            assert done is not None and done[0] not in found
            found[done[0]] = done[1].cost
            if len(found) in (6, 12):
                fleet.servers[-1].kill()
                del fleet.servers[-1]
                fleet.add_device(f"device-{len(found)}")
        assert not measurer._parcels
    for t in wanted:
        assert found[t] == pretended_cost(digest(PROGRAMS[t])), t


def test_a_device_that_stops_answering_is_given_up_for_the_others() -> None:
    """As where the network between is cut: nothing of it arrives any more, but nothing ends."""
    with LocalFleet(2, 1, pretends=0.1, lost_after=10) as fleet:
        with FleetMeasurer(Fleet(fleet.address), "local", TIMING) as measurer:
            found = []
            for n, result in measurer.measure(PROGRAMS):
                found.append((n, result.cost))
                if len(found) == 3:
                    fleet.devices[0].process.send_signal(signal.SIGSTOP)
        fleet.devices[0].kill()
    require_all(found)


def test_the_schedulers_death_ends_the_search_and_says_what_is_kept() -> None:
    found = []
    with LocalFleet(1, pretends=0.1) as fleet:
        measurer = FleetMeasurer(Fleet(fleet.address), "local", TIMING)

        def measure() -> None:
            for n, result in measurer.measure(PROGRAMS):
                found.append((n, result.cost))
                if len(found) == 3:
                    fleet.scheduler.kill()

        with pytest.raises(FleetError, match=r"is gone.*what was measured is recorded"):
            measure()
        measurer.close()
    assert 3 <= len(found) < len(PROGRAMS)
    assert all(cost == pretended_cost(digest(PROGRAMS[n])) for n, cost in found)


def test_a_search_that_is_killed_leaves_the_fleet_free() -> None:
    code = (
        "import sys\n"
        "from tests.exec.fleet.test_failures import *\n"
        "with FleetMeasurer(Fleet(sys.argv[1]), 'local', TIMING) as measurer:\n"
        "    for n, result in measurer.measure(PROGRAMS):\n"
        "        more = [measurer.submit(p) for p in PROGRAMS * 10]\n"
        "        print(n, flush=True)\n"
    )
    with LocalFleet(1, pretends=0.2) as fleet:
        search = subprocess.Popen(
            [sys.executable, "-c", code, fleet.address],
            stdout=subprocess.PIPE, env=with_tests(),
        )  # fmt: skip
        assert search.stdout is not None
        assert search.stdout.readline()
        search.kill()
        search.wait()
        search.stdout.close()
        with FleetMeasurer(Fleet(fleet.address), "local", TIMING) as measurer:
            found = [(n, r.cost) for n, r in measurer.measure(PROGRAMS)]
        with Fleet(fleet.address) as seen:
            done = {row["role"]: row["done"] for row in seen.status()}
    require_all(found)
    assert done["build"] < 6 * len(PROGRAMS)  # of 12 times as many, had none been dropped


def test_two_searches_share_by_priority() -> None:
    ends: list[tuple[str, float]] = []

    def search(name: str, priority: float) -> None:
        with FleetMeasurer(Fleet(fleet.address), "local", TIMING, priority) as measurer:
            tickets = [measurer.submit(p) for p in PROGRAMS]
            for parcel in measurer._parcels.values():  # or the one builder would set the pace
                parcel.build.result()
            ready.wait()
            ends.extend((name, time.monotonic()) for _ in measurer.run(tickets))

    with LocalFleet(2, 1, pretends=0.15) as fleet:
        ready = threading.Barrier(2)
        each = [threading.Thread(target=search, args=a) for a in (("a", 2.0), ("b", 1.0))]
        for thread in each:
            thread.start()
        for thread in each:
            thread.join()
    assert len(ends) == 2 * len(PROGRAMS)
    last = {name: max(t for n, t in ends if n == name) for name in "ab"}
    assert last["a"] < last["b"]  # by how much is what tests of the turns say, without a clock
