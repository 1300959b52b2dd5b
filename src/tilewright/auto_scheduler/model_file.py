"""Cost models from files: decoded and checked here. To predict nothing else reads them; xgboost,
which reads what it is to train further, trusts what a model says of its sizes and of children."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

_NUMBERS = {"i": "b", "U": "B", "I": "h", "u": "H", "l": "i", "L": "q", "d": "f", "D": "d"}
_DEPTH = 20
_MOST_NODES = 1 << 24
_INTS = ("left_children", "right_children", "parents", "split_indices", "default_left")
_FLOATS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
_ROOT_PARENT = 2**31 - 1


def decoded(data: bytes) -> Any:
    """What is in a file of JSON or UBJ. ValueError where it is damaged."""
    if data[:1] == b"{" and data[1:2] in b'"\n\r\t }':
        return json.loads(data)
    return _Reader(data).value(0)


def checked(data: bytes, features: int) -> dict[str, Any]:
    """The model again, with trees whose nodes are where they have to be. ValueError for what is no
    model of trees over so many features."""
    whole = decoded(data)
    learner = _dict(whole, "learner")
    float(_texts(learner, "attributes").get("scale", "1"))
    booster = _dict(learner, "gradient_booster")
    model = _dict(booster, "model")
    trees = [_tree(tree, k, features) for k, tree in enumerate(_list(model, "trees"))]
    count = len(trees)
    parameters = _texts(learner, "learner_model_param")
    if int(parameters.get("num_feature", "0")) != features or booster.get("name") != "gbtree":
        raise ValueError(
            f"trained on {parameters.get('num_feature')} features; the auto-scheduler's "
            f"statements have {features}"
        )
    model = {
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(count)},
        "iteration_indptr": list(range(count + 1)),
        "tree_info": [0] * count,
        "trees": trees,
    }
    again = {
        "attributes": _texts(learner, "attributes"),
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {**parameters, "num_class": "0", "num_target": "1"},
        "objective": {
            "name": "reg:squarederror",
            "reg_loss_param": {"scale_pos_weight": "1"},
        },
    }
    version = _list(whole, "version")
    if not all(isinstance(n, int) and 0 <= n < 1000 for n in version):
        raise ValueError("it has no version")
    return {"learner": again, "version": version}


def trees_of(model: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], float]:
    """The trees of a model, and the number that is added to their sums."""
    learner = model["learner"]
    base = float(str(learner["learner_model_param"]["base_score"]).strip("[]"))
    return learner["gradient_booster"]["model"]["trees"], base


def _tree(tree: Any, number: int, features: int) -> dict[str, Any]:
    """A tree again: children stand behind their parents, so that every walk ends."""
    columns: dict[str, Any] = {name: list(map(int, _list(tree, name))) for name in _INTS}
    columns |= {name: list(map(float, _list(tree, name))) for name in _FLOATS}
    nodes = len(columns["left_children"])
    if not 0 < nodes <= _MOST_NODES or any(len(c) != nodes for c in columns.values()):
        raise ValueError("a tree's columns have different lengths")
    if _list(tree, "categories") or any(map(int, _list(tree, "split_type"))):
        raise ValueError("a tree splits by categories")
    if not all(math.isfinite(x) for name in _FLOATS for x in columns[name]):
        raise ValueError("a tree has a number that is not finite")
    parents = [_ROOT_PARENT] + [-1] * (nodes - 1)
    for k, pair in enumerate(zip(columns["left_children"], columns["right_children"])):
        if pair == (-1, -1):
            continue
        if (
            not all(k < child < nodes and parents[child] < 0 for child in pair)
            or pair[0] == pair[1]
        ):
            raise ValueError("a tree's nodes are not in order")
        for child in pair:
            parents[child] = k
    if -1 in parents or not all(0 <= f < features for f in columns["split_indices"]):
        raise ValueError("a tree has loose nodes, or splits by a feature that there is not")
    columns["parents"] = parents
    columns["default_left"] = [int(bool(x)) for x in columns["default_left"]]
    empty = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    return {
        **columns,
        **{name: [] for name in empty},
        "id": number,
        "split_type": [0] * nodes,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(features),
            "num_nodes": str(nodes),
            "size_leaf_vector": "1",
        },
    }


def _dict(value: Any, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise ValueError(f"it has no {key}")
    return found


def _list(value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise ValueError(f"it has no {key}")
    return found


def _texts(value: Any, key: str) -> dict[str, str]:
    found = _dict(value, key)
    if not all(isinstance(x, str) and len(x) < 200 for x in found.values()):
        raise ValueError(f"its {key} are no texts")
    return found


class _Reader:
    """UBJ, as far as xgboost writes it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        if count < 0 or len(found) != count:
            raise ValueError("it was cut short")
        self.at += count
        return found

    def mark(self) -> str:
        return self.take(1).decode("latin-1")

    def number(self, mark: str) -> Any:
        kind = _NUMBERS.get(mark)
        if kind is None:
            raise ValueError(f"it has a value of unknown kind {mark!r}")
        return struct.unpack(">" + kind, self.take(struct.calcsize(kind)))[0]

    def text(self) -> str:
        return self.take(int(self.number(self.mark()))).decode()

    def value(self, depth: int, mark: str = "") -> Any:
        mark = mark or self.mark()
        if depth > _DEPTH:
            raise ValueError("it is nested too deeply")
        if mark == "{":
            found: dict[str, Any] = {}
            while self.data[self.at : self.at + 1] != b"}":
                key = self.text()
                found[key] = self.value(depth + 1)
            self.at += 1
            return found
        if mark == "[":
            return self.array(depth)
        if mark == "S":
            return self.text()
        if mark in "TFZ":
            return {"T": True, "F": False, "Z": None}[mark]
        return self.number(mark)

    def array(self, depth: int) -> list[Any]:
        mark = self.mark()
        kind = ""
        if mark == "$":
            kind, mark = self.mark(), self.mark()
        if mark == "#":
            count = int(self.number(self.mark()))
            if kind:
                letter = _NUMBERS.get(kind)
                if letter is None:
                    raise ValueError(f"it has values of unknown kind {kind!r}")
                raw = self.take(count * struct.calcsize(letter))
                return list(struct.unpack(f">{count}{letter}", raw))
            if not 0 <= count <= len(self.data) - self.at:
                raise ValueError("it was cut short")
            return [self.value(depth + 1) for _ in range(count)]
        found = []
        while mark != "]":
            found.append(self.value(depth + 1, mark))
            mark = self.mark()
        return found
