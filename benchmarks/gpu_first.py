"""What is to be done on the first NVIDIA GPU, in one command of less than 25 minutes.

    python -m benchmarks.gpu_first [--minutes 24] [--out FOLDER] [--records FOLDER] [--json]
                                   [--small]

Needs NumPy, ml_dtypes and cuda-bindings with NVRTC; where PyTorch is there, too, it is compared
with. Each part is a process of its own, which says each row as it has it; where it dies, hangs or
has lost the device in one case, that is a row too, and another goes on behind it:

    driver   what the device is, and a kernel in each type beside NumPy
    right    the default schedules of gpu_code_cases.py at small sizes, run and compared with NumPy
    whole    attention, deep products, a convolution and a network at full size, compared with NumPy
             and, bit for bit, with themselves over 20 runs, which races change
    speed    the schedules of "right" at full size, timed: GFLOP/s of products, GB/s of the others
    kernels  benchmarks.gpu: kernels by hand beside a device copy and cuBLAS, with its bars
    tuned    benchmarks.ops_gpu: operators tuned with 200 trials beside PyTorch, as many as there is
             time for

A part that has had its share of the time ends between two kernels and says how many it left; what
hangs is ended, so that all of it is done in --minutes. Each row is said on standard error, and
written to gpu-first-<device>-<date>.json, when it is there; --json prints that file at the end.
--small takes small sizes throughout: it tries the command, not the device.
"""

from __future__ import annotations

import argparse
import json
import platform
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks import gpu, gpu_blas, ops_gpu
from benchmarks.gpu_cases import CASES
from benchmarks.gpu_clock import Clock, prepared
from benchmarks.gpu_code_cases import CODE_CASES, CodeCase
from benchmarks.gpu_whole import WHOLE
from benchmarks.ops_suite import small_cases
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.default import default_schedule

RESULTS = Path(__file__).parent / "results"
PARTS = {
    "driver": 0.04, "right": 0.2, "whole": 0.1, "speed": 0.2, "kernels": 0.14, "tuned": 0.32,
}  # fmt: skip
"""Shares of the time, in the order of what is learned first."""
_TYPES = ("float32", "float16", "bfloat16", "int8", "int32")
_ROUNDS, _SMALL_ROUNDS = 5, 1
_LOST = 3  # the exit status of a part that cannot use the device any more
_CASE_S, _TUNED_S = 120.0, 900.0  # after which a case hangs
_AGAIN_S = 15.0  # for which it is worth to start another process
_ENDING_S = 10.0  # that a process which was killed may take: the driver gives back what it held
_COMPARED = 5e9  # operations of a product that NumPy does as well
Found = dict[str, Any]


@dataclass
class Part:
    """What a part goes through: the names of its cases, what makes the row of one by its number,
    and what else it says."""

    names: list[str]
    row: Callable[[int], Found]
    about: Found = field(default_factory=dict)


class Budget:
    """The time of a part."""

    def __init__(self, seconds: float) -> None:
        self.end = time.perf_counter() + seconds

    @property
    def left(self) -> float:
        return self.end - time.perf_counter()

    def each(self, cases: Any) -> Iterator[Any]:
        """The cases, while there is time for one more as long as the longest before."""
        longest = 0.0
        for case in cases:
            if self.left < longest:
                return
            start = time.perf_counter()
            yield case
            longest = max(longest, time.perf_counter() - start)


def driver(dev: Any, small: bool, records: Path) -> Part:
    """The device, and x + y in each type."""
    target = tw.Target.from_device(dev)

    def row(n: int) -> Found:
        dtype = _TYPES[n]
        x, y = (te.placeholder((1000,), dtype, name) for name in "xy")
        out = topi.add(x, y)
        f = tw.build(default_schedule(out, target), [x, y, out], target, name="add")
        a, b = (np.arange(k, 1000 + k).astype(np.int8).astype(parse(dtype).numpy) for k in (0, 7))
        given = tw.nd.empty((1000,), dtype, dev)
        f(tw.nd.array(a, dev), tw.nd.array(b, dev), given)
        return {"type": dtype, "right": bool(np.array_equal(given.numpy(), a + b))}

    about = {
        "device": dev.device_name, "compute": dev.compute_version,
        "driver": str(dev.driver_version), "target": str(target), "torch": ops_gpu.Torch().version,
        "cublas": getattr(gpu_blas.find(dev.runtime.stream), "name", "none"),
    }  # fmt: skip
    return Part(list(_TYPES), row, {"about": about})


def _built(case: CodeCase, size: tuple[int, ...], target: Any) -> tuple[Any, list[Any]]:
    schedule, args = case.program(target, *size)
    return tw.build(schedule, args, target, name="f"), args


def _arrays(case: CodeCase, args: list[Any], dev: Any) -> tuple[list[Any], list[Any]]:
    """Inputs on the host, and all arguments on the device."""
    inputs = case.inputs(args)
    out = tw.nd.empty([int(d) for d in args[-1].shape], args[-1].dtype, dev)
    return inputs, [*(tw.nd.array(x, dev) for x in inputs), out]


def right(dev: Any, small: bool, records: Path) -> Part:
    """Default schedules against NumPy."""
    target, cases = tw.Target.from_device(dev), CODE_CASES[::9] if small else CODE_CASES

    def row(n: int) -> Found:
        case = cases[n]
        built, args = _built(case, case.small, target)
        inputs, arrays = _arrays(case, args, dev)
        built(*arrays)
        case.check(arrays[-1].numpy(), inputs)
        return {"kernel": case.name, "right": True}

    return Part([c.name for c in cases], row)


def whole(dev: Any, small: bool, records: Path) -> Part:
    """gpu_whole.py, a network at a time."""
    target = tw.Target.from_device(dev)
    return Part([w.name for w in WHOLE], lambda n: WHOLE[n].check(target, small))


def _work(case: CodeCase, args: list[Any]) -> tuple[float, str]:
    """What a kernel does: operations of a product, else bytes."""
    shapes = [tuple(int(d) for d in a.shape) for a in args]
    if not case.product:
        return float(sum(prod(s) * parse(a.dtype).nbytes for s, a in zip(shapes, args))), "GB/s"
    if "conv" in case.name or "depthwise" in case.name:
        return 2.0 * prod(shapes[-1]) * prod(shapes[1][1:]), "GFLOP/s"
    return 2.0 * prod(shapes[-1]) * (prod(shapes[0]) // prod(shapes[-1][:-1])), "GFLOP/s"


def speed(dev: Any, small: bool, records: Path) -> Part:
    """Default schedules timed; the results of those that NumPy has soon are compared too."""
    target, cases = tw.Target.from_device(dev), CODE_CASES[::9] if small else CODE_CASES
    dev.runtime.set_stream(dev.runtime.create_timing_stream())
    clock = Clock(dev.runtime)

    def row(n: int) -> Found:
        case = cases[n]
        built, args = _built(case, case.small if small else case.size, target)
        inputs, arrays = _arrays(case, args, dev)
        runs = prepared(built, arrays)
        if small:
            best = clock.seconds(runs(1), 1)
        else:
            timer = clock.timer(runs)
            best = min(timer() for _ in range(3))
        work, unit = _work(case, args)
        found = {"kernel": case.name, "seconds": best, "unit": unit, "right": True}
        if not case.product or work <= _COMPARED:
            case.check(arrays[-1].numpy(), inputs)
        return {**found, "rate": work / max(best, 1e-12) / 1e9}

    return Part([c.name for c in cases], row)


def kernels(dev: Any, small: bool, records: Path) -> Part:
    """benchmarks.gpu, a case at a time."""
    arch = str(tw.Target.from_device(dev).attrs["arch"])
    blas = None if small else gpu_blas.find(dev.runtime.stream)
    cases = [c for c in CASES if c.runs_on(arch)]
    if small:
        cases = [replace(c, size=c.small) for c in cases if c.beside != "copy"][:2]
    rounds = _SMALL_ROUNDS if small else _ROUNDS

    def row(n: int) -> Found:
        found = gpu.measure(cases[n], dev, blas, rounds)
        return {**found, "met": None} if small else found

    return Part([c.name for c in cases], row)


def tuned(dev: Any, small: bool, records: Path) -> Part:
    """benchmarks.ops_gpu, a case at a time."""
    target, torch = tw.Target.from_device(dev), ops_gpu.Torch()
    cases = ops_gpu.chosen()
    if small:
        cases = [c for c in small_cases() if c.name == "NRM 5,7"]
    records.mkdir(parents=True, exist_ok=True)

    def row(n: int) -> Found:
        case = cases[n]
        file = records / f"{re.sub(r'[ ,]+', '-', case.name)}.json"
        built = ops_gpu.tune(case, target, 2 if small else 200, file, verbose=0)
        return dict(ops_gpu.measure(case, built, dev, torch, _SMALL_ROUNDS if small else 9))

    return Part([c.name for c in cases], row)


_RUN: dict[str, Callable[[Any, bool, Path], Part]] = {
    "driver": driver, "right": right, "whole": whole, "speed": speed, "kernels": kernels,
    "tuned": tuned,
}  # fmt: skip


def _failed(name: str, why: str) -> Found:
    return {"kernel": name, "name": name, "right": False, "why": why}


def _say(found: Found) -> None:
    print(json.dumps(found), flush=True)


def _usable(dev: Any) -> bool:
    """Whether the device still answers: a fault in a kernel spoils all that comes after it."""
    try:
        dev.runtime.sync()
    except tw.TilewrightError:
        return False
    return True


def part(name: str, dev: Any, options: argparse.Namespace) -> int:
    """In a process of its own: say what there is to do, then each case and its row, as lines of
    JSON; _LOST where no other case can be done here."""
    given = _RUN[name](dev, options.small, options.records)
    _say({"about": {**given.about, "of": len(given.names)}})
    for n in Budget(options.seconds).each(range(options.skip, len(given.names))):
        _say({"begin": n, "name": given.names[n]})
        try:
            row = given.row(n)
        except (tw.TilewrightError, ValueError, SystemExit) as error:
            row = _failed(given.names[n], (str(error).splitlines() or ["?"])[0])
        _say({"row": row})
        if "why" in row and not _usable(dev):
            return _LOST
    return 0


def _said(name: str, found: Found) -> str:
    """A part in a line."""
    rows = found.get("rows", [])
    if "error" in found:
        return f"{name}: {found['error']}"
    text = f"{name}: {len(rows)} of {found.get('of', len(rows))}"
    wrong = [r.get("kernel", r.get("type")) for r in rows if r.get("right") is False or "why" in r]
    missed = [r["name"] for r in rows if r.get("met") is False and "why" not in r]
    text += f", wrong or refused: {', '.join(map(str, wrong))}" if wrong else ""
    text += f", below their bars: {', '.join(missed)}" if missed else ""
    return text + (f", {found['mean']:.2f} of PyTorch" if found.get("mean") else "")


Said = Callable[[Found], None]


class _Process:
    """A part's process: the rows that it said, `said` at once, and how it ended."""

    def __init__(self, command: list[str], limit: float, case_s: float, said: Said) -> None:
        self.about: Found = {}
        self.next = 0  # the case that has no row yet
        self.error = ""
        self._now = ""
        self._said = said
        lines: queue.Queue[str | None] = queue.Queue()
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

            def read() -> None:
                assert child.stdout is not None
                with child.stdout:
                    for line in child.stdout:
                        lines.put(line)
                lines.put(None)

            reader = threading.Thread(target=read, daemon=True)
            reader.start()
            end = time.perf_counter() + limit
            while True:
                try:
                    line = lines.get(timeout=max(0.0, min(case_s, end - time.perf_counter())))
                except queue.Empty:
                    child.kill()
                    self.error = "not done in time, and ended"
                    break
                if line is None:
                    break
                self._take(line)
            self.status = -1
            with suppress(subprocess.TimeoutExpired):  # one that the driver holds stays behind
                self.status = child.wait(_ENDING_S)
            reader.join(_ENDING_S)
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["nothing was said"])[-1]
        if self.status and not self.error and self.status != _LOST:
            self.error = f"exit {self.status}: {last}"
        if self._now:  # it died, or hung, in this case
            said(_failed(self._now, self.error))
            self.error = ""

    def _take(self, line: str) -> None:
        try:
            found = json.loads(line)
        except ValueError:
            return  # what a library says
        if not isinstance(found, dict):
            return
        if "begin" in found:
            self.next, self._now = found["begin"] + 1, found["name"]
        elif "row" in found:
            self._now = ""
            self._said(found["row"])
        elif "about" in found:
            self.about.update(found["about"])


def _run_part(
    name: str, seconds: float, end: float, options: argparse.Namespace, said: Said
) -> Found:
    """A part's findings, its rows `said` one by one, and how it ended where it said nothing of a
    case; by the time `end` in any case."""
    base = [sys.executable, "-m", "benchmarks.gpu_first", "--part", name]
    base += ["--records", str(options.records)] + (["--small"] if options.small else [])
    budget, skip = Budget(seconds), 0
    found: Found = {}
    while True:
        command = [*base, "--skip", str(skip), "--seconds", str(max(1.0, budget.left))]
        case_s = _TUNED_S if name == "tuned" else _CASE_S
        most = min(1.3 * max(0.0, budget.left) + 60, end - time.perf_counter())
        ended = _Process(command, most, case_s, said)
        found |= ended.about
        behind = ended.status != 0 and not ended.error and ended.next > skip
        if not behind or ended.next >= int(found.get("of", 0)) or budget.left < _AGAIN_S:
            break
        skip = ended.next
    if ended.error:
        found["error"] = ended.error
    return found


def _progress(part: str, count: int, row: Found) -> str:
    """A row in a line."""
    name = row.get("kernel") or row.get("name") or row.get("case") or row.get("type")
    if "why" in row:
        text = row["why"]
    elif "rate" in row:
        text = f"{row['rate']:.1f} {row['unit']}"
    elif "tuned_s" in row:
        text = f"{row['tuned_s'] * 1e6:.1f} us"
    else:
        text = "right" if row.get("right") else "WRONG"
    return f"{part} {count}: {name}: {text}"


def run(options: argparse.Namespace) -> int:
    """All parts; 1 where one failed, a result was wrong or a bar is missed, 2 without a device."""
    dev = tw.cuda(0)
    if not dev.exist:
        print(f"no NVIDIA GPU: {dev.why_missing()}", file=sys.stderr)
        return 2
    name = re.sub(r"[^a-z0-9]+", "-", str(dev.device_name).lower()).strip("-")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"gpu-first-{name}-{date.today()}.json"
    about = {"python": platform.python_version(), "tilewright": tw.__version__}
    report: Found = {"about": about, "parts": {}}
    lines = sys.stderr if options.json else sys.stdout
    budget, good = Budget(60.0 * options.minutes - _ENDING_S), True
    left = dict(PARTS)

    def write() -> None:
        path.write_text(f"{json.dumps(report, indent=1)}\n", encoding="utf-8")

    for part, share in PARTS.items():
        seconds = max(0.0, budget.left) * share / sum(left.values())
        del left[part]
        found: Found = {"rows": []}
        report["parts"][part] = found

        def said(row: Found, part: str = part, rows: list[Found] = found["rows"]) -> None:
            rows.append(row)
            print(_progress(part, len(rows), row), file=sys.stderr, flush=True)
            write()

        start = time.perf_counter()
        if budget.left > 0:
            found |= _run_part(part, seconds, budget.end, options, said)
        else:
            found["error"] = "no time was left for it"
        if part == "tuned":
            found["mean"] = ops_gpu.mean_ratio([r for r in found["rows"] if "ratio" in r])
        found["took"] = time.perf_counter() - start
        write()
        text = _said(part, found)
        good = good and "error" not in found and "wrong" not in text and "below" not in text
        print(f"{text} ({found['took']:.0f} s)", file=lines, flush=True)
    print(f"written: {path}", file=lines)
    if options.json:
        print(json.dumps(report, indent=1))
    return 0 if good else 1


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_first",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=24.0, help="for everything")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--records", type=Path, default=Path("ops-gpu-records"))
    parser.add_argument("--small", action="store_true", help="small sizes: tries the command")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    return part(options.part, tw.cuda(0), options) if options.part else run(options)


if __name__ == "__main__":
    sys.exit(main())
