"""`python -m tests.fuzz.candidates --cases N --seed S`: candidates of the search against te_eval.

A case is one candidate: a random one of a random sketch, mutated some times, perhaps crossed with
one of another, or a relative of the operator library's schedule, under one of the three ways with
inputs of free layout. It is built for this CPU, run and compared: exactly, on small whole numbers,
where those stay whole; else within the error bounds of te_eval_bound. `--seed S --cases 1` runs a
failed case again; `--show` prints its program.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import tilewright as tvm
from tests.narrow import int_of
from tilewright import auto_scheduler
from tilewright.auto_scheduler.crossover import Crossover
from tilewright.auto_scheduler.evolve import Evolution, mutated
from tilewright.auto_scheduler.granularity import mutate_parallel
from tilewright.auto_scheduler.library import Family
from tilewright.auto_scheduler.population import Candidate
from tilewright.auto_scheduler.state import State
from tilewright.auto_scheduler.transform import LayoutRewriteOption, apply_state
from tilewright.base.dtype import parse
from tilewright.interp.te_bound import te_eval_bound
from tilewright.interp.te_eval import te_eval

from .progress import Progress
from .search_workloads import Workload, workloads

CORES = 2
EVEN = Evolution(tile=0.4, unroll=0.2, location=0.2, parallel=0.2)
RELATIVES = 0.4  # of the cases: those of the default schedule
Array = np.ndarray[Any, Any]


class Searched:
    """A computation, the policy that searches it, inputs and what has to come out."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        hardware = auto_scheduler.HardwareParams(CORES)
        self.task = auto_scheduler.SearchTask(
            compute_dag=workload.make(), target="llvm", hardware_params=hardware
        )
        model = auto_scheduler.RandomModel()
        self.policy = auto_scheduler.SketchPolicy(self.task, model, seed=0, verbose=0)
        self.population = self.policy.population
        tensors = self.task.compute_dag.tensors
        self.inputs = [t for t in tensors if not t.op.input_tensors]
        self.outputs = [t for t in tensors if t.op.input_tensors]
        self._expected: dict[bool, tuple[list[Array], list[Any]]] = {}

    def expected(self, exact: bool) -> tuple[list[Array], list[Any]]:
        """Arrays of all inputs, and (value, tolerance) of each output (tolerance 0: exact)."""
        if exact not in self._expected:
            rng = np.random.default_rng(7)
            feeds = {t: _data(rng, t, exact) for t in self.inputs}
            found: list[Any]
            if exact:
                found = [(v, 0.0) for v in te_eval(self.outputs, feeds)]
            else:
                found = [b if isinstance(b, tuple) else (b, 0.0) for b in
                         te_eval_bound(self.outputs, feeds)]  # fmt: skip
            self._expected[exact] = (list(feeds.values()), found)
        return self._expected[exact]


def _data(rng: np.random.Generator, tensor: Any, exact: bool) -> Array:
    shape = tuple(int(n) for n in tensor.shape)
    dtype = parse(tensor.dtype).numpy
    if exact or np.issubdtype(dtype, np.integer):
        return rng.integers(-3, 4, size=shape).astype(dtype)
    return (rng.random(shape) * 2 - 1).astype(dtype)


@cache
def searched(number: int) -> Searched:
    """The computation of that number, made once a process."""
    return Searched(workloads()[number])


@cache
def count_of_workloads() -> int:
    return len(workloads())


@dataclass
class Drawn:
    """What a case is."""

    seed: int
    computation: Searched
    candidate: Candidate | None
    option: int
    exact: bool
    relative: tuple[Any, ...] = ()

    def title(self) -> str:
        name = self.computation.workload.name
        what = f"{self.relative}"
        if self.candidate is not None:
            what = f"sketch {self.candidate.sketch}, columns {self.candidate.row.tolist()}"
        return f"seed {self.seed}: {name}, {LayoutRewriteOption(self.option).name}, {what}"

    def state(self) -> State:
        """The finished state."""
        if self.candidate is not None:
            return self.computation.population.close(self.candidate)
        return State.from_rows(self.computation.task.compute_dag, self.relative)


def draw(seed: int) -> Drawn:
    """The case of a seed."""
    choose = random.Random(seed)
    computation = searched(choose.randrange(count_of_workloads()))
    spaces = computation.population.spaces
    number = choose.randrange(len(spaces))
    space = spaces[number]
    rng = np.random.default_rng(seed)
    rows = space.sample(2, rng)
    for _ in range(choose.choice((0, 0, 1, 3))):
        rows = mutated(space, rows, EVEN, rng)
    if space.parallel and choose.random() < 0.5:  # the rule leaves small work serial
        rows = mutate_parallel(space, rows, rng)
    if choose.random() < 0.3:
        other = choose.randrange(len(spaces))
        fathers = np.full(len(rows), other), np.arange(len(rows))
        population = [s.sample(len(rows), rng) for s in spaces]
        rows = Crossover(spaces).children(number, rows, fathers, population, rng)
    option = choose.randrange(3) if computation.task.compute_dag.layout_free else 0
    exact = computation.workload.exact and choose.random() < 0.7
    if choose.random() < RELATIVES:
        family = Family(computation.task, None)
        family.ahead = option == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
        family.begin()
        answers = family.plain
        for _ in range(choose.choice((1, 2, 4))):
            answers = family.related(answers, answers, rng)
        made = family.state(answers)
        if made is not None and made[1]:
            return Drawn(seed, computation, None, option, exact, made[0].rows)
    return Drawn(seed, computation, Candidate(number, rows[0]), option, exact)


def problem_of(case: Drawn) -> str | None:
    """Build and run; a text if a result differs from te_eval's or anything else goes wrong."""
    try:
        return _compare(case)
    except Exception as error:  # a candidate that any pass refuses is a mistake of the search
        return f"{type(error).__name__}: {error}"


def _compare(case: Drawn) -> str | None:
    computation = case.computation
    schedule, args, rearranged = apply_state(case.state(), case.option)
    function = tvm.build(schedule, args, "llvm", name="candidate")
    inputs, wanted = computation.expected(case.exact)
    arrays = dict(zip(computation.inputs, inputs))
    given: list[Any] = [arrays.get(t) for t in computation.task.compute_dag.tensors]
    for change in rearranged:
        given[change.index] = change.apply(given[change.index])
    results = []
    for n, (tensor, array) in enumerate(zip(args, given)):
        if array is None:
            shape = tuple(int_of(e) for e in tensor.shape)
            given[n] = np.full(shape, 77, parse(tensor.dtype).numpy)
            results.append(given[n])
    function(*given)
    for tensor, out, (value, tolerance) in zip(computation.outputs, results, wanted):
        off = np.abs(out.astype(np.float64) - value)
        wrong = ~(off <= tolerance)
        if np.any(wrong):
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return (
                f"{int(wrong.sum())} of {out.size} elements of {tensor.name} differ, first at "
                f"{at}: {out[at]} for {np.asarray(value)[at]}"
            )
    return None


def run_cases(cases: int, seed: int, stop_after: int, quiet: bool = False) -> list[str]:
    """Cases seed, seed + 1, ...; a text for each failure."""
    failures: list[str] = []
    kinds: Counter[str] = Counter()
    progress = Progress(cases, quiet)
    for n in range(cases):
        case = draw(seed + n)
        problem = problem_of(case)
        kinds[case.computation.workload.name] += 1
        if problem is not None:
            failures.append(f"{case.title()}: {problem}")
            if not quiet:
                print(f"\nfailed: {failures[-1][:1500]}", flush=True)
        progress.tell(n + 1, len(failures))
        if len(failures) >= stop_after:
            break
    if not quiet:
        print(", ".join(f"{k} {v}" for k, v in sorted(kinds.items())))
    return failures


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "0")
    faulthandler.enable()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.candidates", description=__doc__)
    parser.add_argument("--cases", type=int, default=300, help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first case (default 0)")
    parser.add_argument("--stop-after", type=int, default=20, help="failures (default 20)")
    parser.add_argument("--show", action="store_true", help="print the program of the first case")
    options = parser.parse_args()
    if options.show:
        case = draw(options.seed)
        state = case.state()
        print(case.title(), state, state.rows, sep="\n")
    failures = run_cases(options.cases, options.seed, options.stop_after)
    print(f"{len(failures)} failures in {options.cases} cases from seed {options.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
