"""What the runtime knows of a compiled function: its arguments, symbols and messages.

The native side of every compiled function is `i32 NAME(ptr slots)`. `slots` is an array of 8-byte
slots: one for each argument (an array's data pointer; a scalar's value, integers and bools widened
to int64, floats as a double), then one int64 for each entry of `symbols`, in that order, then,
where `attrs` has "returns", one where the function leaves its result (an int64 or a double). It
returns 0; `i + 1` where the check with text `messages[i]` failed; or a negative number where a
Python function that it called has raised (see `packed`).

A dimension or stride is an int, a name, or a tree [op, a, b] of those with op one of add, sub, mul,
floordiv, floormod, max, min: `["sub", "n", 2]` is n - 2. Strides are in elements. A name is that of
a symbol, else of a scalar argument, else it is bound (without a slot) where it first stands alone;
every other place has to agree. Arrays of vectors ("float32x4") are, to the caller and in `ArgInfo`,
compact arrays of their elements with the lanes as one more dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from ..base.dtype import parse
from ..base.errors import InternalError
from .device import Device

Dim = Union[int, str, "tuple[Any, ...]"]

MOST_NARROW = 2**31 - 1
"""How many elements int32 counts."""

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%"}
_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "max": max,
    "min": min,
}


def read_dim(value: Any) -> Dim:
    """A dimension from its JSON form, checked."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        if len(value) != 3 or value[0] not in _COMPUTE:
            raise InternalError(f"not a dimension: {value!r}")
        return (value[0], read_dim(value[1]), read_dim(value[2]))
    return int(value)


def dim_source(dim: Dim, name: Callable[[str], str] = str) -> str:
    """Python source of a dimension; `name` gives the variable of a symbol."""
    if isinstance(dim, int):
        return str(dim)
    if isinstance(dim, str):
        return name(dim)
    op, a, b = dim
    left, right = dim_source(a, name), dim_source(b, name)
    if op in _SYMBOLS:
        return f"({left} {_SYMBOLS[op]} {right})"
    return f"{op}({left}, {right})"


def dim_value(dim: Dim, symbols: Mapping[str, int]) -> int:
    """The number that a dimension is; KeyError where a symbol has no value yet."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, str):
        return symbols[dim]
    return _COMPUTE[dim[0]](dim_value(dim[1], symbols), dim_value(dim[2], symbols))


def dims_text(dims: Sequence[Dim]) -> str:
    """A shape as users read it: "(n - 2, 16)", "(16,)"."""
    texts = [t[1:-1] if t[:1] == "(" else t for t in map(dim_source, dims)]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


@dataclass(frozen=True)
class ArgInfo:
    """One argument. `strides` None: compact, row-major. `is_output`: the function writes it.
    `align`: bytes that the data pointer must be a multiple of; 0 is the size of an element.
    `lanes`: elements of what the function counts as one, for arrays of vectors. `narrow`: code
    counts elements in int32, though the shape is not constant: more are refused."""

    name: str
    kind: str
    dtype: str
    shape: tuple[Dim, ...] = ()
    strides: tuple[Dim, ...] | None = None
    is_output: bool = False
    align: int = 0
    lanes: int = 1
    narrow: bool = False

    @property
    def is_array(self) -> bool:
        return self.kind == "array"

    @property
    def itemsize(self) -> int:
        return parse(self.dtype).nbytes

    @property
    def alignment(self) -> int:
        """Bytes that the data pointer is checked against."""
        return max(self.align, self.itemsize)

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"name": self.name, "kind": self.kind, "dtype": self.dtype}
        if self.is_array:
            out["shape"] = _plain(self.shape)
            out["strides"] = None if self.strides is None else _plain(self.strides)
            out["is_output"] = self.is_output
            out["align"] = self.align
            out["lanes"] = self.lanes
            out["narrow"] = self.narrow
        return out

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ArgInfo:
        if data["kind"] not in ("array", "scalar"):
            raise InternalError(f"argument {data['name']!r} is neither array nor scalar")
        dtype = parse(data["dtype"])
        shape = tuple(map(read_dim, data.get("shape") or ()))
        given = data.get("strides")
        strides = None if given is None else tuple(map(read_dim, given))
        lanes = int(data.get("lanes", dtype.lanes))
        if dtype.lanes > 1:
            shape, strides = (*shape, lanes), None
        return ArgInfo(
            name=str(data["name"]),
            kind=str(data["kind"]),
            dtype=dtype.element,
            shape=shape,
            strides=strides,
            is_output=bool(data.get("is_output", False)),
            align=int(data.get("align", 0) or 0),
            lanes=lanes,
            narrow=bool(data.get("narrow", False)),
        )


@dataclass(frozen=True)
class SymbolInfo:
    """One symbolic value that code reads from a slot. `source` says where it comes from:
    ("shape", argument, dimension), ("stride", argument, dimension), ("scalar", argument), or
    ("const", value). `narrow`: code has it as int32; values above MOST_SIZE are refused."""

    name: str
    source: tuple[Any, ...]
    narrow: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "source": list(self.source), "narrow": self.narrow}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SymbolInfo:
        kind, *rest = data["source"]
        if kind not in ("shape", "stride", "scalar", "const"):
            raise InternalError(f"symbol {data['name']!r} has unknown source {kind!r}")
        narrow = bool(data.get("narrow", False))
        return SymbolInfo(str(data["name"]), (kind, *map(int, rest)), narrow)


@dataclass(frozen=True)
class FunctionInfo:
    """Signature of a compiled function; see the head of this file."""

    name: str
    args: tuple[ArgInfo, ...]
    symbols: tuple[SymbolInfo, ...] = ()
    messages: tuple[str, ...] = ()
    target: str = "llvm"
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """The kind of device that the function's arrays are on ("cuda"), by the number in
        `attrs["device_type"]`; empty for the CPU."""
        number = int(self.attrs.get("device_type", 1))
        return "" if number == 1 else Device(number).kind

    def to_json(self) -> dict[str, Any]:
        """A dict fit for JSON, which `from_json` reads back."""
        return {
            "name": self.name,
            "args": [a.to_json() for a in self.args],
            "symbols": [s.to_json() for s in self.symbols],
            "messages": list(self.messages),
            "target": self.target,
            "attrs": dict(self.attrs),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> FunctionInfo:
        """What `to_json` gave, read back."""
        return FunctionInfo(
            name=str(data["name"]),
            args=tuple(map(ArgInfo.from_json, data["args"])),
            symbols=tuple(map(SymbolInfo.from_json, data.get("symbols", ()))),
            messages=tuple(map(str, data.get("messages", ()))),
            target=str(data.get("target", "llvm")),
            attrs=dict(data.get("attrs", {})),
        )

    def __hash__(self) -> int:
        return hash((self.name, self.args, self.symbols))


def _plain(dims: Sequence[Dim]) -> list[Any]:
    return [list(_plain(d)) if isinstance(d, tuple) else d for d in dims]
