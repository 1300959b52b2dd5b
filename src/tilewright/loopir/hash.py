"""A hash of structure: equal for programs that `structural_equal` takes for the same.

The same in every process as long as no free variables are involved (their identity counts, unless
`map_free_vars`).
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from ..base.deep import Recursive, deep_call
from . import expr as E
from . import iter as I
from . import realize as R
from . import stmt as S
from .buffer import Buffer
from .equal import BUFFER_EXPRS, BUFFER_TEXT, LEAVES, VARS, array_of, producer_key
from .module import IRModule
from .operators import ExprOps
from .schema import defined_by, scopes_of


@cache
def _text(value: str) -> int:
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=7).digest(), "little")


def _kind(kind: type) -> int:
    return _text(kind.__name__)


class _Hasher(Recursive):
    recursive = ("any",)

    def __init__(self, map_free_vars: bool) -> None:
        self.map_free = map_free_vars
        self.number: dict[Any, int] = {}
        self.count = 0
        self.memo: dict[int, int] = {}

    def any(self, value: Any, defines: bool = False) -> int:
        kind = type(value)
        if kind in VARS:
            return self.var(value, defines)
        if isinstance(value, E.Node):
            return self.node(value, defines)
        if isinstance(value, ExprOps):  # an element of a tensor
            return self.any(value.asexpr())
        if isinstance(value, (tuple, list)):
            return hash((len(value), *[self.any(x, defines) for x in value]))
        if isinstance(value, dict):
            items = sorted(value.items(), key=lambda item: str(item[0]))
            return hash(tuple([(_text(str(k)), self.any(v, defines)) for k, v in items]))
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, float):
            bits = struct.pack("d", value if value == value else math.nan)  # all NaNs are one
            return hash((1, struct.unpack("q", bits)[0]))
        if value is None or isinstance(value, int):
            return hash((0, _kind(kind), value if value is not None else -7))
        if hasattr(value, "shape"):
            array = array_of(value)
            return hash((_text(str(array.dtype)), array.shape, _text(array.tobytes().hex())))
        if isinstance(value, E.Op):
            return _text(value.name)
        return hash(value)

    def node(self, e: Any, defines: bool) -> int:
        kind = type(e)
        if kind in LEAVES:
            own = e.number if kind is E.FloatImm else e.value
            return hash((_kind(kind), _text(e.dtype), self.any(own)))
        found = None if defines else self.memo.get(id(e))
        if found is not None:
            return found
        special = _SPECIAL.get(kind)
        if special is not None:
            inside = special(self, e, defines)
        elif (scopes := scopes_of(e.schema)) is not None:
            head = [self.any(getattr(e, f)) for f in scopes.outside]
            parts = [getattr(e, f) for f in scopes.inside]
            inside = (*head, *self.scoped(defined_by(e), parts))
        else:
            inside = tuple([self.any(getattr(e, f), defines) for f in e._fields])
        dtype = _text(e.dtype) if isinstance(e, E.PrimExpr) else 0
        result = hash((_kind(kind), dtype, *inside))
        self.memo[id(e)] = result
        return result

    def var(self, v: E.Var, defines: bool) -> int:
        number = self.number.get(v)
        if number is None:
            if not (defines or self.map_free):
                return id(v)
            number = self.define(v)
        return hash((_kind(type(v)), _text(v.dtype), number))

    def define(self, v: Any) -> int:
        self.count += 1
        self.number[v] = self.count
        self.memo.clear()
        return self.count

    def scoped(self, variables: Iterable[Any], parts: Iterable[Any]) -> tuple[int, ...]:
        """Hashes of `parts`, in which `variables` are defined."""
        before = [(v, self.number.get(v)) for v in variables]
        kinds = [hash((_kind(type(v)), _text(v.dtype), self.define(v))) for v, _ in before]
        inside = (*kinds, *[self.any(p) for p in parts])
        for v, number in before:
            if number is None:
                del self.number[v]
            else:
                self.number[v] = number
        self.memo.clear()
        return inside

    def buffer(self, b: Buffer, defines: bool) -> tuple[int, ...]:
        text = [self.any(getattr(b, f)) for f in BUFFER_TEXT]
        return (*text, *[self.any(getattr(b, f), defines) for f in BUFFER_EXPRS])

    def attr(self, s: S.AttrStmt, _: bool) -> tuple[int, ...]:
        node: Any = s.node
        fresh = isinstance(node, I.IterVar) and node.var not in self.number
        defined = (node.var,) if fresh else ()
        if isinstance(node, I.IterVar) and s.attr_key in I.THREAD_KEYS:
            node = (node.var, node.iter_type, node.thread_tag)  # the extent is the value
        return self.scoped(defined, (node, s.attr_key, s.value, s.body))

    def iter_var(self, v: I.IterVar, _: bool) -> tuple[int, ...]:
        return (self.var(v.var, True), self.any(v.dom), v.iter_type, _text(v.thread_tag))

    def producer_load(self, e: Any, _: bool) -> tuple[int, ...]:
        rest = [self.any(getattr(e, name)) for name in e._fields if name != "producer"]
        return (*producer_key(e.producer), *rest)

    def function(self, f: S.PrimFunc, _: bool) -> tuple[int, ...]:
        before = dict(self.number)
        params = [self.var(p, True) if p not in before else self.define(p) for p in f.params]
        buffers = [self.any(f.buffer_map[p], True) if p in f.buffer_map else 0 for p in f.params]
        inside = (*params, *buffers, self.any(f.attrs), self.any(f.body))
        self.number = before
        self.memo.clear()
        return inside

    def module(self, m: IRModule, _: bool) -> tuple[int, ...]:
        """Functions hash alone, so that their order in the module does not count."""
        functions = {n: _Hasher(self.map_free).any(f) for n, f in m.functions.items()}
        return (self.any(functions), self.any(m.attrs))


_SPECIAL: dict[type, Callable[[_Hasher, Any, bool], tuple[int, ...]]] = {
    Buffer: _Hasher.buffer,
    S.AttrStmt: _Hasher.attr,
    I.IterVar: _Hasher.iter_var,
    I.ProducerLoad: _Hasher.producer_load,
    R.ProducerStore: _Hasher.producer_load,
    R.ProducerRealize: _Hasher.producer_load,
    S.PrimFunc: _Hasher.function,
    IRModule: _Hasher.module,
}


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit hash, the same for all programs that are structurally equal to `node`."""
    return deep_call(lambda: _Hasher(map_free_vars).any(node)) & (2**64 - 1)
