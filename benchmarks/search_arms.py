"""Arms of the search: the whole of it, and what it is without one of its parts.

Shared by benchmarks.ablation and benchmarks.paper. `space_of` says what an arm searches and how, so
that an arm is paired only with cases in which it differs from the whole search. The winners of all
arms are measured again in turns (`again`): the least of many measurements is a lucky one, and arms
run at different times.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks import where
from benchmarks.beam import BeamPolicy
from tilewright.auto_scheduler import (
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    ProgramMeasurer,
    RandomModel,
    SketchPolicy,
)
from tilewright.auto_scheduler.cost_model import cost_of
from tilewright.auto_scheduler.crossover import Crossover, column_nodes
from tilewright.auto_scheduler.layout import free_layouts
from tilewright.auto_scheduler.transform import LayoutRewriteOption
from tilewright.base.errors import TilewrightError

K = TypeVar("K", bound=Hashable)
WHOLE = "whole"
AHEAD = LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED


@dataclass(frozen=True)
class Arm:
    """A way to search. `params`: of SketchPolicy; `chance`: a model that guesses; `beam`: built
    decision by decision instead of evolved; `rewrite`: constants lie as the schedule wants them."""

    what: str
    params: Mapping[str, Any] = field(default_factory=dict)
    chance: bool = False
    beam: bool = False
    rewrite: bool = True

    def task(self, task: Any) -> Any:
        """The task as this arm has it."""
        off = LayoutRewriteOption.NO_REWRITE
        return task if self.rewrite else replace(task, layout_rewrite_option=off)

    def policy(self, task: Any, seed: int, model: Any = None, **more: Any) -> SketchPolicy:
        """A search of the task. `model`: one that several tasks share; `more`: params that are
        not this arm's."""
        kind = BeamPolicy if self.beam else SketchPolicy
        chosen = RandomModel(seed) if self.chance else model
        return kind(self.task(task), chosen, {**more, **self.params}, seed=seed, verbose=0)


_SKETCHES = {"default_schedule_first": 0}
_SAMPLED = {
    **_SKETCHES, "evolutionary_search_num_iters": 0, "sample_init_use_measured_ratio": 0.0
}  # fmt: skip

# Each switch of the search: what benchmarks.ablation compares.
SWITCHES: dict[str, Arm] = {
    WHOLE: Arm("the search as it is"),
    "sketches": Arm("sketches only: nothing of the operator library", _SKETCHES),
    "limited": Arm("relatives of the default schedule only, as of a template", {"sketches": 0}),
    "no evolution": Arm("random samples, ranked", {"evolutionary_search_num_iters": 0}),
    "random model": Arm("a model that guesses", chance=True),
    "no crossover": Arm("mutations alone", {"evolutionary_search_mutation_prob": 1.0}),
    "fixed places": Arm("nothing is moved", {"disable_change_compute_location": 1}),
    "no layout rewrite": Arm("constants lie as they come", rewrite=False),
    "no packing": Arm("no operand is copied", {"pack_operands": 0}),
    "no split reduction": Arm("the paper's rfactor alone", {"split_reduction": 0}),
    "no pragmas": Arm("no skip_zeros, no tree_reduce", {"rule_pragmas": 0}),
}
# Further ones, of the paper's figure 7. Its own method has no library: that is "sketches".
PUBLISHED: dict[str, Arm] = {
    "beam": Arm("beam search over incomplete programs", _SKETCHES, beam=True),
    "samples": Arm("no fine-tuning: random samples, ranked by the model", _SAMPLED),
    "blind": Arm("random samples, without a model", _SAMPLED, chance=True),
}
ARMS = {**SWITCHES, **PUBLISHED}


def arms_of(names: str) -> dict[str, Arm]:
    """Arms by their names, commas between; ValueError for one that there is not."""
    wanted = [n.strip() for n in names.split(",") if n.strip()]
    unknown = sorted(set(wanted) - set(ARMS))
    if unknown:
        raise ValueError(f"there is no arm {unknown[0]!r}; there are {', '.join(ARMS)}")
    return {n: ARMS[n] for n in wanted}


def space_of(policy: SketchPolicy) -> dict[str, Any]:
    """What a search goes through: `sketches` (steps of each), `columns` (how many decisions of
    each kind each sketch leaves open), `layouts` (inputs that lie in the order of its tiles),
    `library` (schedules and questions of the operator library); and how: `model`, `generations`,
    `mixes` (whether crossover makes what mutations do not), `beam`."""
    params = policy.params
    spaces = policy.population.spaces if params["sketches"] else []
    columns = [
        Counter(c.kind for c in (*s.locations, *s.parallel, *s.unroll, *s.pragmas)) for s in spaces
    ]
    ahead = bool(spaces) and policy.population.rearranged
    layouts = {x.op.name for s in spaces if ahead for x, _ in free_layouts(s.sketch)}
    beam = isinstance(policy, BeamPolicy)
    evolves = bool(spaces) and not beam
    return {
        "sketches": [s.sketch.rows for s in spaces],
        "columns": columns,
        "layouts": sorted(layouts),
        "library": _library(policy) if params["default_schedule_first"] else [],
        "model": type(policy.model).__name__,
        "generations": params["evolutionary_search_num_iters"] if evolves else None,
        "mixes": evolves and params["evolutionary_search_mutation_prob"] < 1 and _mixes(spaces),
        "beam": beam,
    }


def _library(policy: SketchPolicy) -> list[Any]:
    found: list[Any] = []
    for rows, family in policy.library.families.items():
        family.begin()
        found.append((rows, sorted(q for q, v in family.options.items() if len(v) > 1)))
    return found


def _mixes(spaces: Sequence[Any]) -> bool:
    """Whether some child has decisions of both parents: of two stages, or of two sketches."""
    cross, many = Crossover(list(spaces)), range(len(spaces))
    if any(len(np.unique(column_nodes(s))) > 1 for s in spaces):
        return True
    return any(len(cross.shared(a, b).own) for a in many for b in many if a != b)


def differences(task: Any, arms: Mapping[str, Arm], **params: Any) -> dict[str, list[str]]:
    """In what the searches of a task by some arms differ from the whole one; arms that do not are
    left out. `params`: of every arm."""
    whole = space_of(ARMS[WHOLE].policy(task, 0, **params))
    found: dict[str, list[str]] = {}
    for name, arm in arms.items():
        own = space_of(arm.policy(task, 0, **params))
        found[name] = [key for key in whole if whole[key] != own[key]]
    return {name: keys for name, keys in found.items() if keys}


@dataclass
class Found:
    """What a search found: its best program (None: nothing ran), seconds of all measurements in
    their order (infinite: failed), failures by kind, and seconds that it took."""

    task: Any
    state: Any
    costs: list[float]
    failed: dict[str, int]
    seconds: float
    ended: str = ""

    def report(self) -> dict[str, Any]:
        """The same as JSON; None for a failed measurement."""
        costs = [c if isfinite(c) else None for c in self.costs]
        return {
            "costs": costs, "failed": self.failed, "seconds": self.seconds, "ended": self.ended
        }  # fmt: skip


class Listening:
    """A measurer that notes what another one measures."""

    def __init__(self, measurer: Any) -> None:
        self.measurer = measurer
        self.costs: list[float] = []
        self.failed: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.measurer, name)

    def measure(self, task: Any, policy: Any, inputs: Sequence[Any]) -> list[Any]:
        """Measure, and note seconds and failures."""
        results: list[Any] = self.measurer.measure(task, policy, inputs)
        self.costs += [cost_of(r) for r in results]
        self.failed.update(MeasureErrorNo(r.error_no).name for r in results if r.error_no)
        return results


def per_round(trials: int) -> int:
    """Measurements in a round."""
    return max(8, min(64, trials // 8))


def search(
    task: Any, arm: Arm, trials: int, seed: int, measurer: Any, **params: Any
) -> Found:  # fmt: skip
    """Search a task by an arm; an error ends this search alone. `params`: of every arm."""
    getattr(measurer, "reset", lambda: None)()  # the best of another arm is no measure
    heard, begin, ended = Listening(measurer), time.perf_counter(), ""
    policy = arm.policy(task, seed, **params)
    try:
        policy.search(trials, None, per_round(trials), heard)
    except TilewrightError as problem:
        ended = str(problem)
    seconds = time.perf_counter() - begin
    if not ended and len(heard.costs) < trials:
        ended = f"no program was left after {len(heard.costs)} measurements"
    return Found(policy.task, policy.best_state, heard.costs, dict(heard.failed), seconds, ended)


def winners_measurer() -> ProgramMeasurer:
    """One that lets every program run as long as any other, however slow; of the repetitions the
    faster half counts, so that another program's turn on a core does not."""
    runner = LocalRunner(adaptive=True)
    runner.timing = replace(runner.timing, stop_early=False)
    return ProgramMeasurer(runner=runner, verbose=0)


def again(
    found: Mapping[K, Found],
    rounds: int,
    measurer: Callable[[], AbstractContextManager[Any]] = winners_measurer,
) -> dict[K, float]:
    """Seconds of each winner: the median over rounds in which all take turns, in an order that
    moves on; the same program is measured once a round. Infinite where there is none."""
    programs = {_program(f): f for f in found.values() if f.state is not None}
    seconds: dict[Hashable, list[float]] = {key: [] for key in programs}
    keys = list(programs)
    for n in range(rounds):
        first = n * len(keys) // max(rounds, 1)
        turn = keys[first:] + keys[:first]
        with measurer() as one:
            inputs = [MeasureInput(programs[k].task, programs[k].state) for k in turn]
            results = one.measure(inputs[0].task, None, inputs) if inputs else []
        for key, result in zip(turn, results):
            seconds[key].append(cost_of(result))
    return {
        name: statistics.median(seconds[_program(f)]) if f.state is not None else inf
        for name, f in found.items()
    }


def _program(found: Found) -> Hashable:
    return int(found.task.layout_rewrite_option or 0), tuple(
        found.state.rows if found.state else ()
    )


class Kept:
    """Rows of a run by key, in a JSON file that is whole after each of them.

    `how`: what all rows have in common. A file that is there is gone on from with `resume` (where
    it says the same), else nothing is touched: FileExistsError.
    """

    def __init__(self, path: Path | None, how: dict[str, Any], resume: bool) -> None:
        self.path, self.how = path, json.loads(json.dumps(how))
        self.rows: dict[str, dict[str, Any]] = {}
        if path is None or not path.exists():
            return
        if not resume:
            raise FileExistsError(f"{path} is there: --resume goes on with it")
        known = json.loads(path.read_text())
        if known["options"] != self.how:
            raise FileExistsError(f"{path} was made with {known['options']}, not with {how}")
        self.rows = {row["key"]: row for row in known["rows"]}

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Keep a row."""
        self.rows[key] = {"key": key, **row}
        self.write()

    def result(self, **more: Any) -> dict[str, Any]:
        """All of it."""
        rows = list(self.rows.values())
        return {"rows": rows, "options": self.how, "where": where.facts(), **more}

    def write(self, **more: Any) -> None:
        """Whole or not at all."""
        if self.path is not None:
            part = self.path.with_name(self.path.name + ".part")
            part.write_text(json.dumps(self.result(**more), indent=1) + "\n")
            os.replace(part, self.path)
