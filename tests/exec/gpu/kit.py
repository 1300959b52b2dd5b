"""Cases of the GPU corpus: a schedule, its data, and how results are judged on each device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te
from tilewright.base.dtype import parse
from tilewright.interp.te_bound import te_eval_bound
from tilewright.topi.schedules.decisions import Decisions
from tilewright.topi.schedules.default import default_schedule

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

ARCHS = ("sm_75", "sm_80", "sm_90")


@dataclass(frozen=True)
class Case:
    """`build` gives a new schedule and the arguments of its function, outputs last.

    `sizes`: values of symbolic extents, by name. `draw`: data of inputs, by name, where numbers
    drawn from N(0, 1) (or -9 ... 9 for integers) do not fit. `expected`: results in NumPy, for what
    is not written as tensor expressions: they may be off by `within`. `opencl`: why it cannot run
    on OpenCL; empty where it can. `arch`: the oldest GPU that has what it uses, or the only one.
    """

    name: str
    build: Callable[[], tuple[Any, list[Any]]]
    sizes: Mapping[str, int] = field(default_factory=dict)
    draw: Mapping[str, Draw] = field(default_factory=dict)
    expected: Callable[..., Any] | None = None
    within: float = 0.0
    opencl: str = ""
    arch: str = "sm_75"

    def runs_on(self, arch: str) -> bool:
        """Whether a GPU has what it uses."""
        if self.arch.endswith("a"):
            return arch == self.arch
        return int(self.arch[3:]) <= int(arch[3:].rstrip("a"))

    @property
    def target(self) -> str:
        """The target that simt runs."""
        return f"cuda -arch={self.arch}"


class Problem:
    """One case with data: made once, checked on any device."""

    def __init__(self, case: Case, seed: int = 0) -> None:
        self.case = case
        self.schedule, self.args = case.build()
        made = set(map(id, outputs_of(self.schedule)))
        self.inputs = [a for a in self.args if id(a.op) not in made]
        self.outputs = [a for a in self.args if id(a.op) in made]
        rng = np.random.default_rng(seed)
        self.feeds = {t: self._data(rng, t) for t in self.inputs}

    def shape(self, t: Any) -> tuple[int, ...]:
        return tuple(_value(d, self.case.sizes) for d in t.shape)

    def _data(self, rng: np.random.Generator, t: Any) -> Array:
        shape, own = self.shape(t), self.case.draw.get(t.op.name)
        kind = parse(t.dtype)
        if own is not None:
            return own(rng, shape).astype(kind.numpy)
        if kind.is_float:
            return rng.standard_normal(shape).astype(kind.numpy)
        low, high = (0, 2) if kind.is_bool else (0, 10) if kind.code == "uint" else (-9, 10)
        return rng.integers(low, high, shape).astype(kind.numpy)

    @cached_property
    def reference(self) -> list[tuple[Array, Array]]:
        """Values and tolerances of the outputs."""
        if self.case.expected is not None:
            found = self.case.expected(*[self.feeds[t] for t in self.inputs])
            values = found if isinstance(found, (list, tuple)) else [found]
            return [(v, np.full(v.shape, self.case.within)) for v in values]
        return te_eval_bound(self.outputs, self.feeds)

    def arrays(self, dev: Any) -> list[Any]:
        """Arguments on a device; nobody has written the outputs."""
        return [
            tw.nd.array(self.feeds[t], dev)
            if t in self.feeds
            else tw.nd.empty(self.shape(t), t.dtype, dev)
            for t in self.args
        ]

    def check(self, arrays: Sequence[Any]) -> None:
        """Fails unless outputs are within what their types allow of float64 values."""
        results = [a.numpy() for t, a in zip(self.args, arrays) if t not in self.feeds]
        for t, got, (want, limit) in zip(self.outputs, results, self.reference):
            assert np.isfinite(limit).all(), f"{t.op.name}: the oracle can say nothing"
            off = np.abs(got.astype(np.float64) - want.astype(np.float64))
            wrong = ~((off <= limit) | (np.isnan(want.astype(np.float64)) & np.isnan(off)))
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                raise AssertionError(
                    f"{self.case.name}: {int(wrong.sum())} of {got.size} elements of {t.op.name} "
                    f"differ, first at {at}: {got[at]} for {want[at]} +- {limit[at]}"
                )

    def build(self, target: Any) -> Any:
        return tw.build(self.schedule, self.args, target, name=self.case.name)


def answered(
    out: Any, target: Any, answers: Mapping[str, tuple[int, ...]]
) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """The default schedule of an operator that answers some questions by the first option that
    begins so, and all that was answered."""
    given: dict[str, tuple[int, ...]] = {}
    wanted = {f"{out.op.name}.{question}": v for question, v in answers.items()}
    while True:
        decisions = Decisions(given)
        s = default_schedule(out, target, decisions)
        left = [q for q in decisions.asked if q in wanted and q not in given]
        if not left:
            assert set(given) == set(wanted), f"{set(wanted) - set(given)} is not asked"
            return s, decisions.taken
        start = wanted[left[0]]
        options = decisions.asked[left[0]]
        found = [o for o in options if o[: len(start)] == start]
        assert found, f"{left[0]} is one of {options}, none of which begins with {start}"
        given[left[0]] = found[0]


def outputs_of(schedule: Any) -> list[Any]:
    return list(schedule.outputs)


def _value(d: Any, sizes: Mapping[str, int]) -> int:
    if isinstance(d, (int, np.integer)):
        return int(d)
    return sizes[d.name] if hasattr(d, "name") else int(d)


@cache
def problem(case_name: str, seed: int = 0) -> Problem:
    from tests.exec.gpu.corpus import CASES

    return Problem(CASES[case_name], seed)


def axis(tag: str, extent: int | None = None) -> Any:
    """A thread axis; one of a given extent is shared between stages."""
    return te.thread_axis(tag) if extent is None else te.thread_axis((0, extent), tag)


def bind_flat(s: Any, t: Any, threads: int = 64, vector: int = 1) -> None:
    """All axes of a stage as one, over blocks of threads, perhaps by vectors."""
    stage = s[t]
    flat = stage.fuse(*t.op.axis) if len(t.op.axis) > 1 else t.op.axis[0]
    if vector > 1:
        flat, lanes = stage.split(flat, factor=vector)
        stage.vectorize(lanes)
    block, thread = stage.split(flat, factor=threads)
    stage.bind(block, axis("blockIdx.x"))
    stage.bind(thread, axis("threadIdx.x"))


def named(cases: Sequence[Case]) -> dict[str, Case]:
    """Cases by name; no name twice."""
    found = {c.name: c for c in cases}
    assert len(found) == len(cases), "two cases of one name"
    return found
