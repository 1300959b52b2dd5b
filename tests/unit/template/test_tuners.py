"""Searches: each finds what there is, resumes, stops, survives failures, and reports."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.narrow import some
from tilewright import autotvm, te
from tilewright.autotvm.tuner import GATuner, GridSearchTuner, RandomTuner, Tuner, XGBTuner
from tilewright.base.errors import TilewrightError
from tilewright.measure.result import MeasureErrorNo as No
from tilewright.template.annealing import SimulatedAnnealingOptimizer
from tilewright.template.digits import DigitTable
from tilewright.template.features import FeatureTable
from tilewright.template.model import CostModel, ModelOptimizer
from tilewright.template.model_based import ModelBasedTuner
from tilewright.template.xgboost_model import Trees

QUICK = autotvm.measure_option(
    autotvm.LocalBuilder(timeout=60, n_parallel=1),
    autotvm.LocalRunner(timeout=60, number=1, repeat=1, cooldown_interval=0),
)
ALL = [GridSearchTuner, RandomTuner, GATuner, XGBTuner]


@autotvm.template("tests/tuners/scale")
def scale(n: int, dtype: str) -> tuple[Any, list[Any]]:
    cfg = autotvm.get_config()
    A = te.placeholder((n,), dtype, name="A")
    B = te.compute((n,), lambda i: A[i] + A[i], name="B")
    s = te.create_schedule(B.op)
    cfg.define_split("x", s[B].op.axis[0])
    cfg.define_knob("how", ["plain", "unroll", "vectorize"])
    _, inner = cfg["x"].apply(s, B, s[B].op.axis[0])
    if cfg["how"].val != "plain":
        getattr(s[B], cfg["how"].val)(inner)
    if cfg["how"].val == "unroll" and cfg["x"].size[-1] > 8:
        cfg.raise_error("too long to be unrolled")
    return s, [A, B]


def a_task(n: int = 16, dtype: str = "float32") -> Any:
    return autotvm.task.create("tests/tuners/scale", args=(n, dtype), target="llvm")


def speeds(task: Any, speed: Callable[[Any], float], tuner: Tuner, trials: int) -> list[float]:
    """Trials of a tuner on a formula instead of a machine."""
    found: list[float] = []
    proposed: set[int] = set()
    tuner.prepare(trials)
    while len(found) < trials and tuner.has_next():
        configs = tuner.next_batch(min(8, trials - len(found)))
        assert configs
        indices = [c.index for c in configs]
        assert not proposed.intersection(indices) and len(set(indices)) == len(indices)
        proposed.update(some(i) for i in indices)
        tuner.visited.update(proposed)
        inputs = [autotvm.MeasureInput(task.target, task, c) for c in configs]
        values = [speed(c) for c in configs]
        results = [
            autotvm.MeasureResult((task.flop / v,), 0, 0.1, 0.0)
            if v > 0
            else autotvm.MeasureResult((ValueError("no"),), 4, 0.1, 0.0)
            for v in values
        ]
        tuner.update(inputs, results)
        found += values
    return found


@pytest.mark.parametrize("kind", ALL)
def test_every_tuner_finds_the_whole_space(kind: type[Tuner], tmp_path: Path) -> None:
    task = a_task()
    log = tmp_path / "log"
    tuner = kind(task, seed=1)
    seen: list[int] = []

    def watch(owner: Any, inputs: Any, results: Any) -> None:
        assert owner is tuner and len(inputs) == len(results) == 1
        assert len(list(autotvm.record.load_from_file(log))) == len(seen) + 1
        seen.append(inputs[0].config.index)

    callbacks = [autotvm.callback.log_to_file(log), watch]
    tuner.tune(100, QUICK, callbacks=callbacks)
    assert sorted(seen) == list(range(15))
    assert tuner.best_config is not None and tuner.best_flops > 0
    summary = json.loads(json.dumps(tuner.summary()))
    assert summary["trials"] == 15 and summary["failed"] == 1
    assert summary["errors"] == {"error 1: too long to be unrolled": 1}
    assert summary["config"]["index"] == tuner.best_config.index
    assert summary["task"] == ["tests/tuners/scale", 16, "float32"]
    best = min(
        (r for _, r in autotvm.record.load_from_file(log) if not r.error_no),
        key=lambda r: r.costs,
    )
    assert some(tuner.best_measure_pair)[1].costs == best.costs


def test_grid_search_goes_in_order_and_stays_in_its_range() -> None:
    task = a_task()
    tuner = GridSearchTuner(task, range_idx=(3, 9))
    order = [c.index for _ in range(3) for c in tuner.next_batch(3)]
    assert order == [3, 4, 5, 6, 7, 8, 9] and not tuner.has_next()
    tuner.reset()
    assert tuner.has_next() and tuner.next_batch(1)[0].index == 3


@pytest.mark.parametrize("kind", ALL[1:])
def test_a_seed_fixes_the_search(kind: type[Tuner]) -> None:
    task = wide_task()
    runs = [speeds(task, wide_speed, kind(task, seed=s), 40) for s in (5, 5, 6)]
    assert runs[0] == runs[1] != runs[2]
    states = []
    for _ in range(2):
        np.random.seed(7)
        states.append(speeds(task, wide_speed, kind(task), 20))
    assert states[0] == states[1]


@autotvm.template("tests/tuners/wide")
def wide(n: int) -> tuple[Any, list[Any]]:
    cfg = autotvm.get_config()
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    cfg.define_split("x", cfg.axis(n), num_outputs=4)
    cfg.define_split("y", cfg.axis(n), num_outputs=3)
    cfg.define_knob("u", [0, 4, 16, 64])
    cfg.define_reorder("o", [0, 1, 2], policy="all")
    return te.create_schedule(B.op), [A, B]


def wide_task() -> Any:
    return autotvm.task.create("tests/tuners/wide", args=(512,), target="llvm")


def wide_speed(config: Any) -> float:
    """Best where the inner tiles are 8 and 16, the order is 1, 0, 2 and the knob is 16."""
    off = [abs(np.log2(config["x"].size[-1]) - 3), abs(np.log2(config["y"].size[-1]) - 4)]
    off += [abs(np.log2(config["x"].size[-2]) - 1), float(config["o"].perm != [1, 0, 2])]
    if config["u"].val == 64 and config["y"].size[-1] > 64:
        return 0.0
    return float(1e9 / (1.0 + 0.4 * sum(off) + 0.05 * abs(config["u"].val - 16)))


@pytest.mark.parametrize("kind", [GATuner, XGBTuner])
def test_learning_beats_chance(kind: type[Tuner]) -> None:
    task = wide_task()
    assert len(task.config_space) > 200_000

    def median(tuner: Callable[..., Tuner]) -> float:
        return float(
            np.median([max(speeds(task, wide_speed, tuner(task, seed=s), 96)) for s in range(5)])
        )

    assert median(kind) > median(RandomTuner)


@pytest.mark.parametrize("loss", ["rank", "reg", "rank-binary"])
def test_the_model_orders_what_it_has_not_seen(loss: str) -> None:
    space = wide_task().config_space
    table, features = DigitTable(space), FeatureTable(space)
    picked = space.sample_ints(500, np.random.default_rng(0))
    rows = features.rows(table.digits(picked))
    truth = np.array([wide_speed(space.get(i)) for i in picked])
    model = Trees(loss)
    model.fit(rows[:300], truth[:300])
    order = model.predict(rows[300:])
    ranks = [np.argsort(np.argsort(v)) for v in (order, truth[300:])]
    assert np.corrcoef(ranks[0], ranks[1])[0, 1] > 0.6


def test_annealing_climbs() -> None:
    task = wide_task()
    space = task.config_space
    table = DigitTable(space)

    def score(digits: Any) -> Any:
        return -np.abs(digits - table.dims // 2).sum(axis=1).astype(float)

    rng = np.random.default_rng(0)
    starts = table.digits(space.sample_ints(64, rng))
    excluded = space.knob2point([d // 2 for d in space.dims])
    found, _ = SimulatedAnnealingOptimizer(task).walk(starts, score, 8, {excluded}, rng)
    assert len(set(found)) == 8 and excluded not in found
    values = score(table.digits(found))
    assert list(values) == sorted(values, reverse=True) and values[0] > score(starts).max()


class Nearness(CostModel):
    """Prefers what lies near one configuration, by numbers alone."""

    def __init__(self, space: Any, wanted: list[int]) -> None:
        self.space, self.wanted, self.fitted = space, np.array(wanted), 0

    def fit(self, xs: Any, ys: Any, plan_size: int) -> None:
        assert len(xs) == len(ys)
        self.fitted += 1

    def predict(self, xs: Any, output_margin: bool = False) -> Any:
        digits = np.array([self.space.point2knob(int(i)) for i in xs])
        return -np.abs(digits - self.wanted).sum(axis=1).astype(float)


def test_an_optimizer_asks_a_model_by_numbers() -> None:
    np.random.seed(3)
    task = wide_task()
    space = task.config_space
    model = Nearness(space, [d // 2 for d in space.dims])
    optimizer = SimulatedAnnealingOptimizer(task, n_iter=60, temp=0.5)
    first = optimizer.find_maximums(model, 4, set())
    assert len(first) == 4 and optimizer.points is not None
    ends = optimizer.points
    better = optimizer.find_maximums(model, 4, set(first))  # goes on where the walks ended
    assert not set(first) & set(better) and optimizer.points is not ends
    assert model.predict(first)[0] >= -len(space.dims)


@pytest.mark.parametrize("own", [False, True])
def test_a_search_by_a_model_of_ones_own(own: bool) -> None:
    class Last(ModelOptimizer):
        def find_maximums(self, model: Any, num: int, exclusive: Any) -> list[int]:
            return [i for i in range(len(task.config_space) - 1, 0, -1) if i not in exclusive][:num]

    task = wide_task()
    model = Nearness(task.config_space, [d // 2 for d in task.config_space.dims])
    optimizer = Last() if own else SimulatedAnnealingOptimizer(task, 40)
    tuner = ModelBasedTuner(task, model, optimizer, 16, seed=1)
    speeds(task, wide_speed, tuner, 48)
    assert model.fitted > 1 and len(tuner.xs) == 48
    planned = [i for i in tuner.xs[-16:] if (i > len(task.config_space) - 64) == own]
    assert len(planned) > 10
    with pytest.raises(NotImplementedError, match="Last has to define find_maximums"):
        type("Last", (ModelOptimizer,), {})().find_maximums(model, 1, set())
    with pytest.raises(NotImplementedError, match="CostModel has to define fit"):
        CostModel().fit([], [], 1)


def test_digits_and_numbers_agree() -> None:
    space = wide_task().config_space
    table = DigitTable(space)
    picked = space.sample_ints(100, np.random.default_rng(1))
    assert table.indices(table.digits(picked)) == picked
    rng = np.random.default_rng(2)
    moved = table.neighbours(table.digits(picked), rng)
    assert ((moved != table.digits(picked)).sum(axis=1) == 1).all()
    assert (moved >= 0).all() and (moved < table.dims).all()


def test_a_search_resumes_where_it_was(tmp_path: Path) -> None:
    task, store = a_task(), tmp_path / "s.db"
    first = RandomTuner(task, seed=1)

    def die(*_: Any) -> None:
        if first.trials == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.tune(15, QUICK, callbacks=[die], store=store)
    second = XGBTuner(task, seed=2)
    measured: list[int] = []
    second.tune(
        15, QUICK, callbacks=[lambda t, i, r: measured.append(i[0].config.index)], store=store
    )
    assert second.trials == 15 and len(measured) == 10
    assert len(first.visited) >= 5
    third = GATuner(task, seed=3)
    third.tune(15, QUICK, callbacks=[lambda *_: pytest.fail("nothing is left")], store=store)
    assert third.best_flops == second.best_flops > 0


def test_searches_at_one_time_share_a_store(tmp_path: Path) -> None:
    task, store = a_task(64), tmp_path / "s.db"
    first, second = GridSearchTuner(task), GridSearchTuner(task)
    measured: dict[Tuner, list[int]] = {first: [], second: []}

    def note(tuner: Tuner, inputs: Any, results: Any) -> None:
        measured[tuner].append(inputs[0].config.index)
        if tuner is first and first.trials == 16:  # a batch
            second.tune(18, QUICK, callbacks=[note], store=store)

    first.tune(20, QUICK, callbacks=[note], store=store)
    assert [len(measured[t]) for t in (first, second)] == [18, 2]
    assert sorted(measured[first] + measured[second]) == list(range(20))
    assert (first.trials, second.trials) == (20, 18)


def test_history_is_learned_from(tmp_path: Path) -> None:
    task, log = a_task(), tmp_path / "log"
    RandomTuner(task, seed=0).tune(8, QUICK, callbacks=[autotvm.callback.log_to_file(log)])
    tuner = XGBTuner(task, seed=0)
    tuner.load_history(autotvm.record.load_from_file(log))
    assert len(tuner.visited) == 8
    assert len(tuner.next_batch(16)) <= 7
    other = XGBTuner(a_task(32), seed=0)
    other.load_history(autotvm.record.load_from_file(log))
    assert not other.visited


def test_early_stopping_counts_from_the_best() -> None:
    tuner = GridSearchTuner(a_task(64))
    tuner.tune(21, QUICK, early_stopping=1)
    assert tuner.trials == 21 or tuner.trials >= tuner.best_iter + 1
    assert tuner.trials in (16, 21)


def test_failures_of_all_are_said(caplog: pytest.LogCaptureFixture) -> None:
    task = a_task()
    task.args = (16, "flaot32")
    tuner = GridSearchTuner(task)
    with caplog.at_level(logging.WARNING, "autotvm"):
        tuner.tune(3, QUICK)
    assert tuner.best_config is None and tuner.summary()["failed"] == 3
    assert "none of the 3 configurations" in caplog.text and "flaot32" in caplog.text


def test_a_wrong_dtype_is_said_when_the_task_is_made() -> None:
    with pytest.raises(TilewrightError, match="flaot32"):
        a_task(dtype="flaot32")


def test_a_template_that_raises_costs_that_candidate() -> None:
    @autotvm.template("tests/tuners/moody")
    def moody(n: int) -> tuple[Any, list[Any]]:
        cfg = autotvm.get_config()
        cfg.define_knob("mood", ["good", "bad"])
        if cfg["mood"].val == "bad":
            raise RuntimeError("in a bad mood")
        return scale.__wrapped__(n, "float32")  # type: ignore[attr-defined]

    task = autotvm.task.create("tests/tuners/moody", args=(4,), target="llvm")
    batch = autotvm.measure.create_measure_batch(task, QUICK)
    space = task.config_space
    configs = [space.get(i) for i in range(len(space))]
    results = batch([autotvm.MeasureInput(some(task.target), task, c) for c in configs])
    for config, result in zip(configs, results):
        bad = config["mood"].val == "bad"
        assert (result.error_no == No.INSTANTIATION_ERROR) == bad
        assert not bad or "RuntimeError: in a bad mood" in str(result.costs[0])


def test_progress_is_shown_once_it_takes_longer(capsys: Any, monkeypatch: Any) -> None:
    from tilewright.measure import progress

    monkeypatch.setattr(progress, "_SILENT_SECONDS", 0.0)
    task = a_task()
    GridSearchTuner(task).tune(2, QUICK)
    text = capsys.readouterr()
    assert "tune tests/tuners/scale 2/2" in text.err and "FLOP/s" in text.err and not text.out
    GridSearchTuner(task).tune(2, QUICK, callbacks=[autotvm.callback.progress_bar(2, "mine")])
    text = capsys.readouterr()
    assert "mine 2/2" in text.err and "tune" not in text.err
    monkeypatch.setattr(progress, "_SILENT_SECONDS", 1e9)
    GridSearchTuner(task).tune(2, QUICK)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: XGBTuner(a_task(), loss_type="luck"), "no loss_type 'luck'"),
        (lambda: XGBTuner(a_task(), feature_type="smell"), "no feature_type 'smell'"),
        (lambda: XGBTuner(a_task(), optimizer="hope"), "optimizer is 'sa'"),
        (lambda: autotvm.measure_option("remote", "local"), "builder is 'local'"),
        (lambda: autotvm.LocalBuilder(build_func="make"), "a function that links, got 'make'"),
        (lambda: autotvm.LocalRunner(number=0), "at least 1"),
        (lambda: RandomTuner(autotvm.task.Task("t", (1,))), "task.create"),
    ],
)
def test_wrong_settings_are_refused(make: Any, words: str) -> None:
    with pytest.raises(TilewrightError, match=words):
        make()


def test_building_with_the_best(tmp_path: Path) -> None:
    log = tmp_path / "log"
    task = a_task()
    tuner = GridSearchTuner(task)
    tuner.tune(15, QUICK, callbacks=[autotvm.callback.log_to_file(log)])
    with autotvm.apply_history_best(log), tvm.target.Target("llvm"):
        s, args = scale(16, "float32")
        function = tvm.build(s, args)
    assert s.as_python() == task.instantiate(tuner.best_config)[0].as_python()
    out = np.zeros(16, "float32")
    function(np.arange(16, dtype="float32"), out)
    assert (out == 2 * np.arange(16)).all()


def test_neighbours_are_one_step_away() -> None:
    from tilewright.autotvm.task.space import AnnotateSpace, ReorderSpace, SplitSpace
    from tilewright.template.neighbours import neighbour_table

    split = SplitSpace(12, num_outputs=3)
    table = neighbour_table(split)
    sizes = [tuple(e.size[1:]) for e in split.entities]
    near = {sizes[i] for i in table[sizes.index((2, 3))]}
    assert near == {(1, 3), (2, 1), (4, 3), (2, 6), (1, 6), (6, 1)}
    order = ReorderSpace([0, 1, 2], "all")
    for k, row in enumerate(neighbour_table(order)):
        for i in row:
            pairs = zip(order[k].perm, order[i].perm)
            assert sum(a != b for a, b in pairs) == 2
    anns = AnnotateSpace([0, 1], "try_unroll_vec")
    for k, row in enumerate(neighbour_table(anns)):
        assert {sum(a != b for a, b in zip(anns[k].anns, anns[i].anns)) for i in row} == {1}
