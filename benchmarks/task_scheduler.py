"""Does the gradient strategy spend measurements better than round robin?

    python -m benchmarks.task_scheduler [--seeds 20] [--first-seed 0] [--units 24] [--optimism 0.5]
        [--epsilon 0] [--recorded FILE] [--json]

Tasks are synthetic: how fast their best program is after t rounds follows a curve drawn at random
from families that searches show (and, in "plateaus", from random jumps), with speeds over two
orders of magnitude and random weights. Round robin spends `--units` rounds on each task; the
figure is the share of those rounds after which the gradient strategy is as far (infinite where it
is not after as many). `--optimism 1` is Ansor's own formula, `--epsilon 0.05` its share of rounds
at random. `--recorded`: tasks that get faster as those in a file of benchmarks.scheduler_curves
did (and no more once it ends), instead of curves by families; `--units` below its rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright.auto_scheduler.scheduler_callbacks import TaskSchedulerCallback
from tilewright.auto_scheduler.task_scheduler import TaskScheduler

Curve = Callable[[int], float]
LIMIT = 0.70


def hyperbola(rng: np.random.Generator, units: int) -> Curve:
    """1 + c / t^p."""
    c, p = math.exp(rng.uniform(-1.5, 1.5)), rng.uniform(0.4, 1.6)
    return lambda t: 1 + c / t**p


def exponential(rng: np.random.Generator, units: int) -> Curve:
    """1 + c * exp(-t / tau)."""
    c, tau = math.exp(rng.uniform(-1.5, 1.5)), math.exp(rng.uniform(0, math.log(units)))
    return lambda t: 1 + c * math.exp(-t / tau)


def plateaus(rng: np.random.Generator, units: int) -> Curve:
    """Jumps at random units, rarer and smaller later on."""
    jumps = np.unique(np.cumsum(rng.geometric(0.6 / np.arange(1, 9))))
    drops = rng.uniform(0.02, 0.5, len(jumps)) / (1 + np.arange(len(jumps)))
    return lambda t: float(np.prod(1 - drops[jumps < t]))


FAMILIES: dict[str, tuple[Callable[[np.random.Generator, int], Curve], ...]] = {
    "1/t": (hyperbola,),
    "exponential": (exponential,),
    "plateaus": (plateaus,),
    "mixed": (hyperbola, exponential, plateaus),
}


class CurvePolicy:
    """A search whose k-th round finds what the curve says."""

    def __init__(self, curve: Curve, seconds: float) -> None:
        self._curve, self._seconds, self._round = curve, seconds, 0

    def continue_search_one_round(
        self, num_measure: int, measurer: Any
    ) -> tuple[list[Any], list[Any]]:
        self._round += 1
        cost = self._seconds * self._curve(self._round)
        result = SimpleNamespace(costs=(cost,), error_no=0)
        return [None] * num_measure, [result] * num_measure


class Trace(TaskSchedulerCallback):
    """The objective after each round."""

    def __init__(self) -> None:
        self.scores: list[float] = []

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        self.scores.append(task_scheduler.cur_score)


def network(
    family: str, seed: int, units: int
) -> tuple[list[Any], list[float], Callable[[], Sequence[CurvePolicy]]]:
    """Tasks, weights, and a maker of fresh policies."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(8, 31))
    seconds = [1e-5 * 10 ** rng.uniform(0, 2) for _ in range(count)]
    curves = [rng.choice(np.array(FAMILIES[family]))(rng, units) for _ in range(count)]
    weights = [float(w) for w in rng.integers(1, 7, count)]
    tasks = [
        SimpleNamespace(
            compute_dag=SimpleNamespace(ops=(), flop_ct=s * 1e11), workload_key=str(i), target="cpu"
        )
        for i, s in enumerate(seconds)
    ]
    return tasks, weights, lambda: [CurvePolicy(c, s) for c, s in zip(curves, seconds)]


def scores(family: str, seed: int, units: int, strategy: str, **params: Any) -> list[float]:
    """The objective after each unit."""
    tasks, weights, policies = network(family, seed, units)
    trace = Trace()
    options = SimpleNamespace(
        num_measure_trials=units * len(tasks),
        num_measures_per_round=1,
        early_stopping=None,
        verbose=0,
    )
    scheduler = TaskScheduler(tasks, weights, strategy=strategy, callbacks=[trace], **params)
    scheduler.tune(options, policies(), measurer=object())
    return trace.scores


def share(family: str, seed: int, units: int, **params: float) -> float:
    """The units that the gradient strategy needs to be where round robin ends, over its units."""
    goal = scores(family, seed, units, "round-robin")
    found = scores(family, seed, units, "gradient", **params)
    reached = next((k + 1 for k, s in enumerate(found) if s <= goal[-1] * (1 + 1e-9)), None)
    return math.inf if reached is None else reached / len(goal)


def compare(seeds: int, units: int, first: int = 0, **params: float) -> list[dict[str, Any]]:
    """A row for each family and one for all of them."""
    rows: list[dict[str, Any]] = []
    for family in FAMILIES:
        found = [share(family, seed, units, **params) for seed in range(first, first + seeds)]
        rows.append({"family": family, "median": statistics.median(found), "shares": found})
    every = [s for r in rows for s in r["shares"]]
    return [*rows, {"family": "all", "median": statistics.median(every), "shares": every}]


def recorded(file: Path) -> tuple[Callable[[np.random.Generator, int], Curve], ...]:
    """The curves in a file, as a family."""

    def replayed(seconds: list[float]) -> Callable[[np.random.Generator, int], Curve]:
        return lambda rng, units: lambda t: seconds[min(t, len(seconds)) - 1] / seconds[0]

    return tuple(replayed(row["seconds"]) for row in json.loads(file.read_text())["tasks"])


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 1 where a family's median is above 70 %."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--units", type=int, default=24, help="rounds of each task in round robin")
    parser.add_argument("--optimism", type=float, help="of the gradient; default: the scheduler's")
    parser.add_argument("--epsilon", type=float, help="share of rounds at random")
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="curves of real searches")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    given = {"optimism": options.optimism, "epsilon": options.epsilon}
    params = {key: value for key, value in given.items() if value is not None}
    if options.recorded is not None:
        FAMILIES.clear()
        FAMILIES["recorded"] = recorded(options.recorded)
    rows = compare(options.seeds, options.units, options.first_seed, **params)
    if options.json:
        finite = [
            {
                **r,
                "median": r["median"] if r["median"] <= 1 else None,
                "shares": [s if s <= 1 else None for s in r["shares"]],
            }
            for r in rows
        ]
        print(json.dumps({"limit": LIMIT, "rows": finite}))
    else:
        print("units of the gradient strategy to reach round robin's end, over round robin's")
        for row in rows:
            low, high = min(row["shares"]), max(row["shares"])
            never = sum(math.isinf(s) for s in row["shares"])
            print(
                f"  {row['family']:<12}median {row['median']:.2f}  ({low:.2f} to {high:.2f}; "
                f"never {never} of {len(row['shares'])})"
            )
    return int(any(row["median"] > LIMIT for row in rows))


if __name__ == "__main__":
    sys.exit(main())
