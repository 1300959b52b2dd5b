"""How busy a fleet keeps its devices, and whether the simulator says so too.

    python -m benchmarks.fleet busy --devices 64
    python -m benchmarks.fleet agree --devices 1 2 4 8
    python -m benchmarks.fleet share --devices 4 --seconds 0.2
    python -m benchmarks.fleet curves --devices 10 100 1000 10000

`busy`: devices and builders that only pretend (their candidates sleep for --seconds), in threads of
other processes; one client that sends candidates and takes results as a search does, without
thinking. `agree`: a search that sleeps where it would think, in rounds of 64, beside
`tilewright.fleet.simulate` with the costs that were measured on the way. `share`: two searches of
priorities 2 and 1, and how many candidates each had measured while both wanted devices. `curves`:
the simulator alone, with builders enough. All run on one machine: the pretending workers share its
cores with Dask's scheduler and the client, where on a fleet each has its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask

import tilewright as tw
from tilewright import te
from tilewright.fleet.client import Fleet
from tilewright.fleet.facts import Facts
from tilewright.fleet.local import Server
from tilewright.fleet.measurer import FleetMeasurer
from tilewright.fleet.server import worker
from tilewright.fleet.simulate import Costs, Simulation
from tilewright.measure.program import describe
from tilewright.measure.protocol import Message

SIZE = 64  # of a round
CROWD = 300  # workers of a process, each of which may be connected to all others: files are limited


def crowd(address: str, facts: list[dict[str, Any]], up: Any) -> None:
    """Be all these workers, in threads of this process, until it is killed."""

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    # each would look at all files of this process now and then: the square of their number
    dask.config.set({"distributed.admin.system-monitor.interval": "1h"})

    async def run() -> None:
        workers = [worker({"address": address, "facts": f}) for f in facts]
        for n in range(0, len(workers), 32):
            await asyncio.gather(*workers[n : n + 32])
        up.set()
        await asyncio.gather(*(w.finished() for w in workers))

    asyncio.run(run())


@contextmanager
def pretending(
    devices: int, seconds: float, builders: int, build: float
) -> Iterator[tuple[str, int]]:
    """The address of a fleet whose candidates take so many seconds, and none of a core, and its
    scheduler's process."""
    scheduler = Server("scheduler", {"host": "127.0.0.1"})
    facts = [Facts("build", f"b{n}", slots=8, pretends=build) for n in range(-(-builders // 8))]
    facts += [
        Facts("device", f"d{n}", key="none", target="llvm", pretends=seconds)
        for n in range(devices)
    ]
    spawn = multiprocessing.get_context("spawn")
    crowds = []
    try:
        for n in range(0, len(facts), CROWD):
            up = spawn.Event()
            some = [f.as_data() for f in facts[n : n + CROWD]]
            crowds.append(spawn.Process(target=crowd, args=(scheduler.address, some, up)))
            crowds[-1].start()
            if not up.wait(300):
                raise SystemExit("the workers did not come up")
        yield scheduler.address, scheduler.process.pid
    finally:
        for other in crowds:
            other.kill()
            other.join()
        scheduler.close()


def candidates(count: int) -> list[Message]:
    """Messages of the size that a search's have, each different."""
    a, b = (te.placeholder((512, 512), name=n) for n in "AB")
    k = te.reduce_axis((0, 512), name="k")
    c = te.compute((512, 512), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    row, column = c.op.axis
    tiles = s[c].tile(row, column, 16, 16)
    s[c].reorder(tiles[0], tiles[1], k, tiles[2], tiles[3])
    s[c].parallel(tiles[0])
    s[c].vectorize(tiles[3])
    program = describe(s, [a, b, c], tw.Target("llvm"))
    return [{**program, "number": n} for n in range(count)]


def cpu_seconds(pid: int) -> float:
    """CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy(devices: int, seconds: float, count: int) -> dict[str, Any]:
    """The share of the time that devices were busy: each from its first answer to its last, the
    mean and the least of all; and from the first candidate's sending to the last result. CPU of
    the client and of Dask's scheduler, ms for each candidate."""
    builders = min(devices, max(64, devices // 4))
    with pretending(devices, seconds, builders, 0.05) as (address, scheduler):
        programs = candidates(count)
        with FleetMeasurer(Fleet(address), "none") as measurer:
            begin, cpu = time.perf_counter(), time.process_time()
            there = cpu_seconds(scheduler)
            answers: dict[str, list[float]] = {}
            for _, found in measurer.measure(programs):
                assert found.origin is not None
                times = answers.setdefault(found.origin.device, [])
                times.append(time.perf_counter() - begin)
            spent = time.process_time() - cpu
            there = cpu_seconds(scheduler) - there
    last = max(times[-1] for times in answers.values())
    shares = [_share_busy(t, seconds) for t in answers.values() if t[-1] > t[0] + seconds / 2]
    return {
        "devices": devices,
        "seconds": seconds,
        "candidates": count,
        "busy": round(sum(shares) / len(shares), 4),
        "least": round(min(shares), 4),
        "with ends": round(count * seconds / devices / last, 4),
        "client ms": round(spent / count * 1e3, 2),
        "scheduler ms": round(there / count * 1e3, 2),
    }


def _share_busy(times: list[float], seconds: float) -> float:
    """Of a device's time from its first answer to its last, of which each may hold several results,
    the share in which it measured. A first answer that was late makes no device more than busy."""
    later = sum(t > times[0] + seconds / 2 for t in times)
    return min(later * seconds / (times[-1] - times[0]), 1.0)


def searched(address: str, count: int, think: float) -> float:
    """Seconds of a search that sleeps where it would think, for so long a candidate."""
    with FleetMeasurer(Fleet(address), "none") as measurer:
        programs = candidates(count)
        begin = time.perf_counter()
        left = 0
        while programs or left:
            if programs and left <= measurer.ahead():
                found, programs = programs[:SIZE], programs[SIZE:]
                time.sleep(think * len(found))
                measurer.start([measurer.submit(p) for p in found])
                left += len(found)
            else:
                measurer.take()
                left -= 1
        return time.perf_counter() - begin


def agree(devices: int, seconds: float, count: int) -> dict[str, Any]:
    """A search's seconds, and the simulator's for the same costs."""
    build, think = 0.05, 0.01
    shown = busy(devices, seconds, max(32, 4 * devices))
    with pretending(devices, seconds, devices, build) as (address, _):
        real = searched(address, count, think)
    costs = Costs(
        build=build, run=seconds, build_spread=0, run_spread=0, think=think,
        search=shown["client ms"] / 1e3, scheduler=shown["scheduler ms"] / 2e3,
    )  # fmt: skip
    slots = -(-devices // 8) * 8
    said = Simulation(devices, slots, costs, round=SIZE).run(count)
    return {
        "devices": devices, "candidates": count, "real s": round(real, 2),
        "simulated s": round(said.seconds, 2), "ratio": round(said.seconds / real, 3),
    }  # fmt: skip


def share(devices: int, seconds: float, count: int) -> dict[str, Any]:
    """What two searches of priorities 2 and 1 get, from when both have begun until one is done."""
    times: dict[str, list[float]] = {"first": [], "second": []}

    def search(name: str, priority: float, address: str) -> None:
        with FleetMeasurer(Fleet(address), "none", priority=priority) as measurer:
            programs = candidates(count)
            ready.wait()
            for _ in measurer.measure(programs):
                times[name].append(time.perf_counter())

    ready = threading.Barrier(2)
    with pretending(devices, seconds, devices, 0.01) as (address, _):
        searches = [
            threading.Thread(target=search, args=(name, priority, address))
            for name, priority in (("first", 2.0), ("second", 1.0))
        ]
        for thread in searches:
            thread.start()
        for thread in searches:
            thread.join()
    begin, end = max(t[0] for t in times.values()), min(t[-1] for t in times.values())
    got = {name: sum(begin <= t <= end for t in found) for name, found in times.items()}
    return {"devices": devices, **got, "ratio": round(got["first"] / got["second"], 3)}


def curves(devices: int, seconds: float, count: int) -> dict[str, Any]:
    """What the simulator says of so many devices: shares of the time that parts are busy."""
    found: dict[str, Any] = {"devices": devices, "candidates": count}
    for name, costs in {
        "": Costs(run=seconds),
        "failing ": Costs(run=seconds, fails=3600.0, straggler=0.05, link=0.05),
    }.items():
        figures = Simulation(devices, devices, costs).run(count)
        found |= {
            f"{name}busy": round(figures.devices, 3),
            f"{name}a second": round(count / figures.seconds, 1),
            f"{name}limit": figures.limit,
        }
    return found


_WHAT = {"busy": busy, "agree": agree, "share": share, "curves": curves}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=list(_WHAT))
    parser.add_argument("--devices", type=int, nargs="+", default=[64])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--candidates", type=int, default=0, help="by default 20 a device")
    given = parser.parse_args()
    for devices in given.devices:
        count = given.candidates or 20 * devices
        print(json.dumps(_WHAT[given.what](devices, given.seconds, count)), flush=True)


if __name__ == "__main__":
    main()
