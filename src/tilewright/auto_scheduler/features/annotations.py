"""The columns of annotations: loops that are vectorised, unrolled, parallel or on threads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...loopir.expr import const_int
from ...loopir.iter import IterVar
from ...schedule.placement import is_virtual
from .columns import ANNOTATIONS, PLACE, THREADS
from .program import Array
from .statements import Statement
from .value import Loop

UNROLL_STEP = "auto_unroll_max_step"
KINDS = {"vec": IterVar.Vectorized, "unroll": IterVar.Unrolled, "parallel": IterVar.Parallelized}
Flags = npt.NDArray[np.bool_]


@dataclass
class Batch:
    """Candidates of a skeleton: N rows of lengths, and what is said about the loops of stages.

    factors (N, open lengths), in the order of the state's `open`. parallel: by number of a stage at
    the root, how many of its outermost leaf loops run fused in parallel (N; 0: none). vector: by
    stage, whether its last leaf loop is vectorised (N). unroll: by stage, its auto_unroll_max_step
    (N). unrolled: by stage, which leaf loops are unrolled, by place; a pair (places, flags) for
    those that are only in some candidates (N, or a row for each place).
    """

    factors: npt.NDArray[np.int64]
    parallel: Mapping[int, npt.NDArray[np.int64]] = field(default_factory=dict)
    vector: Mapping[int, npt.NDArray[np.bool_]] = field(default_factory=dict)
    unroll: Mapping[int, npt.NDArray[np.int64]] = field(default_factory=dict)
    unrolled: Mapping[int, Any] = field(default_factory=dict)

    def part(self, start: int, stop: int) -> Batch:
        """Some of the candidates."""
        if start == 0 and stop >= len(self.factors):
            return self
        here = slice(start, stop)
        unrolled = {
            k: (v[0], v[1][..., here]) if _with_flags(v) else v for k, v in self.unrolled.items()
        }
        return Batch(
            self.factors[here],
            {k: np.asarray(v)[here] for k, v in self.parallel.items()},
            {k: np.asarray(v)[here] for k, v in self.vector.items()},
            {k: np.asarray(v)[here] for k, v in self.unroll.items()},
            unrolled,
        )


class Annotator:
    """The loops of one statement that may be annotated."""

    def __init__(self, statement: Statement, packed: Collection[int]) -> None:
        """packed: stages whose loops of one iteration are left out."""
        self.path, self.packed = statement.path, packed
        self.stages: list[Any] = []
        for loop in self.path:
            if not any(loop.stage is s for s in self.stages):
                self.stages.append(loop.stage)
        if not any(statement.nest.stage is s for s in self.stages):
            self.stages.append(statement.nest.stage)
        self.static = {
            kind: [
                k for k, x in enumerate(self.path) if x.first and x.stage.kind_of(x.leaf) == code
            ]
            for kind, code in KINDS.items()
        }
        self.steps = [step for x in self.path if (step := _step_of(x)) is not None]
        self.threads: dict[str, list[int]] = {name: [] for name in THREADS}
        for k, loop in enumerate(self.path):
            if loop.thread is not None:
                tag = "vthread" if is_virtual(loop.thread) else loop.thread.thread_tag
                self.threads.setdefault(tag, []).append(k)
        self.gpu = any(self.threads.values())

    def write(self, extent: Array, batch: Batch, out: npt.NDArray[np.float32]) -> None:
        """extent (K, N); out (164, N)."""
        marked: dict[str, list[tuple[int, Flags | None]]] = {
            kind: [(k, None) for k in columns] for kind, columns in self.static.items()
        }
        self._find(batch, extent, marked)
        for kind in ANNOTATIONS:
            _write_kind(kind, marked[kind], extent, out)
        out[PLACE["is_gpu"]] = self.gpu
        for name in THREADS:
            columns = self.threads[name]
            out[PLACE[f"{name}_len"]] = extent[columns].prod(axis=0) if columns else 1.0
        out[PLACE["num_loops"]] = np.count_nonzero(extent > 1.0, axis=0)
        out[PLACE[UNROLL_STEP]] = self._unroll_step(batch)

    def _find(
        self, batch: Batch, extent: Array, marked: dict[str, list[tuple[int, Flags | None]]]
    ) -> None:
        for k, loop in enumerate(self.path):
            if not loop.first:
                continue
            ident = loop.stage.id
            if k == 0 and ident in batch.parallel:
                marked["parallel"].append((0, batch.parallel[ident] > 0))
            if ident in batch.vector and (loop.last or ident in self.packed):
                flags = batch.vector[ident]
                if ident in self.packed:
                    flags = flags & (extent[k + 1 :].prod(axis=0) == 1.0)
                marked["vec"].append((k, flags))
            chosen = batch.unrolled.get(ident)
            if chosen is None:
                continue
            places, some = chosen if _with_flags(chosen) else (chosen, None)
            if loop.place in places:
                if some is not None and some.ndim == 2:
                    some = some[places.index(loop.place)]
                marked["unroll"].append((k, some))

    def _unroll_step(self, batch: Batch) -> Any:
        """The innermost positive step around the statement."""
        step: Any = self.steps[-1] if self.steps else 0
        for stage in self.stages:
            if stage.id in batch.unroll:
                own = batch.unroll[stage.id]
                step = np.where(own > 0, own, step)
        return step


def _with_flags(chosen: Any) -> bool:
    """Whether loops are unrolled in some candidates only."""
    return len(chosen) == 2 and isinstance(chosen[1], np.ndarray)


def _write_kind(
    kind: str,
    marked: list[tuple[int, Flags | None]],
    extent: Array,
    out: npt.NDArray[np.float32],
) -> None:
    """Number, product and innermost extent of the marked loops that run more than once."""
    number: Any = 0.0
    product: Any = 1.0
    length: Any = 0.0
    for k, flags in sorted(marked, key=lambda m: m[0]):
        here = extent[k] > 1.0
        if flags is not None:
            here = here & flags
        number = number + here
        product = product * np.where(here, extent[k], 1.0)
        length = np.where(here, extent[k], length)
    some = np.asarray(number) > 0
    first = PLACE[f"{kind}_num"]
    out[first] = number
    out[first + 1] = np.where(some, product, 0.0)
    out[first + 2] = length
    out[PLACE[f"{kind}_type_none"]] = ~some
    out[PLACE[f"{kind}_type_mixed"]] = some


def _step_of(loop: Loop) -> int | None:
    for key, value in loop.stage.attr(loop.leaf).pragmas:
        if key == UNROLL_STEP:
            return const_int(value)
    return None
