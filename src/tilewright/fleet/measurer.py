"""The measurer of a search whose candidates are built and timed by a fleet.

`submit` sends a candidate to a builder at once; for a crowd of devices, which may be owed many,
candidates are sent as soon as some are started, several together (`ahead.parcel_size`). `start` has
them sent on to devices, a few more than there are of those so that none waits for the network, with
the best known cost for the early stop; a thread does that (`feeder`), so that devices are busy
while the search thinks.

What dies is retried by Dask: a worker's candidates in flight go to others when it is lost, and one
that loses several workers is given up as failed. A ticket is counted once, however often it ran.
"""

from __future__ import annotations

import json
import math
import time
import uuid
import warnings
from base64 import b64decode, b64encode
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ..base.errors import TilewrightError
from ..measure.origin import here
from ..measure.pool import failure
from ..measure.program import describe, options_as_data
from ..measure.protocol import Message
from ..measure.repeats import Best
from ..measure.result import MeasureErrorNo as No
from ..measure.result import Measurement
from ..measure.runner import Measures, Timing, require_submitted
from ..schedule.api import create_schedule
from ..target.target import Target
from ..tensor.axes import reduce_axis
from ..tensor.compute import compute, placeholder
from ..tensor.reduce import sum as reduce_sum
from ..topi.schedules.default import default_schedule
from .ahead import Window, candidates_ahead, is_crowd, parcel_size
from .client import Fleet
from .clocks import Clocks
from .facts import BUILD, Facts, FleetError
from .feeder import Feeder, Judged, Load
from .parcels import Parcel
from .share import Share
from .work import as_bytes, build, digest, run

_LOOK_SECONDS = 1.0  # between looks at who has joined or left
_TRIES = 2  # times that a candidate is moved on from a worker whose own processes do not start
_SIZE = 64  # of the reference's square matrices: its data stay in the caches of any device
# what of a program builders, and what devices have no use for
_NOT_BUILT = ("inputs", "reference", "export")
_BUILT = ("trace", "ir", "archive", "inputs", "export")


class FleetMeasurer(Measures):
    """Candidates of one search, and a fleet that builds and times them. Use as a context manager:
    leaving it drops what is in flight and leaves the fleet.

    `key`: which devices, None to build only. `priority`: this search's share of them. `resources`:
    what they have to have besides, as Dask counts it. `timing`: as for a Measurer; `n_parallel` is
    the fleet's own affair.
    FleetError where the fleet has no such device, or nobody to build.
    """

    def __init__(
        self,
        fleet: Fleet,
        key: str | None,
        timing: Timing | None = None,
        priority: float = 1.0,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        self.timing = timing or Timing()
        self.fleet = fleet
        self.key = key
        self.clocks = Clocks()
        self.counts: dict[str, int] = {}
        """Candidates that each device has timed for this search, by its name."""
        self._resources = {**fleet.require(key), **(resources or {})}
        self._shares: defaultdict[str, Share] = defaultdict(lambda: Share(priority))
        self._seen: tuple[float, dict[str, Facts]] = (-math.inf, {})
        self._session = uuid.uuid4().hex[:12]
        self._tickets = 0
        self._named: set[str] = set()
        self._window = Window()
        self._parcels: dict[int, Parcel] = {}
        self._open: list[Parcel] = []
        self._inputs: dict[str, str] = {}
        self._references: dict[str, Any] = {}
        self._news: SimpleQueue[str] = SimpleQueue()
        self._on: Counter[str] = Counter()  # loads that each device has, by its address
        self._where: dict[Any, str] = {}
        self._feeder = Feeder(self)
        self.ends_with = ExitStack()
        """What is left when this is closed: the fleet, first of all."""
        self.ends_with.callback(fleet.close)

    def close(self) -> None:
        """Drop what is in flight, and leave the fleet."""
        self._feeder.close()
        self.forget(list(self._parcels))
        self.ends_with.close()

    def warm(self) -> None:
        """Nothing is to be started: a fleet runs."""

    def submit(self, program: Message) -> int:
        """Have a candidate (see `program.describe`) built; its ticket for `run`."""
        if "library" in program:  # built before, into a file of this machine
            rest = {k: v for k, v in program.items() if k != "library"}
            program = {**rest, "archive": _encoded(program["library"])}
        ticket = self._tickets
        self._tickets += 1
        if not (self._open and self._open[-1].takes(program)):
            self._open.append(Parcel(program["target"]))
        self._open[-1].programs[ticket] = program
        self._parcels[ticket] = self._open[-1]
        if not is_crowd(len(self._present())):
            self._send_open()
        return ticket

    def _send_open(self) -> None:
        """Have the candidates that were submitted last built."""
        parcels, self._open = self._open, []
        size = parcel_size(len(self._parcels), len(self._present()))
        for parcel in parcels:
            for part in parcel.parts(size):
                self._parcels.update(dict.fromkeys(part.programs, part))
                first = next(iter(part.programs))
                part.build = self._send_build(part.contents(), f"build-{first}")

    def forget(self, tickets: Iterable[int]) -> None:
        """Drop candidates that will not be run."""
        self._feeder.forget(tickets)
        self.fleet.cancel([b for t in tickets if (b := self._forget(t)) is not None])

    def _forget(self, ticket: int) -> Any:
        """Drop a candidate; what built it, where nobody else waits for that."""
        parcel = self._parcels.pop(ticket, None)
        if parcel is None:
            return None
        del parcel.programs[ticket]
        return None if parcel.programs else parcel.build

    def ahead(self) -> int:
        """Candidates that keep the devices busy while a round more is found."""
        return candidates_ahead(len(self._devices()), self._window.each)

    def build(self, programs: Iterable[Message]) -> list[Measurement]:
        """Build candidates without running them: for each a measurement without costs, which has an
        error where it could not be built. One with "export" is written to that file."""
        tickets = [self.submit(program) for program in programs]
        self._send_open()
        try:
            return [self._kept(self._parcels[t], t) for t in tickets]
        finally:
            self.forget(tickets)

    def _kept(self, parcel: Parcel, ticket: int) -> Measurement:
        program, answer = parcel.programs[ticket], self._answer(parcel.build)
        made = answer if answer.get("error") else answer["made"][parcel.places[ticket]]
        if made.get("error"):
            return failure(made)
        if "export" in program:
            Path(program["export"]).write_bytes(b64decode(made["archive"]))
        return Measurement((), seconds=made["seconds"])

    def start(self, tickets: Sequence[int], best: Measurement | float | None = None) -> None:
        """Time submitted candidates while the caller goes on."""
        require_submitted(tickets, self._parcels)
        self._send_open()
        loads: dict[Parcel, list[int]] = {}
        for ticket in tickets:
            loads.setdefault(self._parcels[ticket], []).append(ticket)
        self._feeder.start(map(tuple, loads.values()), Best.of(best))

    def run(
        self, tickets: Sequence[int], best: Measurement | float | None = None
    ) -> Generator[tuple[int, Measurement], None, None]:
        """Time submitted candidates; yields (ticket, result) as each is done, in any order, and of
        others that were started."""
        self.start([t for t in tickets if t not in self._feeder.known], best)
        left = set(tickets)
        try:
            while left:
                done = self.take()
                assert done is not None
                left.discard(done[0])
                yield done
        finally:
            self.forget(tickets)

    def take(self, wait: bool = True) -> tuple[int, Measurement] | None:
        """The next result of a candidate that was started."""
        done = self._feeder.take(wait)
        while not self._news.empty():
            warnings.warn(self._news.get(), UserWarning, stacklevel=2)
        if done is not None:
            self._forget(done[0])  # Dask drops what was built with the last who knows of it
        return done

    # -- what the feeder asks

    def room(self) -> int:
        """Loads that may be on the way. FleetError where no device is left."""
        return self._window.of(len(self._devices()))

    def send(self, load: Load, best: Best | None) -> Any:
        """Have candidates sent from their builder to a device; the future of the answer, None where
        they were dropped meanwhile."""
        # to the device that has least of this search: Dask would send all to where others were
        # before, and each search would have devices of its own whatever its share is
        device = min(self._devices(), key=lambda address: self._on[address])
        future = self._send_run(load, best, device)
        if future is not None:
            self._on[device] += 1
            self._where[future] = device
        return future

    def judge(self, future: Any, load: Load, more: bool) -> list[tuple[int, Judged]]:
        """The measurements that have come; None where one has to be made again elsewhere."""
        answer = self._answer(future)
        address = self._left(future)
        if answer.get("error"):
            result = failure(answer)
            return [(t, result if len(load) == 1 else None) for t in load]
        device = str(answer["device"])
        self._shares[address].hear(float(answer["turn"]))
        if more:
            self._window.hear(bool(answer["starved"]), len(self._devices()))
        self.counts[device] = self.counts.get(device, 0) + len(load)
        found: list[tuple[int, Judged]] = []
        for one in answer["results"]:
            ticket = int(one["ticket"])
            result, again = self._judged(one, device)
            again = again and not self.clocks.aside.keys() >= self._names()
            found.append((ticket, None if again else result))
        return found

    def cancel(self, futures: list[Any]) -> None:
        """Drop what is on the way."""
        for future in futures:
            self._left(future)
        self.fleet.cancel(futures)

    def _left(self, future: Any) -> str:
        """A load is not on its way any more; the device that it was sent to."""
        device = self._where.pop(future)
        self._on[device] -= 1
        return device

    # -- what is sent

    def _send_build(self, programs: Sequence[Message], name: str) -> Any:
        request = {
            "programs": [{k: v for k, v in p.items() if k not in _NOT_BUILT} for p in programs],
            "options": options_as_data(),
            "timeout": self.timing.build_timeout,
        }
        return self.fleet.client.submit(
            build, as_bytes(request), key=f"tilewright-{self._session}-{name}",
            resources={BUILD: 1}, pure=False, retries=_TRIES,
        )  # fmt: skip

    def _send_run(self, load: Load, leader: Best | None, device: str) -> Any:
        parcel = next((p for t in load if (p := self._parcels.get(t)) is not None), None)
        if parcel is None:
            return None
        pretends = any(f.pretends for f in self._devices().values())
        candidates = [
            self._candidate(t, parcel.places[t], program, pretends)
            for t in load if (program := parcel.programs.get(t)) is not None
        ]  # fmt: skip
        if not candidates:
            return None
        turn = self._shares[device].next(len(load))
        request = {
            "candidates": candidates,
            "how": self.timing.request(leader),
            "timeout": self.timing.run_timeout,
            "turn": turn,
        }
        name = f"tilewright-{self._session}-run-{load[0]}-{uuid.uuid4().hex[:6]}"
        return self.fleet.client.submit(
            run, parcel.build, self._reference(parcel.target), as_bytes(request), key=name,
            resources=self._resources, workers=[device], pure=False, retries=_TRIES,
            priority=-turn,
        )  # fmt: skip

    def _candidate(self, ticket: int, place: int, program: Message, pretends: bool) -> Message:
        """What a device is told of one. `pretends`: it may be one that does not run it."""
        inputs = {name: self._data(path) for name, path in program.get("inputs", {}).items()}
        told = {
            "ticket": ticket,
            "place": place,
            "program": {k: v for k, v in program.items() if k not in _BUILT},
            "inputs": inputs,
        }
        return {**told, "digest": digest(program)} if pretends else told

    def _data(self, path: str) -> str:
        """A file of an argument's data as text; devices do not share this machine's files."""
        if path not in self._inputs:
            self._inputs[path] = _encoded(path)
        return self._inputs[path]

    def _reference(self, target: Any) -> Any:
        """The future of the reference kernel, built for a candidate's target. Dask brings it to
        each device once."""
        name = json.dumps(target)
        if name not in self._references:
            program = _reference_program(Target(target))
            name_of_task = f"reference-{len(self._references)}"
            self._references[name] = self._send_build([program], name_of_task)
        return self._references[name]

    def _present(self) -> dict[str, Facts]:
        """The devices of this kind, by their addresses, as of a moment ago."""
        now = time.monotonic()
        if self.key and now > self._seen[0] + _LOOK_SECONDS:  # the answer has a line a worker
            self._seen = now, self.fleet.devices(self.key)
        return self._seen[1]

    def _devices(self) -> dict[str, Facts]:
        """The devices that are used, by their addresses; FleetError where none is left."""
        found = self._present()
        good = {a: f for a, f in found.items() if f.name not in self.clocks.aside}
        if good or found:
            return good or found  # a slow device is better than none
        raise FleetError(
            f"no device of {self.key!r} is left in the fleet at {self.fleet.address}; what was "
            "measured is recorded, and the search goes on from there when it is started again"
        )

    def _names(self) -> set[str]:
        return {f.name for f in self._devices().values()}

    # -- what comes back

    def _answer(self, future: Any) -> Message:
        """The answer of a task; one made up for a candidate of which several workers have died."""
        from distributed import KilledWorker

        try:
            data: Message = json.loads(future.result())
            return data
        except KilledWorker as error:
            died = f"{error.allowed_failures + 1} workers died of it, the last {error.last_worker}"
            return {"error": No.RUNTIME_DEVICE, "message": died, "seconds": 0.0}
        except Exception as error:
            if future.status != "error":
                raise self.fleet.gone(error) from None
            return {"error": No.UNKNOWN_ERROR, "message": str(error), "seconds": 0.0}

    def _judged(self, answer: Message, device: str) -> tuple[Measurement, bool]:
        """The measurement that a result makes, and whether it is worth nothing, since the device
        that gave it has just been set aside."""
        if answer.get("unfit"):
            self.clocks.aside.setdefault(device, f"cannot run code for it: {answer['message']}")
        factor = self.clocks.judge(device, answer.get("reference"))
        is_aside = device in self.clocks.aside
        if is_aside and device not in self._named:
            self._named.add(device)
            self._news.put(
                f"device {device} of the fleet is set aside: {self.clocks.aside[device]}"
            )
        if answer.get("error"):
            unfit = is_aside and bool(answer.get("unfit"))
            return replace(failure(answer), origin=here(device)), unfit
        costs = tuple(c * factor for c in answer["costs"])
        found = Measurement(
            costs, seconds=answer["seconds"], early=answer["early"], origin=here(device)
        )
        return found, is_aside


def _encoded(path: str) -> str:
    """A file's content as text; TilewrightError where it is not there."""
    try:
        return b64encode(Path(path).read_bytes()).decode()
    except OSError as error:
        raise TilewrightError(f"cannot read {path}: {error.strerror}") from None


def _reference_program(target: Target) -> Message:
    """A product of small matrices."""
    a, b = (placeholder((_SIZE, _SIZE), name=n) for n in "AB")
    k = reduce_axis((0, _SIZE), name="k")
    c = compute((_SIZE, _SIZE), lambda i, j: reduce_sum(a[i, k] * b[k, j], axis=k), name="C")
    if "gpu" in target.keys:
        return describe(default_schedule(c, target), [a, b, c], target)
    s = create_schedule(c.op)  # in one thread, which says least of what else runs there
    row, column = c.op.axis
    s[c].reorder(row, c.op.reduce_axis[0], column)
    s[c].vectorize(column)
    return describe(s, [a, b, c], target)
