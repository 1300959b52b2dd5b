"""The operator library's schedules of a task as a space: the default one, which decides by models
of the machine, and its relatives, which decide otherwise.

The rules of the library ask questions (topi/schedules/decisions.py): which register tile, which
pieces for threads, whether operands are packed. A relative is the answers to all of them. New ones
come from the best that were measured by changing some answers, to such that the rules' own models
like; a cost model that has learned from this task's measurements chooses among them. Other
algorithms for the same results have families of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..topi.algorithms import Algorithm, best_algorithm
from ..topi.schedules.decisions import NotOffered, Value
from .hardware import CPUS
from .rows import DECISION_STEP, Row, decisions_of
from .state import State
from .transform import LayoutRewriteOption, as_laid_out

_log = logging.getLogger("tilewright.auto_scheduler")

PARENTS = 8  # of the best measured, that new ones are made from
CHANGES = 0.4  # how often a further answer is changed
CROSSED = 0.25  # how often some answers come from another parent
TRIES = 4  # candidates drawn for each that is wanted
DRAWN = 2  # of which so many are kept for the cost model to choose from
LEARNED = 12  # measurements of a task, from which on the cost model is asked
EXPLORED = 0.15  # part of the new ones that it does not choose
SHARPNESS = 4.0  # power of a lead over other candidates, that gives relatives their part
LEAST_PART = 0.2  # of a round, for relatives and for others

Answers = dict[str, Value]
Options = dict[str, Sequence[Value]]
Score = Callable[[State], float | None]


class Family:
    """The default schedule by one algorithm, and its relatives: the questions, with the options
    that were offered so far, best first."""

    def __init__(self, task: Any, algorithm: Algorithm | None) -> None:
        self.task, self.algorithm = task, algorithm
        self.ahead = laid_ahead(task)
        self.options: dict[str, list[Value]] = {}
        self.plain: Answers = {}
        self._asked: dict[frozenset[tuple[str, Value]], Options] = {}

    def state(self, answers: Answers) -> tuple[State, Answers] | None:
        """The state that takes these answers, as far as they fit each other, and all that it took;
        None where it has none."""
        given = dict(answers)
        for _ in range(len(given) + 1):
            try:
                state = State.default(self.task, self.algorithm, given)
                taken = self._look(state)
                return (State.default(self.task, self.algorithm, taken) if taken else state), taken
            except NotOffered as problem:
                # that of another register tile, say; or of operands that are not laid out ahead
                if given.pop(problem.question, None) is None:
                    return None
            except TilewrightError as problem:
                _log.info("%s: no schedule with %s: %s", self.task, answers, problem)
                return None
        return None

    def _look(self, state: State) -> Answers:
        """Remember what a state was asked; what it took, as it is built."""
        seen = [state]
        if self.ahead:
            seen.append(as_laid_out(state))
        asked: Options = {}
        for one in seen:
            asked |= one.chosen.asked
            for question, options in one.chosen.asked.items():
                known = self.options.setdefault(question, [])
                known += [o for o in options if o not in known]
        taken = dict(seen[-1].chosen.taken)
        self._asked[frozenset(taken.items())] = asked
        return taken

    def asked(self, answers: Answers) -> Options:
        """The questions that a state with these answers was asked, with the options of each, best
        first."""
        key = frozenset(answers.items())
        if key not in self._asked:  # of a record, or the default's, which gives none
            made = self.state(answers)
            self._asked[key] = self._asked[frozenset(made[1].items())] if made is not None else {}
        return self._asked[key]

    def begin(self) -> None:
        """Ask the default schedule."""
        if not self.plain:
            found = self.state({})
            self.plain = found[1] if found is not None else {}

    def related(self, parent: Answers, other: Answers, rng: np.random.Generator) -> Answers:
        """The answers of a parent, some of which are another's, and one or more new."""
        answers = {**self.plain, **parent}
        if rng.random() < CROSSED:
            answers.update({q: v for q, v in other.items() if rng.random() < 0.5})
        asked = self.asked(parent) or self.options
        open_questions = [q for q, options in asked.items() if len(options) > 1]
        while open_questions:
            question = open_questions.pop(rng.integers(len(open_questions)))
            options = [o for o in asked[question] if o != answers.get(question)]
            weights = 1.0 / np.arange(2, len(options) + 2)
            answers[question] = options[rng.choice(len(options), p=weights / weights.sum())]
            if rng.random() >= CHANGES:
                break
        return answers


def laid_ahead(task: Any) -> bool:
    """Whether constants of a task lie as its kernel wants them, before it runs."""
    return bool(task.layout_rewrite_option == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED)


class Library:
    """All families of a task, and what was measured of them."""

    def __init__(self, task: Any, algorithm_error: float) -> None:
        self.task, self.algorithm_error = task, algorithm_error
        self.costs: dict[tuple[Row, ...], float] = {}
        self._met: set[tuple[Row, ...]] = set()

    @cached_property
    def families(self) -> dict[tuple[Row, ...], Family]:
        """By the steps of their default schedules: of the computation as written, and of what is
        exact enough beside it."""
        ways = [None, *self.task.compute_dag.algorithms(self.algorithm_error)]
        return {State.default_rows(self.task, a): Family(self.task, a) for a in ways}

    def default(self, algorithm: Algorithm | None = None) -> State | None:
        """The schedule that decides by itself; None where there is none."""
        try:
            return State.default(self.task, algorithm)
        except TilewrightError as problem:
            _log.info("%s has no default schedule: %s", self.task, problem)
            return None

    def defaults(self) -> list[State]:
        """The schedules that decide by themselves: by another algorithm than the one written, where
        it may do and should be faster, and as it is written."""
        algorithm = None
        if self.task.target.kind.name in CPUS:
            dag = self.task.compute_dag
            constants = [op.output(0) for op in dag.layout_free] if laid_ahead(self.task) else []
            algorithm = best_algorithm(dag.ops, self.algorithm_error, constants)
        ways = [None] if algorithm is None else [algorithm, None]
        return [s for s in map(self.default, ways) if s is not None]

    def due(self, count: int) -> list[State]:
        """The default schedules that are not measured yet, nor being measured, up to `count`."""
        due: list[State] = []
        for rows, family in self.families.items():
            if rows not in self.costs and rows not in self._met and len(due) < count:
                state = self.default(family.algorithm)
                if state is None:
                    self.costs[rows] = float("inf")
                else:
                    self._met.add(rows)
                    due.append(state)
        return due

    def part_of(self, count: int, other: float) -> int:
        """How many of a round are relatives: half of it at first, then the more the faster they
        were than the `other` candidates."""
        part = 0.5
        if np.isfinite(other) and np.isfinite(self.best):
            lead = (other / self.best) ** SHARPNESS
            part = min(max(lead / (1 + lead), LEAST_PART), 1 - LEAST_PART)
        return int(np.ceil(part * count))

    def learn(self, rows: Sequence[Row], cost: float) -> None:
        """Take a measurement in."""
        self.costs[tuple(rows)] = cost

    @property
    def best(self) -> float:
        """The least seconds that were measured."""
        return min(self.costs.values(), default=float("inf"))

    def propose(self, count: int, rng: np.random.Generator, score: Score) -> list[State]:
        """Up to `count` relatives that were not measured."""
        if count < 1:
            return []
        found: list[State] = []
        for family in self.families.values():
            family.begin()
        some = any(f.options for f in self.families.values())
        drawn: set[tuple[Row, ...]] = set()
        guided = len(self.costs) >= LEARNED
        for _ in range(TRIES * count if some else 0):
            if len(found) >= (DRAWN if guided else 1) * count:
                break
            state = self._draw(rng)
            if state is not None and state.rows not in drawn:
                drawn.add(state.rows)
                found.append(state)
        if guided and len(found) > count:
            explored = int(np.ceil(EXPLORED * count))
            rest = found[explored:]
            order = np.argsort([-(score(s) or 0.0) for s in rest], kind="stable")
            found = [*found[:explored], *(rest[n] for n in order[: count - explored])]
        self._met.update(state.rows for state in found)
        return found

    def _draw(self, rng: np.random.Generator) -> State | None:
        """A relative of one of the best, if it is new."""
        good = self._parents()
        weights = 1.0 / np.arange(1, len(good) + 1)
        weights /= weights.sum()
        family, parent = good[rng.choice(len(good), p=weights)]
        others = [answers for f, answers in good if f is family]
        other = others[rng.integers(len(others))]
        made = family.state(family.related(parent, other, rng))
        if made is None:
            return None
        state, taken = made
        if state.rows in self._met or state.rows in self.costs or taken == family.plain:
            return None
        return state

    def _parents(self) -> list[tuple[Family, Answers]]:
        """The best measured that there are questions for, best first, and where there are none all
        origins."""
        found: list[tuple[Family, Answers]] = []
        for rows, cost in sorted(self.costs.items(), key=lambda item: item[1]):
            origin = tuple(r for r in rows if r[0] != DECISION_STEP)
            family = self.families.get(origin)
            if family is not None and family.options and np.isfinite(cost):
                found.append((family, decisions_of(rows)))
        return found[:PARENTS] or [(f, f.plain) for f in self.families.values() if f.options]
