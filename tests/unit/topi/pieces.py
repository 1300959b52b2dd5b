"""Plans for threads, read from the loops of a program: how many pieces there are, how long the
busiest thread works beside all on average, and how small pieces are.

A machine with few cores shows little of plans for many. Here the work of each step of a parallel
loop is counted (operations on vectors, as lowering leaves them), and steps are dealt out as the
pool does it (rt/pool).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import pairwise
from typing import Any

import tilewright as tw
from tilewright import topi
from tilewright.base.dtype import parse
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.visit import CHILDREN, walk

CPU = "llvm -mcpu=skylake-avx512"
OPERATION = 0.25  # nanoseconds of one on a vector
SLOW = 5.0  # nanoseconds of a call: an exponential and its like
SAMPLED = 400  # steps of a loop whose work is counted
FEW = 64  # steps for each core: of more, the last ones matter little


@dataclass(frozen=True)
class Loop:
    """A parallel loop: how many steps, nanoseconds of the shortest and of the longest one, of all
    of them, and of all threads until the last one is done."""

    steps: int
    least: float
    most: float
    work: float
    span: float


@dataclass(frozen=True)
class Plan:
    """What a program does alone, in nanoseconds, and its loops on `cores` threads."""

    cores: int
    alone: float
    loops: tuple[Loop, ...]

    @property
    def work(self) -> float:
        """Nanoseconds of all work, by one thread."""
        return self.alone + sum(x.work for x in self.loops)

    @property
    def stretch(self) -> float:
        """How many times as long all takes as if all cores had even shares of the work."""
        span = self.alone + sum(x.span for x in self.loops)
        return span * self.cores / max(self.work, 1e-9)


def plan_of(tensors: Sequence[Any], cores: int, cpu: str = CPU) -> Plan:
    """The plan of the default schedule of the last of some tensors for so many cores."""
    target = tw.target.Target(f"{cpu} -num-cores={cores}")
    with target:
        s = topi.default_schedule(tensors[-1], target)
    return plan_of_program(tw.lower(s, list(tensors))["main"].body, cores)


def made_plan(make: Callable[[], Sequence[Any]], cores: int, cpu: str = CPU) -> Plan:
    """The same of tensors whose computation asks for the target."""
    with tw.target.Target(f"{cpu} -num-cores={cores}"):
        tensors = make()
    return plan_of(tensors, cores, cpu)


def plan_of_program(body: Any, cores: int) -> Plan:
    """The plan that a lowered program is."""
    loops: list[Loop] = []
    alone = _Counter(loops, cores).work(body, {})
    return Plan(cores, alone, tuple(loops))


class _Counter:
    """Counts what one thread does of a statement; parallel loops, which it leaves out, are kept."""

    def __init__(self, loops: list[Loop], cores: int) -> None:
        self.loops, self.cores = loops, cores
        self.fixed: dict[int, float] = {}

    def work(self, x: Any, env: Mapping[Any, int]) -> float:
        if isinstance(x, S.For):
            return self.loop(x, env)
        if isinstance(x, S.IfThenElse):
            holds = _value(x.condition, env)
            there = [e for e in (x.then_case, x.else_case) if e is not None]
            if holds is None:
                return max(self.work(e, env) for e in there)
            end = x.then_case if holds else x.else_case
            return 0.0 if end is None else self.work(end, env)
        if isinstance(x, S.SeqStmt):
            return sum(self.work(e, env) for e in x.seq)
        if isinstance(x, (S.BufferStore, S.Evaluate)):
            if id(x) not in self.fixed:
                self.fixed[id(x)] = sum(_operation(e) for e in walk(x))
            return self.fixed[id(x)]
        if isinstance(x, S.LetStmt):
            value = _value(x.value, env)
            if value is not None:
                env = {**env, x.var: value}
        return self.work(x.body, env) if hasattr(x, "body") else 0.0

    def loop(self, x: S.For, env: Mapping[Any, int]) -> float:
        steps, first = _value(x.extent, env), _value(x.min, env) or 0
        steps = 1 if steps is None else steps
        if steps <= 0:
            return 0.0
        if x.kind != S.ForKind.PARALLEL:
            return steps * self.work(x.body, {**env, x.loop_var: first + steps // 2})
        places = sorted({*range(0, steps, -(-steps // SAMPLED)), steps - 1})
        each = [self.work(x.body, {**env, x.loop_var: first + p}) for p in places]
        work = sum(w * (q - p) for w, (p, q) in zip(each, pairwise([*places, steps])))
        span = work / self.cores
        if steps <= FEW * self.cores:
            counts = [q - p for p, q in pairwise([*places, steps])]
            span = _span([w for w, n in zip(each, counts) for _ in range(n)], self.cores)
        self.loops.append(Loop(steps, min(each), max(each), work, span))
        return 0.0


def _span(steps: Sequence[float], cores: int) -> float:
    """When the last step is done: each thread has an even share of neighbours, then takes what is
    left of the largest share."""
    ends = [len(steps) * (i + 1) // cores for i in range(cores)]
    begins = [0, *ends[:-1]]
    threads = [(0.0, i) for i in range(cores)]
    heapify(threads)
    last = 0.0
    for _ in steps:
        now, i = threads[0]
        home = i if begins[i] < ends[i] else max(range(cores), key=lambda j: ends[j] - begins[j])
        now += steps[begins[home]]
        begins[home] += 1
        heapreplace(threads, (now, i))
        last = max(last, now)
    return last


def _operation(e: Any) -> float:
    """Nanoseconds of one node of an expression, its operands aside."""
    if isinstance(e, E.Call):
        return SLOW
    if isinstance(e, (E.BufferLoad, S.BufferStore)):
        return OPERATION
    lanes = parse(getattr(e, "dtype", "int32")).lanes
    float_ = "float" in getattr(e, "dtype", "")
    return OPERATION if (lanes > 1 or float_) and not isinstance(e, (E.Ramp, E.Broadcast)) else 0.0


_OPERATORS: dict[type, Callable[[int, int], int]] = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.FloorDiv: lambda a, b: a // b,
    E.FloorMod: lambda a, b: a % b,
    E.Min: min,
    E.Max: max,
    E.LT: lambda a, b: int(a < b),
    E.LE: lambda a, b: int(a <= b),
    E.GT: lambda a, b: int(a > b),
    E.GE: lambda a, b: int(a >= b),
    E.EQ: lambda a, b: int(a == b),
    E.NE: lambda a, b: int(a != b),
    E.And: lambda a, b: int(bool(a and b)),
    E.Or: lambda a, b: int(bool(a or b)),
}


def _value(e: Any, env: Mapping[Any, int]) -> int | None:
    """A number, where it depends on loops alone."""
    if isinstance(e, E.IntImm):
        return int(e.value)
    if isinstance(e, E.Var):
        return env.get(e)
    if isinstance(e, E.Call) and e.op.name == "tir.likely":
        return _value(e.args[0], env)
    operator = _OPERATORS.get(type(e))
    if operator is not None:
        a, b = (_value(x, env) for x in (e.a, e.b))
        return None if a is None or b is None else operator(a, b)
    if isinstance(e, (E.Cast, E.Not)):
        (inner,) = (_value(x, env) for x in CHILDREN[type(e)](e))
        return inner if inner is None or isinstance(e, E.Cast) else int(not inner)
    return None
