"""ai.onnx.ml: ensembles of decision trees.

The trees are brought into arrays once for each node of a model. Then samples go down all trees at
once, a level at a step: what is computed is the node at which each sample is in each tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array
from .ml_scores import class_labels, features, results, transform_of, transformed, two_classes

_MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ",
          "BRANCH_MEMBER", "LEAF"]  # fmt: skip
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER, _LEAF = range(8)
_AGGREGATES = {
    "AVERAGE": (np.add, 0.0),
    "SUM": (np.add, 0.0),
    "MIN": (np.minimum, np.inf),
    "MAX": (np.maximum, -np.inf),
}
"""How votes are joined, and what joins with nothing."""
_AT_ONCE = 1 << 14
"""Places of samples in trees, or votes from there, that are computed together: a NumPy call on so
many costs more than calling it, and the few arrays of so many numbers stay near the core."""


@dataclass(frozen=True)
class _Nodes:
    """Nodes of all trees as a model has them: what they compare, where they lead, what leaves
    give."""

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


@dataclass(frozen=True)
class _Forest:
    """Nodes in the form in which samples go down: inner nodes first, then the leaves.

    All but sets and equality is asked as `value <= limit`: where that is the contrary of what a
    node asks, its children have changed places.
    """

    roots: Array
    inner: int
    features: Array
    limits: Array
    children: Array  # of node n: 2 n where the comparison is false, 2 n + 1 where it is true
    missing: Array  # the child to which NaN leads
    equal: Array  # whether it asks for the value itself; empty where none does
    members: _Members | None
    wide: int  # features that samples need
    shallow: int  # steps after which the first leaf may be reached
    deep: int  # steps after which each sample is at a leaf

    def reached(self, x: Array) -> Array:
        """The leaf of each sample in each tree, counted from the first leaf."""
        at = np.tile(self.roots, len(x))
        places = np.arange(len(x)).repeat(len(self.roots)) * x.shape[1]
        flat, unknown = x.reshape(-1), bool(np.isnan(x).any())
        for _ in range(self.shallow):
            at = self._below(at, places, flat, unknown)
        left = np.flatnonzero(at < self.inner) if self.deep > self.shallow else at[:0]
        while left.size:
            now = self._below(at[left], places[left], flat, unknown)
            at[left] = now
            left = left[now < self.inner]
        return (at - self.inner).reshape(len(x), -1)

    def _below(self, at: Array, places: Array, x: Array, unknown: bool) -> Array:
        """The children to which samples go on, from inner nodes."""
        value, limit = x.take(self.features.take(at) + places), self.limits.take(at)
        taken = value <= limit
        if self.equal.size:
            np.copyto(taken, value == limit, where=self.equal.take(at))
        if self.members is not None:
            here = np.flatnonzero(self.members.node.take(at))
            taken[here] = self.members.has(at[here], value[here])
        at2 = at + at
        at2 += taken
        below = self.children.take(at2)
        if unknown:
            np.copyto(below, self.missing.take(at), where=np.isnan(value))
        return below


@dataclass(frozen=True)
class _Members:
    """The sets of those nodes that ask whether a value is in one."""

    node: Array  # whether a node has one
    known: Array  # the values of all sets
    pairs: Array  # of node and place in `known`, as one number, in order

    def has(self, at: Array, value: Array) -> Array:
        """Whether each value is in the set of its node."""
        place = np.minimum(np.searchsorted(self.known, value), self.known.size - 1)
        pair = at * self.known.size + place
        near = np.minimum(np.searchsorted(self.pairs, pair), self.pairs.size - 1)
        return np.asarray((self.known[place] == value) & (self.pairs[near] == pair))


@dataclass(frozen=True)
class _Votes:
    """What leaves give: for each as many targets and weights as any has."""

    count: int
    targets: Array
    weights: Array
    how: str

    def of(self, forest: _Forest, x: Array) -> Array:
        """What the leaves that are reached give, by target."""
        none = _AGGREGATES[self.how][1]
        result = np.empty((len(x), self.count))
        step = max(_AT_ONCE // max(len(forest.roots) * self.weights.shape[1], 1), 1)
        for start in range(0, len(x), step):
            leaves = forest.reached(x[start : start + step])
            result[start : start + step] = self._joined(leaves)
        if self.how == "AVERAGE":
            result /= max(len(forest.roots), 1)
        return np.where(np.isinf(result) & (result == none), 0, result) if none else result

    def _joined(self, leaves: Array) -> Array:
        """The votes of some samples."""
        put, none = _AGGREGATES[self.how]
        weights = self.weights.take(leaves, 0)
        if self.weights.shape[1] == self.count:  # those of each leaf are in order of targets
            return np.asarray(put.reduce(weights, 1, initial=none))
        rows = np.arange(len(leaves))[:, None, None] * self.count
        places = (self.targets.take(leaves, 0) + rows).reshape(-1)
        size = len(leaves) * self.count
        if put is np.add:
            found = np.bincount(places, weights.reshape(-1), size)
        else:
            found = np.full(size, none)
            put.at(found, places, weights.reshape(-1))
        return found.reshape(-1, self.count)


def _forest_of(node: HostNode, nodes: _Nodes) -> _Forest:
    """The form in which samples go down."""
    leaf = nodes.modes == _LEAF
    order = np.argsort(leaf, kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    order = order[: len(order) - int(leaf.sum())]
    modes, limits = nodes.modes[order], nodes.values[order]
    children = number[nodes.children[order]]
    missing = children[np.arange(len(order)), nodes.missing[order].astype(np.int64)]
    below = (modes == _LT) | (modes == _GTE)
    never = np.isnan(limits) & (modes <= _GT)  # no value has an order with NaN: always false
    children[never, 1] = children[never, 0]
    lowest = below & (limits == -np.inf)  # nothing is below, everything else is not
    children[lowest] = children[lowest, (modes[lowest] == _GTE).astype(np.int64)][:, None]
    # values below a number are those up to the number before it
    limits = np.where(below, np.nextafter(limits, -np.inf), limits)
    turned = (modes == _GTE) | (modes == _GT) | (modes == _NEQ)
    children[turned] = children[turned, ::-1]
    equal = (modes == _EQ) | (modes == _NEQ)
    owners, values = nodes.members
    known, codes = np.unique(values, return_inverse=True)
    members = None
    if (modes == _MEMBER).any() and not known.size:
        children[modes == _MEMBER, 1] = children[modes == _MEMBER, 0]
    elif known.size:
        pairs = np.sort(number[owners] * known.size + codes.reshape(-1))
        members = _Members(modes == _MEMBER, known, pairs)
    roots = number[nodes.roots]
    shallow, deep = _depths(node, roots, children)
    features = nodes.features[order]
    return _Forest(
        roots, len(order), features, limits, children.reshape(-1), missing,
        equal if equal.any() else equal[:0], members, int(features.max(initial=-1)) + 1,
        shallow, deep,
    )  # fmt: skip


def _depths(node: HostNode, roots: Array, children: Array) -> tuple[int, int]:
    """After how many steps the first leaf is reached, and the last."""
    shallow, inner = -1, len(children)
    level = roots
    for depth in range(inner + 1):
        below = level[level < inner]
        if below.size < level.size and shallow < 0:
            shallow = depth
        if not below.size:
            return max(shallow, 0), depth
        level = np.unique(children[below])
    raise node.error("its trees have no leaves: their nodes form a ring")


def _votes_of(node: HostNode, nodes: _Nodes, targets: int, how: str) -> _Votes:
    """Votes by leaves, in the order that leaves have in a `_Forest`."""
    if how not in _AGGREGATES:
        raise node.error(f"aggregate_function {how!r}; there are {', '.join(_AGGREGATES)}")
    if (nodes.targets >= targets).any() or (nodes.targets < 0).any():
        raise node.error(f"votes for targets beyond the {targets} that there are")
    put, none = _AGGREGATES[how]
    leaf = nodes.modes == _LEAF
    number, count = np.cumsum(leaf) - 1, int(leaf.sum())
    told = leaf[nodes.leaves]  # samples do not stay at inner nodes: nobody hears their votes
    pairs, which = np.unique(
        number[nodes.leaves[told]] * targets + nodes.targets[told], return_inverse=True
    )
    joined = np.full(len(pairs), none)
    put.at(joined, which.reshape(-1), nodes.weights[told])
    leaves, target = np.divmod(pairs, targets)
    first = np.searchsorted(leaves, leaves)
    most = max(int((np.arange(len(leaves)) - first).max(initial=0)) + 1, 1)
    place = np.arange(len(leaves)) - first
    if most == targets:
        place = target
    of, weights = np.zeros((count, most), np.int64), np.full((count, most), none)
    of[leaves, place], weights[leaves, place] = target, joined
    return _Votes(targets, of, weights, how)


def _scores(node: HostNode, forest: _Forest, votes: _Votes) -> Array:
    x = features(node)
    if x.shape[1] < forest.wide:
        raise node.error(f"its trees look at more than the {x.shape[1]} features of a sample")
    return votes.of(forest, x)


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


def _by_ids(node: HostNode, votes: str, weights: str) -> _Nodes:
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
    return _Nodes(
        roots, modes, _listed(node, "nodes_featureids", count), values, children,
        _listed(node, "nodes_missing_value_tracks_true", count) != 0,
        (np.zeros(0, np.int64), np.zeros(0)), at, _listed(node, votes, len(voted)), voted,
    )  # fmt: skip


def _base(node: HostNode, scores: Array, base: Array) -> Array:
    if len(base) not in (0, 1, scores.shape[1]):
        raise node.error(f"{len(base)} base_values of {scores.shape[1]} scores")
    return scores + base if len(base) else scores


def _regressor(node: HostNode) -> list[Any]:
    forest, votes, base = node.kept("forest", _regressor_parts)
    scores = _base(node, _scores(node, forest, votes), base)
    return [transformed(scores, transform_of(node)).astype(np.float32)]


def _regressor_parts(node: HostNode) -> tuple[_Forest, _Votes, Array]:
    nodes = _by_ids(node, "target_ids", "target_weights")
    how = node.get("aggregate_function", "SUM")
    votes = _votes_of(node, nodes, node.get("n_targets", 1), how)
    return _forest_of(node, nodes), votes, _either(node, "base_values")


@dataclass(frozen=True)
class _Classes:
    """What a classifier has beside its trees."""

    labels: Array
    base: Array
    single: bool  # one score stands for both classes
    positive: bool  # then it is a probability


def _classifier(node: HostNode) -> list[Any]:
    forest, votes, classes = node.kept("forest", _classifier_parts)
    labels, kind = classes.labels, transform_of(node)
    scores = _base(node, _scores(node, forest, votes), classes.base)
    if not classes.single:
        return results(labels, scores.argmax(1), transformed(scores, kind))
    score, positive = scores[:, 0], classes.positive
    chosen = score > (0.5 if positive else 0)
    return results(labels, chosen.astype(np.int64), two_classes(score, positive, kind))


def _classifier_parts(node: HostNode) -> tuple[_Forest, _Votes, _Classes]:
    nodes, labels = _by_ids(node, "class_ids", "class_weights"), class_labels(node)
    base = _either(node, "base_values")
    single = len(labels) == 2 and len(np.unique(nodes.targets)) == 1 and len(base) < 2
    if single:
        nodes = replace(nodes, targets=np.zeros_like(nodes.targets))
    votes = _votes_of(node, nodes, 1 if single else len(labels), "SUM")
    classes = _Classes(labels, base, single, bool((nodes.weights >= 0).all()))
    return _forest_of(node, nodes), votes, classes


def _ensemble(node: HostNode) -> list[Any]:
    scores = _scores(node, *node.kept("forest", _ensemble_parts))
    dtype = np.asarray(node.inputs[0]).dtype
    return [transformed(scores, transform_of(node)).astype(dtype)]


def _ensemble_parts(node: HostNode) -> tuple[_Forest, _Votes]:
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
    nodes = _Nodes(
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
    how = [*_AGGREGATES][number] if 0 <= number < len(_AGGREGATES) else str(number)
    return _forest_of(node, nodes), _votes_of(node, nodes, node.get("n_targets", 1), how)


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
