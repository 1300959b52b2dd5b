"""Reads of buffers and calls as functions of the state: intrinsics, externs, pointers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from ..loopir.visit import free_vars
from . import np_ops
from .simt_access import load
from .simt_expr import Code, Fn, rows, under
from .simt_extern import find, lookup
from .simt_state import State

NO_LIMIT = 1 << 62  # but that of the memory


class Pointer(NamedTuple):
    """An address: element `offset` (a function) of type `dtype` in the memory of `data`."""

    data: E.Var
    dtype: str
    offset: Fn


class CallCode(Code):
    """Writes reads and calls."""

    # -- memory

    def limit(self, b: Buffer) -> Fn:
        """How many elements a buffer has, where its shape says so."""
        if b.strides or const_int(b.elem_offset) != 0:
            return lambda st: NO_LIMIT
        size = 1
        for d in b.shape:
            known = const_int(d)
            if known is None:
                return self._symbolic_limit(b)
            size *= known
        return lambda st: size

    def _symbolic_limit(self, b: Buffer) -> Fn:
        for d in b.shape:
            if any(v not in self.slots for v in free_vars(d)):
                return lambda st: NO_LIMIT
        extents = [self.value(d) for d in b.shape]

        def run(st: State) -> int:
            size = 1
            for f in extents:
                size *= int(f(st))
            return size

        return run

    def index(self, b: Buffer, indices: tuple[Any, ...]) -> Any:
        """The flat element index as an expression."""
        if len(indices) != b.ndim:
            raise TilewrightError(
                f"simt: buffer {b.name} has {b.ndim} dimensions, got {len(indices)} indices"
            )
        if b.ndim == 1 and not b.strides and const_int(b.elem_offset) == 0:
            return indices[0]
        return b.element_offset(indices)

    def _load(self, e: E.BufferLoad) -> Fn:
        data, dtype = e.buffer.data, e.buffer.dtype
        index = self.value(self.index(e.buffer, e.indices))
        limit = self.limit(e.buffer)
        if e.predicate is None:
            return lambda st: load(st, st.memory[data], dtype, index(st), limit(st), None)
        where = self.value(e.predicate)
        return lambda st: load(st, st.memory[data], dtype, index(st), limit(st), where(st))

    def pointer(self, e: Any) -> Pointer:
        """The address that an argument of a call stands for."""
        if isinstance(e, E.Call) and e.op.name == "tir.tvm_access_ptr":
            data: Any = e.args[1]
            return Pointer(data, e.args[0].dtype, self.value(e.args[2]))
        if isinstance(e, E.Call) and e.op.name == "tir.address_of":
            at = e.args[0]
            if isinstance(at, E.BufferLoad):
                indices = tuple([i.base if isinstance(i, E.Ramp) else i for i in at.indices])
                at_index = self.value(self.index(at.buffer, indices))
                return Pointer(at.buffer.data, at.buffer.dtype, at_index)
        if isinstance(e, E.BufferLoad):
            return self.pointer(E.Call("handle", "tir.address_of", (e,)))
        if isinstance(e, E.Var) and e.dtype == "handle":
            return Pointer(e, "", lambda st: np.int64(0))
        raise TilewrightError(f"simt: {e} is no address of a buffer's element")

    # -- calls

    def plain_call(self, e: E.Call) -> Fn:
        """An operation on values: of np_ops, or from the users' table."""
        name = e.op.name
        plain = name.removeprefix("tir.")
        args = [self.value(a) for a in e.args]
        element = parse(e.dtype).element
        own = find(name)
        if own is not None:
            return self.apply(own, args, element)
        if plain == "fma":
            return lambda st: fma([np.asarray(a(st), np.float64) for a in args], element)
        if np_ops.known(plain) or plain == "reinterpret":
            return lambda st: np_ops.call(plain, [np.asarray(a(st)) for a in args], element)
        return self.apply(lookup(name, e.dtype, str(e)), args, element)

    def apply(self, function: Any, args: list[Fn], element: str) -> Fn:
        """A function of the table, its result in the type of the call."""

        def run(st: State) -> Any:
            result = np.asarray(function(*[a(st) for a in args]))
            return np_ops.cast(result, element)

        return run

    def _extern(self, e: E.Call) -> Fn:
        name = e.args[0]
        if not isinstance(name, E.StringImm):
            raise TilewrightError(f"simt: {e.op.name[4:]} without a name: {e}")
        special = self.calls.get(f"extern {name.value}")
        if special is not None:
            return special(self, e)
        args = [self.value(a) for a in e.args[1:]]
        function = lookup(name.value, e.dtype, str(e))
        return self.apply(function, args, parse(e.dtype).element)

    def _if_then_else(self, e: E.Call) -> Fn:
        condition, x, y = [self.value(a) for a in e.args]
        dtype = parse(e.dtype).numpy

        def run(st: State) -> Any:
            c = condition(st)
            if c.ndim == 0:
                return x(st) if c else y(st)
            if c.ndim == 2:
                return np.where(c, x(st), y(st))
            a, b = under(st, c, x), under(st, ~c, y)
            if a is None or b is None:
                both = b if a is None else a
                return np.zeros(st.lanes, dtype) if both is None else both
            return np.where(c, a, b)

        return run

    def _likely(self, e: E.Call) -> Fn:
        return self.value(e.args[0])

    def _nothing(self, e: E.Call) -> Fn:
        zero = np.int32(0)
        return lambda st: zero

    def _half(self, e: E.Call) -> Fn:
        v, n = self.value(e.args[0]), parse(e.dtype).lanes
        low = e.op.name == "tir.vectorlow"

        def run(st: State) -> Any:
            part = v(st)[:n] if low else v(st)[n:]
            return part if n > 1 else part[0]

        return run

    def _combine(self, e: E.Call) -> Fn:
        return self.value(E.Shuffle(e.args, range(parse(e.dtype).lanes)))

    def _dp4a(self, e: E.Call) -> Fn:
        a, b, c = [self.value(x) for x in e.args]
        result = parse(e.dtype).numpy
        return lambda st: (
            (rows(a(st), 4).astype(np.int64) * rows(b(st), 4).astype(np.int64))
            .sum(axis=0)
            .astype(result)
            + c(st)
        )

    def _reinterpret(self, e: E.Call) -> Fn:
        """Bits of all lanes of a vector in their order, where numbers of lanes differ."""
        v, source, target = self.value(e.args[0]), parse(e.args[0].dtype), parse(e.dtype)
        if source.lanes == target.lanes:
            return lambda st: np_ops.reinterpret(np.asarray(v(st)), target.element)

        def run(st: State) -> Any:
            each = np.ascontiguousarray(rows(np.asarray(v(st)), source.lanes).T)
            bits = each.view(target.numpy)
            return bits.T if target.lanes > 1 else bits[:, 0]

        return run

    def _infinity(self, e: E.Call) -> Fn:
        value = parse(e.dtype).numpy.type(np.inf)
        return lambda st: value


def fma(values: list[Any], dtype: str) -> Any:
    """a * b + c rounded once, for types narrower than float64; there, twice."""
    x, y, z = values
    product = x * y  # exact for float32 and narrower
    total = np.asarray(product + z)
    if dtype == "float64":
        return total
    # what the sum cut off goes into its last bit, so that the second rounding is the right one
    part = total - product
    cut = (product - (total - part)) + (z - part)
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    inexact = (cut != 0) & np.isfinite(total) & np.isfinite(cut)
    up = (cut > 0) == (total > 0)
    fixed = np.where(inexact & even, np.where(up, bits + 1, bits - 1), bits)
    return np_ops.round_to(np.asarray(fixed).view(np.float64), dtype)


Code.calls.update(
    {
        "tir.if_then_else": CallCode._if_then_else,
        "tir.likely": CallCode._likely,
        "tir.call_extern": CallCode._extern,
        "tir.call_pure_extern": CallCode._extern,
        "tir.prefetch": CallCode._nothing,
        "tir.reinterpret": CallCode._reinterpret,
        "tir.vectorlow": CallCode._half,
        "tir.vectorhigh": CallCode._half,
        "tir.vectorcombine": CallCode._combine,
        "tir.dp4a": CallCode._dp4a,
        "tir.infinity": CallCode._infinity,
    }
)
