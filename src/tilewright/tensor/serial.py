"""Tensor programs as versioned JSON: for caches, workers, records and schedules.

The text holds a table of nodes, operands before users, each once: so shared parts, and the identity
of variables and axes, survive. A node is [class, field, ...], its fields the slots of its class and
bases. A field is a plain JSON value, an array (tuple), {"#": n} (node n), {"l": [...]} (list),
{"d": [[key, value], ...]} (dict) or {"f": "inf"} (a float that JSON has no text for).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

from ..base.deep import Recursive, deep_call
from ..base.errors import TilewrightError
from ..loopir import buffer as _buffer
from ..loopir import expr as _expr
from ..loopir import iter as _iter
from ..loopir import realize as _realize
from ..loopir import stmt as _stmt
from . import hybrid_op as _hybrid_op
from . import intrin as _intrin
from . import operations as _operations
from .operations import Bodies, ComputeOp, Operation
from .tensor import Tensor

VERSION = 1
_KIND = "tilewright tensors"


def _node_classes(*modules: ModuleType) -> dict[str, type]:
    found: dict[str, type] = {}
    for module in modules:
        for name, item in vars(module).items():
            if isinstance(item, type) and issubclass(item, _expr.Node):
                found[name] = item
    return found


_CLASSES = _node_classes(_expr, _iter, _buffer, _stmt, _realize, _operations, _hybrid_op, _intrin)


@cache
def _fields(name: str) -> tuple[str, ...]:
    """The slots of a class and its bases that hold what it was made of (not what it remembers)."""
    names: list[str] = []
    for base in reversed(_CLASSES[name].__mro__):
        slots = vars(base).get("__slots__", ())
        names += sorted((slots,) if isinstance(slots, str) else slots)
    made = [n for n in names if isinstance(getattr(_CLASSES[name], n), property)]
    return tuple(n for n in names if not n.startswith("_") and n not in made)


def save_json(outputs: Tensor | Iterable[Tensor]) -> str:
    """The program that computes `outputs` as JSON text.

    Raises TilewrightError where an operation's attrs hold what JSON cannot.
    """
    tensors = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    encoder = _Encoder()
    roots = deep_call(encoder.run, tensors)
    return json.dumps(
        {"kind": _KIND, "version": VERSION, "nodes": encoder.nodes, "outputs": roots},
        separators=(",", ":"),
    )


def load_json(text: str) -> list[Tensor]:
    """The tensors that `save_json` wrote, as a new program of the same structure."""
    try:
        data = json.loads(text)
        if data["kind"] != _KIND:
            raise ValueError(f"it holds {data['kind']!r}")
        if data["version"] != VERSION:
            raise ValueError(f"it has version {data['version']}, this is version {VERSION}")
        decoder = _Decoder(data["nodes"])
        tensors = decoder.value(data["outputs"])
        if not all(isinstance(t, Tensor) for t in tensors):
            raise ValueError("its outputs are no tensors")
    except (
        ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError,
        TilewrightError,
    ) as error:  # fmt: skip
        raise TilewrightError(f"this is no tensor program saved as JSON: {error}") from error
    return list(tensors)


def program_key(outputs: Tensor | Iterable[Tensor]) -> str:
    """A hash that equal programs share, names included, whenever and wherever they are made."""
    return hashlib.sha256(save_json(outputs).encode()).hexdigest()


class _Encoder(Recursive):
    recursive = ("node",)

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.places: dict[int, int] = {}
        self.kept: list[Any] = []  # keeps alive what `places` knows by identity

    def run(self, tensors: list[Tensor]) -> Any:
        return self.value(tuple(tensors))

    def value(self, x: Any) -> Any:
        if x is None or isinstance(x, (bool, str)):
            return x
        if isinstance(x, int):
            return int(x)
        if isinstance(x, float):
            return x if math.isfinite(x) else {"f": repr(x)}
        if isinstance(x, tuple):
            return [self.value(v) for v in x]
        if isinstance(x, list):
            return {"l": [self.value(v) for v in x]}
        if isinstance(x, dict):
            return {"d": [[self.value(k), self.value(v)] for k, v in x.items()]}
        return {"#": self.node(x)}

    def node(self, x: Any) -> int:
        place = self.places.get(id(x))
        if place is None:
            entry = self.entry(x)
            place = self.places[id(x)] = len(self.nodes)
            self.nodes.append(entry)
            self.kept.append(x)
        return place

    def entry(self, x: Any) -> list[Any]:
        if isinstance(x, Tensor):
            return ["Tensor", self.value(x.op), x.value_index]
        if isinstance(x, _expr.Op):
            return ["Op", x.name]
        cls: type[Any] = type(x)
        name = cls.__name__
        if _CLASSES.get(name) is not cls:
            raise TilewrightError(
                f"cannot save {x!r} (of type {name}) as JSON; attrs of operations may "
                "hold numbers, texts, lists, dicts and parts of the program"
            )
        return [name, *(self.value(getattr(x, field)) for field in _fields(name))]


class _Decoder:
    def __init__(self, entries: list[Any]) -> None:
        self.made: list[Any] = []
        for entry in entries:
            self.made.append(self.entry(entry))

    def value(self, x: Any) -> Any:
        if isinstance(x, list):
            return tuple([self.value(v) for v in x])
        if not isinstance(x, dict):
            return x
        ((key, inner),) = x.items()
        if key == "#":
            if inner < 0:
                raise ValueError(f"node {inner}")
            return self.made[inner]
        if key == "l":
            return [self.value(v) for v in inner]
        if key == "d":
            return {self.value(k): self.value(v) for k, v in inner}
        if key == "f":
            return float(inner)
        raise ValueError(f"unknown mark {key!r}")

    def entry(self, entry: list[Any]) -> Any:
        name, *values = entry
        if name == "Tensor":
            return self.value(values[0]).output(values[1])
        if name == "Op":
            return _expr.Op.get(values[0])
        cls = _CLASSES[name]
        fields = _fields(name)
        if len(fields) != len(values):
            raise ValueError(f"{name} has fields {', '.join(fields)}, got {len(values)}")
        node: Any = object.__new__(cls)
        for field, value in zip(fields, values):
            setattr(node, field, self.value(value))
        if isinstance(node, ComputeOp):
            node.body = Bodies(node.body)
        if isinstance(node, Operation):
            node.forget()
        return node
