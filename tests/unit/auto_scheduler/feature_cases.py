"""Schedules with lengths that may be variables (a skeleton) or numbers (a candidate).

Each case is a function of its lengths, `L("name", extent)`, that returns a schedule and its
arguments. `L` gives a variable for each name the first time round, and the numbers of one candidate
later; `extent` is what the length is part of.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright import te, tir


class Lengths:
    """The lengths of a case: variables, or numbers by name."""

    def __init__(self, values: dict[str, int] | None = None) -> None:
        self.values = values
        self.open: dict[str, tuple[Any, int]] = {}

    def __call__(self, name: str, extent: int) -> Any:
        if self.values is not None:
            return self.values[name]
        if name not in self.open:
            self.open[name] = (tir.Var(name, "int32"), extent)
        return self.open[name][0]


def tile(s: Any, axis: Any, L: Any, name: str, extent: int, parts: int) -> list[Any]:
    """Split an axis into parts + 1 loops, outermost first."""
    loops = []
    for k in reversed(range(parts)):
        axis, inner = s.split(axis, factor=L(f"{name}{k}", extent))
        loops.append(inner)
    return [axis, *reversed(loops)]


def interleave(s: Any, structure: str, spatial: list[list[Any]], reduce: list[list[Any]]) -> None:
    """Reorder tiles by a structure such as SSRSRS."""
    at = {"S": 0, "R": 0}
    order = []
    for kind in structure:
        tiles = spatial if kind == "S" else reduce
        order += [t[at[kind]] for t in tiles]
        at[kind] += 1
    s.reorder(*order)


def skeleton_of(case: Any) -> tuple[Any, Lengths]:
    """The state that features are read from, and its lengths."""
    lengths = Lengths()
    schedule, _ = case(lengths)
    opened = [SimpleNamespace(var=v) for v, _ in lengths.open.values()]
    return SimpleNamespace(schedule=schedule, open=opened, packed={}), lengths


def draw(lengths: Lengths, count: int, seed: int, dividing: bool = True) -> np.ndarray:
    """Random lengths (N, open)."""
    rng = np.random.default_rng(seed)
    columns = []
    for _, extent in lengths.open.values():
        legal = [d for d in range(1, extent + 1) if not dividing or extent % d == 0]
        columns.append(rng.choice(legal, count))
    return np.array(columns, np.int64).T.reshape(count, len(lengths.open))


# -- computations


def matmul_tensors(n: int, m: int, k: int, relu: bool = False) -> Any:
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    if not relu:
        return A, B, C, C
    D = te.compute((n, m), lambda i, j: te.max(C[i, j], 0.0) if False else tir.max(C[i, j], 0.0))
    return A, B, C, D


def matmul(level: int, n: int = 12, m: int = 16, k: int = 8) -> Any:
    """SSRSRS with the sums in a cache that its reader computes at a level of tiles."""

    def case(L: Any) -> Any:
        A, B, C, _ = matmul_tensors(n, m, k)
        s = te.create_schedule(C.op)
        CL = s.cache_write(C, "local")
        i, j = s[CL].op.axis
        (r,) = s[CL].op.reduce_axis
        I, J = tile(s[CL], i, L, "i", n, 3), tile(s[CL], j, L, "j", m, 3)
        R = tile(s[CL], r, L, "r", k, 1)
        interleave(s[CL], "SSRSRS", [I, J], [R])
        i, j = s[C].op.axis
        outer = []
        inner = []
        for axis, name, extent in ((i, "i", n), (j, "j", m)):
            low = L(f"{name}0", extent) * L(f"{name}1", extent)
            if level == 2:
                rest, last = s[C].split(axis, factor=low)
                first, second = s[C].split(rest, factor=L(f"{name}2", extent))
                outer.append([first, second])
            else:
                first, last = s[C].split(axis, factor=low * L(f"{name}2", extent))
                outer.append([first])
            inner.append(last)
        order = [x[k] for k in range(level) for x in outer]
        s[C].reorder(*order, *inner)
        s[CL].compute_at(s[C], order[-1])
        return s, [A, B, C]

    return case
