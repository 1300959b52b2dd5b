"""ai.onnx.ml: operators that prepare features, and maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array, check_room, required

_FLOAT = np.dtype(np.float32)


def _array_feature_extractor(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    places = np.asarray(required(node, 1)).reshape(-1)
    if not x.ndim or not places.size:
        raise node.error(f"{places.size} indices into shape {list(x.shape)}")
    if places.min() < 0 or places.max() >= x.shape[-1]:
        raise node.error(f"indices {places.tolist()} into shape {list(x.shape)}")
    found = x[..., places]
    return [found[None] if x.ndim == 1 else found]


def _binarizer(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    return [np.asarray(x > node.get("threshold", 0.0)).astype(x.dtype)]


def _feature_vectorizer(node: HostNode) -> list[Any]:
    parts = []
    for k in range(len(node.inputs)):
        x = np.asarray(required(node, k), _FLOAT)
        parts.append(x.reshape(1, -1) if x.ndim < 2 else x.reshape(len(x), -1))
    widths = node.get("inputdimensions") or [p.shape[1] for p in parts]
    if len(widths) != len(parts) or len({len(p) for p in parts}) != 1:
        shapes = ", ".join(str(list(p.shape)) for p in parts)
        raise node.error(f"inputdimensions {list(widths)} of shapes {shapes}")
    result = np.zeros((len(parts[0]), sum(widths)), _FLOAT)
    start = 0
    for part, width in zip(parts, widths):  # what is too long is cut, what is too short is filled
        columns = min(part.shape[1], width)
        result[:, start : start + columns] = part[:, :columns]
        start += width
    return [result]


def _imputer(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    kind = "float" if x.dtype.kind == "f" else "int64"
    wanted, replaced = node.get(f"imputed_value_{kind}s"), node.get(f"replaced_value_{kind}", 0)
    features = x.shape[-1] if x.ndim else 1
    if not wanted or len(wanted) not in (1, features):
        raise node.error(f"imputed_value_{kind}s must be 1 or {features} values, got {wanted}")
    old = x.dtype.type(replaced)
    missing = np.isnan(x) if old != old else x == old
    return [np.where(missing, np.array(wanted, x.dtype), x)]


def _normalizer(node: HostNode) -> list[Any]:
    x = np.asarray(required(node, 0), np.float64)
    norm = node.get("norm", "MAX")
    if norm == "MAX":
        by = x.max(-1, keepdims=True, initial=-np.inf)
    elif norm == "L1":
        by = np.abs(x).sum(-1, keepdims=True)
    elif norm == "L2":
        by = np.sqrt((x * x).sum(-1, keepdims=True))
    else:
        raise node.error(f"norm {norm!r}; there are MAX, L1, L2")
    return [(x / np.where(by == 0, 1, by)).astype(_FLOAT)]


def _one_hot_encoder(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    texts = x.dtype.kind == "O"
    name = "cats_strings" if texts else "cats_int64s"
    kinds = node.get(name)
    if not kinds:
        raise node.error(f"it has no categories for elements of type {x.dtype}")
    places = _keys(node, name).places(x if texts else x.astype(np.int64))
    if not node.get("zeros", 1) and (places < 0).any():
        raise node.error(f"{x[places < 0][0]!r} is none of its categories")
    check_room(node, (*x.shape, len(kinds)), _FLOAT)
    return [(places[..., None] == np.arange(len(kinds))).astype(_FLOAT)]


def _scaler(node: HostNode) -> list[Any]:
    x = np.asarray(required(node, 0), np.float64)
    features = x.shape[-1] if x.ndim else 1
    offset, scale = node.get("offset") or [0.0], node.get("scale") or [1.0]
    if {len(offset), len(scale)} - {1, features}:
        raise node.error(f"{len(offset)} offsets and {len(scale)} scales for {features} features")
    return [((x - np.array(offset)) * np.array(scale)).astype(_FLOAT)]


@dataclass(frozen=True)
class _Keys:
    """Where keys stand, the last place of several."""

    order: dict[Any, int]
    unknown: int  # the last place of NaN

    @staticmethod
    def of(keys: Any) -> _Keys:
        listed = list(keys)
        unknown = max((k for k, key in enumerate(listed) if key != key), default=-1)
        return _Keys({key: k for k, key in enumerate(listed)}, unknown)

    def places(self, x: Array) -> Array:
        """Of each element, -1 where it is no key."""
        found, inverse = np.unique(x.reshape(-1), return_inverse=True)
        places = [self.order.get(value, -1) for value in found.tolist()]
        if found.dtype.kind == "f" and found.size and np.isnan(found[-1]):
            places[-1] = self.unknown
        return np.array(places, np.int64)[inverse.reshape(-1)].reshape(x.shape)


def _keys(node: HostNode, name: str) -> _Keys:
    """Those of an attribute, brought in order once."""
    return node.kept(name, lambda node: _Keys.of(node.get(name) or []))


def _label_encoder(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    if node.get("classes_strings"):
        return [_labels_by_place(node, x)]
    keys, table = node.kept(f"table for {x.dtype}", lambda node: _table(node, x.dtype))
    return [np.asarray(table[keys.places(x)], table.dtype)]


def _table(node: HostNode, dtype: np.dtype[Any]) -> tuple[_Keys, Array]:
    """Keys for elements of a type, and their values with the default behind them."""
    keys, values = _listed(node, "keys"), _listed(node, "values")
    if len(keys) != len(values) or (keys.dtype.kind == "O") != (dtype.kind == "O"):
        raise node.error(
            f"{len(keys)} keys of type {keys.dtype}, {len(values)} values, elements of {dtype}"
        )
    given = node.get("default_tensor")
    if given is not None:
        default = np.asarray(given).reshape(-1)[0]
    else:
        name = {"O": ("string", "_Unused"), "f": ("float", -0.0)}.get(
            values.dtype.kind, ("int64", -1)
        )
        default = node.get(f"default_{name[0]}", name[1])
    table = np.append(values, np.array([default], values.dtype)).astype(values.dtype, copy=False)
    return _Keys.of(keys.astype(dtype).tolist()), table


def _labels_by_place(node: HostNode, x: Array) -> Array:
    """Operator set 1: numbers are the places of strings."""
    classes = list(node.get("classes_strings"))
    if x.dtype.kind == "O":
        places = _keys(node, "classes_strings").places(x)
        return np.where(places < 0, np.int64(node.get("default_int64", -1)), places)
    table = np.array([*classes, node.get("default_string", "_Unused")], object)
    return np.asarray(table[np.where((x < 0) | (x >= len(classes)), len(classes), x)], object)


def _listed(node: HostNode, what: str) -> Array:
    for name, dtype in (("strings", object), ("int64s", np.int64), ("floats", np.float32)):
        if f"{what}_{name}" in node.attrs:
            return np.array(node.attrs[f"{what}_{name}"], dtype)
    found = node.get(f"{what}_tensor")
    if found is None:
        raise node.error(f"it has no {what}")
    return np.asarray(found).reshape(-1)


def _category_mapper(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    texts, numbers = node.get("cats_strings") or [], node.get("cats_int64s") or []
    if len(texts) != len(numbers):
        raise node.error(f"{len(texts)} cats_strings and {len(numbers)} cats_int64s")
    if x.dtype.kind == "O":
        table = np.array([*numbers, node.get("default_int64", -1)], np.int64)
        return [np.asarray(table[_keys(node, "cats_strings").places(x)])]
    names = np.array([*texts, node.get("default_string", "_Unused")], object)
    return [np.asarray(names[_keys(node, "cats_int64s").places(x)], object)]


def _map(node: HostNode) -> dict[Any, Any]:
    found = required(node, 0)
    if not isinstance(found, dict):
        raise node.error("input 0 is no map")
    return {key: v.item() if isinstance(v, np.ndarray) else v for key, v in found.items()}


_CASTS: dict[str, Any] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}


def _cast_map(node: HostNode) -> list[Any]:
    found, to, form = _map(node), node.get("cast_to", "TO_FLOAT"), node.get("map_form", "DENSE")
    if to not in _CASTS or form not in ("DENSE", "SPARSE"):
        raise node.error(f"cast_to {to!r}, map_form {form!r}")
    keys = sorted(found)
    try:
        values = [str(found[k]) if to == "TO_STRING" else float(found[k]) for k in keys]
    except ValueError as error:
        raise node.error(str(error)) from None
    if form == "DENSE":
        return [np.array(values, _CASTS[to])[None]]
    length = node.get("max_map", 1)
    if keys and not 0 <= keys[0] <= keys[-1] < length:
        raise node.error(f"keys {keys[0]} to {keys[-1]} of a max_map of {length}")
    check_room(node, (1, length), np.dtype(_CASTS[to]))
    result = np.full(length, "" if to == "TO_STRING" else 0, _CASTS[to])
    result[keys] = np.array(values, _CASTS[to])
    return [result[None]]


def _dict_vectorizer(node: HostNode) -> list[Any]:
    found = _map(node)
    words = node.get("string_vocabulary") or node.get("int64_vocabulary") or []
    known = node.kept("vocabulary", lambda _: {*words})
    unknown = [key for key in found if key not in known]
    if unknown:
        raise node.error(f"{unknown[0]!r} is not in its vocabulary")
    some = next(iter(found.values()), 0.0)
    if isinstance(some, str):
        return [np.array([found.get(w, "") for w in words], object)]
    dtype: Any = np.float32 if isinstance(some, float) else np.int64
    if isinstance(some, np.generic):
        dtype = some.dtype
    return [np.array([found.get(w, 0) for w in words], dtype)]


def _zip_map(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    keys = node.get("classlabels_strings") or node.get("classlabels_int64s") or []
    rows = x[None] if x.ndim == 1 else x
    if rows.ndim != 2 or rows.shape[1] != len(keys):
        raise node.error(f"{len(keys)} labels for the columns of shape {list(x.shape)}")
    return [[dict(zip(keys, row)) for row in rows.tolist()]]


FUNCTIONS: dict[str, HostFunction] = {
    f"ai.onnx.ml.{name}": function
    for name, function in {
        "ArrayFeatureExtractor": _array_feature_extractor,
        "Binarizer": _binarizer,
        "CastMap": _cast_map,
        "CategoryMapper": _category_mapper,
        "DictVectorizer": _dict_vectorizer,
        "FeatureVectorizer": _feature_vectorizer,
        "Imputer": _imputer,
        "LabelEncoder": _label_encoder,
        "Normalizer": _normalizer,
        "OneHotEncoder": _one_hot_encoder,
        "Scaler": _scaler,
        "ZipMap": _zip_map,
    }.items()
}
