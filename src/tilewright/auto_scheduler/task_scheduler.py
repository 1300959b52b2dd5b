"""Several tasks tuned together: the next round goes to the one that promises most."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..base.errors import UsageError
from ..base.pictured import Shown
from .confirm import confirmations
from .cost_model import cost_of
from .measure import ProgramMeasurer, resolve_runner
from .named_policies import make_search_policies
from .objectives import NetworkObjective
from .policy import SketchPolicy
from .reachable import require_measurable
from .records import load_records
from .rounds import RoundPolicy, Rounds
from .scheduler_callbacks import LogEstimatedLatency as LogEstimatedLatency
from .scheduler_callbacks import PrintTableInfo, TaskSchedulerCallback
from .slope import (
    UNKNOWN_COST,
    Groups,
    Objective,
    derive_similarity_tag,
    objective_slopes,
    unit_slope,
)

_STRATEGIES = ("round-robin", "gradient")
# Rounds without any valid program after which a task waits for all the others.
_FRUITLESS = 3


class TaskScheduler(Shown):
    """Spends measurements where they lower a network's objective most (Ansor, OSDI 2020).

    `task_weights`: how often each task appears (1 each if None). `objective_func`: what to make
    small, of the tasks' seconds; the weighted sum if None. Those of `objectives.py` know several
    networks (instead of `task_weights`), and when nothing is left to gain. `strategy`: "gradient"
    (`slope.py`) or "round-robin". `load_model_file`: a cost model to begin with, the shipped one if
    None; `load_log_file`: records to go on from (a file, or pairs of `MeasureInput` and
    `MeasureResult`; searches learn from files alone). `alpha`, `beta`, `backward_window_size`: of
    the gradient; `gamma` has no effect, as in TVM. `callbacks`: a live table if None. `optimism`:
    of the gradient, see `slope.unit_slope`; 1 is the paper's formula. `epsilon`: the share of
    rounds that go to a task at random, drawn from `seed`; the paper names 0.05.
    docs/auto_scheduler.md says why both defaults are others.

    While it works: `ct` measurements so far, `best_ct` of them when the objective was last lowered
    to `best_score`; by task `task_cts` units, `task_trials` measurements, `best_costs` in seconds
    (`UNKNOWN_COST` before there is a valid one), `task_idle` measurements without a better one, and
    `task_costs_history`, one entry a unit. `stopped`: why it ended before all trials were spent.
    Raises UsageError where there is no task, task_weights are not as many, or strategy is unknown,
    where the objective was made for another number of tasks.
    """

    ct: int
    best_ct: int
    best_score: float
    cur_score: float
    stopped: str

    def __init__(
        self,
        tasks: Sequence[Any],
        task_weights: Sequence[float] | None = None,
        objective_func: Objective | None = None,
        strategy: str = "gradient",
        load_model_file: str | Path | None = None,
        load_log_file: str | Path | Iterable[tuple[Any, Any]] | None = None,
        alpha: float = 0.2,
        beta: float = 2,
        gamma: float = 0.5,
        backward_window_size: int = 3,
        callbacks: Sequence[TaskSchedulerCallback] | None = None,
        *,
        optimism: float = 0.5,
        epsilon: float = 0.0,
        seed: int = 0,
    ) -> None:
        count = len(tasks)
        weights = [1.0] * count if task_weights is None else [float(w) for w in task_weights]
        _check(count, weights, strategy, backward_window_size, epsilon)
        _check_objective(objective_func, count)
        self.tasks = list(tasks)
        self.task_weights = weights
        self.objective_func: Objective = objective_func or self._weighted_sum
        self.strategy = strategy
        self.load_model_file = load_model_file
        if load_log_file is not None and not isinstance(load_log_file, (str, Path)):
            load_log_file = list(load_log_file)  # read here and by each task's search
        self.load_log_file = load_log_file
        self.alpha, self.beta, self.gamma = alpha, beta, gamma
        self.backward_window_size = backward_window_size
        self.optimism, self.epsilon, self.seed = optimism, epsilon, seed
        self.callbacks = callbacks
        self.num_measures_per_round = 0
        self.tune_option: Any = None
        self.search_policies: Sequence[RoundPolicy] = ()
        self.flop_cts = [float(t.compute_dag.flop_ct) for t in tasks]
        self.groups = Groups([derive_similarity_tag(t.compute_dag) for t in tasks])
        self._reset()

    def tune(
        self,
        tune_option: Any,
        search_policy: str | Sequence[RoundPolicy] = "default",
        search_policy_params: Mapping[str, Any] | None = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
        *,
        measurer: Any = None,
    ) -> None:
        """Spend `tune_option.num_measure_trials` measurements; the results are in the records.

        `search_policy`: "default" or "sketch.xgb", "sketch.random", or one policy a task.
        `per_task_early_stopping`: a task is done after so many of its measurements without a
        better one, those in records among them (None: as the objective says);
        `tune_option.early_stopping`: all are, without a better objective. UsageError where
        num_measure_trials are fewer than the tasks, or search_policy does not fit them.
        """
        trials = tune_option.num_measure_trials
        if not trials:
            return
        self._reset()
        self.tune_option = tune_option
        self.num_measures_per_round = tune_option.num_measures_per_round
        if per_task_early_stopping is None and isinstance(self.objective_func, NetworkObjective):
            per_task_early_stopping = self.objective_func.stop_after
        self._restore(per_task_early_stopping)
        fresh = self.task_cts.count(0)
        if trials < fresh:
            raise UsageError(
                f"num_measure_trials is too small. Please set it to a higher value: {trials} "
                f"measurements are not even one for each of {fresh} tasks; "
                f"{tune_option.num_measures_per_round * fresh} or more are sensible"
            )
        if fresh:
            self.num_measures_per_round = min(self.num_measures_per_round, trials // fresh)
        policies = make_search_policies(
            search_policy, search_policy_params, self.tasks, self.num_measures_per_round,
            tune_option.verbose, self.load_model_file, self.load_log_file, adaptive_training,
        )  # fmt: skip
        self.search_policies = policies
        if measurer is None:
            runner = resolve_runner(tune_option.runner)
            for task in self.tasks:
                require_measurable(task.target, runner)
        callbacks = self.callbacks
        if callbacks is None:
            callbacks = [PrintTableInfo()] if tune_option.verbose else []
        try:
            with ExitStack() as stack:
                if measurer is None:
                    measurer = stack.enter_context(make_measurer(tune_option))
                stops = (tune_option.early_stopping, per_task_early_stopping)
                each = confirmations(trials // max(len(policies), 1))
                sure = [(i, p) for i, p in enumerate(policies) if isinstance(p, SketchPolicy)]
                self._rounds(trials - each * len(sure), *stops, policies, measurer, callbacks)
                for task, policy in sure:
                    # none are left where others that share the records have made more
                    left = max(trials - self.ct, 0)
                    self._confirm(task, policy, measurer, min(each, left))
        finally:
            for callback in callbacks:
                callback.end_tune(self)

    def _rounds(
        self,
        trials: int,
        early_stopping: int | None,
        per_task: int | None,
        policies: Sequence[RoundPolicy],
        measurer: Any,
        callbacks: Sequence[TaskSchedulerCallback],
    ) -> None:
        waiting = [i for i, units in enumerate(self.task_cts) if not units]
        last = -1
        dice = random.Random(self.seed)
        out = self._out = Rounds(measurer)
        while True:
            while out.has_room and self.ct + out.trials < trials:
                if waiting:
                    last = waiting.pop(0)
                else:
                    live = self._live()
                    self.stopped = self._reason(live, early_stopping, per_task)
                    if self.stopped:
                        out.drop()
                        return
                    last = self._next(live, last, dice)
                for callback in callbacks:
                    callback.pre_tune(self, last)
                number = min(self.num_measures_per_round, trials - self.ct - out.trials)
                if number <= 0:  # others that share the records have made the rest
                    break
                if not out.begin(policies[last], number, last):
                    self._account(last, [], per_task)
                    for callback in callbacks:
                        callback.post_tune(self, last)
            if not out.trials:
                return
            task, results = out.finish()
            self._account(task, [cost_of(r) for r in results], per_task)
            for callback in callbacks:
                callback.post_tune(self, task)

    def _confirm(self, task: int, policy: SketchPolicy, measurer: Any, count: int) -> None:
        """Have the leaders of a task measured again, if it was searched at all."""
        made = policy.confirm(measurer, count) if policy.trials else 0
        self.ct += made
        self.task_trials[task] += made
        if made:
            self.best_costs[task] = policy.best_cost
            self._score()

    def _account(self, task: int, costs: Sequence[float], per_task: int | None) -> None:
        """Note a round of a task."""
        self.ct += len(costs)
        self.task_cts[task] += 1
        self.task_trials[task] += len(costs)
        best = min(costs, default=UNKNOWN_COST)
        if best < self.best_costs[task]:
            self.best_costs[task] = best
            self.task_idle[task] = 0
        else:
            self.task_idle[task] += len(costs)
        self.task_costs_history[task].append(self.best_costs[task])
        if not costs or (per_task is not None and self.task_idle[task] >= per_task):
            self.dead_tasks.add(task)
        self.groups.evict_if_slow(task, self.flop_cts, self.best_costs, self.task_cts, self.beta)
        self._score()

    def take_in(self, task: int, costs: Sequence[float]) -> None:
        """Count measurements of a task that others have made meanwhile. `costs`: seconds."""
        self.ct += len(costs)
        best = min(self.best_costs[task], *costs)
        better = best < self.best_costs[task]
        self.task_idle[task] = 0 if better else self.task_idle[task] + len(costs)
        self.best_costs[task] = best
        self._score()

    def _score(self) -> None:
        self.cur_score = float(self.objective_func(list(self.best_costs)))
        if self.cur_score < self.best_score:
            self.best_score, self.best_ct = self.cur_score, self.ct

    def _live(self) -> list[int]:
        """The tasks that may be worth another round."""
        live = [i for i in range(len(self.tasks)) if i not in self.dead_tasks]
        if isinstance(self.objective_func, NetworkObjective):
            slopes = self.objective_func.slopes(self.best_costs)
            live = [i for i in live if slopes[i] > 0]
        return live

    def _reason(self, live: Sequence[int], early_stopping: int | None, per_task: int | None) -> str:
        """Why to end before all trials are spent; "" where there is no reason."""
        if isinstance(self.objective_func, NetworkObjective):
            reason = self.objective_func.satisfied(self.best_costs)
            if reason:
                return reason
        if not live and len(self.dead_tasks) < len(self.tasks):
            return "no task that is left to search could lower the objective"
        if not live:
            found = "no program left to measure"
            if per_task is not None:
                found += f", or found no better one in {per_task} measurements"
            return f"every task has {found}"
        if early_stopping is None or early_stopping < 0 or max(self.best_costs) >= UNKNOWN_COST:
            return ""
        if self.ct - self.best_ct < early_stopping:
            return ""
        return f"{early_stopping} measurements did not lower the objective"

    def _next(self, live: Sequence[int], last: int, dice: random.Random) -> int:
        if self.strategy == "round-robin":
            return next((i for i in live if i > last), live[0])
        if self.epsilon > 0 and dice.random() < self.epsilon:
            return dice.choice(live)
        return self._steepest(live)

    def _steepest(self, live: Sequence[int]) -> int:
        """The task whose next unit promises most; the one of fewest units where none promises
        anything (users' objectives may be satisfied)."""
        unknown = [i for i in live if self.best_costs[i] >= UNKNOWN_COST]
        first = min(unknown, key=self._units, default=None)
        known = [i for i in live if self.best_costs[i] < UNKNOWN_COST]
        if first is not None and (self._units(first) < _FRUITLESS or not known):
            return first
        slopes = self.gradients()
        best = min(known, key=lambda i: (slopes[i], self._units(i)))
        return best if slopes[best] < 0 else min(known, key=self._units)

    def _units(self, task: int) -> int:
        """Rounds of a task, those that are out among them."""
        return self.task_cts[task] + self._out.of(task)

    def gradients(self) -> list[float]:
        """df/dt_i of each task, in the objective's unit for one more round; 0 where unknown. Of a
        round that is out no gain is expected: the more of a task are, the less one more promises.
        """
        costs = self.best_costs
        if self.objective_func == self._weighted_sum:
            outer = self.task_weights
        elif isinstance(self.objective_func, NetworkObjective):
            outer = self.objective_func.slopes(costs)
        else:
            outer = objective_slopes(self.objective_func, costs)
        found = []
        for task, history in enumerate(self.task_costs_history):
            if costs[task] >= UNKNOWN_COST:
                found.append(0.0)
                continue
            known = [c for c in history if c < UNKNOWN_COST]
            units = [known[0]] * (len(history) - len(known)) + known
            units += units[-1:] * self._out.of(task)
            similar = self.groups.seconds_at_best_rate(task, self.flop_cts, costs)
            slope = unit_slope(
                units, self.alpha, self.beta, self.backward_window_size, similar, self.optimism
            )
            found.append(outer[task] * slope)
        return found

    def _weighted_sum(self, costs: list[float]) -> float:
        return sum(w * c for w, c in zip(self.task_weights, costs))

    def _reset(self) -> None:
        count = len(self.tasks)
        self.ct = self.best_ct = 0
        self.best_score = self.cur_score = float("inf")
        self.tic = time.time()
        self.task_cts = [0] * count
        self.task_trials = [0] * count
        self.task_idle = [0] * count
        self.best_costs = [UNKNOWN_COST] * count
        self.task_costs_history: list[list[float]] = [[] for _ in range(count)]
        self.dead_tasks: set[int] = set()
        self.stopped = ""
        self._out = Rounds(None)

    def _restore(self, per_task: int | None) -> None:
        """Units and costs of earlier searches, from records; they count as units, not as trials."""
        if self.load_log_file is None:
            return
        places: dict[tuple[str, str], int] = {}
        for place, task in enumerate(self.tasks):
            places.setdefault((task.workload_key, str(task.target)), place)
        found: list[list[float]] = [[] for _ in self.tasks]
        for item, result in self._records():
            place = places.get((item.task.workload_key, str(item.task.target)), -1)
            if place >= 0:
                found[place].append(cost_of(result))
        for place, costs in enumerate(found):
            best = self.best_costs[place]
            for start in range(0, len(costs), self.num_measures_per_round):
                unit = costs[start : start + self.num_measures_per_round]
                self.task_idle[place] = 0 if min(unit) < best else self.task_idle[place] + len(unit)
                best = min(best, *unit)
                self.task_costs_history[place].append(best)
            self.best_costs[place] = best
            if per_task is not None and self.task_idle[place] >= per_task:
                self.dead_tasks.add(place)
            self.task_cts[place] = len(self.task_costs_history[place])
        self._score()

    def _records(self) -> Iterable[tuple[Any, Any]]:
        if not isinstance(self.load_log_file, (str, Path)):
            return self.load_log_file or ()
        found: Iterable[tuple[Any, Any]] = load_records(self.load_log_file)
        return found


def make_measurer(tune_option: Any) -> Any:
    """What builds and times candidates, as the tuning options say; to be closed."""
    return ProgramMeasurer(
        tune_option.builder,
        tune_option.runner,
        tune_option.measure_callbacks,
        tune_option.verbose,
    )


def _check(
    count: int, weights: Sequence[float], strategy: str, window: int, epsilon: float
) -> None:
    if not count:
        raise UsageError("TaskScheduler: there is no task to tune")
    if len(weights) != count:
        raise UsageError(f"{len(weights)} task_weights were given for {count} tasks")
    if strategy not in _STRATEGIES:
        raise UsageError(f"Invalid strategy: {strategy!r}; there are {', '.join(_STRATEGIES)}")
    if window < 1:
        raise UsageError(f"backward_window_size is at least 1, got {window}")
    if not 0 <= epsilon <= 1:
        raise UsageError(f"epsilon is a share of the rounds, from 0 to 1, got {epsilon!r}")


def _check_objective(objective: Objective | None, count: int) -> None:
    if isinstance(objective, NetworkObjective) and len(objective.counts[0]) != count:
        raise UsageError(
            f"the objective {objective.name!r} was made for {len(objective.counts[0])} tasks, and "
            f"there are {count}"
        )
