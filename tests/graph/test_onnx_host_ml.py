"""Host operators of ai.onnx.ml, against ONNX Runtime, the reference, and plain loops."""

from __future__ import annotations

import re
from math import isnan
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.graph.host import check_like_reference, check_same, host
from tilewright.base.errors import TilewrightError
from tilewright.graph.onnx.host import HOST, HostNode

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml."
RNG = np.random.default_rng(3)
X = np.round(RNG.standard_normal((7, 4)), 1).astype(np.float32)
START = RNG.bit_generator.state
POSTS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = START


def by_runtime(kind: str, *xs: Any, opset: int = 1, outputs: int = 1, **attrs: Any) -> list[Any]:
    ins, outs = [f"x{k}" for k in range(len(xs))], [f"y{k}" for k in range(outputs)]
    node = helper.make_node(kind, ins, outs, domain="ai.onnx.ml", **attrs)
    kinds = [8 if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype) for x in xs]
    given = [helper.make_tensor_value_info(n, k, x.shape) for n, k, x in zip(ins, kinds, xs)]
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name=n) for n in outs])
    sets = [helper.make_opsetid("ai.onnx.ml", opset), helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return list(session.run(None, dict(zip(ins, xs))))


def like_runtime(kind: str, *xs: Any, opset: int = 1, outputs: int = 1, **attrs: Any) -> None:
    found = host(ML + kind, *xs, opset=opset, outputs=outputs, **attrs)
    for got, wanted in zip(found, by_runtime(kind, *xs, opset=opset, outputs=outputs, **attrs),
                           strict=True):  # fmt: skip
        if wanted.dtype.kind == "f":
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(got, wanted, 1e-3, 1e-5)
        else:
            check_same(got, wanted)


DTYPES = [np.float32, np.float64, np.int32, np.int64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_features(dtype: Any) -> None:
    x = (X * 10).astype(dtype)
    like_runtime("ArrayFeatureExtractor", x, np.array([3, 0, 0]))
    like_runtime("ArrayFeatureExtractor", x[0], np.array([3, 0, 0]))
    check_like_reference(ML + "Binarizer", x, threshold=2.0, opset=1)
    for norm in ("MAX", "L1", "L2"):
        like_runtime("Normalizer", np.abs(x) + 1, norm=norm)
        like_runtime("Normalizer", np.abs(x[0]) + 1, norm=norm)
        zero = host(ML + "Normalizer", x * 0, opset=1, norm=norm)[0]
        check_same(zero, np.zeros(x.shape, np.float32))
    like_runtime("Scaler", x, offset=[1.0, 2.0, 3.0, 4.0], scale=[0.5, 1.0, 2.0, 0.1])
    like_runtime("Scaler", x, offset=[1.0], scale=[0.5])
    like_runtime("FeatureVectorizer", x, x[:, :2], inputdimensions=[4, 2])
    cut = host(ML + "FeatureVectorizer", x, x[:, :1], opset=1, inputdimensions=[3, 2])[0]
    check_same(cut, np.c_[x[:, :3], x[:, :1], 0 * x[:, :1]].astype(np.float32))
    cats = sorted({*x.astype(np.int64)[:3].reshape(-1).tolist()})
    check_like_reference(ML + "OneHotEncoder", x, cats_int64s=cats, opset=1)
    empty = host(ML + "Normalizer", x[:0], opset=1)[0]
    assert empty.shape == (0, 4) and empty.dtype == np.float32


def test_normalizing_keeps_signs() -> None:
    x = np.array([[-3, 4], [-1, -2]], np.float32)
    for norm, wanted in (("L1", [[-3 / 7, 4 / 7], [-1 / 3, -2 / 3]]),
                         ("L2", [[-0.6, 0.8], [-(0.2**0.5), -(0.8**0.5)]]),
                         ("MAX", [[-0.75, 1], [1, 2]])):  # fmt: skip
        check_same(host(ML + "Normalizer", x, norm=norm)[0], np.array(wanted, np.float32))


def test_missing_values() -> None:
    x = np.array([[np.nan, 1], [2, np.nan]], np.float32)
    for values in ([7.0], [7.0, 9.0]):
        like_runtime("Imputer", x, imputed_value_floats=values, replaced_value_float=float("nan"))
        like_runtime("Imputer", x, imputed_value_floats=values, replaced_value_float=2.0)
    whole = np.array([[0, 1], [2, 0]])
    like_runtime("Imputer", whole, imputed_value_int64s=[5, 6])
    doubles = host(ML + "Imputer", x.astype(float), imputed_value_floats=[7.0],
                   replaced_value_float=float("nan"))[0]  # fmt: skip
    check_same(doubles, np.array([[7.0, 1], [2, 7]]))


WORDS = np.array([["b", "日", ""], ["a", "b", "zz"]], object)


def test_labels() -> None:
    texts, numbers = ["a", "日", "b"], [7, -1, 3]
    like_runtime("LabelEncoder", WORDS, opset=2, keys_strings=texts, values_int64s=numbers)
    like_runtime("LabelEncoder", WORDS, opset=2, keys_strings=texts, values_strings=["p", "q", "r"],
                 default_string="?")  # fmt: skip
    like_runtime("LabelEncoder", WORDS, opset=2, keys_strings=texts, values_floats=[1.0, 2.5, 3.0])
    whole = np.array([7, 3, 99, -1])
    like_runtime("LabelEncoder", whole, opset=2, keys_int64s=numbers, values_strings=texts)
    found = host(ML + "LabelEncoder", np.array([np.nan, 1, 0.1, 5], np.float32), opset=4,
                 keys_floats=[1.0, float("nan"), 0.1, 1.0], values_int64s=[1, 2, 3, 4])  # fmt: skip
    assert found[0].tolist() == [2, 4, 3, -1]
    attrs = {"keys_tensor": np.array([0.1, 0.2]), "values_tensor": np.array([5, 6], np.int16),
             "default_tensor": np.array([9], np.int16)}  # fmt: skip
    node = HostNode("LabelEncoder", "n", [np.array([[0.2, 0.3]])], ["y"], attrs, 4)
    check_same(HOST[ML + "LabelEncoder"](node)[0], np.array([[6, 9]], np.int16))
    (places,) = host(ML + "LabelEncoder", WORDS, opset=1, classes_strings=texts, default_int64=-5)
    assert places.tolist() == [[2, 1, -5], [0, 2, -5]]
    (back,) = host(ML + "LabelEncoder", places, opset=1, classes_strings=texts)
    assert back.tolist() == [["b", "日", "_Unused"], ["a", "b", "_Unused"]]
    assert host(ML + "LabelEncoder", whole[:0], opset=2, keys_int64s=numbers,
                values_strings=texts)[0].dtype == object  # fmt: skip
    like_runtime("CategoryMapper", WORDS, cats_strings=texts, cats_int64s=numbers)
    like_runtime("CategoryMapper", whole, cats_strings=texts, cats_int64s=numbers)
    check_like_reference(ML + "OneHotEncoder", WORDS, cats_strings=texts, opset=1)


def test_maps() -> None:
    scores = np.array([[0.25, 0.5], [1, 2]], np.float32)
    (found,) = host(ML + "ZipMap", scores, classlabels_strings=["a", "b"])
    assert found == [{"a": 0.25, "b": 0.5}, {"a": 1.0, "b": 2.0}]
    assert host(ML + "ZipMap", scores[0], classlabels_int64s=[3, 1])[0] == [{3: 0.25, 1: 0.5}]
    for values, dtype in (({"b": 2.5}, np.float32), ({"b": 2}, np.int64),
                          ({"b": np.float64(2)}, np.float64)):  # fmt: skip
        (y,) = host(ML + "DictVectorizer", values, string_vocabulary=["a", "b"])
        check_same(y, np.array([0, values["b"]], dtype))
    (y,) = host(ML + "DictVectorizer", {4: "x"}, int64_vocabulary=[4, 2])
    assert y.tolist() == ["x", ""]
    numbers = {5: 2.5, 0: -1.0}
    for to, dtype in (("TO_FLOAT", np.float32), ("TO_INT64", np.int64)):
        (dense,) = host(ML + "CastMap", numbers, cast_to=to)
        check_same(dense, np.array([[-1, 2.5]]).astype(dtype))
        (spread,) = host(ML + "CastMap", numbers, cast_to=to, map_form="SPARSE", max_map=7)
        check_same(spread, np.array([[-1, 0, 0, 0, 0, 2.5, 0]]).astype(dtype))
    assert host(ML + "CastMap", {1: "2.5"})[0].tolist() == [[2.5]]
    assert host(ML + "CastMap", {1: 2.5}, cast_to="TO_STRING")[0].tolist() == [["2.5"]]


@pytest.mark.parametrize("post", POSTS)
def test_linear_models(post: str) -> None:
    for targets in (2, 3):
        c = RNG.standard_normal(targets * 4).tolist()
        like_runtime("LinearRegressor", X, post_transform=post, targets=targets, coefficients=c,
                     intercepts=[0.5] * targets)  # fmt: skip
        labels: dict[str, Any] = {"classlabels_ints": [*range(5, 5 + targets)]}
        like_runtime("LinearClassifier", X, outputs=2, post_transform=post, coefficients=c,
                     intercepts=[0.5] * targets, **labels)  # fmt: skip
    one = RNG.standard_normal(4).tolist()
    like_runtime("LinearRegressor", X, coefficients=one)
    label, scores = host(ML + "LinearClassifier", X, outputs=2, post_transform=post,
                         coefficients=one, intercepts=[0.5],
                         classlabels_strings=["n", "y"])  # fmt: skip
    wanted = X @ np.array(one) + 0.5
    assert label.tolist() == ["y" if w > 0 else "n" for w in wanted]
    if post == "NONE":
        np.testing.assert_allclose(scores[:, 0], 1 - wanted, 1e-5, 1e-6)
    else:
        np.testing.assert_allclose(scores.sum(1), 1, 1e-5)


def test_probit() -> None:
    chances = np.array([[0.5], [0.975], [0.0], [1.0], [2.0]], np.float32)
    (y,) = host(ML + "LinearRegressor", chances, post_transform="PROBIT", coefficients=[1.0])
    wanted = np.array([0, 1.959964, -np.inf, np.inf, np.nan])
    np.testing.assert_allclose(y[:, 0], wanted, 1e-5)
    _, both = host(ML + "LinearClassifier", chances[:2], outputs=2, post_transform="PROBIT",
                   coefficients=[1.0], intercepts=[0.0], classlabels_ints=[0, 1])  # fmt: skip
    np.testing.assert_allclose(both, np.array([[0, 0], [-1.959964, 1.959964]]), 1e-5, 1e-6)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors(kernel: str) -> None:
    attrs: dict[str, Any] = {"kernel_type": kernel, "kernel_params": [0.5, 0.2, 2.0], "rho": [0.3],
                             "support_vectors": RNG.standard_normal(5 * 4).tolist()}  # fmt: skip
    c = RNG.standard_normal(5).tolist()
    like_runtime("SVMRegressor", X, n_supports=5, coefficients=c, **attrs)
    like_runtime("SVMRegressor", X, n_supports=5, one_class=1, coefficients=c, **attrs)
    like_runtime("SVMRegressor", X, coefficients=c[:4], kernel_type=kernel, rho=[0.3],
                 kernel_params=[0.5, 0.2, 2.0])  # fmt: skip
    for classes, vectors in ((2, [3, 2]), (3, [2, 1, 2]), (4, [1, 1, 2, 1])):
        pairs = classes * (classes - 1) // 2
        attrs.update(rho=RNG.standard_normal(pairs).tolist(), vectors_per_class=vectors,
                     coefficients=RNG.standard_normal(5 * (classes - 1)).tolist(),
                     classlabels_strings=[f"c{k}" for k in range(classes)])  # fmt: skip
        like_runtime("SVMClassifier", X, outputs=2, **attrs)
        like_runtime("SVMClassifier", X, outputs=2, prob_a=[-1.2] * pairs, prob_b=[0.1] * pairs,
                     **attrs)  # fmt: skip
    like_runtime("SVMClassifier", X, outputs=2, kernel_type=kernel, rho=[0.3],
                 coefficients=RNG.standard_normal(12).tolist(), classlabels_ints=[4, 2, 9],
                 kernel_params=[0.5, 0.2, 2.0])  # fmt: skip


MODES: dict[str, Any] = {
    "BRANCH_LEQ": le, "BRANCH_LT": lt, "BRANCH_GTE": ge, "BRANCH_GT": gt, "BRANCH_EQ": eq,
    "BRANCH_NEQ": ne,
}  # fmt: skip


def forest(prefix: str, targets: int, trees: int = 5, depth: int = 3) -> dict[str, Any]:
    """Attributes of trees, whose nodes stand in no order."""
    a: dict[str, list[Any]] = {f"nodes_{n}": [] for n in (
        "nodeids", "treeids", "featureids", "values", "falsenodeids", "truenodeids", "modes",
        "missing_value_tracks_true")}  # fmt: skip
    votes: dict[str, list[Any]] = {f"{prefix}_{n}": [] for n in
                                   ("treeids", "nodeids", "ids", "weights")}  # fmt: skip
    inner = 2**depth - 1
    for tree in range(trees):
        for i in range(2 * inner + 1):
            leaf = i >= inner
            row = [i, 3 * tree, int(RNG.integers(4)), float(np.round(RNG.standard_normal(), 1)),
                   *((0, 0) if leaf else (2 * i + 2, 2 * i + 1)),
                   "LEAF" if leaf else str(RNG.choice([*MODES])), int(RNG.integers(2))]  # fmt: skip
            for values, value in zip(a.values(), row):
                values.append(value)
            for target in RNG.permutation(targets)[: RNG.integers(1, targets + 1)] if leaf else ():
                vote = [3 * tree, i, int(target), float(RNG.standard_normal())]
                for values, value in zip(votes.values(), vote):
                    values.append(value)
    order = RNG.permutation(len(a["nodes_modes"]))
    return {**{n: [v[k] for k in order] for n, v in a.items()}, **votes}


def walked(attrs: dict[str, Any], prefix: str, row: Array) -> list[tuple[int, float]]:
    """The votes of the leaves that one sample reaches, tree by tree."""
    names = ("nodeids", "treeids", "featureids", "values", "falsenodeids", "truenodeids", "modes",
             "missing_value_tracks_true")  # fmt: skip
    nodes = {(n[1], n[0]): n for n in zip(*(attrs[f"nodes_{k}"] for k in names))}
    votes = [*zip(*(attrs[f"{prefix}_{k}"] for k in ("treeids", "nodeids", "ids", "weights")))]
    found = []
    for tree in sorted({t for t, _ in nodes}):
        at = nodes[tree, 0]
        while at[6] != "LEAF":
            value = float(row[at[2]])
            yes = bool(at[7]) if isnan(value) else MODES[at[6]](value, float(np.float32(at[3])))
            at = nodes[tree, at[5] if yes else at[4]]
        found += [(v[2], v[3]) for v in votes if v[:2] == (tree, at[0])]
    return found


SPOTTED = np.where(RNG.random(X.shape) < 0.2, np.float32(np.nan), X)
MEANS: dict[str, Any] = {"SUM": sum, "AVERAGE": lambda w: sum(w) / 5, "MIN": min, "MAX": max}


@pytest.mark.parametrize("how", list(MEANS))
@pytest.mark.parametrize("base", [[], [0.5, -1.0, 2.0]])
def test_regression_trees(how: str, base: list[float]) -> None:
    attrs = forest("target", 3)
    wanted = np.zeros((len(SPOTTED), 3), np.float32)
    for result, row in zip(wanted, SPOTTED):
        votes = walked(attrs, "target", row)
        for target in range(3):
            weights = [w for t, w in votes if t == target]
            result[target] = (MEANS[how](weights) if weights else 0) + (base or [0] * 3)[target]
    attrs.update(aggregate_function=how, n_targets=3, **({"base_values": base} if base else {}))
    check_same(host(ML + "TreeEnsembleRegressor", SPOTTED, opset=3, **attrs)[0], wanted)
    tensors = {f"{n}_as_tensor": np.array(attrs.pop(n), np.float32).astype(np.float64)
               for n in ("nodes_values", "target_weights")}  # fmt: skip
    node = HostNode("TreeEnsembleRegressor", "n", [SPOTTED], ["y"], {**attrs, **tensors}, 3)
    check_same(HOST[ML + "TreeEnsembleRegressor"](node)[0], wanted)
    floats = {n.removesuffix("_as_tensor"): v.tolist() for n, v in tensors.items()}
    whole = host(ML + "TreeEnsembleRegressor", (X * 2).astype(np.int32), opset=3, **attrs, **floats)
    like = host(ML + "TreeEnsembleRegressor", np.trunc(X * 2), opset=3, **attrs, **floats)
    check_same(whole[0], like[0])


@pytest.mark.parametrize("post", POSTS)
def test_classification_trees(post: str) -> None:
    attrs = forest("class", 3)
    scores = np.zeros((len(SPOTTED), 3))
    for result, row in zip(scores, SPOTTED):
        for target, weight in walked(attrs, "class", row):
            result[target] += weight
    labels, found = host(ML + "TreeEnsembleClassifier", SPOTTED, opset=3, outputs=2,
                         post_transform=post, classlabels_strings=["x", "y", "z"],
                         **attrs)  # fmt: skip
    assert labels.tolist() == [["x", "y", "z"][k] for k in scores.argmax(1)]
    e = np.exp(scores) * (scores != 0) if post == "SOFTMAX_ZERO" else np.exp(scores)
    wanted = e / e.sum(1, keepdims=True)
    if post in ("NONE", "LOGISTIC"):
        wanted = scores if post == "NONE" else 1 / (1 + np.exp(-scores))
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-6)


@pytest.mark.parametrize("positive", [True, False])
def test_two_classes_with_one_score(positive: bool) -> None:
    """As gradient boosting gives them: all votes are for one class."""
    attrs = forest("class", 1)
    attrs["class_weights"] = [abs(w) / 5 if positive else w for w in attrs["class_weights"]]
    score = np.array([sum(w for _, w in walked(attrs, "class", row)) for row in SPOTTED])
    labels, found = host(ML + "TreeEnsembleClassifier", SPOTTED, opset=1, outputs=2,
                         classlabels_int64s=[4, 2], **attrs)  # fmt: skip
    assert labels.tolist() == [2 if s > (0.5 if positive else 0) else 4 for s in score]
    rest = 1 - score if positive else -score
    np.testing.assert_allclose(found, np.stack([rest, score], 1), 1e-4, 1e-6)
    _, chances = host(ML + "TreeEnsembleClassifier", SPOTTED, opset=1, outputs=2,
                      post_transform="LOGISTIC", classlabels_int64s=[4, 2], **attrs)  # fmt: skip
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-score)), 1e-4)


def ensemble(x: Array, **attrs: Any) -> list[Any]:
    """Two trees: x[0] <= 1 ? 10 : (x[1] in {2, 5} ? 20 : 30); x[1] in {7} ? -1 : -2."""
    given = {
        "tree_roots": [0, 2], "nodes_modes": np.array([0, 6, 6], np.uint8),
        "nodes_featureids": [0, 1, 1], "nodes_splits": np.array([1.0, 0, 0], x.dtype),
        "nodes_truenodeids": [0, 1, 3], "nodes_trueleafs": [1, 1, 1],
        "nodes_falsenodeids": [1, 2, 4], "nodes_falseleafs": [0, 1, 1],
        "membership_values": np.array([2, 5, np.nan, 7], x.dtype), "n_targets": 2,
        "leaf_targetids": [0, 0, 0, 1, 1],
        "leaf_weights": np.array([10, 20, 30, -1, -2], x.dtype), **attrs,
    }  # fmt: skip
    node = HostNode("TreeEnsemble", "n", [x], ["y"], given, 5)
    return HOST[ML + "TreeEnsemble"](node)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sets_in_trees(dtype: Any) -> None:
    x = np.array([[1, 0], [2, 2], [2, 5], [2, 7], [np.nan, 5], [3, np.nan]], dtype)
    wanted = [[10, -2], [20, -2], [20, -2], [30, -1], [20, -2], [30, -2]]
    check_same(ensemble(x)[0], np.array(wanted, dtype))
    tracked = ensemble(x, nodes_missing_value_tracks_true=[1, 1, 1])[0]
    assert tracked[4].tolist() == [10, -2] and tracked[5].tolist() == [20, -1]
    average = ensemble(x, aggregate_function=0, post_transform=2)[0]
    check_same(average, (1 / (1 + np.exp(-np.array(wanted) / 2))).astype(dtype))
    assert ensemble(x[:0])[0].shape == (0, 2)


def test_many_samples() -> None:
    """Samples are computed in parts."""
    attrs = {**forest("target", 1, trees=40, depth=2), "n_targets": 1}
    x = RNG.standard_normal((60_000, 4)).astype(np.float32)
    (found,) = host(ML + "TreeEnsembleRegressor", x, opset=3, **attrs)
    for k in (0, 26_213, 26_214, 59_999):
        check_same(found[k : k + 1], host(ML + "TreeEnsembleRegressor", x[k], opset=3, **attrs)[0])


TREE: dict[str, Any] = {"nodes_nodeids": [0, 1], "nodes_treeids": [0, 0],
                        "nodes_featureids": [0, 0], "nodes_values": [0.0, 0.0],
                        "nodes_modes": ["BRANCH_LT", "LEAF"], "nodes_truenodeids": [1, 0],
                        "nodes_falsenodeids": [1, 0], "target_treeids": [0], "target_nodeids": [1],
                        "target_ids": [0], "target_weights": [1.0]}  # fmt: skip
MISTAKES = [
    ("ArrayFeatureExtractor", X, {}, "input 1 is missing"),
    ("Imputer", X, {"imputed_value_floats": [1.0, 2.0]}, "must be 1 or 4 values, got [1.0, 2.0]"),
    ("Normalizer", X, {"norm": "L3"}, "norm 'L3'; there are MAX, L1, L2"),
    ("OneHotEncoder", WORDS, {"cats_strings": ["a"], "zeros": 0}, "none of its categories"),
    ("OneHotEncoder", WORDS, {"cats_int64s": [1]}, "it has no categories for elements of type"),
    ("Scaler", X, {"offset": [1.0, 2.0]}, "2 offsets and 1 scales for 4 features"),
    ("LabelEncoder", X, {"keys_strings": ["a"], "values_int64s": [1]}, "1 keys of type object"),
    ("LabelEncoder", X, {"values_int64s": [1]}, "it has no keys"),
    ("CategoryMapper", WORDS, {"cats_strings": ["a"]}, "1 cats_strings and 0 cats_int64s"),
    ("DictVectorizer", {"z": 1}, {"string_vocabulary": ["a"]}, "'z' is not in its vocabulary"),
    ("DictVectorizer", X, {}, "input 0 is no map"),
    ("CastMap", {9: 1.0}, {"map_form": "SPARSE", "max_map": 3}, "keys 9 to 9 of a max_map of 3"),
    ("CastMap", {9: "a"}, {}, "could not convert string to float"),
    ("ZipMap", X, {"classlabels_strings": ["a"]}, "1 labels for the columns of shape [7, 4]"),
    ("LinearRegressor", X, {"coefficients": [1.0]}, "1 coefficients for 1 scores of 4 features"),
    ("LinearRegressor", X, {"coefficients": [1.0] * 4, "post_transform": "TANH"}, "there are NONE"),
    ("LinearClassifier", X, {"coefficients": [1.0] * 4}, "it needs labels that are either strings"),
    ("SVMRegressor", X, {"coefficients": [1.0], "n_supports": 1, "support_vectors": [1.0] * 4,
                         "kernel_type": "SPLINE"}, "there are LINEAR, POLY, RBF, SIGMOID"),
    ("SVMRegressor", X, {"coefficients": [1.0], "n_supports": 3, "support_vectors": [1.0] * 4},
     "4 support_vectors are not 3 rows"),
    ("TreeEnsembleRegressor", X, {**TREE, "nodes_truenodeids": [5, 0]}, "that its tree does not"),
    ("TreeEnsembleRegressor", X, {**TREE, "nodes_values": [0.0]}, "1 nodes_values of 2 nodes"),
    ("TreeEnsembleRegressor", X, {**TREE, "target_ids": [1]}, "beyond the 1 that there are"),
    ("TreeEnsembleRegressor", X, {**TREE, "nodes_featureids": [9, 0]}, "more than the 4 features"),
    ("TreeEnsembleRegressor", X, {**TREE, "nodes_modes": ["IF", "LEAF"]}, "nodes_modes 'IF'"),
    ("TreeEnsembleRegressor", X, {**TREE, "aggregate_function": "ALL"}, "there are AVERAGE, SUM"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "x", "attrs", "text"), MISTAKES)
def test_mistakes(kind: str, x: Any, attrs: Any, text: str) -> None:
    with pytest.raises(TilewrightError, match=re.escape(text)):
        host(ML + kind, x, opset=1, **attrs)


def test_trees_that_are_rings() -> None:
    with pytest.raises(TilewrightError, match="their nodes form a ring"):
        ensemble(X, nodes_falseleafs=[0, 0, 1], nodes_falsenodeids=[1, 0, 4],
                 nodes_splits=np.array([-9, 0, 0], np.float32))  # fmt: skip
