"""Records in use: which steps a workload is to be built with."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.errors import TilewrightError
from ..target.target import Target
from .fastest import Fastest
from .rows import Row

if TYPE_CHECKING:
    from .records import Pair

_active: ContextVar[tuple[DispatchContext, ...]] = ContextVar("histories", default=())

_log = logging.getLogger("tilewright.auto_scheduler")
Entered = TypeVar("Entered", bound="DispatchContext")

# by workload key and target's text: steps
_Found = Fastest[tuple[str, str], tuple[Row, ...]]


class _Current(type):
    @property
    def current(cls) -> DispatchContext:
        """The innermost context that is entered, else one that knows nothing."""
        active = _active.get()
        return active[-1] if active else _ROOT


class DispatchContext(metaclass=_Current):
    """Maps (target, workload) to states; inside `with`, networks are compiled with what it says."""

    def __init__(self) -> None:
        self._tokens: list[Token[tuple[DispatchContext, ...]]] = []

    def steps(self, target: Any, workload_key: str) -> tuple[Row, ...] | None:
        """The steps for a workload; None where nothing is known of it here."""
        raise NotImplementedError(f"{type(self).__name__} does not say which steps it knows")

    def query(
        self,
        target: Any,
        workload_key: str,
        has_complex_op: bool = False,
        dag: Any = None,
        func_name: str | None = None,
    ) -> Any:
        """The state for a workload: that of the innermost context that knows one, None where none
        does. With `dag`, its computation, a State; else what `recover_measure_input` takes.
        `has_complex_op`: whether the workload is worth a search; `func_name`: what it is of."""
        for context in (self, *(c for c in reversed(_active.get()) if c is not self)):
            rows = context._found(target, workload_key, has_complex_op)
            if rows is not None:
                return state_of(rows, dag)
        return None

    def _found(self, target: Any, workload_key: str, complex_op: bool) -> tuple[Row, ...] | None:
        return self.steps(target, workload_key)

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        """Use `state` for a workload from here on."""
        raise NotImplementedError(f"{type(self).__name__} takes no updates")

    def __enter__(self: Entered) -> Entered:
        self._tokens.append(_active.set((*_active.get(), self)))
        return self

    def __exit__(self, *_: object) -> None:
        _active.reset(self._tokens.pop())


def state_of(rows: tuple[Row, ...], dag: Any) -> Any:
    """Steps as a state: of a computation, or as records hold them."""
    if dag is not None:
        from .state import State

        return State.from_rows(dag, rows)
    from .records import RecordedState

    return RecordedState(rows)


class FallbackContext(DispatchContext):
    """What there is outside of all contexts: it knows what it was told. `verbose` 1: missing
    schedules of complex workloads are logged once, 2: all."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[tuple[str, str], tuple[Row, ...] | None] = {}
        self.verbose = 1
        self.messages: set[str] = set()

    def steps(self, target: Any, workload_key: str) -> tuple[Row, ...] | None:
        return self.memory.get((str(target), workload_key))

    def _found(self, target: Any, workload_key: str, complex_op: bool) -> tuple[Row, ...] | None:
        rows = self.steps(target, workload_key)
        if rows is None and (self.verbose == 2 or (complex_op and self.verbose == 1)):
            text = f"no schedule was found for target={target}, workload_key={workload_key}"
            if text not in self.messages:
                self.messages.add(text)
                _log.warning("%s: the operator library's is used", text)
        return rows

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        self.memory[str(target), workload_key] = tuple(getattr(state, "rows", state))


_ROOT = FallbackContext()


class ApplyHistoryBest(DispatchContext):
    """The fastest record of each workload and target; inside `with ApplyHistoryBest(file):`
    networks are compiled with it.

    `records`: a file (SQLite or lines of JSON), several files, or pairs of MeasureInput and
    MeasureResult. `n_lines`: only the first so many of each. `include_compatible`: where a workload
    has no record, that of one whose sizes divide its own may do (see `load_best_record`).
    TilewrightError where a file cannot be read.
    """

    def __init__(
        self,
        records: str | os.PathLike[str] | Iterable[Any] | None,
        n_lines: int | None = None,
        include_compatible: bool = False,
    ) -> None:
        super().__init__()
        self.include_compatible = include_compatible
        self._best: _Found = Fastest()
        self._given: dict[tuple[str, str], tuple[Row, ...]] = {}
        self.load(records or (), n_lines)

    def load(
        self, records: str | os.PathLike[str] | Iterable[Any], n_lines: int | None = None
    ) -> None:
        """Take further records in. Raises TilewrightError where records are neither files nor pairs
        of MeasureInput and MeasureResult, where there is no such file of records."""
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
        """Use `state` (a State, or its steps) for a workload from here on. Raises TargetError where
        `target` is no target, as text, dict or Target, where `target` has no kind of target, or no
        attributes by name."""
        rows: Sequence[Row] = getattr(state, "rows", state)
        self._given[workload_key, str(Target(target))] = tuple(rows)

    def steps(self, target: Any, workload_key: str) -> tuple[Row, ...] | None:
        """The steps for a workload, or None where nothing is known of it for the kind of `target`.

        Records of the very same target come before those of others of its kind. Raises TargetError
        where `target` is no target, as text, dict or Target, where `target` has no kind of target,
        or no attributes by name.
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


class ApplyHistoryBestOrSample(ApplyHistoryBest):
    """The fastest records; where a workload has none, what a cost model thinks best of it.

    `sample_simple_workloads`: also for workloads that are not complex. `cost_model_file`: trees
    that an XGBModel saved (None: those that ship). `num_measure`: measurements that are spent on a
    workload without a record; none where it is -1.
    """

    def __init__(
        self,
        records: str | os.PathLike[str] | Iterable[Any] | None,
        sample_simple_workloads: bool = False,
        cost_model_file: str | os.PathLike[str] | None = None,
        num_measure: int = -1,
    ) -> None:
        super().__init__(records)
        self.sample_simple_workloads = sample_simple_workloads
        self.cost_model_file = cost_model_file
        self.num_measure = num_measure

    def _found(self, target: Any, workload_key: str, complex_op: bool) -> tuple[Row, ...] | None:
        rows = self.steps(target, workload_key)
        if rows is not None or not (complex_op or self.sample_simple_workloads):
            return rows
        from .cost_model import XGBModel
        from .policy import SketchPolicy
        from .search import tune
        from .task import SearchTask, TuningOptions

        task = SearchTask(workload_key=workload_key, target=target)
        file = self.cost_model_file
        model = None if file is None else XGBModel(begin_with=os.fspath(file))
        policy = SketchPolicy(task, model, verbose=0)
        if self.num_measure > 0:
            found = tune(task, TuningOptions(self.num_measure, verbose=0), policy)
        else:
            found = policy.best_unmeasured()
        if found is None:
            return None
        self.update(target, workload_key, found)
        return tuple(found.rows)


def _same_kind(a: Target, b: Target) -> bool:
    return a.kind.name == b.kind.name and tuple(a.keys) == tuple(b.keys)
