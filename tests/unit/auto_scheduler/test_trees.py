"""The evaluator of trees gives xgboost's predictions to the last bit, and needs no xgboost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xgboost

from tilewright.auto_scheduler.boosting import FEATURES, Boosting, Forest, grow
from tilewright.auto_scheduler.pretrained import SHIPPED
from tilewright.auto_scheduler.trees import Trees

WITHOUT = """
import logging, sys, warnings
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "xgboost":
            raise ModuleNotFoundError("hidden", name=name)
sys.meta_path.insert(0, Hidden())
import numpy as np
import tilewright as tvm
from tilewright import auto_scheduler, autotvm, te
"""

SEARCH = """
@auto_scheduler.register_workload
def product(n):
    a, b = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), "k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="C")]

task = auto_scheduler.SearchTask(func=product, args=(64,), target="llvm")
texts = []  # a log, and no warning, which might be made an error
handler = logging.Handler()
handler.emit = lambda record: texts.append(record.getMessage())
logging.getLogger("tilewright.auto_scheduler").addHandler(handler)
keep = [auto_scheduler.RecordToFile("found.json")]
task.tune(auto_scheduler.TuningOptions(4, num_measures_per_round=2, verbose=0,
                                       measure_callbacks=keep))
assert sum("xgboost is not installed" in t and "tilewright[train]" in t for t in texts) == 1, texts
s, args = task.apply_best("found.json")
tvm.build(s, args, "llvm")
"""

TRAINING = """
from tilewright.auto_scheduler import XGBModel
rows = np.ones((4, 164), np.float32)
for what in (
    lambda: XGBModel().fit([rows], [1.0]),
    lambda: autotvm.tuner.XGBTuner(None),
):
    try:
        what()
    except tvm.TilewrightError as error:
        assert "pip install 'tilewright[train]'" in str(error), error
    else:
        raise AssertionError("it did not refuse")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from tilewright.auto_scheduler.pretrained import default_model
    default_model(gpu=True)
assert "at random" in str(said[0].message)
"""


def data(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, FEATURES)).astype(np.float32) * 4


def grown(how: Boosting, programs: int = 60) -> Forest:
    rows, rng = data(3 * programs, 7), np.random.default_rng(8)
    offsets, labels = np.arange(0, len(rows) + 1, 3), rng.random(programs).astype(np.float32)
    return grow(rows, offsets, labels, np.ones(programs, np.float32), how)


def read(booster: xgboost.Booster) -> Trees:
    model = json.loads(booster.save_raw("json"))
    trees = model["learner"]["gradient_booster"]["model"]["trees"]
    return Trees(trees, 0.0, FEATURES)


@pytest.fixture(scope="module")
def shipped() -> xgboost.Booster:
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(Forest.load(SHIPPED).to_trainer()))
    return booster


@pytest.mark.parametrize("count", [1, 15, 16, 17, 257])
def test_the_shipped_trees(shipped: xgboost.Booster, count: int) -> None:
    rows = data(count)
    want = shipped.inplace_predict(rows)
    forest = Forest.load(SHIPPED)
    np.testing.assert_array_equal(forest.predict_rows(rows), want)
    np.testing.assert_array_equal(read(shipped).walk(rows), want)
    assert len({*want.tolist()}) == count


@pytest.mark.parametrize("depth", [1, 2, 5, 9, 12])
def test_trees_of_other_depths(depth: int) -> None:
    how = Boosting(rounds=12, max_depth=depth, eta=0.4)
    forest = grown(how, 700 if depth > 9 else 60)
    rows = np.concatenate([data(37), data(16, 7)])  # which it was trained on, too
    again = Forest.from_bytes(forest.to_bytes(), "grown")
    assert again._trees is not None and again._trees.depth <= depth
    assert again._trees.depth == depth or depth > 5
    np.testing.assert_array_equal(again.predict_rows(rows), forest.predict_rows(rows))


def test_values_at_limits_go_right(shipped: xgboost.Booster) -> None:
    trees = read(shipped)
    features, limits, _ = trees._lay_out()
    rows = data(64)
    for k in range(64):
        rows[k, features[k]] = limits[k]
    np.testing.assert_array_equal(trees.predict(rows), shipped.inplace_predict(rows))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
def test_values_that_are_no_usual_numbers(shipped: xgboost.Booster, value: float) -> None:
    rows = data(33)
    rows[::2, ::3] = value
    np.testing.assert_array_equal(read(shipped).predict(rows), shipped.inplace_predict(rows))


def test_a_leaf_alone_and_no_trees() -> None:
    leaf = {
        "left_children": [-1], "right_children": [-1], "split_indices": [0],
        "split_conditions": [0.75], "default_left": [0],
    }  # fmt: skip
    assert Trees([leaf, leaf], 0.5, 3).predict(np.ones((5, 3), np.float32)).tolist() == [2.0] * 5
    assert Trees([], 0.5, 3).predict(np.ones((2, 3), np.float32)).tolist() == [0.5] * 2


@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_trees_from_a_file_are_written_again(kind: str) -> None:
    forest = grown(Boosting(rounds=5))
    forest.scale = 0.5
    again = Forest.from_bytes(Forest.from_bytes(forest.to_bytes(), "a").to_bytes(kind), "b")
    assert (again.scale, again.trees) == (0.5, 5)
    np.testing.assert_array_equal(again.predict_rows(data(9)), forest.predict_rows(data(9)))


@pytest.mark.parametrize("program", [SEARCH, TRAINING])
def test_without_xgboost(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT + program],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
