"""Records in use: which steps a workload is to be built with."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from ..base.errors import TilewrightError
from ..target.target import Target
from .fastest import Fastest
from .rows import Row

if TYPE_CHECKING:
    from .records import Pair

_active: ContextVar[tuple[ApplyHistoryBest, ...]] = ContextVar("histories", default=())

# by workload key and target's text: steps
_Found = Fastest[tuple[str, str], tuple[Row, ...]]


class ApplyHistoryBest:
    """The fastest record of each workload and target; inside `with ApplyHistoryBest(file):`
    networks are compiled with it.

    `records`: a file (SQLite or lines of JSON), several files, or pairs of MeasureInput and
    MeasureResult. `n_lines`: only the first so many of each. `include_compatible`: where a workload
    has no record, that of one whose sizes divide its own may do (see `load_best_record`).
    TilewrightError where a file cannot be read.
    """

    def __init__(
        self,
        records: str | os.PathLike[str] | Iterable[Any],
        n_lines: int | None = None,
        include_compatible: bool = False,
    ) -> None:
        self.include_compatible = include_compatible
        self._best: _Found = Fastest()
        self._given: dict[tuple[str, str], tuple[Row, ...]] = {}
        self._tokens: list[Token[tuple[ApplyHistoryBest, ...]]] = []
        self.load(records, n_lines)

    @staticmethod
    def current() -> ApplyHistoryBest | None:
        """The innermost one that is active, if any is."""
        active = _active.get()
        return active[-1] if active else None

    def load(
        self, records: str | os.PathLike[str] | Iterable[Any], n_lines: int | None = None
    ) -> None:
        """Take further records in."""
        if isinstance(records, (str, os.PathLike)):
            from .records import load_records  # networks are compiled without any, as a rule

            self._add(load_records(records), n_lines)
            return
        items = list(records)
        for item in items:
            if isinstance(item, (str, os.PathLike)):
                self.load(item, n_lines)
        pairs = [item for item in items if not isinstance(item, (str, os.PathLike))]
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise TilewrightError(
                "ApplyHistoryBest takes a file of records, several files, or pairs of MeasureInput "
                f"and MeasureResult, got {records!r:.200}"
            )
        self._add(pairs, n_lines)

    def _add(self, pairs: Iterable[Pair], n_lines: int | None) -> None:
        for n, (item, result) in enumerate(pairs):
            if n_lines is not None and n >= n_lines:
                return
            if not result.ok:
                continue
            key = (item.task.workload_key, str(item.task.target))
            rows = tuple(item.state.rows)
            self._best.add(key, rows, result.cost, rows)

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        """Use `state` (a State, or its steps) for a workload from here on."""
        rows: Sequence[Row] = getattr(state, "rows", state)
        self._given[workload_key, str(Target(target))] = tuple(rows)

    def query(self, target: Any, workload_key: str) -> tuple[Row, ...] | None:
        """The steps for a workload, or None where nothing is known of it for the kind of `target`.

        Records of the very same target come before those of others of its kind.
        """
        wanted = Target(target)
        given = self._given.get((workload_key, str(wanted)))
        if given is not None:
            return given
        exact = self._best.best((workload_key, str(wanted)))
        if exact is not None:
            return exact[1]
        least, rows = math.inf, None
        for key, text in self._best:
            factor = self._factor(workload_key, key)
            found = self._best.best((key, text)) if factor < math.inf else None
            if found and found[0] * factor < least and _same_kind(Target(text), wanted):
                least, rows = found[0] * factor, found[1]
        return rows

    def _factor(self, wanted: str, known: str) -> float:
        if known == wanted:
            return 1.0
        if not self.include_compatible:
            return math.inf
        from .records import workload_distance

        return workload_distance(wanted, known)

    def __len__(self) -> int:
        """The number of workloads and targets that are known."""
        return len(self._best)

    def __enter__(self) -> ApplyHistoryBest:
        self._tokens.append(_active.set((*_active.get(), self)))
        return self

    def __exit__(self, *_: object) -> None:
        _active.reset(self._tokens.pop())


def _same_kind(a: Target, b: Target) -> bool:
    return a.kind.name == b.kind.name and tuple(a.keys) == tuple(b.keys)
