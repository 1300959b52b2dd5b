"""Does a search over a fleet lose or double anything when its parts are killed?

    python -m benchmarks.fleet_kills [--workers 50] [--schedulers 10] [--clients 10]
        [--partitions 5] [--full-disks 1] [--seed 0]

A search of pretending devices keeps its measurements in a file and reports each as it is kept (see
`benchmarks.kill`). Meanwhile workers are killed and replaced, the scheduler is, and the search; a
device's network is cut (it lives in a namespace of its own, so that needs root on Linux), and the
disk of the records fills up. A search that ends is started again and goes on from its records. What
was reported has to be kept, in order; no candidate may be kept twice; each cost has to be the one
that the devices make up for this candidate, whoever measured it. Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.kill import contents, digest
from tilewright.fleet.facts import Facts
from tilewright.fleet.local import Server
from tilewright.fleet.tls import make_certificates

_SECONDS = 0.2  # a measurement
_LOST = 5.0  # without a sign of life
_HOST, _GUEST = "10.213.7.1", "10.213.7.2"
_SPACE = "tilewright-cut"


def task() -> Any:
    from benchmarks.ops_workloads import conv2d
    from tilewright.auto_scheduler import SearchTask
    from tilewright.auto_scheduler.dag import ComputeDAG

    return SearchTask(compute_dag=ComputeDAG(conv2d(1, 14, 14, 32, 32, 3, 1, 1)), target="llvm")


def search(address: str, certificates: str, records: str, seed: int) -> None:
    """The search: reports each measurement behind the callback that keeps it."""
    from tilewright import auto_scheduler as A

    class Report(A.MeasureCallback):
        def callback(self, policy: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
            for item, result in zip(inputs, results):
                text = digest(item.state.rows, result.costs, result.error_no)
                os.write(1, f"{text}\n".encode())

    known = [A.PreloadMeasuredStates(records)] if Path(records).exists() else []
    policy = A.SketchPolicy(
        task(), A.RandomModel(seed), seed=seed, verbose=0, init_search_callbacks=known,
        params={"evolutionary_search_population": 256},
    )  # fmt: skip
    runner = A.DaskRunner(address, "none", certificates=certificates, timeout=60)
    with A.ProgramMeasurer("local", runner, [A.RecordToFile(records), Report()], 0) as measurer:
        policy.search(100_000, None, 16, measurer)


def made_up(records: str) -> Iterator[tuple[float, float]]:
    """Costs that were kept, and those that devices make up for the same candidates."""
    from tilewright import auto_scheduler as A
    from tilewright.auto_scheduler.state import State
    from tilewright.fleet.work import digest as named
    from tilewright.fleet.work import pretended_cost

    same = task()
    for given, found in A.load_records(records):
        if not found.error_no:
            state = State.from_rows(same.compute_dag, given.state.rows)
            program = A.measure.describe_input(A.MeasureInput(same, state), False, False)
            yield found.costs[0], pretended_cost(named(program))


@contextmanager
def namespace() -> Iterator[list[str]]:
    """A network namespace that reaches this one at _HOST; the command that starts things in it."""

    def ip(*words: str, check: bool = True) -> None:
        subprocess.run(["ip", *words], check=check, capture_output=True)

    ip("netns", "del", _SPACE, check=False)
    ip("netns", "add", _SPACE)
    try:
        ip("link", "add", "tw-a", "type", "veth", "peer", "name", "tw-b", "netns", _SPACE)
        ip("addr", "add", f"{_HOST}/30", "dev", "tw-a")
        ip("link", "set", "tw-a", "up")
        within = ["ip", "netns", "exec", _SPACE]
        for words in (f"addr add {_GUEST}/30 dev tw-b", "link set tw-b up", "link set lo up"):
            subprocess.run([*within, "ip", *words.split()], check=True, capture_output=True)
        yield within
    finally:
        ip("netns", "del", _SPACE)


def cut(is_cut: bool) -> None:
    """Cut the network of the namespace, or mend it."""
    subprocess.run(["ip", "link", "set", "tw-a", "down" if is_cut else "up"], check=True)


class Chaos:
    """A fleet, a search, and what happens to them."""

    def __init__(self, folder: Path, seed: int, within: Sequence[str]) -> None:
        self.rng = random.Random(seed)
        self.folder, self.within, self.seed = folder, within, seed
        self.certificates = str(folder / "certificates")
        make_certificates(Path(self.certificates))
        self.records = str(folder / "disk" / "records.json")
        self.happened: Counter[str] = Counter()
        self.told: list[str] = []
        self.ends: list[str] = []
        self.number = 0
        self.scheduler = self._scheduler(0)
        self.address = self.scheduler.address
        # more than four, so that the search goes on while rounds are out
        self.workers = [self._worker("device") for _ in range(6)]
        self.workers += [self._worker("build") for _ in range(2)]
        self.far = self._worker("device", within)
        self._start()

    def _scheduler(self, port: int) -> Server:
        host = _HOST if self.within else "127.0.0.1"
        how = {"host": host, "port": port, "folder": self.certificates, "lost_after": _LOST}
        return Server("scheduler", how)

    def _worker(self, role: str, within: Sequence[str] = ()) -> Server:
        self.number += 1
        facts = Facts(
            role, f"{role}{self.number}", key="none" if role == "device" else "",
            target="llvm" if role == "device" else "", pretends=_SECONDS,
        )  # fmt: skip
        how = {"address": self.address, "facts": facts.as_data(), "folder": self.certificates}
        return Server(role, how, within)

    def _start(self) -> None:
        command = [
            sys.executable, "-m", "benchmarks.fleet_kills", "--search", self.address,
            self.certificates, self.records, str(self.seed + len(self.ends)),
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, args=(self.process,))
        self._reader.start()

    def _read(self, process: Any) -> None:
        for line in process.stdout:
            self.told.append(line.decode().strip())

    def ended(self) -> str:
        """Wait for the search's end and start it anew; what it said."""
        assert self.process.stderr is not None
        said = self.process.stderr.read().decode().strip().rpartition("\n")[2]
        self.process.wait()
        self._reader.join()
        self.ends.append(said)
        self._start()
        return said

    def wait_for(self, more: int, seconds: float = 120.0) -> None:
        """Until so many more measurements are reported."""
        goal, end = len(self.told) + more, time.monotonic() + seconds
        while len(self.told) < goal:
            if time.monotonic() > end or self.process.poll() is not None:
                said = self.process.poll() is not None and self.ended()
                raise SystemExit(f"{dict(self.happened)}: nothing is measured any more: {said}")
            time.sleep(0.01)

    def kill_worker(self) -> None:
        victim = self.rng.choice(self.workers)
        victim.kill()
        self.workers.remove(victim)
        self.workers.append(self._worker(victim.role))

    def kill_scheduler(self) -> None:
        """The search ends and says so; workers come back by themselves."""
        port = int(self.address.rpartition(":")[2])
        self.scheduler.kill()
        self.process.wait(120)
        self.scheduler = self._scheduler(port)
        if "is gone" not in self.ended():
            raise SystemExit(f"the search did not say that the fleet is gone: {self.ends[-1]}")

    def kill_client(self) -> None:
        self.process.kill()
        self.ended()

    def cut_network(self) -> None:
        cut(True)
        time.sleep(self.rng.uniform(0.5, 2 * _LOST))
        cut(False)

    def fill_disk(self) -> None:
        """What is left of the records' disk is taken; the search says so and ends."""
        filler = Path(self.records).with_name("filler")
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        self.process.wait(120)
        filler.unlink(missing_ok=True)
        if "o space" not in self.ended():
            raise SystemExit(f"the search did not say that the disk is full: {self.ends[-1]}")

    def run(self, wanted: Counter[str]) -> None:
        """All that is wanted, in random order, with measurements in between."""
        events = list(wanted.elements())
        self.rng.shuffle(events)
        for event in events:
            self.wait_for(self.rng.randint(1, 6))
            time.sleep(self.rng.uniform(0, 0.3))
            getattr(self, event)()
            self.happened[event] += 1
            print(f"{event} {self.happened[event]}, {len(self.told)} measured", flush=True)
        self.wait_for(20)
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def report(self) -> dict[str, Any]:
        """What was lost, doubled or wrong."""
        kept, candidates, torn = contents(self.records)
        costs = list(made_up(self.records))
        return {
            **self.happened,
            "reported": len(self.told),
            "kept": len(kept),
            "lost": sum((Counter(self.told) - Counter(kept)).values()),
            "doubled": len(candidates) - len(set(candidates)),
            "wrong": sum(abs(a - b) > 1e-12 for a, b in costs),
            "failed": len(kept) - len(costs),
            "torn": len(torn),
        }

    def close(self) -> None:
        self.process.kill()
        for server in [*self.workers, self.far, self.scheduler]:
            server.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--schedulers", type=int, default=10)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=5)
    parser.add_argument("--full-disks", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--search", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.search:
        address, certificates, records, seed = given.search
        search(address, certificates, records, int(seed))
        return 0
    wanted = Counter(
        kill_worker=given.workers, kill_scheduler=given.schedulers, kill_client=given.clients,
        cut_network=given.partitions, fill_disk=given.full_disks,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        within = stack.enter_context(namespace()) if given.partitions else []
        disk = Path(name, "disk")
        disk.mkdir()
        if given.full_disks:
            words = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
            subprocess.run(words, check=True)
            stack.callback(subprocess.run, ["umount", str(disk)], check=True)
        chaos = Chaos(Path(name), given.seed, within)
        stack.callback(chaos.close)
        chaos.run(+wanted)
        row = chaos.report()
    print(json.dumps(row))
    return int(any(row[name] for name in ("lost", "doubled", "wrong", "failed", "torn")))


if __name__ == "__main__":
    sys.exit(main())
