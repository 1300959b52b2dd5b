"""Data types are plain strings ("float32", "int8x4", "bool", "handle"); this module reads them.

Canonical spelling: `<code><bits>` and, for vectors, `x<lanes>`; booleans are "bool", pointers
"handle".
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import Any

import numpy as np

from .errors import TilewrightError

_PATTERN = re.compile(r"(int|uint|float|bfloat|bool|handle)(\d*)(?:x(vscalex)?(\d+))?\Z")
_WIDTHS = {
    "int": (8, 16, 32, 64),
    "uint": (1, 8, 16, 32, 64),
    "float": (16, 32, 64),
    "bfloat": (16,),
}
# the largest size that a variable of type int32 may stand for: room is left for tiles that do not
# divide it
MOST_SIZE = 2**31 - 2**16


@cache
def _numpy_type(element: str) -> np.dtype[Any]:
    """NumPy's type for a scalar; bfloat16 is of a package that nothing else needs."""
    if element == "bfloat16":
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(np.uintp if element == "handle" else element)


def _finfo(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return np.finfo(dtype)
    import ml_dtypes

    of: Any = ml_dtypes.finfo
    return of(dtype)


def _suffix(lanes: int) -> str:
    return f"x{lanes}" if lanes > 0 else f"xvscalex{-lanes}"


class DType:
    """A parsed data type: kind of number (`code`), width of one lane in bits, number of lanes.

    A vector of unknown length, "int32xvscalex4", has -4 lanes: no code is made for it.
    """

    __slots__ = ("code", "bits", "lanes", "text")

    def __init__(self, code: str, bits: int, lanes: int) -> None:
        self.code = code
        self.bits = bits
        self.lanes = lanes
        base = code if code in ("bool", "handle") else f"{code}{bits}"
        self.text = base if lanes == 1 else f"{base}{_suffix(lanes)}"

    def __repr__(self) -> str:
        return f"DType({self.text})"

    @property
    def element(self) -> str:
        """The scalar type of one lane."""
        return self.text if self.lanes == 1 else self.text.removesuffix(_suffix(self.lanes))

    def with_lanes(self, lanes: int) -> str:
        return self.element if lanes == 1 else f"{self.element}{_suffix(lanes)}"

    @property
    def nbytes(self) -> int:
        """Bytes that one lane takes in memory (a bool takes one)."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.code in ("float", "bfloat")

    @property
    def is_int(self) -> bool:
        """Signed integer."""
        return self.code == "int"

    @property
    def is_uint(self) -> bool:
        return self.code == "uint"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer, not bool."""
        return self.code in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        return self.code == "bool"

    @property
    def is_handle(self) -> bool:
        return self.code == "handle"

    @property
    def min_value(self) -> int | float:
        """Smallest finite value of one lane."""
        if self.code == "int":
            return -(1 << (self.bits - 1))
        if self.is_float:
            return float(_finfo(self.numpy).min)
        return 0

    @property
    def max_value(self) -> int | float:
        """Largest finite value of one lane."""
        if self.code == "int":
            return (1 << (self.bits - 1)) - 1
        if self.code == "uint":
            return (1 << self.bits) - 1
        if self.is_float:
            return float(_finfo(self.numpy).max)
        return 1

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of one lane."""
        return _numpy_type(self.element)


_MEANT = {"double": "float64", "half": "float16", "long": "int64", "short": "int16", "char": "int8"}


def _suggested(text: str) -> str:
    names = [f"{code}{bits}" for code, widths in _WIDTHS.items() for bits in widths]
    meant = _MEANT.get(text) or next(iter(get_close_matches(text, names, 1)), None)
    if meant is not None:
        return f"did you mean {meant!r}?"
    return "expected for example 'float32' or 'int8x4'"


@cache
def parse(text: str) -> DType:
    """Read a data type; raises TilewrightError for text that names none."""
    match = _PATTERN.match(text)
    if not match:
        raise TilewrightError(f"unknown data type {text!r}; {_suggested(text)}")
    code, bits_text, scalable, lanes_text = match.groups()
    lanes = int(lanes_text) if lanes_text else 1
    if scalable and lanes > 0:
        element = parse(f"{code}{bits_text}")
        return DType(element.code, element.bits, -lanes)
    if code in ("bool", "handle"):
        if bits_text or lanes < 1:
            raise TilewrightError(f"unknown data type {text!r}: {code} takes no width")
        return DType(code, 1 if code == "bool" else 64, lanes)
    bits = int(bits_text) if bits_text else 32
    if bits not in _WIDTHS[code] or lanes < 1:
        raise TilewrightError(f"unknown data type {text!r}: {code} has widths {_WIDTHS[code]}")
    if (code, bits) == ("uint", 1):
        return DType("bool", 1, lanes)
    return DType(code, bits, lanes)


def canonical(dtype: Any) -> str:
    """Canonical text of a dtype given as text, NumPy type or scalar class (int is int32). Raises
    TilewrightError where `dtype` is no type such as 'float32'."""
    if isinstance(dtype, str):
        return parse(dtype).text
    if isinstance(dtype, DType):
        return dtype.text
    if dtype is int:
        return "int32"
    if dtype is float:
        return "float32"
    if dtype is bool:
        return "bool"
    try:
        # NumPy takes None for float64 and reads records out of lists
        if dtype is not None and not isinstance(dtype, (list, tuple, dict)):
            return parse(np.dtype(dtype).name).text
        raise TypeError
    except (TypeError, ValueError):
        raise TilewrightError(
            f"unknown data type {dtype!r}; expected for example 'float32' or 'int8x4'"
        ) from None


class DataType(str):
    """The text of a data type, with what it says as properties: `DataType("float32x4").lanes`.
    Raises TilewrightError where `type_str` is no type such as 'float32'."""

    __slots__ = ()

    def __new__(cls, type_str: Any) -> DataType:
        return super().__new__(cls, canonical(type_str))

    @property
    def bits(self) -> int:
        """Width of one lane."""
        return parse(str(self)).bits

    @property
    def lanes(self) -> int:
        """Elements of the vector: 1 for a scalar, below 0 where their number is a multiple of it
        that is not known."""
        return parse(str(self)).lanes

    @property
    def type_code(self) -> int:
        """DLPack's number of the kind: 0 int, 1 uint (and bool), 2 float, 3 handle, 4 bfloat."""
        return {"int": 0, "uint": 1, "bool": 1, "float": 2, "handle": 3, "bfloat": 4}[
            parse(str(self)).code
        ]

    def itemsize(self) -> int:
        """Bytes of all lanes."""
        kind = parse(str(self))
        return kind.nbytes * kind.lanes
