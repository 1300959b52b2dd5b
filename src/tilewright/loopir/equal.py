"""Equality of structure: the same program up to the names and identities of what it defines.

Variables defined in a program (loops, lets, allocations, parameters, axes of reductions) match by
where they are defined; free variables match only themselves, unless `map_free_vars` lets them match
by first use. Names, also those of buffers, do not count. hash.py has the hash that goes with it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..base.deep import recursive
from . import expr as E
from . import iter as I
from . import realize as R
from . import stmt as S
from .buffer import Buffer
from .operators import ExprOps
from .printer import script
from .schema import Scopes, scopes_of, variables_in

VARS = (E.Var, E.SizeVar)
SEQUENCES = (tuple, list)
LEAVES = (*VARS, E.IntImm, E.FloatImm, E.StringImm)
_NUMBERS = {bool, int, float, E.IntImm, E.FloatImm}
BUFFER_TEXT = (
    "dtype",
    "scope_name",
    "data_alignment",
    "offset_factor",
    "buffer_kind",
    "axis_separators",
)
BUFFER_EXPRS = ("data", "shape", "strides", "elem_offset")


def array_of(values: Any) -> np.ndarray[Any, Any]:
    """An array of NumPy's, or of the runtime's, as NumPy's."""
    return np.asarray(values.numpy() if hasattr(values, "numpy") else values)


def producer_key(tensor: Any) -> tuple[int, int]:
    """Tensors are the same if they are the same output of the same operation."""
    return id(getattr(tensor, "op", tensor)), getattr(tensor, "value_index", 0)


class Mismatch(Exception):
    """Where two structures differ first; `path` is (path of the parent, field or index)."""

    def __init__(self, path: Any, left: Any, right: Any) -> None:
        self.path, self.left, self.right = path, left, right

    @property
    def keys(self) -> list[Any]:
        """The fields and indices on the way from the root."""
        found, path = [], self.path
        while path is not None:
            path, key = path
            found.append(key)
        return found[::-1]


class _Comparer:
    """Compares with an explicit stack of pairs (and of actions to take between them)."""

    def __init__(self, map_free_vars: bool) -> None:
        self.map_free = map_free_vars
        self.right_of: dict[Any, Any] = {}
        self.left_of: dict[Any, Any] = {}
        self.skewed = 0  # how many variables stand for another than themselves
        self.seen: set[tuple[int, int]] = set()
        self.stack: list[Any] = []

    def run(self, a: Any, b: Any) -> None:
        """Raise Mismatch unless the two are equal."""
        stack = self.stack
        stack.append((a, b, None, False))
        while stack:
            item = stack.pop()
            if type(item) is tuple:
                self.pair(*item)
            else:
                item()

    def pair(self, a: Any, b: Any, path: Any, defines: bool) -> None:
        kind = type(a)
        if kind is not type(b) and not (kind in SEQUENCES and type(b) in SEQUENCES):
            if isinstance(a, str) and a == b:
                return
            if hasattr(a, "shape") and hasattr(b, "shape"):  # arrays of two kinds
                self.arrays(a, b, path)
                return
            if not {kind, type(b)} <= _NUMBERS:
                raise Mismatch(path, a, b)
            a, b = E.convert(a), E.convert(b)  # plain numbers, as operators take them
            kind = type(a)
            if kind is not type(b):
                raise Mismatch(path, a, b)
        if kind in VARS:
            self.var(a, b, path, defines)
        elif isinstance(a, E.Node):
            self.node(a, b, path, defines)
        elif kind is tuple or kind is list:
            if len(a) != len(b):  # of which elements may differ before
                self.stack.append(partial(self.differ, path, a, b))
            self.push(path, zip(range(len(a)), a, b), defines)
        elif kind is dict:
            if a.keys() != b.keys():
                raise Mismatch(path, a, b)
            self.push(path, ((k, a[k], b[k]) for k in a), defines)
        elif kind is float:
            if struct.pack("d", a) != struct.pack("d", b) and not (a != a and b != b):
                raise Mismatch(path, a, b)
        elif hasattr(a, "shape"):  # arrays of constants
            self.arrays(a, b, path)
        elif a is not b and not bool(a == b):
            raise Mismatch(path, a, b)

    def arrays(self, a: Any, b: Any, path: Any) -> None:
        """Compare arrays of constants."""
        if isinstance(a, E.Node) or not np.array_equal(array_of(a), array_of(b)):
            raise Mismatch(path, a, b)

    def differ(self, path: Any, a: Any, b: Any) -> None:
        """Raise that two things differ."""
        raise Mismatch(path, a, b)

    def number(self, a: Any, b: Any, path: Any, defines: bool) -> None:
        """Constants of floats: by what they are in their type."""
        self.pair(a.number, b.number, (path, "value"), defines)

    def node(self, a: Any, b: Any, path: Any, defines: bool) -> None:
        if a is b and not self.skewed and not self.map_free and not defines:
            return
        kind = type(a)
        if kind not in LEAVES:
            key = (id(a), id(b))
            if key in self.seen:
                return
            self.seen.add(key)
        if isinstance(a, E.PrimExpr) and a.dtype != b.dtype:
            raise Mismatch(path, a, b)
        special = _SPECIAL.get(kind)
        if special is not None:
            special(self, a, b, path, defines)
            return
        scopes = scopes_of(a.schema)
        if scopes is not None:
            self.binder(a, b, path, scopes)
        else:
            self.fields(path, a, b, a._fields, defines)

    def push(self, path: Any, parts: Iterable[tuple[Any, Any, Any]], defines: bool = False) -> None:
        """Compare parts (key, left, right) in order, before all that is pending."""
        items = [(x, y, (path, at), defines) for at, x, y in parts]
        self.stack.extend(reversed(items))

    def fields(
        self, path: Any, a: Any, b: Any, names: Iterable[str], defines: bool = False
    ) -> None:
        self.push(path, ((f, getattr(a, f), getattr(b, f)) for f in names), defines)

    # -- variables

    def var(self, a: E.Var, b: E.Var, path: Any, defines: bool) -> None:
        known = self.right_of.get(a)
        if known is not None or b in self.left_of:
            if known is not b:
                raise Mismatch(path, a, b)
        elif defines or self.map_free:
            self.define(a, b, path)
        elif a is not b:
            raise Mismatch(path, a, b)

    def define(self, a: Any, b: Any, path: Any) -> Callable[[], None]:
        """Let `a` on the left stand for `b` on the right; returns what ends that."""
        if type(a) is not type(b) or a.dtype != b.dtype:
            raise Mismatch(path, a, b)
        before = self.right_of.get(a), self.left_of.get(b)
        self.right_of[a] = b
        self.left_of[b] = a
        self.skewed += a is not b
        self.seen.clear()
        return partial(self.undo, a, b, *before)

    def undo(self, a: Any, b: Any, right: Any, left: Any) -> None:
        self.skewed -= a is not b
        for table, key, value in ((self.right_of, a, right), (self.left_of, b, left)):
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        self.seen.clear()

    def scope(self, pairs: Iterable[tuple[Any, Any]], path: Any) -> None:
        """Define variables for what is pushed after this call."""
        for a, b in pairs:
            self.stack.append(self.define(a, b, path))

    def restore(self, right: dict[Any, Any], left: dict[Any, Any], skewed: int) -> None:
        self.right_of, self.left_of, self.skewed = right, left, skewed
        self.seen.clear()

    # -- nodes that define something

    def buffer(self, a: Buffer, b: Buffer, path: Any, defines: bool) -> None:
        for f in BUFFER_TEXT:
            if getattr(a, f) != getattr(b, f):
                raise Mismatch((path, f), getattr(a, f), getattr(b, f))
        self.fields(path, a, b, BUFFER_EXPRS, defines)

    def binder(self, a: Any, b: Any, path: Any, scopes: Scopes) -> None:
        """Compare the fields outside, define the variables, compare the fields in their scope."""

        def body() -> None:
            for name in scopes.defining:
                here = (path, name)
                left, right = (variables_in(getattr(x, name)) for x in (a, b))
                if len(left) != len(right):
                    raise Mismatch(here, getattr(a, name), getattr(b, name))
                self.scope(zip(left, right), here)
            self.fields(path, a, b, scopes.inside)

        self.stack.append(body)
        self.fields(path, a, b, scopes.outside)

    def attr(self, a: S.AttrStmt, b: S.AttrStmt, path: Any, _: bool) -> None:
        left, right = a.node, b.node
        both = isinstance(left, I.IterVar) and isinstance(right, I.IterVar)
        if both and left.var not in self.right_of and right.var not in self.left_of:
            self.scope([(left.var, right.var)], (path, "node"))
        if both and a.attr_key in I.THREAD_KEYS and b.attr_key == a.attr_key:
            self.fields(path, a, b, ("value", "body"))
            self.threads(left, right, (path, "node"))  # the extent is the value
            return
        self.fields(path, a, b, a._fields)

    def threads(self, a: I.IterVar, b: I.IterVar, path: Any) -> None:
        """Compare axes whose extent is said elsewhere."""
        if (a.iter_type, a.thread_tag) != (b.iter_type, b.thread_tag):
            raise Mismatch(path, a, b)
        self.fields(path, a, b, ("var",), True)

    def iter_var(self, a: I.IterVar, b: I.IterVar, path: Any, defines: bool) -> None:
        if (a.iter_type, a.thread_tag) != (b.iter_type, b.thread_tag):
            raise Mismatch(path, a, b)
        self.fields(path, a, b, ("dom",))
        self.fields(path, a, b, ("var",), True)

    def producer_load(self, a: Any, b: Any, path: Any, _: bool) -> None:
        if producer_key(a.producer) != producer_key(b.producer):
            raise Mismatch((path, "producer"), a.producer, b.producer)
        self.fields(path, a, b, [name for name in a._fields if name != "producer"])

    def function(self, a: S.PrimFunc, b: S.PrimFunc, path: Any, _: bool) -> None:
        here = (path, "params")
        if len(a.params) != len(b.params):
            raise Mismatch(here, a.params, b.params)
        before = dict(self.right_of), dict(self.left_of), self.skewed
        self.stack.append(partial(self.restore, *before))
        for n, (x, y) in enumerate(zip(a.params, b.params)):
            if (x in a.buffer_map) != (y in b.buffer_map):
                raise Mismatch((here, n), x, y)
            self.define(x, y, (here, n))
        maps = a.buffer_map, b.buffer_map
        if len(maps[0]) != len(maps[1]):
            raise Mismatch((path, "buffer_map"), *maps)
        self.fields(path, a, b, ("attrs", "body"))
        pairs = [(x.name, x, y) for x, y in zip(a.params, b.params) if x in maps[0]]
        self.push((path, "buffer_map"), [(n, maps[0][x], maps[1][y]) for n, x, y in pairs], True)


_SPECIAL: dict[type, Callable[[_Comparer, Any, Any, Any, bool], None]] = {
    E.FloatImm: _Comparer.number,
    Buffer: _Comparer.buffer,
    S.AttrStmt: _Comparer.attr,
    I.IterVar: _Comparer.iter_var,
    I.ProducerLoad: _Comparer.producer_load,
    R.ProducerStore: _Comparer.producer_load,
    R.ProducerRealize: _Comparer.producer_load,
    S.PrimFunc: _Comparer.function,
}


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two expressions, statements, functions or modules are the same program.

    Linear in the size of the smaller, counting shared nodes once; of any depth.
    """
    return first_mismatch(lhs, rhs, map_free_vars) is None


def first_mismatch(lhs: Any, rhs: Any, map_free_vars: bool = False) -> Mismatch | None:
    """Where two programs differ first; None where they are the same."""
    try:
        _Comparer(map_free_vars).run(_plain(lhs), _plain(rhs))
    except Mismatch as error:
        return error
    return None


@recursive
def _plain(value: Any) -> Any:
    """Numbers as constants and elements of tensors as expressions, also those in a list."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(x) for x in value)
    if isinstance(value, ExprOps) and not isinstance(value, E.Node):
        return value.asexpr()
    return E.convert(value) if isinstance(value, (bool, int, float)) else value


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise ValueError that shows the first differing place, unless they are the same program."""
    error = first_mismatch(lhs, rhs, map_free_vars)
    if error is not None:
        raise ValueError(_describe(lhs, rhs, error))


def _describe(lhs: Any, rhs: Any, error: Mismatch) -> str:
    from .object_path import ends

    places = ends(lhs, rhs, error)
    sides = zip(("lhs", "rhs"), places, (error.left, error.right))
    told = "\nand ".join(f"{name} at {path}: {_short(value)}" for name, path, value in sides)
    texts = [script(side, _marks(side, error.keys)) for side in (lhs, rhs)]
    return f"StructuralEqual check failed, caused by {told}\nlhs:\n{texts[0]}\nrhs:\n{texts[1]}"


def _short(value: Any) -> str:
    text = f"{value} ({type(value).__name__})" if isinstance(value, E.Node) else repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _marks(root: Any, keys: list[Any]) -> Mapping[Any, str]:
    """A mark for the innermost statement on the way to the differing place."""
    found, node = None, root
    for key in keys:
        if isinstance(node, S.Stmt):
            found = node
        if isinstance(node, (tuple, list, dict)):
            node = node[key]
        else:
            node = getattr(node, str(key), None)
    if isinstance(node, S.Stmt):
        found = node
    return {found: "differs"} if found is not None else {}
