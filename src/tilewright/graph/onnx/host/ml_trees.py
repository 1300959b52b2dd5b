"""ai.onnx.ml: ensembles of decision trees.

All samples go down all trees at once, a level at a step: what is computed is the node at which each
sample is in each tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array
from .ml_scores import class_labels, features, results, transform_of, transformed, two_classes

_MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ",
          "BRANCH_MEMBER", "LEAF"]  # fmt: skip
_MEMBER, _LEAF = 6, 7
_COMPARE = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal]
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_AT_ONCE = 1 << 20
"""Places of samples in trees that are computed together."""


@dataclass
class _Forest:
    """Nodes of all trees: what they compare, where they lead, and what leaves give."""

    roots: Array
    modes: Array
    features: Array
    values: Array
    children: Array  # (nodes, 2): where it is false, where it is true
    missing: Array  # whether NaN leads to where it is true
    members: tuple[Array, Array]  # of sets: nodes and values, in order of both
    leaves: Array  # of each vote
    targets: Array
    weights: Array


def _reached(node: HostNode, forest: _Forest, x: Array) -> Array:
    """The leaf of each sample in each tree."""
    at = np.broadcast_to(forest.roots, (len(x), len(forest.roots))).copy()
    rows = np.arange(len(x))[:, None]
    if x.shape[1] <= forest.features[forest.modes != _LEAF].max(initial=-1):
        raise node.error(f"its trees look at more than the {x.shape[1]} features of a sample")
    for _ in range(len(forest.modes) + 1):
        modes = forest.modes[at]
        if (modes == _LEAF).all():
            return at
        value, limit = x[rows, forest.features[at]], forest.values[at]
        taken = np.zeros(at.shape, bool)
        for mode in np.unique(modes[modes < _MEMBER]):
            here = modes == mode
            taken[here] = _COMPARE[mode](value[here], limit[here])
        here = modes == _MEMBER
        if here.any():
            taken[here] = _is_member(forest, at[here], value[here])
        taken = np.where(np.isnan(value), forest.missing[at], taken)
        at = np.where(modes == _LEAF, at, forest.children[at, taken.astype(np.int64)])
    raise node.error("its trees have no leaves: their nodes form a ring")


def _is_member(forest: _Forest, at: Array, value: Array) -> Array:
    """Whether each value is in the set of its node."""
    nodes, members = forest.members
    known, codes = np.unique(members, return_inverse=True)
    if not known.size:
        return np.zeros(at.shape, bool)
    place = np.minimum(np.searchsorted(known, value), known.size - 1)
    there = np.isin(at * known.size + place, nodes * known.size + codes.reshape(-1))
    return np.asarray((known[place] == value) & there)


def _scores(node: HostNode, forest: _Forest, x: Array, targets: int, how: str) -> Array:
    """What the leaves that are reached give, by target."""
    if how not in _AGGREGATES:
        raise node.error(f"aggregate_function {how!r}; there are {', '.join(_AGGREGATES)}")
    if (forest.targets >= targets).any() or (forest.targets < 0).any():
        raise node.error(f"votes for targets beyond the {targets} that there are")
    votes, row_of = np.unique(forest.leaves, return_inverse=True)
    none = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
    table = np.full((len(votes) + 1, targets), none)  # the last row: leaves without a vote
    put = {"MIN": np.minimum, "MAX": np.maximum}.get(how, np.add)
    put.at(table, (row_of.reshape(-1), forest.targets), forest.weights)
    place = np.full(len(forest.modes), len(votes))
    place[votes] = np.arange(len(votes))
    result = np.full((len(x), targets), none)
    step = max(_AT_ONCE // max(len(forest.roots), 1), 1)
    for start in range(0, len(x), step):
        leaves = place[_reached(node, forest, x[start : start + step])]
        for tree in range(leaves.shape[1]):
            part = result[start : start + step]
            put(part, table[leaves[:, tree]], out=part)
    if how == "AVERAGE":
        result /= max(len(forest.roots), 1)
    return np.where(np.isinf(result) & (result == none), 0, result) if none else result


def _either(node: HostNode, name: str) -> Array:
    """Numbers that are an attribute of floats, or a tensor."""
    found = node.get(f"{name}_as_tensor")
    if found is None:
        return np.array(node.get(name) or [], np.float32).astype(np.float64)
    return np.asarray(found, np.float64).reshape(-1)


def _listed(node: HostNode, name: str, count: int | None = None) -> Array:
    found = node.get(name)
    if found is None and count is not None:
        return np.zeros(count, np.int64)
    listed = np.asarray([] if found is None else found).reshape(-1)
    if count is not None and len(listed) != count:
        raise node.error(f"{len(listed)} {name}, expected {count}")
    return listed


def _by_ids(node: HostNode, votes: str, weights: str) -> _Forest:
    """The trees of operator sets before 5, whose nodes have numbers in their tree."""
    ids, trees = _listed(node, "nodes_nodeids"), _listed(node, "nodes_treeids")
    count = len(ids)
    if not count or len(trees) != count:
        raise node.error(f"{count} nodes_nodeids, {len(trees)} nodes_treeids")
    names = _listed(node, "nodes_modes", count)
    unknown = {*names.tolist()} - {*_MODES}
    if unknown:
        raise node.error(f"nodes_modes {min(unknown)!r}; there are {', '.join(_MODES)}")
    modes = np.array([_MODES.index(name) for name in names.tolist()], np.int64)
    span = int(max(ids.max(), 0)) + 1
    keys = trees * span + ids
    order = np.argsort(keys, kind="stable")

    def found(tree: Array, number: Array) -> Array:
        wanted = tree * span + number
        at = order[np.minimum(np.searchsorted(keys[order], wanted), count - 1)]
        if ((keys[at] != wanted) | (number < 0) | (number >= span)).any():
            raise node.error("a node or a vote names a node that its tree does not have")
        return at

    inner = modes != _LEAF
    children = np.zeros((count, 2), np.int64)
    for k, name in enumerate(("nodes_falsenodeids", "nodes_truenodeids")):
        children[inner, k] = found(trees[inner], _listed(node, name, count)[inner])
    values = _either(node, "nodes_values")
    voted = _either(node, weights)
    roots = np.setdiff1d(np.arange(count), children[inner])
    if len(values) != count:
        raise node.error(f"{len(values)} nodes_values of {count} nodes")
    prefix = votes.split("_")[0]
    at = found(_listed(node, f"{prefix}_treeids", len(voted)),
               _listed(node, f"{prefix}_nodeids", len(voted)))  # fmt: skip
    return _Forest(
        roots, modes, _listed(node, "nodes_featureids", count), values, children,
        _listed(node, "nodes_missing_value_tracks_true", count) != 0,
        (np.zeros(0, np.int64), np.zeros(0)), at, _listed(node, votes, len(voted)), voted,
    )  # fmt: skip


def _base(node: HostNode, scores: Array) -> Array:
    base = _either(node, "base_values")
    if len(base) not in (0, 1, scores.shape[1]):
        raise node.error(f"{len(base)} base_values of {scores.shape[1]} scores")
    return scores + base if len(base) else scores


def _regressor(node: HostNode) -> list[Any]:
    x, forest = features(node), _by_ids(node, "target_ids", "target_weights")
    scores = _scores(
        node, forest, x, node.get("n_targets", 1), node.get("aggregate_function", "SUM")
    )
    return [transformed(_base(node, scores), transform_of(node)).astype(np.float32)]


def _classifier(node: HostNode) -> list[Any]:
    x, labels = features(node), class_labels(node)
    forest, kind = _by_ids(node, "class_ids", "class_weights"), transform_of(node)
    voted = np.unique(forest.targets)
    if len(labels) == 2 and len(voted) == 1 and len(_either(node, "base_values")) < 2:
        forest.targets = np.zeros_like(forest.targets)  # one score stands for both classes
        score = _base(node, _scores(node, forest, x, 1, "SUM"))[:, 0]
        positive = bool((forest.weights >= 0).all())  # then it is a probability
        chosen = score > (0.5 if positive else 0)
        return results(labels, chosen.astype(np.int64), two_classes(score, positive, kind))
    scores = _base(node, _scores(node, forest, x, len(labels), "SUM"))
    return results(labels, scores.argmax(1), transformed(scores, kind))


def _ensemble(node: HostNode) -> list[Any]:
    """Operator set 5: inner nodes and leaves are numbered apart."""
    modes = _listed(node, "nodes_modes").astype(np.int64)
    inner, targets = len(modes), _listed(node, "leaf_targetids")
    leaves = len(targets)
    if (modes < 0).any() or (modes > _MEMBER).any():
        raise node.error(f"nodes_modes must be 0 to {_MEMBER}")
    children = np.zeros((inner + leaves, 2), np.int64)
    for k, side in enumerate(("false", "true")):
        is_leaf = _listed(node, f"nodes_{side}leafs", inner) != 0
        to = _listed(node, f"nodes_{side}nodeids", inner)
        if ((to < 0) | (to >= np.where(is_leaf, leaves, inner))).any():
            raise node.error(f"nodes_{side}nodeids name a node that there is not")
        children[:inner, k] = np.where(is_leaf, inner + to, to)
    roots = _listed(node, "tree_roots").astype(np.int64)
    if ((roots < 0) | (roots >= inner)).any():
        raise node.error(f"tree_roots {roots.tolist()} of {inner} nodes")
    splits = np.asarray(_listed(node, "nodes_splits", inner), np.float64)
    forest = _Forest(
        roots,
        np.append(modes, np.full(leaves, _LEAF)),
        np.append(_listed(node, "nodes_featureids", inner), np.zeros(leaves, np.int64)),
        np.append(splits, np.zeros(leaves)),
        children,
        np.append(_listed(node, "nodes_missing_value_tracks_true", inner) != 0, [False] * leaves),
        _members(node, modes),
        inner + np.arange(leaves),
        targets,
        np.asarray(_listed(node, "leaf_weights", leaves), np.float64),
    )
    number = node.get("aggregate_function", 1)
    how = _AGGREGATES[number] if 0 <= number < len(_AGGREGATES) else str(number)
    scores = _scores(node, forest, features(node), node.get("n_targets", 1), how)
    dtype = np.asarray(node.inputs[0]).dtype
    return [transformed(scores, transform_of(node)).astype(dtype)]


def _members(node: HostNode, modes: Array) -> tuple[Array, Array]:
    """The sets, one after the other with NaN behind each, by node."""
    values = np.asarray(_listed(node, "membership_values"), np.float64)
    nodes = np.flatnonzero(modes == _MEMBER)
    ends = np.isnan(values)
    number = np.cumsum(ends) - ends
    if len(nodes) != (number[-1] + 1 if len(values) else 0):
        raise node.error(f"membership_values of {len(nodes)} nodes")
    return nodes[number[~ends]], values[~ends]


FUNCTIONS: dict[str, HostFunction] = {
    "ai.onnx.ml.TreeEnsemble": _ensemble,
    "ai.onnx.ml.TreeEnsembleClassifier": _classifier,
    "ai.onnx.ml.TreeEnsembleRegressor": _regressor,
}
