"""Programs as versioned JSON text, in which shared nodes and the identity of variables survive.

    {"kind": "tilewright ir", "version": 1, "nodes": [[class, field, ...], ...], "root": value}

`nodes` has each node once, operands before users; fields are in the order of its schema, other
nodes as their place in the list. Attributes and annotations ("any" below) may be null, bool, int,
str, {"f": float as text}, {"#": node}, {"l": list}, {"t": tuple}, {"d": [[key, value], ...]} or
{"x": data}, whatever a hook made of an object that is no part of the IR.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from ..base.deep import Recursive, deep_call
from ..base.dtype import parse
from ..base.errors import TilewrightError
from . import expr as E
from . import iter as I
from . import stmt as S
from .attrs import Attrs
from .buffer import Buffer
from .fold import wrap_int
from .schema import classes, fields_of

KIND = "tilewright ir"
VERSION = 1

Encode = Callable[[Any], Any]
SaveHook = Callable[[Any, Encode], Any]
LoadHook = Callable[[Any, Encode], Any]


def _kinds() -> list[Any]:
    """The classes of nodes of the loop IR: other rooms may have some of their own. All are known
    here whatever has been imported yet: no module but those named here has any with a schema."""
    room = Attrs.__module__.rpartition(".")[0]
    return [kind for kind in classes(E.Node) if kind.__module__.startswith(room)]


FIELDS: dict[type, list[tuple[str, str]]] = {
    kind: [("dtype", "type")] * issubclass(kind, E.PrimExpr)
    + [(f.name, f.form) for f in fields_of(kind.schema)]
    for kind in _kinds()
}
_CLASSES: dict[str, type] = {kind.__name__: kind for kind in FIELDS}
_NODES: dict[str, type] = {
    "expr": E.PrimExpr,
    "text": E.PrimExpr,
    "stmt": S.Stmt,
    "var": E.Var,
    "buffer": Buffer,
    "iter": I.IterVar,
    "range": I.Range,
    "reducer": I.CommReducer,
}
_PLAIN: dict[str, type | tuple[type, ...]] = {"int": int, "count": int, "str": str, "type": str}


class _Encoder(Recursive):
    recursive = ("node",)

    def __init__(self, hook: SaveHook | None) -> None:
        self.hook = hook
        self.nodes: list[Any] = []
        self.places: dict[int, int] = {}
        self.kept: list[Any] = []  # so that identities stay unique

    def node(self, x: Any) -> int:
        place = self.places.get(id(x))
        if place is None:
            fields = FIELDS.get(type(x))
            if fields is None:
                raise TilewrightError(f"cannot save {x!r} (of type {type(x).__name__}) as JSON")
            entry = [type(x).__name__, *[self.field(getattr(x, name), f) for name, f in fields]]
            place = self.places[id(x)] = len(self.nodes)
            self.nodes.append(entry)
            self.kept.append(x)
        return place

    def field(self, x: Any, form: str) -> Any:
        last = form[-1]
        if last == "*":
            return [self.field(v, form[:-1]) for v in x]
        if last == "?":
            return None if x is None else self.field(x, form[:-1])
        if form in _NODES:
            return self.node(x)
        if form == "float":
            return x if math.isfinite(x) else repr(x)
        if form == "op":
            return x.name
        if form in ("any", "dict"):
            return self.any(x)
        if form == "map":
            return [[self.node(k), self.node(v)] for k, v in x.items()]
        if form == "functions":
            return [[k, self.node(v)] for k, v in x.items()]
        return x

    def any(self, x: Any) -> Any:
        if x is None or isinstance(x, (bool, str)):
            return x
        if isinstance(x, int):
            return int(x)
        if isinstance(x, float):
            return {"f": repr(float(x))}
        if isinstance(x, E.Node) and type(x) in FIELDS:
            return {"#": self.node(x)}
        if isinstance(x, (list, tuple)):
            return {"l" if isinstance(x, list) else "t": [self.any(v) for v in x]}
        if isinstance(x, Mapping):
            return {"d": [[self.any(k), self.any(v)] for k, v in x.items()]}
        data = None if self.hook is None else self.hook(x, self.any)
        if data is None:
            raise TilewrightError(
                f"cannot save {x!r} (of type {type(x).__name__}) as JSON: it is no part of the "
                "loop IR; tensors are saved with the program that they belong to"
            )
        return {"x": data}


class _Decoder:
    def __init__(self, hook: LoadHook | None) -> None:
        self.hook = hook
        self.made: list[Any] = []

    def entry(self, entry: Any) -> None:
        """Make the next node."""
        name, *values = entry
        kind = _CLASSES[name]
        fields = FIELDS[kind]
        if len(values) != len(fields):
            raise ValueError(f"{name} has {len(fields)} fields, got {len(values)}")
        node: Any = object.__new__(kind)
        for (field, form), value in zip(fields, values):
            setattr(node, field, self.field(value, form))
        check = _CHECKS.get(kind)
        if check is not None and not check(node):
            raise ValueError(f"{name} with fields {values}")
        self.made.append(node)

    def node(self, place: Any, kind: type) -> Any:
        if type(place) is not int or not 0 <= place < len(self.made):
            raise ValueError(f"no node {place!r} before node {len(self.made)}")
        node = self.made[place]
        if not isinstance(node, kind):
            raise ValueError(f"node {place} is {type(node).__name__}, not {kind.__name__}")
        return node

    def field(self, x: Any, form: str) -> Any:
        last = form[-1]
        if last == "*":
            return tuple([self.field(v, form[:-1]) for v in _expect(x, list)])
        if last == "?":
            return None if x is None else self.field(x, form[:-1])
        if form in _NODES:
            return self.node(x, _NODES[form])
        if form in _PLAIN:
            _expect(x, _PLAIN[form])
            if form == "type" and parse(x).text != x:
                raise ValueError(f"data type {x!r}")
            return E.Known(x) if form == "count" else x
        if form == "float":
            return float(_expect(x, (int, float, str)))
        if form == "op":
            return E.Op.named(_expect(x, str))
        if form == "map":
            pairs = [(self.node(k, E.Var), self.node(v, Buffer)) for k, v in x]
            return dict(pairs)
        if form == "functions":
            return {_expect(k, str): self.node(v, S.PrimFunc) for k, v in x}
        value = self.any(x)
        return _expect(value, dict) if form == "dict" else value

    def any(self, x: Any) -> Any:
        if x is None or isinstance(x, (bool, str, int)):
            return x
        ((key, data),) = _expect(x, dict).items()
        if key == "f":
            return float(data)
        if key == "#":
            return self.node(data, E.Node)
        if key == "l":
            return [self.any(v) for v in data]
        if key == "t":
            return tuple([self.any(v) for v in data])
        if key == "d":
            return {self.any(k): self.any(v) for k, v in data}
        if key == "x" and self.hook is not None:
            return self.hook(data, self.any)
        raise ValueError(f"unknown mark {key!r}")


def _expect(x: Any, kind: type | tuple[type, ...]) -> Any:
    if not isinstance(x, kind) or (isinstance(x, bool) and kind is int):
        raise ValueError(f"unexpected {x!r}")
    return x


_CHECKS: dict[type, Callable[[Any], bool]] = {
    E.IntImm: lambda e: parse(e.dtype).lanes == 1 and wrap_int(e.dtype, e.value) == e.value,
    E.FloatImm: lambda e: parse(e.dtype).is_float and parse(e.dtype).lanes == 1,
    E.Ramp: lambda e: e.lanes > 0,
    E.Broadcast: lambda e: e.lanes > 0,
    E.Shuffle: lambda e: bool(e.vectors and e.indices),
    I.Reduce: lambda e: 0 <= e.value_index < len(e.source),
    I.IterVar: lambda v: 0 <= v.iter_type < len(v.KINDS),
    S.For: lambda s: 0 <= s.kind < len(S.FOR_KINDS),
}


def save_json(node: Any, hook: SaveHook | None = None) -> str:
    """An expression, statement, buffer, function, module (or list of them) as JSON text.

    Objects that are no part of the IR, such as the tensors of ProducerLoad or values of attributes,
    go to `hook(object, encode)`, which returns JSON data (with encode(part) for parts that are
    IR) or None if it does not know the object. Raises TilewrightError for what cannot be saved.
    """

    def run() -> tuple[list[Any], Any]:
        encoder = _Encoder(hook)
        root = encoder.any(node)
        return encoder.nodes, root

    nodes, root = deep_call(run)
    data = {"kind": KIND, "version": VERSION, "nodes": nodes, "root": root}
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def load_json(text: str, hook: LoadHook | None = None) -> Any:
    """What `save_json` wrote, as new objects; `hook(data, decode)` makes what its hook saved.

    Raises TilewrightError for text that is damaged or of another version.
    """
    try:
        data = _expect(json.loads(text), dict)
        if data.get("kind") != KIND:
            raise ValueError(f"it holds {data.get('kind')!r}")
        if data.get("version") != VERSION:
            raise ValueError(f"it has version {data.get('version')!r}, this is {VERSION}")
        decoder = _Decoder(hook)
        for entry in data["nodes"]:
            decoder.entry(entry)
        return decoder.any(data["root"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"unknown {error}" if isinstance(error, KeyError) else str(error)
        raise TilewrightError(f"this is no program of the loop IR saved as JSON: {what}") from error
    except TilewrightError as error:
        raise TilewrightError(f"this is no program of the loop IR saved as JSON: {error}") from None
