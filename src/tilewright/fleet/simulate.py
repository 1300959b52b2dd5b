"""How far a fleet scales: a search over it, as discrete events, for more devices than one has.

What is modelled is what `measurer` does. A search thinks, then hands out a round of candidates;
each takes the search's process, Dask's scheduler and a builder in turn, its object code goes over
the link to the device with the least to do, and the result comes back by the scheduler.
The search and the scheduler do one thing at a time. Candidates on the way are `measurer.AHEAD`
times the devices, as in a search, and so are those that are out when it begins to find a round
more; a device that dies costs its candidates the time until that is noticed.

Times are drawn from log-normal distributions, of which the mean and the coefficient of variation
are given, from a seed: the same costs give the same figures.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from ..base.errors import UsageError
from .ahead import AHEAD, candidates_ahead
from .facts import LOST_SECONDS


@dataclass(frozen=True)
class Costs:
    """Seconds that the parts of one measurement take, each the mean of what is drawn.

    `build`, `run`: of a candidate on a builder's core and on a device; `build_spread` and
    `run_spread` their coefficients of variation. `link`: one way between two machines. `search`:
    of the search's process for a candidate and its result; `think`: to find one candidate of a
    round. `scheduler`: of Dask's scheduler for one task, of which a candidate is two. `fails`: of
    a device until it dies (0: never); `repair`: until it is back. `straggler`: the share of
    devices that are `straggle` times slower.
    """

    build: float = 0.3
    run: float = 1.0
    build_spread: float = 0.3
    run_spread: float = 0.3
    link: float = 0.002
    search: float = 0.002
    think: float = 0.01
    scheduler: float = 0.0004
    fails: float = 0.0
    repair: float = 60.0
    straggler: float = 0.0
    straggle: float = 3.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value >= 0 or math.isinf(value):
                raise UsageError(f"{name} is 0 or more, got {value}")
        if self.run == 0:
            raise UsageError("run is above 0: a device that needs no time is never busy")


@dataclass
class Figures:
    """What a simulated search gave: `seconds` for `trials` candidates, shares of that time that
    `devices`, `builders` (means over all of them), the `search` and the `scheduler` were busy, and
    how many candidates were `repeated` since their device died. `results`: when each came in."""

    trials: int
    seconds: float
    devices: float
    builders: float
    search: float
    scheduler: float
    repeated: int = 0
    results: list[float] = field(default_factory=list, repr=False)

    def seconds_until(self, trials: int) -> float:
        """When so many results were in: the time to a quality that so many trials reach."""
        return self.results[trials - 1]

    @property
    def limit(self) -> str:
        """What the fleet waits for: the part that is busy for the greatest share of the time, or
        the ends of rounds, where none is nearly always."""
        shares = {n: getattr(self, n) for n in ("devices", "builders", "search", "scheduler")}
        name = max(shares, key=lambda n: shares[n])
        return name if shares[name] > 0.85 else "rounds"


@dataclass
class _Server:
    """One thing at a time, first come first served: it is told of each when it comes, for what is
    told ahead would keep others waiting."""

    free: float = 0.0
    busy: float = 0.0

    def take(self, now: float, seconds: float) -> float:
        """When something that comes now, and takes so long, is done."""
        self.free = max(now, self.free) + seconds
        self.busy += seconds
        return self.free


@dataclass
class _Device:
    number: int
    slow: float
    waiting: deque[int] = field(default_factory=deque)
    running: int | None = None
    life: int = 0
    is_up: bool = True

    def rest(self) -> None:
        self.running = None

    def die(self) -> None:
        self.waiting.clear()
        self.running, self.is_up = None, False
        self.life += 1

    def rise(self) -> None:
        self.is_up = True

    @property
    def load(self) -> int:
        return len(self.waiting) + (self.running is not None)


class Simulation:
    """One search over a fleet of `devices` and `slots` of builders; `round`: candidates that it
    finds at a time; `ahead`: candidates that are out when it begins to find a round more (None: as
    a search over so many devices does)."""

    def __init__(
        self,
        devices: int,
        slots: int,
        costs: Costs | None = None,
        round: int = 64,
        seed: int = 0,
        ahead: int | None = None,
    ) -> None:
        if devices < 1 or slots < 1 or round < 1:
            raise UsageError("a fleet has a device and a builder, and rounds a candidate, at least")
        self.costs = costs or Costs()
        self.round = round
        self.ahead = candidates_ahead(devices) if ahead is None else ahead
        self._random = random.Random(seed)
        slow = [self._random.random() < self.costs.straggler for _ in range(devices)]
        self._devices = [_Device(n, self.costs.straggle if s else 1.0) for n, s in enumerate(slow)]
        self._by_load: list[dict[int, _Device]] = [{d.number: d for d in self._devices}]
        self._search, self._scheduler = _Server(), _Server()
        self._slots = [0.0] * slots
        self._building = self._timing = 0.0
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._repeated = 0

    def run(self, trials: int) -> Figures:
        """Measure so many candidates."""
        self._todo, self._results = trials, list[float]()
        self._left = 0  # candidates that are out
        self._queue: deque[int] = deque()
        self._flying, self._thinks = 0, False
        if self.costs.fails:
            for device in self._devices:
                self._at(self._exponential(self.costs.fails), self._dies(device))
        self._think(0.0)
        now = 0.0
        while len(self._results) < trials:
            now, _, event = heapq.heappop(self._events)
            event(now)
        return Figures(
            trials, now, self._timing / now / len(self._devices),
            self._building / now / len(self._slots), self._search.busy / now,
            self._scheduler.busy / now, self._repeated, self._results,
        )  # fmt: skip

    # -- the search

    def _think(self, now: float) -> None:
        """Find a round, if one may be out and there is one to find. It takes so many steps, and
        results are taken in between them."""
        size = min(self.round, self._todo)
        if self._thinks or self._left > self.ahead or not size:
            return
        self._thinks = True
        self._todo -= size
        self._left += size

        def step(t: float, left: int) -> None:
            if left:
                ready = self._search.take(t, self.costs.think)
                self._at(ready, partial(step, left=left - 1))
                return
            self._thinks = False
            self._hand_out(t, size)
            self._think(t)

        step(now, size)

    def _hand_out(self, now: float, size: int) -> None:
        """All are sent to be built at once; to devices, as many as there is place for."""
        for n in range(size):
            self._at(self._search.take(now, self.costs.search / 2), partial(self._sent, n=n))

    def _sent(self, now: float, n: int) -> None:
        known = self._scheduler.take(now, self.costs.scheduler) + self.costs.link
        self._at(known, partial(self._build, n=n))

    def _build(self, now: float, n: int) -> None:
        start = max(now, heapq.heappop(self._slots))
        seconds = self._drawn(self.costs.build, self.costs.build_spread)
        heapq.heappush(self._slots, start + seconds)
        self._building += seconds
        self._at(start + seconds, partial(self._built, n=n))

    def _built(self, now: float, n: int) -> None:
        self._queue.append(n)
        self._send(now)

    def _send(self, now: float) -> None:
        while self._queue and self._flying < AHEAD * len(self._devices):
            n = self._queue.popleft()
            self._flying += 1
            there = self._scheduler.take(now, self.costs.scheduler) + self.costs.link
            self._at(there, partial(self._arrives, n=n))

    def _heard(self, now: float) -> None:
        self._flying -= 1
        self._results.append(now)
        self._left -= 1
        self._think(now)
        self._send(now)

    # -- devices

    def _arrives(self, now: float, n: int) -> None:
        least = next((devices for devices in self._by_load if devices), None)
        if least is None:
            self._at(now + 1.0, partial(self._arrives, n=n))
            return
        device = next(iter(least.values()))
        self._moved(device, lambda: device.waiting.append(n))
        self._start(now, device)

    def _moved(self, device: _Device, change: Callable[[], None]) -> None:
        """Do what changes a device's load; devices that are up are found by it."""
        self._by_load[device.load].pop(device.number, None)
        change()
        while len(self._by_load) <= device.load:
            self._by_load.append({})
        if device.is_up:
            self._by_load[device.load][device.number] = device

    def _start(self, now: float, device: _Device) -> None:
        if device.running is not None or not device.waiting:
            return
        device.running = device.waiting.popleft()  # the same load
        seconds = self._drawn(self.costs.run, self.costs.run_spread) * device.slow
        life = device.life
        self._at(now + seconds, lambda t: self._finishes(t, device, life, seconds))

    def _finishes(self, now: float, device: _Device, life: int, seconds: float) -> None:
        if device.life != life or device.running is None:
            return  # it died meanwhile
        self._moved(device, device.rest)
        self._timing += seconds
        back = now + self.costs.link
        self._at(back, self._reported)
        self._start(now, device)

    def _reported(self, now: float) -> None:
        self._at(self._scheduler.take(now, 0.0) + self.costs.link, self._taken)

    def _taken(self, now: float) -> None:
        self._at(self._search.take(now, self.costs.search / 2), self._heard)

    def _dies(self, device: _Device) -> Callable[[float], None]:
        def event(now: float) -> None:
            lost = [*device.waiting, *([] if device.running is None else [device.running])]
            self._moved(device, device.die)
            self._repeated += len(lost)
            for n in lost:
                self._at(now + LOST_SECONDS, partial(self._arrives, n=n))
            self._at(now + self.costs.repair, revived)

        def revived(now: float) -> None:
            self._moved(device, device.rise)
            self._at(now + self._exponential(self.costs.fails), self._dies(device))

        return event

    # -- chance and time

    def _at(self, time: float, event: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (time, next(self._order), event))

    def _drawn(self, mean: float, spread: float) -> float:
        if not mean or not spread:
            return mean
        variance = math.log1p(spread * spread)
        return self._random.lognormvariate(math.log(mean) - variance / 2, math.sqrt(variance))

    def _exponential(self, mean: float) -> float:
        return self._random.expovariate(1.0 / mean)
