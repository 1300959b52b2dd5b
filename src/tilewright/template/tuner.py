"""The loop of a search, which all tuners share: propose, measure, keep, learn."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..base.pictured import Shown
from ..measure.origin import here_for
from ..measure.progress import Progress
from ..measure.result import NOWHERE
from ..measure.store import Store
from .callback import Callback, describe_rates, rate_of, si_scale
from .env import GLOBAL_SCOPE
from .measure import Batches, MeasureOption, OwnBatches, as_result, batches_of
from .record import MeasureInput, MeasureResult, cost_of
from .space import ConfigEntity
from .task import Task

logger = logging.getLogger("autotvm")

_BATCH = 16


class Tuner(Shown):
    """Base of the tuners. A tuner of one's own overrides `next_batch`, `has_next`, `update`.

    After `tune`: `best_config`, `best_flops` (operations a second), `best_iter`,
    `best_measure_pair` (input, result), `history` (all of these), and `summary()`. Raises
    TilewrightError where task is not one that autotvm.task.create made.
    """

    def __init__(self, task: Task, seed: int | None = None) -> None:
        if task.target is None:
            raise TilewrightError("a tuner takes a task that autotvm.task.create made")
        self.task = task
        self.space = task.config_space
        # without a seed of its own a search follows np.random.seed
        self.seed = int(np.random.randint(1 << 31)) if seed is None else int(seed)
        self.rng = np.random.default_rng(self.seed)
        self.visited: set[int] = set()
        self.n_trial = 0
        self.reset_best()

    def reset_best(self) -> None:
        """Forget what was found."""
        self.best_config: Any = None
        self.best_flops = 0.0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self.best_iter = 0
        self.trials = 0
        self._accounted: set[int | None] = set()
        self._seen: set[int] = set()
        self.errors: Counter[str] = Counter()
        self.history: list[tuple[MeasureInput, MeasureResult]] = []
        self.early_stopping: int | None = None

    def reset(self) -> None:
        """Start over."""
        self.rng = np.random.default_rng(self.seed)
        self.visited = set()
        self.reset_best()

    # -- what tuners are made of

    def has_next(self) -> bool:
        """Whether there are configurations left to propose."""
        return len(self.visited) < len(self.space)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Up to `batch_size` configurations to measure next."""
        raise NotImplementedError

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements."""

    def prepare(self, n_trial: int) -> None:
        """Called before a search of `n_trial` measurements."""

    def load_history(
        self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500
    ) -> None:
        """Learn from records of earlier searches for this task; their configurations are not
        measured again. `min_seed_records`: of tuners with a model, so many are enough for one of
        them alone (`cost_model.base_model`)."""
        inputs, results = [], []
        for inp, result in data_set:
            if inp.task.workload != self.task.workload:
                continue
            index = self.space.index_of(inp.config)
            if index is None:
                continue
            config = self.space.get(index)
            inputs.append(MeasureInput(inp.target, self.task, config))
            results.append(result)
            self.visited.add(index)
        self.update(inputs, results)

    def draw(self, count: int, taken: Iterable[int] = ()) -> list[int]:
        """Up to `count` numbers of configurations at random, none of which was proposed or is
        `taken`."""
        known = self.visited.union(taken)
        found = self.space.sample_ints(min(count + len(known), len(self.space)), self.rng)
        return [i for i in found if i not in known][:count]

    # -- the search

    def tune(
        self,
        n_trial: int,
        measure_option: MeasureOption,
        early_stopping: int | None = None,
        callbacks: Sequence[Callback] = (),
        si_prefix: str = "G",
        store: str | PathLike[str] | Store | None = None,
    ) -> None:
        """Measure up to `n_trial` configurations.

        `early_stopping`: end after so many measurements without a better one. `callbacks` are
        called after each measurement, as callback(tuner, [input], [result]). `store`: a file,
        the URL of a database or a Store, which keeps each measurement before it is reported; what
        it holds for this task, and what other searches add meanwhile, counts as measured: a search
        that was killed goes on where it was. Raises TilewrightError where `store` is none of those.
        """
        n_trial = min(n_trial, len(self.space))
        self.n_trial = n_trial
        self.early_stopping = early_stopping
        self.prepare(n_trial)
        own = Store(store) if isinstance(store, (str, PathLike)) else None
        kept = own if own is not None else store
        if kept is not None and not isinstance(kept, Store):
            raise TilewrightError(
                f"store is a path, the URL of a database or a Store, got {store!r}"
            )
        was_tuning, GLOBAL_SCOPE.in_tuning = GLOBAL_SCOPE.in_tuning, True
        try:
            with batches_of(self.task, measure_option) as batches:
                self._seen = set()
                if kept is not None:
                    kept.begin_search()
                    self._take_in(kept, batches)
                self._search(n_trial, batches, callbacks, si_prefix, kept)
        finally:
            GLOBAL_SCOPE.in_tuning = was_tuning
            if own is not None:
                own.close()
        self._warn()

    def _search(
        self,
        n_trial: int,
        batches: Batches | OwnBatches,
        callbacks: Sequence[Callback],
        si_prefix: str,
        store: Store | None,
    ) -> None:
        shown = any(getattr(c, "shows_progress", False) for c in callbacks)
        progress = Progress(n_trial, f"tune {self.task.name}")
        scale = si_scale(si_prefix)
        text = ""
        target = self.task.target
        assert target is not None
        key = self._key()
        while self.trials < n_trial and self.has_next():
            configs = self.next_batch(min(_BATCH, n_trial - self.trials))
            if not configs:
                break
            self.visited.update(c.index for c in configs if c.index is not None)
            inputs = [MeasureInput(target, self.task, c) for c in configs]
            results: dict[int, MeasureResult] = {}
            for place, found in batches.measure(configs):
                inp, result = inputs[place], as_result(found)
                if store is not None:
                    if found.origin == NOWHERE:
                        found = replace(found, origin=here_for(target))
                    store.add(*key, _candidate(inp.config), found)
                results[place] = result
                rate = self._account(inp, result)
                for callback in callbacks:
                    callback(self, [inp], [result])
                text = describe_rates(rate / scale, self.best_flops / scale, si_prefix)
                if not shown and not GLOBAL_SCOPE.silent:
                    progress.update(self.trials, text)
            self.update(inputs, [results[i] for i in range(len(inputs))])
            if store is not None:
                self._take_in(store, batches)
            limit = self.early_stopping
            if limit and self.trials >= self.best_iter + limit:
                logger.debug("early stop after %d measurements", self.trials)
                break
        progress.close(self.trials, text)

    def _account(self, inp: MeasureInput, result: MeasureResult) -> float:
        """Count a measurement; its rate."""
        self.trials += 1
        self.history.append((inp, result))
        self._accounted.add(inp.config.index)
        rate = rate_of(inp, result)
        if result.error_no:
            message = str(result.costs[0]) if result.costs else ""
            self.errors[f"error {int(result.error_no)}: {message}"] += 1
        elif rate > self.best_flops:
            self.best_flops, self.best_config = rate, inp.config
            self.best_measure_pair, self.best_iter = (inp, result), self.trials
        logger.debug(
            "No: %d  GFLOPS: %.2f/%.2f  result: %s  %s",
            self.trials,
            rate / 1e9,
            self.best_flops / 1e9,
            result,
            inp.config,
        )
        return rate

    # -- what is kept

    def _key(self) -> tuple[str, str]:
        return json.dumps(self.task.workload), str(self.task.target)

    def _take_in(self, store: Store, batches: Batches | OwnBatches) -> None:
        """Take in what other searches have added to a store for this task, and was not seen yet:
        those before this one, and those at the same time."""
        pairs = []
        task, wanted = self._key()
        for target, text, found in store.find_others(task, self._seen):
            inp = self._recorded(text) if target == wanted else None
            if inp is None or found is None or inp.config.index in self._accounted:
                continue
            self.visited.add(inp.config.index)
            if found.ok:
                batches.best = min(found.cost, batches.best or found.cost)
            pairs.append((inp, as_result(found)))
            self._account(*pairs[-1])
        if pairs:
            self.update([p[0] for p in pairs], [p[1] for p in pairs])
            logger.info("took in %d measurements of %s", len(pairs), store.name)

    def _recorded(self, text: str) -> MeasureInput | None:
        try:
            config = ConfigEntity.from_json_dict({"entity": json.loads(text)})
        except (ValueError, TilewrightError):
            return None
        index = self.space.index_of(config)
        target = self.task.target
        if index is None or target is None:
            return None
        return MeasureInput(target, self.task, self.space.get(index))

    def _warn(self) -> None:
        failed = sum(self.errors.values())
        if failed and failed == self.trials:
            ((message, _),) = self.errors.most_common(1)
            logger.warning(
                "none of the %d configurations of %s could be measured; most often: %s",
                failed,
                self.task.name,
                message,
            )

    def summary(self) -> dict[str, Any]:
        """What the search found, as data for JSON."""
        best = self.best_measure_pair
        return {
            "task": list(self.task.workload),
            "target": str(self.task.target),
            "tuner": type(self).__name__,
            "trials": self.trials,
            "failed": sum(self.errors.values()),
            "errors": dict(self.errors),
            "gflops": self.best_flops / 1e9,
            "seconds": None if best is None else cost_of(best[1]),
            "config": None if best is None else best[0].config.to_json_dict(),
        }


def _candidate(config: ConfigEntity) -> str:
    """A configuration as the text by which a store knows it."""
    return json.dumps(config.to_json_dict()["entity"])
