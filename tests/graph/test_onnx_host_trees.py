"""Trees of ai.onnx.ml: in which form they are kept, and how samples go down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import tilewright
from tests.graph.host import check_same, host
from tests.graph.test_onnx_host_ml import MEANS, ML, MODES, SPOTTED, ensemble, forest
from tilewright.graph.onnx.host import HOST, HostNode, ml_trees


def test_a_forest_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each node of a model, not for each call."""
    built: list[str] = []
    by_ids = ml_trees._by_ids

    def counted(node: HostNode, votes: str, weights: str) -> Any:
        built.append(node.name)
        return by_ids(node, votes, weights)

    monkeypatch.setattr(ml_trees, "_by_ids", counted)
    attrs = forest("target", 2)
    nodes = [
        helper.make_node("TreeEnsembleRegressor", ["x"], [out], name=out, domain="ai.onnx.ml",
                         n_targets=targets, **attrs)
        for out, targets in (("y", 2), ("z", 3))
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(n, 1, None) for n in ("y", "z")]
    x = helper.make_tensor_value_info("x", 1, list(SPOTTED.shape))
    model = helper.make_model(
        helper.make_graph(nodes, "trees", [x], ends),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)],
    )
    net = tilewright.compile(model)
    first = net.run({"x": SPOTTED})
    second = net.run({"x": SPOTTED[::-1].copy()})
    assert sorted(built) == ["y", "z"]
    check_same(first["y"], second["y"][::-1])
    check_same(first["z"][:, :2], first["y"])


def test_what_attributes_say_is_kept_with_the_node() -> None:
    """Labels are put in order once for each type of elements; what is kept is not given out."""
    attrs = {"keys_floats": [1.0, 2.0, 2.0, np.nan], "values_int64s": [10, 20, 21, 30]}
    memory: dict[str, Any] = {}
    x = np.array([2, 7, np.nan, 1])
    for dtype in (np.float32, np.float64, np.float32):
        node = HostNode("LabelEncoder", "n", [x.astype(dtype)], ["y"], attrs, 4, memory)
        (found,) = HOST[ML + "LabelEncoder"](node)
        assert found.tolist() == [21, -1, 30, 10]
        found[:] = 0
    assert len(memory) == 2


@pytest.mark.parametrize("how", list(MEANS))
def test_more_targets_than_a_leaf_votes_for(how: str) -> None:
    attrs = {**forest("target", 2), "n_targets": 7, "aggregate_function": how}
    wanted = host(ML + "TreeEnsembleRegressor", SPOTTED, opset=3, **{**attrs, "n_targets": 2})[0]
    found = host(ML + "TreeEnsembleRegressor", SPOTTED, opset=3, **attrs)[0]
    check_same(found, np.pad(wanted, [(0, 0), (0, 5)]))


@pytest.mark.parametrize("limit", [-np.inf, -1.0, 0.0, 5e-324, 1.0, np.inf, np.nan])
@pytest.mark.parametrize("mode", list(MODES))
def test_each_comparison_at_its_limit(mode: str, limit: float) -> None:
    """Also where nothing is below the limit, and with NaN, with which nothing has an order."""
    x = np.array(
        [-np.inf, np.nextafter(-1, -2), -1, -0.0, 0, 5e-324, 1, np.nextafter(1, 2), np.inf]
    )
    for tracks in (0, 1):
        attrs = {
            "tree_roots": [0], "nodes_modes": np.array([[*MODES].index(mode)], np.uint8),
            "nodes_featureids": [0], "nodes_splits": np.array([limit]), "nodes_truenodeids": [0],
            "nodes_trueleafs": [1], "nodes_falsenodeids": [1], "nodes_falseleafs": [1],
            "membership_values": np.zeros(0), "leaf_targetids": [0, 0], "n_targets": 1,
            "leaf_weights": np.array([1.0, 0]), "nodes_missing_value_tracks_true": [tracks],
        }  # fmt: skip
        (found,) = ensemble(np.append(x, np.nan)[:, None], **attrs)
        assert found[:, 0].tolist() == [*(float(MODES[mode](v, limit)) for v in x), tracks]


def test_trees_of_unlike_depths() -> None:
    """A chain: the first leaf is reached after one step, the last after many."""
    deep = 40
    x = np.arange(-1, deep + 2, dtype=np.float64)[:, None]
    attrs = {
        "tree_roots": [0], "nodes_modes": np.zeros(deep, np.uint8),
        "nodes_featureids": np.zeros(deep, np.int64), "nodes_splits": np.arange(deep) * 1.0,
        "nodes_truenodeids": np.arange(deep), "nodes_trueleafs": np.ones(deep, np.int64),
        "nodes_falsenodeids": np.arange(1, deep + 1),
        "nodes_falseleafs": np.append(np.zeros(deep - 1, np.int64), 1),
        "membership_values": np.zeros(0), "leaf_targetids": np.zeros(deep + 1, np.int64),
        "leaf_weights": np.arange(deep + 1) * 1.0, "n_targets": 1,
    }  # fmt: skip
    (found,) = ensemble(x, **attrs)
    assert found[:, 0].tolist() == np.clip(x[:, 0], 0, deep).tolist()
