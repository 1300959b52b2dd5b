"""One case: build a program under a schedule, run it, compare with te_eval."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import te
from tilewright.base.dtype import parse
from tilewright.base.errors import ScheduleError
from tilewright.interp.te_bound import te_eval_bound
from tilewright.interp.te_eval import te_eval
from tilewright.loopir.subst import substitute
from tilewright.schedule.trace import Step, replay

from .programs import Built, Program, random_program
from .schedules import apply_random


@dataclass
class Failure:
    """A case that went wrong."""

    seed: int
    program: Program
    steps: list[Step]
    problem: str


class Statistics:
    """What a run of many cases did."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.cases = 0
        self.rejected = 0

    def merge(self, other: Statistics) -> None:
        self.used.update(other.used)
        self.refused.update(other.refused)
        self.cases += other.cases
        self.rejected += other.rejected


def run_case(seed: int, stats: Statistics) -> Failure | None:
    """Case number `seed`: None if the compiled program agrees with the oracle (or was refused)."""
    rng = random.Random(seed)
    program = random_program(rng)
    built = Built(program)
    s = te.create_schedule(built.output.op)
    stats.cases += 1
    try:
        apply_random(rng, s, stats.used, stats.refused)
        problem = compare(built, s)
    except ScheduleError:
        stats.rejected += 1
        return None
    except Exception as error:  # whatever else happens is a bug of the compiler
        problem = f"{type(error).__name__}: {error}"
    return None if problem is None else Failure(seed, program, s.steps, problem)


def run_chunk(first: int, count: int) -> tuple[Statistics, list[int]]:
    """Cases first ... first + count - 1; the numbers of those that failed."""
    stats = Statistics()
    failed = [s for s in range(first, first + count) if run_case(s, stats) is not None]
    return stats, failed


def replay_case(program: Program, steps: list[Step]) -> str | None:
    """What goes wrong with these steps on this program (None: nothing, or they do not fit it)."""
    try:
        built = Built(program)
        s = te.create_schedule(built.output.op)
        replay(s, steps)
    except Exception:  # shrinking tries programs and steps that make no sense
        return None
    try:
        return compare(built, s)
    except ScheduleError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def compare(built: Built, s: Any) -> str | None:
    """Build and run; a text if the output differs from what te_eval says."""
    args = [*built.used(), built.output]
    function = tvm.build(s, args, "llvm", name="fuzz")
    feeds = built.feeds()
    shape = _known_shape(built)
    out = np.full(shape, 77, parse(built.output.dtype).numpy)
    function(*[feeds[t] for t in built.used()], out)
    needed = {t: feeds[t] for t in built.used()}
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


def _known_shape(built: Built) -> tuple[int, ...]:
    analyzer = tvm.arith.Analyzer()
    return tuple(
        int(analyzer.simplify(substitute(d, built.symbols_as_consts()))) for d in built.output.shape
    )
