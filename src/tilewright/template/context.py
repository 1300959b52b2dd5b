"""Which configuration a template gets when it is called: the innermost context says."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from ..base.errors import TilewrightError
from ..target.target import Target
from .record import cost_of, load_from_file
from .space import FallbackConfigEntity
from .workload import Workload

logger = logging.getLogger("autotvm")

_stack: ContextVar[tuple[DispatchContext, ...]] = ContextVar("tilewright_configs", default=())

Entered = TypeVar("Entered", bound="DispatchContext")
Records = str | os.PathLike[str] | Iterable[Any]


class _Current(type):
    @property
    def current(cls) -> DispatchContext:
        """The innermost context that is entered, else one that only knows fallbacks."""
        stack = _stack.get()
        return stack[-1] if stack else _ROOT


class DispatchContext(metaclass=_Current):
    """Maps (target, workload) to configurations; asks the context around it where it knows none."""

    def query(self, target: Target | None, workload: Workload | None) -> Any:
        """The configuration for a workload on a target; a fallback where nothing is known."""
        around = [c for c in reversed(_stack.get()) if c is not self]
        for context in (self, *around):
            found = context._query_inside(target, workload)
            if found is not None:
                return found
        return _ROOT._query_inside(target, workload)

    def update(self, target: Target, workload: Workload, cfg: Any) -> None:
        """Use `cfg` for a workload from now on. Raises TilewrightError where the context takes no
        updates."""
        raise TilewrightError(f"{type(self).__name__} takes no updates")

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Any:
        raise NotImplementedError

    def __enter__(self: Entered) -> Entered:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _stack.set(_stack.get()[:-1])


class ApplyConfig(DispatchContext):
    """One configuration for everything."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self.workload: Workload | None = None

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Any:
        self.workload = workload
        return self._config

    def update(self, target: Target, workload: Workload, cfg: Any) -> None:
        self.workload = workload
        self._config = cfg


class ApplyFixedConfig(DispatchContext):
    """The first configuration of the space of each of `tasks`; those named in `schedule_names` are
    marked as cheap, so that who chooses among implementations takes them."""

    def __init__(self, tasks: Sequence[Any], schedule_names: str | Sequence[str]) -> None:
        names = [schedule_names] if isinstance(schedule_names, str) else schedule_names
        self._names = frozenset(names)
        self._tasks = list(tasks)
        self.workload: Workload | None = None

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Any:
        self.workload = workload
        name = workload[0] if workload else None
        for task in self._tasks:
            if task.name == name:
                config = task.config_space.get(0)
                config.cost = 0.001 if name in self._names else 100000
                return config
        known = ", ".join(sorted({t.name for t in self._tasks})) or "none"
        raise TilewrightError(f"ApplyFixedConfig has no task {name!r}; it has: {known}")


class ApplyHistoryBest(DispatchContext):
    """The fastest configurations of some records: a path, several, or pairs (MeasureInput,
    MeasureResult). Records fit a target whose model is theirs, else one that shares a key."""

    def __init__(self, records: Records | None) -> None:
        self.best_by_targetkey: dict[tuple[str, Workload], tuple[Any, Any]] = {}
        self.best_by_model: dict[tuple[str, Workload], tuple[Any, Any]] = {}
        self._given: dict[Workload, Any] = {}
        if records is not None:
            self.load(records)

    def load(self, records: Records) -> None:
        """Take in more records. Raises TilewrightError where there is no such file, or
        nothing in it is JSON."""
        if isinstance(records, (str, os.PathLike)):
            records = load_from_file(records)
        count = 0
        for entry in records:
            if isinstance(entry, (str, os.PathLike)):
                self.load(entry)
                continue
            inp, res = entry
            if res.error_no != 0:
                continue
            count += 1
            workload = inp.task.workload
            for key in inp.target.keys:
                self._offer(self.best_by_targetkey, (key, workload), inp, res)
            if inp.target.model != "unknown":
                self._offer(self.best_by_model, (inp.target.model, workload), inp, res)
        logger.debug("loaded %d records of configurations", count)

    @staticmethod
    def _offer(table: dict[Any, Any], key: tuple[str, Workload], inp: Any, res: Any) -> None:
        known = table.get(key)
        if known is None or cost_of(res) < cost_of(known[1]):
            table[key] = (inp, res)

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Any:
        if target is None:
            raise TilewrightError(
                "records are looked up by target: call the template within `with Target(...):`"
            )
        if workload is None:
            return None
        if workload in self._given:
            return self._given[workload]
        found = self.best_by_model.get((target.model, workload))
        for key in target.keys:
            found = found or self.best_by_targetkey.get((key, workload))
        return None if found is None else found[0].config

    def update(self, target: Target, workload: Workload, cfg: Any) -> None:
        self._given[workload] = cfg


class ApplyGraphBest(DispatchContext):
    """Records in the order in which templates ask: the first call gets the first record's
    configuration, the second the second's; afterwards each workload gets what it had. Raises
    TilewrightError where there is no such file, or nothing in it is JSON."""

    def __init__(self, records: Records) -> None:
        if isinstance(records, (str, os.PathLike)):
            records = load_from_file(records)
        self._records = list(records)
        self._counter = 0
        self._given: dict[tuple[str, Workload | None], Any] = {}

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Any:
        key = (str(target), workload)
        if self._counter < len(self._records):
            self._given[key] = self._records[self._counter][0].config
            self._counter += 1
        return self._given.get(key) or FallbackConfigEntity()

    def update(self, target: Target, workload: Workload, cfg: Any) -> None:
        self._given[str(target), workload] = cfg


class FallbackContext(DispatchContext):
    """Untuned configurations: each knob's first choice, or what the template makes of it."""

    def __init__(self) -> None:
        self.memory: dict[tuple[str, Workload | None], Any] = {}
        self.silent = False

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Any:
        key = (str(target), workload)
        found = self.memory.get(key)
        if found is None:
            if workload is not None and not self.silent:
                logger.warning(
                    "Cannot find config for target=%s, workload=%s. A fallback configuration is "
                    "used, which may bring great performance regression.",
                    target,
                    workload,
                )
            found = self.memory[key] = FallbackConfigEntity()
        return found

    def update(self, target: Target, workload: Workload, cfg: Any) -> None:
        self.memory[str(target), workload] = cfg

    def clear_cache(self, target: Target, workload: Workload) -> None:
        """Forget what was made up for a workload."""
        self.memory.pop((str(target), workload), None)


_ROOT = FallbackContext()


def clear_fallback_cache(target: Any, workload: Workload) -> None:
    """Forget the fallback that was made up for a workload, so that the next call makes it anew."""
    for context in (_ROOT, *_stack.get()):
        if isinstance(context, FallbackContext):
            context.clear_cache(target, workload)


def get_config() -> Any:
    """The configuration of the template that is running."""
    return DispatchContext.current.query(Target.current(allow_none=True), None)
