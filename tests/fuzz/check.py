"""One case: build a program under a schedule, run it, compare with te_eval."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import te
from tilewright.base import config
from tilewright.base.dtype import parse
from tilewright.base.errors import CompileError, ScheduleError, TilewrightError
from tilewright.interp.te_bound import te_eval_bound
from tilewright.interp.te_eval import te_eval
from tilewright.schedule.trace import Step, replay

from . import gpu_schedules
from .built import Built
from .legality import broken_by_schedule, judging
from .programs import MOST_ELEMENTS, Program, random_program, types_of
from .schedules import apply_random
from .stage_extern import FLIP, flip_arrays
from .values import HALVES, INTEGERS, Array, differs

LEGAL = "legal, and refused"
DEVICE_ELEMENTS = 1200
DATA_SETS = 2  # that each program runs on
CHECKED = 5  # one in so many programs checks each access that is not proved to be in bounds
OPTIMISED = 4  # one in so many programs is built with LLVM's optimiser, which takes half the time
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
        self.used: Counter[str] = Counter()  # primitives, by schedule
        self.refused: Counter[str] = Counter()  # draws of primitives that were refused
        self.drawn: Counter[str] = Counter()  # modes, types and kinds of stages, by program
        self.sizes: Counter[int] = Counter()  # elements of the output
        self.cases = 0
        self.rejected = 0
        self.reasons: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()  # on what was refused: legality's rules, or LEGAL
        self.legal: list[str] = []  # legal schedules and calls that were refused
        self.slow: list[str] = []  # late: the device's compiler, or the interpreter of kernels

    def merge(self, other: Statistics) -> None:
        for mine, more in zip(self._counters(), other._counters()):
            mine.update(more)
        self.cases += other.cases
        self.rejected += other.rejected
        self.slow += other.slow
        self.legal += other.legal

    def _counters(self) -> list[Counter[Any]]:
        return [
            self.used, self.refused, self.drawn, self.sizes, self.reasons, self.verdicts
        ]  # fmt: skip

    def describe(self, program: Program, built: Built) -> None:
        """Count what an executed program is made of."""
        types = types_of(program)
        kinds = {f"kind {s.kind}" for s in program.stages}
        self.drawn.update({f"mode {program.mode}", *(f"type {t}" for t in types), *kinds})
        self.drawn["16-bit floats"] += bool(types & set(HALVES))
        self.drawn["full-range integers"] += program.mode == "full" and bool(types & set(INTEGERS))
        self.drawn["symbolic extents"] += bool(built.symbols)
        self.drawn["int64 extents"] += program.wide
        self.drawn["several outputs"] += len(built.outputs) > 1
        self.sizes[int(np.prod(built.shape(built.output)))] += 1


def drawn_program(seed: int, device: str, rng: random.Random | None = None) -> Program:
    """The program of a case."""
    most = MOST_ELEMENTS if device == "llvm" else DEVICE_ELEMENTS
    return random_program(rng or random.Random(seed), most, device != "llvm")


def drawn(seed: int, device: str) -> tuple[Program, Built, Any, Statistics]:
    """The program and the schedule of a case, as far as it can be drawn."""
    rng = random.Random(seed)
    stats = Statistics()
    program = drawn_program(seed, device, rng)
    built = Built(program)
    s = te.create_schedule([t.op for t in built.outputs])
    verdicts: list[tuple[str, str | None]] = []
    judging(s, verdicts)
    draw = apply_random if device == "llvm" else gpu_schedules.apply_random
    draw(rng, s, stats.used, stats.refused)
    for name, rule in verdicts:
        stats.verdicts[f"{name}: {rule or LEGAL}"] += 1
        if rule is None:
            stats.legal.append(f"seed {seed}: {name}")
    return program, built, s, stats


def run_case(seed: int, stats: Statistics, device: str = "llvm") -> Failure | None:
    """Case number `seed`: None if the compiled program agrees with the oracle (or was refused).

    `device`: "llvm", or "simt" or "opencl" for schedules of kernels.
    """
    stats.cases += 1
    program: Any = None
    steps: list[Step] = []
    try:
        _limit(SECONDS)
        program, built, s, more = drawn(seed, device)
        steps = s.steps
        stats.merge(more)
        late: list[str] = []
        problem = compare(built, s, device, late)
        stats.describe(program, built)
        if problem is None:
            stats.slow += [f"seed {seed}: {text}" for text in late]
    except Unfinished as error:
        stats.rejected += 1
        stats.slow.append(f"seed {seed}: {error}")
        return None
    except REFUSALS as error:
        stats.rejected += 1
        stats.reasons[reason_of(error)] += 1
        rule = broken_by_schedule(s, device, bool(built.symbols))
        stats.verdicts[f"schedule: {rule or LEGAL}"] += 1
        if rule is None:
            stats.legal.append(f"seed {seed}: {str(error).splitlines()[0][:300]}")
        assert len(str(error)) > 20, f"case {seed} is refused without a reason"
        return None
    except Exception as error:  # whatever else happens is a bug of the compiler
        problem = f"{type(error).__name__}: {error}"
    finally:
        _limit(0)
    return None if problem is None else Failure(seed, program, steps, problem, device)


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
        s = te.create_schedule([t.op for t in built.outputs])
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
    """Build and run on some sets of data; a text if an output differs from what te_eval says.

    `late` gets a text if the device's compiler took longer than a case may take.
    """
    run = Run(built, s, device, [] if late is None else late)
    for number in range(DATA_SETS if device in ("llvm", "opencl") else 1):
        feeds = built.feeds(number)
        needed = {t: feeds[t] for t in built.used()}
        found = run(list(needed.values()))
        for t, out, wrong, expected in zip(built.outputs, found, *judged(built, needed, found)):
            if np.any(wrong):
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                return (
                    f"{int(np.sum(wrong))} of {out.size} elements of {t.op.name} differ on data "
                    f"{number}, first at {at}: {out[at]} for {expected[at]}"
                )
    return run.misused(list(needed.values())) if device == "llvm" else None


def apart(x: Array) -> Array:
    """The array with its elements apart in memory."""
    if not x.ndim:
        return x
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def is_constant(e: Any) -> bool:
    return hasattr(e, "value")


def judged(
    built: Built, feeds: dict[Any, Array], found: list[Array]
) -> tuple[list[Array], list[Array]]:
    """Where each output is wrong, and what is right."""
    extern = {FLIP: flip_arrays}
    if built.program.mode in ("exact", "full"):
        exact = te_eval(built.outputs, feeds, symbols=built.symbols, extern=extern)
        return [differs(a, b) for a, b in zip(found, exact)], exact
    bounds = te_eval_bound(built.outputs, feeds, symbols=built.symbols, extern=extern)
    with np.errstate(all="ignore"):
        wrong = [
            differs(out, value) & ~(np.abs(out.astype(np.float64) - value) <= limit)
            if not np.isinf(limit).all() else np.zeros(out.shape, bool)
            for out, (value, limit) in zip(found, bounds)
        ]  # fmt: skip
        for n, (_, limit) in enumerate(bounds):
            wrong[n] &= ~np.isinf(limit)
    return wrong, [value for value, _ in bounds]


def target_of(built: Built, device: str) -> str:
    """What to build for: simt runs kernels as they are for CUDA, and some as for OpenCL."""
    if device != "simt":
        return device
    return "opencl" if built.program.data_seed % 4 == 0 else "cuda"


class Unfinished(Exception):
    """A kernel that is too much work to interpret: neither right nor wrong."""


class Run:
    """A built program; called on inputs it gives the outputs."""

    def __init__(self, built: Built, s: Any, device: str, late: list[str]) -> None:
        self.device, self.late, self.compiled = device, late, False
        self.seed, self.symbolic = built.program.data_seed // 7, bool(built.symbols)
        self.args = [*built.used(), *built.outputs]
        self.shapes = [built.shape(t) for t in built.outputs]
        self.types = [parse(t.dtype).numpy for t in built.outputs]
        views = built.program.data_seed % 3 == 0
        self.strided = [views and not all(map(is_constant, t.shape)) for t in built.used()]
        start = time.process_time()
        level = 2 if built.program.data_seed % OPTIMISED == 0 else 0
        checks = device == "llvm" and built.program.data_seed % CHECKED == 0
        with config.scoped(opt_level=level, bound_checks=checks):
            self.function = tvm.build(s, self.args, target_of(built, device), name="fuzz")
        self.ours = time.process_time() - start

    def __call__(self, inputs: list[Array]) -> list[Array]:
        blank = [np.full(n, 77, t) for n, t in zip(self.shapes, self.types)]
        if self.device == "llvm":
            given = [apart(x) if strided else x for x, strided in zip(inputs, self.strided)]
            self.function(*given, *blank)
            return blank
        dev = tvm.device(self.device, 0)
        names = [t.dtype for t in self.args[len(inputs) :]]
        if self.device == "simt":  # nobody has written it
            results = [tvm.nd.empty(n, t, dev) for n, t in zip(self.shapes, names)]
        else:
            results = [tvm.nd.array(x, dev) for x in blank]
        arrays = [tvm.nd.array(x, dev) for x in inputs]
        if self.device in COMPILED_BY_OTHERS and not self.compiled:
            self._timed_call([*arrays, *results])
        elif self.device == "simt":
            try:
                self.function(*arrays, *results)
            except TimeoutError:
                if self.ours > SECONDS / WAIT:
                    raise
                raise Unfinished(f"not finished, {self.ours:.1f} s to build") from None
        else:
            self.function(*arrays, *results)
        self.compiled = True
        return [r.numpy() for r in results]

    def misused(self, inputs: list[Array]) -> str | None:
        """What is wrong with how a call is answered that does not fit the signature."""
        arrays = [*inputs, *(np.full(n, 77, t) for n, t in zip(self.shapes, self.types))]
        spoilt = self.seed % len(arrays)
        x = arrays[spoilt]
        if self.seed % 2 and x.ndim and not self.symbolic:
            grown = list(x.shape)
            grown[self.seed % x.ndim] += 1
            bad = np.ones(grown, x.dtype)
        else:
            with np.errstate(invalid="ignore"):
                bad = x.astype(np.int16 if x.dtype.itemsize == 1 else np.int8)
        try:
            self.function(*arrays[:spoilt], bad, *arrays[spoilt + 1 :])
        except TilewrightError:
            return None
        return f"argument {spoilt} was {bad.shape} {bad.dtype} for {x.shape} {x.dtype}, unnoticed"

    def _timed_call(self, arrays: list[Any]) -> None:
        with _unlimited():
            taken = _timed(self.function, arrays)
        if taken > SECONDS:
            again = _timed(self.function, arrays)
            if self.ours > OURS * taken or again > SECONDS / WAIT:
                raise TimeoutError(f"the case took {self.ours:.1f} s to build and {taken:.0f} s")
            text = f"{taken:.0f} s in the device's compiler, {self.ours:.1f} s in our passes"
            self.late.append(text)


def _timed(function: Any, arrays: list[Any]) -> float:
    """Seconds of the processor's time that a call takes; of the first one, to compile as well."""
    start = time.process_time()
    function(*arrays)
    arrays[-1].numpy()
    return time.process_time() - start
