"""Cast and CastLike between all types, strings among them."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np

from ..node import HostFunction, HostNode
from .common import Array, element_type, required

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|nan)\s*", re.I)
_LIKE = tuple(
    np.dtype(getattr(ml_dtypes, f"float8_{name}"))
    for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")
)
_finfo: Any = ml_dtypes.finfo
_POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)
_NAMES = ["FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL",
          "FLOAT16", "DOUBLE", "UINT32", "UINT64"]  # fmt: skip


def _cast(node: HostNode) -> list[Any]:
    x, to = required(node, 0), node.get("to")
    if isinstance(to, str):  # before operator set 6
        if to not in _NAMES:
            raise node.error(f"there is no type {to!r}")
        to = _NAMES.index(to) + 1
    if to is None:
        raise node.error("it does not say to which type")
    return [converted(node, x, element_type(node, to))]


def _cast_like(node: HostNode) -> list[Any]:
    return [converted(node, required(node, 0), required(node, 1).dtype)]


def converted(node: HostNode, x: Array, dtype: np.dtype[Any]) -> Array:
    if x.dtype == dtype:
        return x
    if dtype.kind == "O":
        return _written(x)
    if x.dtype.kind == "O":
        return _read(node, x, dtype)
    with np.errstate(all="ignore"):
        if dtype == _POWERS:
            return _powers(node, x)
        result = x.astype(dtype)
        if dtype in _LIKE and node.get("saturate", 1):
            wide = x.astype(np.float32)
            beyond = ~np.isfinite(result.astype(np.float32)) & ~np.isnan(wide)
            most = np.copysign(np.float32(_finfo(dtype).max), wide)
            result = np.where(beyond, most, wide).astype(dtype)
    return result


def _powers(node: HostNode, x: Array) -> Array:
    """Powers of two, as their exponents in a byte."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    mode = node.get("round_mode", "up")
    if mode not in ("up", "down", "nearest"):
        raise node.error(f"round_mode {mode!r}; there are up, down, nearest")
    least = {"up": 0.5, "down": 1.0, "nearest": 0.75}[mode]
    up = mantissa > least if mode == "up" else mantissa >= least
    power = exponent - 1 + up
    wide = x.astype(np.float64)
    power = np.where(np.isinf(wide), 999, np.where(wide == 0, -999, power))
    bad = np.isnan(wide) | (wide < 0)
    if not node.get("saturate", 1):
        bad |= (power < -127) | (power > 127)
    stored = np.where(bad, 255, np.clip(power, -127, 127) + 127).astype(np.uint8)
    return stored.view(_POWERS)


def _written(x: Array) -> Array:
    """Numbers as text: the shortest that gives the same number again."""
    if x.dtype.kind == "b" or np.issubdtype(x.dtype, np.integer):
        texts = [str(int(n)) for n in x.reshape(-1)]
    elif x.dtype == np.float64 or x.dtype.kind != "f":
        texts = [_text(n) for n in x.astype(np.float64).reshape(-1)]
    else:
        texts = [_text(n) for n in x.reshape(-1)]
    return np.array(texts, object).reshape(x.shape)


def _text(value: Any) -> str:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "INF" if value > 0 else "-INF"
    return np.format_float_positional(value, trim="-")


def _read(node: HostNode, x: Array, dtype: np.dtype[Any]) -> Array:
    texts = x.reshape(-1).tolist()
    for text in texts:
        if not _NUMBER.fullmatch(text):
            raise node.error(f"{text!r} is no number")
    if dtype.kind not in "iu" and np.dtype(dtype) not in _SMALL:
        values = np.array([float(t) for t in texts], np.float64).reshape(x.shape)
        return converted(node, values, dtype)
    # what is beyond a type loses its higher bits
    whole = [_whole(node, t) & 0xFFFF_FFFF_FFFF_FFFF for t in texts]
    found = np.array(whole, np.uint64).astype(np.int64).reshape(x.shape)
    return found.astype(dtype)


_SMALL = tuple(np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "uint2", "int4", "uint4"))


def _whole(node: HostNode, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise node.error(f"{text!r} is no whole number") from None


FUNCTIONS: dict[str, HostFunction] = {"Cast": _cast, "CastLike": _cast_like}
