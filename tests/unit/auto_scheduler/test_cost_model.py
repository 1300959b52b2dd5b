"""Boosted trees over statements: what they learn, and that they keep it."""

import gzip
import inspect
import json
import math
import re
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright import auto_scheduler, te
from tilewright.auto_scheduler.boosting import Boosting, Forest, grow, pack_sum, pack_sum_gradient
from tilewright.auto_scheduler.cost_model import (
    LEAST_WEIGHT,
    CostModel,
    RandomModel,
    XGBModel,
    cost_of,
)
from tilewright.base.errors import TilewrightError, UsageError

QUICK = Boosting(rounds=60, eta=0.15)


def programs(count, seed=0, statements=(1, 2, 5)):
    """Rows, offsets and throughputs: one statement of each program decides its speed."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(statements, count)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.zeros((offsets[-1], 164), np.float32)
    rows[:, 120:] = rng.integers(0, 3, (len(rows), 44))
    main = rows[offsets[:-1]]
    main[:, 0] = 1
    main[:, 1:20] = rng.integers(0, 8, (count, 19))
    rows[offsets[:-1]] = main
    seconds = 1 + np.abs(main[:, 1] - 5) + 0.5 * main[:, 2] + np.where(main[:, 3] > 4, 3, 0)
    return rows, offsets, (seconds.min() / seconds).astype(np.float32)


def split(rows, offsets):
    return [rows[a:b] for a, b in pairwise(offsets)]


def agreement(scores, truth):
    """The share of pairs in the right order."""
    first, second = np.triu_indices(len(truth), 1)
    differ = truth[first] != truth[second]
    right = (scores[first] > scores[second]) == (truth[first] > truth[second])
    return right[differ].mean()


@pytest.fixture(scope="module")
def model():
    rows, offsets, speeds = programs(400)
    found = XGBModel(boosting=QUICK)
    found.fit(split(rows, offsets), speeds)
    return found


def test_an_ordering_is_recovered(model):
    rows, offsets, speeds = programs(500, seed=1)
    scores = model.predict_programs(rows, offsets)
    assert scores.dtype == np.float32 and scores.shape == (500,)
    assert agreement(scores, speeds) > 0.8
    top = np.argsort(-scores)[:20]
    assert speeds[top].mean() > 2.5 * speeds.mean()


def test_scores_of_programs_are_sums_over_statements(model):
    rows, offsets, _ = programs(50, seed=2)
    single = model.predict_rows(rows)
    expected = [single[a:b].sum() for a, b in pairwise(offsets)]
    np.testing.assert_allclose(model.predict_programs(rows, offsets), expected, rtol=1e-5)


def test_programs_without_features_cannot_win(model):
    rows, offsets, _ = programs(10, seed=3)
    rows[offsets[4] : offsets[5]] = 0
    for judge in (model, XGBModel(), RandomModel()):
        scores = judge.predict_programs(rows, offsets)
        assert scores[4] == -np.inf
        assert np.isfinite(np.delete(scores, 4)).all()


def test_a_program_without_statements_cannot_win(model):
    rows, _, _ = programs(2, seed=3, statements=(2,))
    scores = model.predict_programs(rows, np.array([0, 2, 2, 4]))
    assert scores[1] == -np.inf and np.isfinite(scores[[0, 2]]).all()


def test_sums_over_programs():
    values = np.array([1.0, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(pack_sum(values, np.array([0, 1, 1, 4])), [1, 0, 9])
    np.testing.assert_array_equal(pack_sum(values[:0], np.array([0, 0])), [0])


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    offsets = np.array([0, 1, 4, 6])
    scores, labels, weights = rng.random(6), rng.random(3), rng.random(3)

    def loss(at):
        error = np.array([at[a:b].sum() for a, b in pairwise(offsets)]) - labels
        return (weights * error**2).sum() / 2

    grad, hess = pack_sum_gradient(scores, offsets, labels, weights)
    step = 1e-5
    for place, direction in enumerate(np.eye(6) * step):
        ahead, behind = loss(scores + direction), loss(scores - direction)
        assert grad[place] == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)
        second = (ahead - 2 * loss(scores) + behind) / step**2
        assert hess[place] == pytest.approx(second, rel=1e-3)


def test_many_statements_do_not_make_training_diverge():
    rows, offsets, speeds = programs(80, statements=(60,))
    forest = grow(rows, offsets, speeds, speeds, Boosting(rounds=100, eta=0.2))
    error = pack_sum(forest.predict_rows(rows), offsets) - speeds
    assert np.sqrt((speeds * error**2).sum() / speeds.sum()) < 0.1


def test_weights_decide_between_contradictions():
    rows, offsets, _ = programs(40, statements=(1,))
    rows[:] = rows[0]
    labels = np.tile(np.array([0.2, 0.8], np.float32), 20)
    for heavy, expected in ((0, 0.2), (1, 0.8)):
        weights = np.where(np.arange(40) % 2 == heavy, 1.0, 0.0)
        found = XGBModel(boosting=QUICK)
        found.fit(split(rows, offsets), labels, weights)
        assert found.predict_rows(rows[:1])[0] == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("least", [0.0, LEAST_WEIGHT])
def test_the_default_weight_is_the_throughput(least):
    rows, offsets, speeds = programs(60)
    models = [XGBModel(boosting=QUICK, least_weight=least) for _ in range(2)]
    models[0].fit(split(rows, offsets), speeds)
    models[1].fit(split(rows, offsets), speeds, weights=np.maximum(speeds, least))
    one, two = (m.predict_rows(rows) for m in models)
    np.testing.assert_array_equal(one, two)


def test_the_same_seed_grows_the_same_trees():
    rows, offsets, speeds = programs(100)
    scores = []
    for seed in (7, 7, 8):
        found = XGBModel(seed=seed)
        assert found.boosting.seed == seed
        found.fit(split(rows, offsets), speeds)
        scores.append(found.predict_rows(rows))
    np.testing.assert_array_equal(scores[0], scores[1])
    assert (scores[0] != scores[2]).any()


@pytest.mark.parametrize("name", ["model.json", "model.ubj", "model.ubj.gz", "model"])
def test_files(model, tmp_path, name):
    rows, offsets, _ = programs(60, seed=4)
    model.save(tmp_path / name)
    again = XGBModel(begin_with=tmp_path / name)
    assert again.trained
    np.testing.assert_array_equal(
        again.predict_programs(rows, offsets), model.predict_programs(rows, offsets)
    )
    data = (tmp_path / name).read_bytes()
    if name.endswith(".json"):
        assert json.loads(data)["learner"]["attributes"]["format"] == "tilewright-cost-model-1"
    assert (data[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_files_are_the_same_each_time(model, tmp_path):
    for name in ("a.ubj.gz", "b.ubj.gz"):
        model.save(tmp_path / name)
    assert (tmp_path / "a.ubj.gz").read_bytes() == (tmp_path / "b.ubj.gz").read_bytes()


def test_files_that_are_no_models(model, tmp_path):
    with pytest.raises(TilewrightError, match="cannot read the cost model"):
        XGBModel(begin_with=tmp_path / "none.json")
    (tmp_path / "text.json").write_text("not a model")
    with pytest.raises(TilewrightError, match="is not a cost model"):
        XGBModel(begin_with=tmp_path / "text.json")
    model.save(tmp_path / "half.ubj.gz")
    data = (tmp_path / "half.ubj.gz").read_bytes()
    (tmp_path / "half.ubj.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(TilewrightError, match="damaged"):
        XGBModel(begin_with=tmp_path / "half.ubj.gz")
    plain = gzip.decompress(data)
    (tmp_path / "half.ubj").write_bytes(plain[: len(plain) // 2])
    with pytest.raises(TilewrightError, match="is not a cost model"):
        XGBModel(begin_with=tmp_path / "half.ubj")


@pytest.mark.parametrize("key, value", [("base_score", "[]"), ("scale", "wide")])
def test_values_that_xgboost_looks_at_later(model, tmp_path, key, value):
    path = tmp_path / "model.json"
    model.save(path)
    text = re.sub(rf'"{key}":\s*"[^"]*"', f'"{key}":"{value}"', path.read_text())
    path.write_text(text)
    with pytest.raises(TilewrightError, match=r"model\.json is not a cost model"):
        XGBModel(begin_with=path)


def test_a_model_of_other_features_is_refused(tmp_path):
    import xgboost

    data = xgboost.DMatrix(np.eye(8, 5), label=np.arange(8))
    xgboost.train({"verbosity": 0}, data, num_boost_round=2).save_model(tmp_path / "other.ubj")
    with pytest.raises(TilewrightError, match="trained on 5 features"):
        XGBModel(begin_with=tmp_path / "other.ubj")


def test_nothing_to_save_before_training(tmp_path):
    with pytest.raises(UsageError, match="has not been trained"):
        XGBModel().save(tmp_path / "model.json")
    with pytest.raises(UsageError, match="has not been trained"):
        XGBModel().predict_rows(np.ones((1, 164), np.float32))


def test_few_measurements_on_top_of_a_pretrained_model(model, tmp_path):
    """The task has the old one's habits and one of its own; labels are on another scale."""
    model.save(tmp_path / "model.ubj")
    rows, offsets, speeds = programs(1200, seed=5)
    speeds = 0.5 * speeds * np.where(rows[offsets[:-1], 7] > 3, 0.5, 1)
    speeds /= speeds[:80].max()
    train = split(rows, offsets)[:80]
    scores = []
    for file in (None, tmp_path / "model.ubj"):
        found = XGBModel(begin_with=file)
        found.fit(train, speeds[:80])
        scores.append(found.predict_programs(rows[offsets[80] :], offsets[80:] - offsets[80]))
    fresh, continued = (agreement(s, speeds[80:]) for s in scores)
    before = agreement(model.predict_programs(rows[offsets[80] :], offsets[80:] - offsets[80]),
                       speeds[80:])  # fmt: skip
    assert continued > before + 0.02
    assert continued > fresh + 0.02
    top = np.argsort(-scores[1])[:50]
    assert abs(scores[1][top].mean() - speeds[80:][top].mean()) < 0.15  # shares of the best speed


def test_a_pretrained_model_that_is_wrong_is_dropped():
    rows, offsets, speeds = programs(200)
    opposed = grow(rows, offsets, -speeds, np.ones_like(speeds), QUICK)
    forests = [grow(rows, offsets, speeds, speeds, QUICK, base) for base in (None, opposed)]
    one, two = (f.predict_rows(rows) for f in forests)
    np.testing.assert_array_equal(one, two)


def test_continued_trees_keep_the_old_ones(tmp_path):
    rows, offsets, speeds = programs(100)
    base = grow(rows, offsets, speeds, speeds, QUICK)
    grown = grow(rows, offsets, 0.5 * speeds, speeds, QUICK, base)
    assert grown.trees > base.trees
    grown.save(tmp_path / "model.ubj")
    again = Forest.load(tmp_path / "model.ubj")
    assert again.trees == grown.trees and again.scale == grown.scale != 1.0
    np.testing.assert_array_equal(again.predict_rows(rows), grown.predict_rows(rows))


# -- measurements


def measured(rows, offsets, costs, key="task"):
    """A task, inputs and results; states are the places of programs."""
    task = SimpleNamespace(workload_key=key, target="cpu")
    inputs = [SimpleNamespace(task=task, state=i) for i in range(len(costs))]
    results = [
        SimpleNamespace(costs=[c], error_no=0)
        if math.isfinite(c)
        else SimpleNamespace(costs=[], error_no=4)
        for c in costs
    ]

    def featurise(task, states):
        counts = np.diff(offsets)[states]
        parts = split(rows, offsets)
        return np.concatenate([parts[s] for s in states]), np.concatenate([[0], np.cumsum(counts)])

    return task, inputs, results, featurise


def test_scores_are_chance_until_warm():
    rows, offsets, speeds = programs(100)
    task, inputs, results, featurise = measured(rows, offsets, 1e-3 / speeds)
    model = XGBModel(num_warmup_sample=60, featurise=featurise, boosting=QUICK)
    model.update(inputs[:40], results[:40])
    assert not model.trained and model.num_samples == 40
    chance = model.predict(task, range(100))
    assert abs(agreement(chance, speeds) - 0.5) < 0.1
    model.update(inputs[40:], results[40:])
    assert model.trained
    assert agreement(model.predict(task, range(100)), speeds) > 0.9


def test_labels_are_relative_to_the_best_of_each_task():
    """The second task is a thousand times slower; its programs are no worse for that."""
    rows, offsets, speeds = programs(100)
    model = XGBModel(num_warmup_sample=1, boosting=QUICK)
    for key, seconds in (("fast", 1e-6), ("slow", 1e-3)):
        task, inputs, results, featurise = measured(rows, offsets, seconds / speeds, key)
        model.connect(task, featurise)
        model.update(inputs, results)
    scores = model.predict(task, range(100))
    assert np.sqrt(np.mean((scores - speeds) ** 2)) < 0.1


def test_each_task_has_its_own_features():
    rows, offsets, _ = programs(6)
    model = XGBModel()
    tasks = [measured(rows, offsets, np.ones(6), key)[0] for key in "ab"]
    asked = []

    def featurise(task: Any, states: Any) -> Any:
        asked.append(task)
        return rows, offsets

    for task in tasks:
        model.connect(task, featurise)
    model.predict(tasks[1], range(6))
    assert asked == [tasks[1]]
    stranger = measured(rows, offsets, np.ones(6), "c")[0]
    x = te.placeholder((4,), name="x")
    dag = auto_scheduler.ComputeDAG([x, te.compute((4,), lambda i: x[i] + 1, name="y")])
    assert model.predict(stranger, [dag.get_init_state()]).shape == (1,)  # by features of its own
    assert asked == [tasks[1]]


def test_failures_are_learned_from():
    rows, offsets, speeds = programs(150)
    fails = rows[offsets[:-1], 4] > 5
    costs = np.where(fails, math.inf, 1e-3 / speeds)
    task, inputs, results, featurise = measured(rows, offsets, costs)
    model = XGBModel(num_warmup_sample=1, featurise=featurise, boosting=QUICK)
    model.update(inputs, results)
    scores = model.predict(task, range(150))
    assert scores[fails].mean() < 0.5 * scores[~fails].mean()


def test_only_failures_leave_the_model_untrained():
    rows, offsets, _ = programs(10)
    _, inputs, results, featurise = measured(rows, offsets, np.full(10, math.inf))
    model = XGBModel(num_warmup_sample=1, featurise=featurise)
    model.update(inputs, results)
    assert not model.trained and model.num_samples == 10


def test_retraining_waits_for_news(monkeypatch):
    rows, offsets, speeds = programs(150)
    _, inputs, results, featurise = measured(rows, offsets, 1e-3 / speeds)
    for adaptive, expected in ((False, 3), (True, 2)):
        model = XGBModel(
            num_warmup_sample=1, featurise=featurise, adaptive_training=adaptive, boosting=QUICK
        )
        calls: list[Any] = []
        plain = model.fit_rows
        monkeypatch.setattr(
            model, "fit_rows", lambda *a, plain=plain, calls=calls: calls.append(1) or plain(*a)
        )
        for begin, end in ((0, 100), (100, 101), (101, 115), (115, 150)):
            model.update(inputs[begin:end], results[begin:end])
        assert len(calls) == expected
        model.update([], [])
        assert len(calls) == expected


def test_the_error_is_that_before_training():
    rows, offsets, speeds = programs(200)
    _, inputs, results, featurise = measured(rows, offsets, 1e-3 / speeds)
    model = XGBModel(num_warmup_sample=1, featurise=featurise, boosting=QUICK)
    model.update(inputs[:100], results[:100])
    assert math.isnan(model.error)
    scores = model.predict(inputs[0].task, range(100, 200))
    labels = speeds / speeds.max()
    weights = np.maximum(labels[100:], LEAST_WEIGHT)
    expected = np.sqrt((weights * (scores - labels[100:]) ** 2).sum() / weights.sum())
    model.update(inputs[100:], results[100:])
    assert model.error == pytest.approx(expected, rel=1e-4)


def test_costs_of_results():
    assert cost_of(SimpleNamespace(costs=[3.0, 1.0, 2.0], error_no=0)) == 2.0
    assert cost_of(SimpleNamespace(costs=[1.0], error_no=6)) == math.inf
    assert cost_of(SimpleNamespace(costs=[], error_no=0)) == math.inf


def test_random_scores_repeat_with_the_seed():
    draws = [RandomModel(seed).predict(None, range(50)) for seed in (1, 1, 2, None)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any() and draws[3].shape == (50,)
    assert not RandomModel().trained and isinstance(RandomModel(), CostModel)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((np.ones((4, 7)), [0, 4], [1], [1]), r"must be \[M, 164\]"),
        ((np.ones((4, 164)), [0, 4], [1, 1], [1]), "do not fit"),
        ((np.ones((4, 164)), [0, 3], [1], [1]), "offsets must go from 0"),
        ((np.ones((0, 164)), [0], [], []), "offsets must go from 0"),
    ],
)
def test_what_does_not_fit_together(arguments, text):
    with pytest.raises(UsageError, match=text):
        rows, offsets, throughputs, weights = map(np.asarray, arguments)
        grow(rows, offsets, throughputs, weights, Boosting())


def test_throughputs_that_make_no_sense():
    rows = [np.ones((2, 164), np.float32)] * 2
    for wrong in ([1.0], [1.0, -0.5], [1.0, math.nan]):
        with pytest.raises(UsageError, match="throughput"):
            XGBModel().fit(rows, wrong)
    with pytest.raises(UsageError, match="at least one program"):
        XGBModel().fit([], [])
    with pytest.raises(UsageError, match="2 costs were given for 1 programs"):
        XGBModel().add("task", rows[0], np.array([0, 2]), [1.0, 2.0])


def test_training_stops_when_nothing_is_left_to_learn():
    rows, offsets, _ = programs(30)
    labels = np.full(30, 0.5, np.float32)
    forest = grow(rows[offsets[:-1]], np.arange(31), labels, labels, Boosting(rounds=400, eta=0.5))
    assert forest.trees < 400


def test_a_model_is_saved_after_each_training(tmp_path):
    rows, offsets, speeds = programs(40)
    task, inputs, results, featurise = measured(rows, offsets, 1e-3 / speeds)
    path = tmp_path / "model.json"
    model = XGBModel(0, 30, None, str(path), featurise=featurise, boosting=QUICK)
    model.update(inputs[:20], results[:20])
    assert not path.exists() and not model.trained  # too few: scores are chance
    model.update(inputs[20:], results[20:])
    again = XGBModel(featurise=featurise)
    again.load(str(path))
    np.testing.assert_array_equal(again.predict(task, range(40)), model.predict(task, range(40)))
    before = path.read_bytes()
    model.update(inputs[:5], results[:5])
    assert path.read_bytes() != before
    assert inspect.signature(XGBModel).parameters["verbose_eval"].default == 25
