"""One case: build a program under a schedule, run it, compare with te_eval."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import te
from tilewright.base.dtype import parse
from tilewright.base.errors import CompileError, ScheduleError
from tilewright.interp.te_bound import te_eval_bound
from tilewright.interp.te_eval import te_eval
from tilewright.loopir.subst import substitute
from tilewright.schedule.trace import Step, replay

from . import gpu_schedules
from .programs import MOST_ELEMENTS, Built, Program, random_program
from .schedules import apply_random

DEVICE_ELEMENTS = 600
SECONDS, WAIT = 40, 6
OURS = 0.1  # of the time that the device's compiler takes for a slow kernel, our passes may take
COMPILED_BY_OTHERS = ("opencl",)  # devices whose compiler takes as long as it takes
REFUSALS = (ScheduleError, CompileError)


@dataclass
class Failure:
    """A case that went wrong."""

    seed: int
    program: Program
    steps: list[Step]
    problem: str
    device: str = "llvm"


class Statistics:
    """What a run of many cases did."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.cases = 0
        self.rejected = 0
        self.reasons: Counter[str] = Counter()
        self.slow: list[str] = []  # right, but late for the device's compiler

    def merge(self, other: Statistics) -> None:
        self.used.update(other.used)
        self.refused.update(other.refused)
        self.cases += other.cases
        self.rejected += other.rejected
        self.reasons.update(other.reasons)
        self.slow += other.slow


def drawn(seed: int, device: str) -> tuple[Program, list[Step]]:
    """The program and the schedule of a case, as far as it can be drawn."""
    rng = random.Random(seed)
    program = random_program(rng, MOST_ELEMENTS if device == "llvm" else DEVICE_ELEMENTS)
    s = te.create_schedule(Built(program).output.op)
    draw = apply_random if device == "llvm" else gpu_schedules.apply_random
    with suppress(Exception):
        draw(rng, s, Counter(), Counter())
    return program, s.steps


def run_case(seed: int, stats: Statistics, device: str = "llvm") -> Failure | None:
    """Case number `seed`: None if the compiled program agrees with the oracle (or was refused).

    `device`: "llvm", or "simt" or "opencl" for schedules of kernels.
    """
    rng = random.Random(seed)
    program = random_program(rng, MOST_ELEMENTS if device == "llvm" else DEVICE_ELEMENTS)
    built = Built(program)
    s = te.create_schedule(built.output.op)
    stats.cases += 1
    try:
        _limit(SECONDS)
        draw = apply_random if device == "llvm" else gpu_schedules.apply_random
        draw(rng, s, stats.used, stats.refused)
        late: list[str] = []
        problem = compare(built, s, device, late)
        if problem is None:
            stats.slow += [f"seed {seed}: {text}" for text in late]
    except REFUSALS as error:
        stats.rejected += 1
        stats.reasons[reason_of(error)] += 1
        assert len(str(error)) > 20, f"case {seed} is refused without a reason"
        return None
    except Exception as error:  # whatever else happens is a bug of the compiler
        problem = f"{type(error).__name__}: {error}"
    finally:
        _limit(0)
    return None if problem is None else Failure(seed, program, s.steps, problem, device)


def _limit(seconds: int) -> None:
    """A case that takes longer has failed: TimeoutError where it stands (0: no limit).

    Of the processor's time, which other programs on the machine do not prolong; one that waits for
    ever takes none, and gets some times as much.
    """

    def late(*_: Any) -> None:
        raise TimeoutError(f"the case took more than {seconds} s")

    signal.signal(signal.SIGPROF, late)
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(WAIT * seconds)


@contextmanager
def _unlimited() -> Iterator[None]:
    """The clocks of a limit stand still: isolated.Worker ends what never answers."""
    left, alarm = signal.setitimer(signal.ITIMER_PROF, 0), signal.alarm(0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, *left)
        signal.alarm(alarm)


def reason_of(error: Exception) -> str:
    """The first words of a refusal, without names and numbers."""
    words = str(error).split("\n")[0].split()
    return " ".join(w for w in words if w.isalpha() or not any(c.isdigit() for c in w))[:90]


def run_chunk(
    first: int, count: int, device: str = "llvm"
) -> tuple[Statistics, list[tuple[int, str]]]:
    """Cases first ... first + count - 1; those that failed, with what went wrong."""
    stats = Statistics()
    found = [run_case(s, stats, device) for s in range(first, first + count)]
    return stats, [(f.seed, f.problem) for f in found if f is not None]


def replay_case(program: Program, steps: list[Step], device: str = "llvm") -> str | None:
    """What goes wrong with these steps on this program (None: nothing, or they do not fit it)."""
    try:
        built = Built(program)
        s = te.create_schedule(built.output.op)
        replay(s, steps)
    except Exception:  # shrinking tries programs and steps that make no sense
        return None
    try:
        return compare(built, s, device)
    except REFUSALS:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def compare(
    built: Built, s: Any, device: str = "llvm", late: list[str] | None = None
) -> str | None:
    """Build and run; a text if the output differs from what te_eval says.

    `late` gets a text if the device's compiler took longer than a case may take.
    """
    feeds = built.feeds()
    needed = {t: feeds[t] for t in built.used()}
    out = _run(built, s, device, [feeds[t] for t in built.used()], [] if late is None else late)
    if built.program.mode == "exact":
        (expected,) = te_eval([built.output], needed, symbols=built.symbols)
        wrong = out != expected
    else:
        bound = te_eval_bound(built.output, needed, symbols=built.symbols)
        expected, limit = bound if isinstance(bound, tuple) else bound[0]
        with np.errstate(all="ignore"):
            off = np.abs(out.astype(np.float64) - expected)
            same = (out == expected) | (np.isnan(out) & np.isnan(expected))
            wrong = ~(same | (off <= limit))
    if not np.any(wrong):
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    count = int(np.sum(wrong))
    return f"{count} of {out.size} elements differ, first at {at}: {out[at]} for {expected[at]}"


def target_of(built: Built, device: str) -> str:
    """What to build for: simt runs kernels as they are for CUDA, and some as for OpenCL."""
    if device != "simt":
        return device
    return "opencl" if built.program.data_seed % 4 == 0 else "cuda"


def _run(built: Built, s: Any, device: str, inputs: list[Any], late: list[str]) -> Any:
    """The output."""
    args = [*built.used(), built.output]
    start = time.process_time()
    function = tvm.build(s, args, target_of(built, device), name="fuzz")
    shape = _known_shape(built)
    dtype = parse(built.output.dtype).numpy
    if device == "llvm":
        out = np.full(shape, 77, dtype)
        function(*inputs, out)
        return out
    dev = tvm.device(device, 0)
    result = tvm.nd.array(np.full(shape, 77, dtype), dev)
    if device == "simt":
        result = tvm.nd.empty(shape, built.output.dtype, dev)  # nobody has written it
    arrays = [tvm.nd.array(x, dev) for x in inputs]
    if device not in COMPILED_BY_OTHERS:
        function(*arrays, result)
        return result.numpy()
    ours = time.process_time() - start
    with _unlimited():
        taken = _timed(function, [*arrays, result])
    out = result.numpy()
    if taken > SECONDS:
        if ours > OURS * taken or _timed(function, [*arrays, result]) > SECONDS / WAIT:
            raise TimeoutError(f"the case took {ours:.1f} s to build and {taken:.0f} s to run")
        late.append(f"{taken:.0f} s in the device's compiler, {ours:.1f} s in our passes")
    return out


def _timed(function: Any, arrays: list[Any]) -> float:
    """Seconds of the processor's time that a call takes; of the first one, to compile as well."""
    start = time.process_time()
    function(*arrays)
    arrays[-1].numpy()
    return time.process_time() - start


def _known_shape(built: Built) -> tuple[int, ...]:
    analyzer = tvm.arith.Analyzer()
    return tuple(
        int(analyzer.simplify(substitute(d, built.symbols_as_consts()))) for d in built.output.shape
    )
