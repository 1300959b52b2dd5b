"""The search of one task: sketches, samples, evolution, measurement, learning, round by round.

Zheng et al., Ansor: Generating High-Performance Tensor Programs for Deep Learning, OSDI 2020. Given
the same seed and the same measurements a policy makes the same search.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import ScheduleError, TilewrightError
from .confirm import confirmations, in_turns
from .cost_model import CostModel, PythonBasedModel, RandomModel, cost_of
from .evolve import Evolution, Scores, evolve, unique
from .fastest import Fastest
from .features import features_of
from .hardware import CPUS
from .library import Library, laid_ahead
from .measure import MeasureInput
from .params import DEFAULTS, TVMS, checked
from .population import Candidate, Estimate, Population, Scorer
from .pretrained import default_model
from .recognise import recognise
from .rounds import Rounds, begun
from .rows import is_default
from .search_policy import SearchPolicy
from .sketch.custom import PreloadCustomSketchRule
from .sketch.generate import CPU_RULES, GPU_RULES, MALI_RULES, generate_sketches
from .sketch.rule import SketchRule
from .space import Matrix, Space
from .space_gpu import GpuSpace
from .state import State
from .transform import as_laid_out

_log = logging.getLogger("tilewright.auto_scheduler")
MIN_PALETTE, MAX_SKELETONS = 4, 96
CPU_UNROLL = (0, 16, 64, 512)
GPU_UNROLL = (0, 16, 64, 512, 1024)
GPU_UNROLL_WEIGHT = 0.10
EVENLY, SHARPNESS = 0.5, 4.0
EXACT = "exact"  # enough, of what was measured
_CHANCE = RandomModel()  # one of the policy's own: the same search for the same seed


class SketchPolicy(SearchPolicy):
    """Samples and evolves programs of a task, led by a cost model (Zheng et al., Ansor, OSDI 2020).

    `program_cost_model`: RandomModel or XGBModel; None: the one that ships with the package,
    trained on, which `task.tune` takes. `params`: changes to `all_params`, which are
    DEFAULT_PARAMS, those of TVM, and further ones (docs/auto_scheduler.md). `seed`: of all choices.
    `init_search_callbacks`: PreloadMeasuredStates, PreloadCustomSketchRule. Raises TilewrightError
    where program_cost_model is no cost model, or a callback is no function of the policy, where
    `params` has an unknown name or a value out of range.
    """

    DEFAULT_PARAMS = TVMS
    all_params = DEFAULTS

    def __init__(
        self,
        task: Any,
        program_cost_model: CostModel | None = _CHANCE,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(task, verbose)
        self.params = checked(params)
        self.seed = 0 if seed is None else int(seed)
        self.rng = np.random.default_rng(self.seed)
        if not isinstance(program_cost_model, (CostModel, type(None))):
            raise TilewrightError(
                f"program_cost_model is a RandomModel or an XGBModel, got {program_cost_model!r}"
            )
        self.is_gpu = task.target.kind.name not in CPUS
        own = RandomModel() if program_cost_model is _CHANCE else program_cost_model
        self.model: CostModel = own or default_model(self.seed, self.is_gpu)
        self.model.connect(task, self._featurise)
        self.is_mali = "mali" in task.target.keys
        self.hardware = task.hardware_params
        self.packs = bool(self.params["pack_operands"])
        kind = "gpu" if self.is_gpu else "cpu"
        self.structure = str(self.params[f"{kind}_multi_level_tiling_structure"])
        self.unroll_options = GPU_UNROLL if self.is_gpu else CPU_UNROLL
        self.measured: dict[tuple[int, bytes], float] = {}
        self._out: set[tuple[int, bytes]] = set()  # candidates that are being measured
        self._fastest: Fastest[str, State] = Fastest()
        self.seconds = {"search": 0.0, "measure": 0.0, "train": 0.0}
        self._custom: list[SketchRule] = []
        self._population: Population | None = None
        self._known_rows: dict[tuple[Any, ...], float] = {}
        self.algorithm_error = float(self.params["algorithm_error"])
        self.library = Library(task, 0.0 if self.is_gpu else self.algorithm_error)
        callbacks = list(init_search_callbacks or ())
        self._custom += [c for c in callbacks if isinstance(c, PreloadCustomSketchRule)]
        for callback in callbacks:  # records are of candidates of all rules
            if not callable(callback) and not isinstance(callback, PreloadCustomSketchRule):
                raise TilewrightError(
                    "init_search_callbacks are PreloadMeasuredStates, PreloadCustomSketchRule or "
                    f"functions of the policy, got {callback!r}"
                )
            if not isinstance(callback, PreloadCustomSketchRule):
                callback(self)

    # -- the space

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """The sketches that the rules of Ansor and users' own derive; `all_sketches` has also those
        that copy operands into the order of tiles. Raises TilewrightError where the sketch rules do
        not come to an end."""
        sketches = [s for s in self.all_sketches() if all(row[0] != "PK" for row in s.rows)]
        if print_for_debug:
            for n, sketch in enumerate(sketches):
                print(f"---- sketch {n}\n{sketch}")
        return sketches

    def all_sketches(self) -> list[State]:
        """All sketches that are searched. Raises TilewrightError where the sketch rules do not come
        to an end."""
        return generate_sketches(self, (*self._custom, *self._rules()))

    def _rules(self) -> tuple[SketchRule, ...]:
        if not self.is_gpu:
            return CPU_RULES
        return MALI_RULES if self.is_mali else GPU_RULES

    @property
    def population(self) -> Population:
        """The sketches as spaces of columns."""
        if self._population is None:
            sketches = self.all_sketches()
            kind = GpuSpace if self.is_gpu else Space
            spaces = [kind(s, n, self) for n, s in enumerate(sketches)]
            share = max(MIN_PALETTE, MAX_SKELETONS // max(len(spaces), 1))
            for space in spaces:
                if share < len(space.palette):
                    space.draw_palette(share, np.random.default_rng(self.seed))
            rearranged = bool(self.task.layout_rewrite_option) and not self.is_gpu
            cores = self.hardware.num_cores
            self._population = Population(spaces, cores, self.is_mali, rearranged)
        return self._population

    # -- one round

    def sample_initial_population(self, count: int | None = None) -> list[State]:
        """Random programs, as finished states."""
        wanted = int(self.params["sample_init_min_population"] if count is None else count)
        return [self.state_of(c) for c in self._random(wanted)]

    def evolutionary_search(self, init_populations: Sequence[State], out_size: int) -> list[State]:
        """The best programs that evolution from some states finds by the model. Raises
        TilewrightError where a state is not of this policy's sample_initial_population."""
        start = [np.zeros((0, s.width), np.int64) for s in self.population.spaces]
        for state in init_populations:
            origin = getattr(state, "candidate", None)
            if origin is None:
                raise TilewrightError(
                    "evolutionary_search takes states of this policy's sample_initial_population"
                )
            start[origin.sketch] = np.concatenate([start[origin.sketch], origin.row[None, :]])
        found = self._evolve(start, out_size) if len(init_populations) else []
        return [self.state_of(c) for c in found]

    def recognise(self, rows: Sequence[Any]) -> Candidate | None:
        """The candidate of this search that has these rows, if there is one."""
        return recognise(self.population, rows)

    def state_of(self, candidate: Candidate) -> State:
        """The finished state of a candidate."""
        state = self.population.close(candidate)
        state.candidate = candidate
        return state

    def _random(self, count: int) -> list[Candidate]:
        spaces = self.population.spaces
        shares = self.rng.multinomial(count, np.full(len(spaces), 1.0 / len(spaces)))
        found = []
        for k, (space, n) in enumerate(zip(spaces, shares)):
            found += [Candidate(k, row) for row in space.sample(int(n), self.rng)]
        return found

    def _start(self) -> list[Matrix]:
        """Random candidates, and the best of those measured."""
        size = int(self.params["evolutionary_search_population"])
        keep = int(size * float(self.params["sample_init_use_measured_ratio"]))
        good = sorted(self.measured.items(), key=lambda item: item[1])[:keep]
        good = [(k, v) for k, v in good if np.isfinite(v)]
        start = []
        spaces = self.population.spaces
        promise = self._promise()
        shares = self.rng.multinomial(size - len(good), promise)
        fresh = self.rng.multinomial(len(spaces), promise)
        for k, (space, n) in enumerate(zip(spaces, shares)):
            old = [np.frombuffer(b, np.int64) for (s, b), _ in good if s == k]
            best = np.array(old, np.int64).reshape(len(old), space.width)
            space.renew_palette(best, max(int(fresh[k]), 1), self.rng)
            rows = space.sample(int(n), self.rng)
            start.append(unique(np.concatenate([best, rows])))
        return start

    def _promise(self) -> Scores:
        """The share of a round that each sketch gets: evenly at first, then half of it by the best
        that was measured of each (as an average one where nothing was)."""
        count = len(self.population.spaces)
        best = np.full(count, np.inf)
        for (k, _), cost in self.measured.items():
            best[k] = min(best[k], cost)
        even = np.full(count, 1.0 / count)
        seen = np.isfinite(best)
        if not seen.any():
            return even
        speed = np.where(seen, (best.min() / best) ** SHARPNESS, 0.0)
        speed[~seen] = speed[seen].mean()
        shares: Scores = EVENLY * even + (1 - EVENLY) * speed / speed.sum()
        return shares

    def _evolve(self, start: list[Matrix], keep: int, scorer: Any = None) -> list[Candidate]:
        params = self.params
        generations = int(params["evolutionary_search_num_iters"])
        if isinstance(self.model, RandomModel):
            generations = min(generations, 2)
        how = Evolution(
            population=int(params["evolutionary_search_population"]),
            generations=generations,
            mutation_prob=float(params["evolutionary_search_mutation_prob"]),
            unroll=GPU_UNROLL_WEIGHT if self.is_gpu else Evolution.unroll,
        )
        scorer = scorer or Scorer(self.population, self.model, self.task)
        spaces = self.population.spaces
        found, _ = evolve(spaces, start, scorer, how, keep, self._known(), self.rng)
        canonical = (self.population.canonical(Candidate(k, row)) for k, row, _ in found)
        different = {c.key: c for c in canonical}
        known = self._known()
        return [c for key, c in different.items() if key not in known]

    def _known(self) -> set[tuple[int, bytes]]:
        """Candidates that need not be measured."""
        return self.measured.keys() | self._out

    def propose(self, count: int) -> list[Candidate]:
        """Candidates to measure: the best by the model, and a share of `eps_greedy` at random, on
        average over rounds that are too short for one; random ones too where evolution finds too
        few."""
        begin = time.perf_counter()
        best = self._evolve(self._start(), 2 * count)
        explored = int(float(self.params["eps_greedy"]) * count + self.rng.random())
        chosen: list[Candidate] = []
        taken = self._known()
        greedy = best[: count - explored]
        others = self._random(8 * (count - len(greedy)))
        for candidate in [*greedy, *others, *best]:
            if len(chosen) < count and candidate.key not in taken:
                taken.add(candidate.key)
                chosen.append(candidate)
        self.seconds["search"] += time.perf_counter() - begin
        return chosen

    def continue_search_one_round(
        self, num_measure: int, measurer: Any
    ) -> tuple[list[Any], list[Any]]:
        """Measure the next candidates and learn from them; ([], []) where none are left."""
        inputs = begun(self, num_measure, measurer)
        return inputs, self.finish_round(inputs, measurer) if inputs else []

    def propose_round(self, count: int) -> Iterator[MeasureInput]:
        """The next candidates to measure, none where none are left; those that were found first can
        be built while others are looked for. Those of earlier rounds are not proposed again,
        whether they are measured yet or not."""
        states = self._of_library(count)
        for state in states:
            yield MeasureInput(self.task, state)
        if len(states) < count and self.params["sketches"]:
            for candidate in self.propose(count - len(states)):
                state = self.state_of(candidate)
                self._out.add(candidate.key)
                yield MeasureInput(self.task, state)

    def finish_round(self, inputs: list[Any], measurer: Any) -> list[Any]:
        """Measure what was proposed, as far as that has not begun, and learn from it; results."""
        begin = time.perf_counter()
        results: list[Any] = measurer.measure(self.task, self, inputs)
        self.seconds["measure"] += time.perf_counter() - begin
        self.learn(inputs, results)
        return results

    def _of_library(self, count: int) -> list[State]:
        """The operator library's part of a round of `count`: first its own schedules, then
        relatives of these (no search ends above them)."""
        if not self.params["default_schedule_first"]:
            return []
        begin = time.perf_counter()
        found = self.library.due(count)
        other = min(self.measured.values(), default=np.inf)
        room = count - len(found)
        wanted = self.library.part_of(room, other) if self.params["sketches"] else room
        found += self.library.propose(wanted, self.rng, self._score)
        self.seconds["search"] += time.perf_counter() - begin
        return found

    @property
    def best_state(self) -> State | None:
        """The fastest measured state that is exact enough; None before there is one."""
        best = self._fastest.best(EXACT)
        return None if best is None else best[1]

    @property
    def best_cost(self) -> float:
        """Its seconds; infinite before there is one."""
        best = self._fastest.best(EXACT)
        return math.inf if best is None else best[0]

    def confirm(self, measurer: Any, count: int) -> int:
        """Measure the leaders again, in turns with the library's own schedules, with at most
        `count` measurements; says how many were made."""
        defaults = self.library.defaults() if self.params["default_schedule_first"] else []
        chosen = in_turns(self._fastest.leaders(EXACT), defaults, count)
        inputs = [MeasureInput(self.task, state) for state in chosen]
        if not inputs:
            return 0
        begin = time.perf_counter()
        results = measurer.measure(self.task, self, inputs)
        self.seconds["measure"] += time.perf_counter() - begin
        for item, result in zip(inputs, results):
            self._count(item, cost_of(result))
        return len(inputs)

    def _count(self, item: Any, cost: float) -> None:
        """Take the seconds of a state in."""
        self.trials += 1
        if math.isfinite(cost) and item.state.algorithm_error <= self.algorithm_error:
            self._fastest.add(EXACT, tuple(item.state.rows), cost, item.state)

    def learn(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Take measurements in: the best state, the measured set, and the model (of programs that
        have features)."""
        begin = time.perf_counter()
        own = []
        for item, result in zip(inputs, results):
            cost = cost_of(result)
            candidate = getattr(item.state, "candidate", None)
            if candidate is not None:
                self.measured[candidate.key] = cost
                self._out.discard(candidate.key)
                own.append((item, result))
            elif is_default(item.state.rows):
                self.library.learn(item.state.rows, cost)
                if self.features(item.state) is not None:
                    own.append((item, result))
            self._count(item, cost)
        if own:
            self.model.update(*map(list, zip(*own)))
        self.seconds["train"] += time.perf_counter() - begin

    def features(self, state: State) -> Any:
        """The feature rows (statements, 164) of a finished state; None where it has loops that
        features do not speak of."""
        candidate = state.candidate
        if candidate is not None:
            return self.population.features(candidate.sketch, candidate.row[None, :])[0]
        if laid_ahead(self.task):
            state = as_laid_out(state)
        try:
            return features_of(state)
        except ScheduleError as problem:
            _log.info("no features: %s", problem)
            return None

    def _score(self, state: State) -> float | None:
        if isinstance(self.model, PythonBasedModel):
            return float(self.model.predict(self.task, [state])[0])
        rows = self.features(state)
        if rows is None:
            return None
        return float(self.model.predict_programs(rows, np.array([0, len(rows)]))[0])

    def _featurise(self, task: Any, states: Sequence[State]) -> tuple[Any, Any]:
        """Features of states of this policy, in their order."""
        candidates = [state.candidate for state in states]
        parts: list[Any] = [None if s.candidate is not None else self.features(s) for s in states]
        for sketch in {c.sketch for c in candidates if c is not None}:
            places = [n for n, c in enumerate(candidates) if c is not None and c.sketch == sketch]
            rows = np.stack([candidates[n].row for n in places])
            values, starts = self.population.features(sketch, rows)
            for n, one in zip(places, np.split(values, starts[1:-1])):
                parts[n] = one
        offsets = np.concatenate([[0], np.cumsum([len(p) for p in parts])]).astype(np.int64)
        return np.concatenate(parts), offsets

    # -- a whole search

    def search(
        self,
        num_measure_trials: int,
        early_stopping: int | None,
        num_measures_per_round: int,
        measurer: Any,
        progress: Callable[..., None] | None = None,
    ) -> State | None:
        """Rounds of `num_measures_per_round` candidates until `num_measure_trials` more are
        measured, or `early_stopping` measurements brought nothing better; returns the best state.
        Without trials the model alone chooses.
        """
        if num_measure_trials == 0:
            return self.best_unmeasured()
        again = confirmations(num_measure_trials)
        left = num_measure_trials - again
        rounds = Rounds(measurer)
        stale = empty = 0
        while left or rounds.trials:
            while left and rounds.has_room:
                found = rounds.begin(self, min(num_measures_per_round, left))
                left -= found
                empty = 0 if found else empty + 1
                if empty > int(self.params["retry_search_one_round_on_empty"]):
                    left = 0
            if not rounds.trials:
                continue
            before = self.best_cost
            _, results = rounds.finish()
            stale = 0 if self.best_cost < before else stale + len(results)
            if progress is not None:
                progress(self)
            if early_stopping is not None and stale >= early_stopping:
                rounds.drop()
                break
        if again:
            self.confirm(measurer, again)
        return self.best_state

    def best_unmeasured(self) -> State | None:
        """Until something is measured, the operator library's schedule: of 177 operators and layers
        (benchmarks/results/ops-*-2026-11-23) the shipped model was far ahead of it in one, and
        wrong. Where an algorithm other than the one written may do and should be faster, its; then
        the program that the model likes best. On GPUs a rough estimate takes the model's place, and
        on Mali, where sketches have all that the library's schedules have, it comes first."""
        wanted = self.params["default_schedule_first"] and not self.library.costs
        defaults = self.library.defaults() if wanted and not self.is_mali else []
        if defaults or not self.params["sketches"]:
            return defaults[0] if defaults else self.library.default()
        trained = getattr(self.model, "trained", False)
        scorer = Estimate(self.population) if self.is_gpu and not trained else None
        found = self._evolve(self._start(), 1, scorer)
        return self.state_of(found[0]) if found else None
