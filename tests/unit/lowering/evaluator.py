"""A small, strict interpreter of loop IR, written for the tests of passes alone.

Every lane of every access is checked: an index out of a buffer's bounds raises, a masked-off lane
is not touched. Vectors are NumPy arrays. Freshly allocated memory holds a poison value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.narrow import value_of
from tilewright.base.dtype import parse
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.visit import free_vars

POISON = -77


class OutOfBounds(Exception):
    """An active lane touched memory outside a buffer."""


MATH = {"tir.exp": np.exp, "tir.sqrt": np.sqrt, "tir.fabs": np.abs, "tir.tanh": np.tanh}
EXTERN: dict[str, Any] = {"triple": lambda x: x * 3, "plus": lambda x, y: x + y}


def run(
    func: S.PrimFunc, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Run on copies of `arrays` (by the name of the parameter's buffer); gives the copies.

    An array that is not contiguous is a view of its base, from the base's start on.
    """
    machine = Machine()
    for p in func.params:
        if p in func.buffer_map:
            b = func.buffer_map[p]
            array = arrays[b.name]
            whole = array if array.base is None or array.flags.c_contiguous else array.base
            machine.memory[b.data] = np.array(whole).reshape(-1)
            for d, n in zip(b.shape, array.shape):
                if isinstance(d, E.Var):
                    machine.env[d] = n
            for d, n in zip(b.strides, array.strides):
                if isinstance(d, E.Var):
                    machine.env[d] = n // array.itemsize
        else:
            machine.env[p] = (scalars or {})[p.name]
    for v in free_vars(func.body):
        if scalars and v.name in scalars:
            machine.env.setdefault(v, scalars[v.name])
    machine.stmt(func.body)
    return {
        b.name: as_strided(machine.memory[b.data], arrays[b.name].shape, arrays[b.name].strides)
        for b in func.buffer_map.values()
    }


class Machine:
    def __init__(self) -> None:
        self.env: dict[E.Var, Any] = {}
        self.memory: dict[E.Var, np.ndarray] = {}
        self.trace: list[tuple[str, int]] = []

    # -- statements

    def stmt(self, s: Any) -> None:
        getattr(self, "_" + type(s).__name__.lower())(s)

    def _seqstmt(self, s: Any) -> None:
        for x in s.seq:
            self.stmt(x)

    def _for(self, s: Any) -> None:
        low = int(self.expr(s.min))
        for i in range(low, low + int(self.expr(s.extent))):
            self.env[s.loop_var] = i
            self.stmt(s.body)

    def _while(self, s: Any) -> None:
        while self.expr(s.condition):
            self.stmt(s.body)

    def _letstmt(self, s: Any) -> None:
        self.env[s.var] = self.expr(s.value)
        self.stmt(s.body)

    def _attrstmt(self, s: Any) -> None:
        if s.attr_key in ("thread_extent", "virtual_thread"):
            for i in range(int(self.expr(s.value))):
                self.env[s.node.var] = i
                self.stmt(s.body)
        else:
            self.stmt(s.body)

    def _assertstmt(self, s: Any) -> None:
        if not self.expr(s.condition):
            raise AssertionError(s.message)
        self.stmt(s.body)

    def _ifthenelse(self, s: Any) -> None:
        if self.expr(s.condition):
            self.stmt(s.then_case)
        elif s.else_case is not None:
            self.stmt(s.else_case)

    def _allocate(self, s: Any) -> None:
        size = 1
        for d in s.buffer.shape:
            size *= int(self.expr(d))
        if s.buffer.strides:
            size = 1 + sum(
                (int(self.expr(d)) - 1) * int(self.expr(x))
                for d, x in zip(s.buffer.shape, s.buffer.strides)
            )
        t = parse(s.buffer.dtype)
        self.memory[s.buffer.data] = np.full(size, POISON, dtype=np.int8).astype(t.numpy)
        self.stmt(s.body)

    def _prefetch(self, s: Any) -> None:
        pass

    def _evaluate(self, s: Any) -> None:
        if isinstance(s.value, E.Call) and s.value.op.name == "tir.call_extern":
            args = [self.expr(a) for a in s.value.args[1:]]
            self.trace.append((value_of(s.value.args[0]), *args))
            return
        self.expr(s.value)

    def _bufferstore(self, s: Any) -> None:
        value = self.expr(s.value)
        at = self.offset(s.buffer, s.indices)
        memory = self.memory[s.buffer.data]
        mask = np.ones(np.shape(at), bool) if s.predicate is None else self.expr(s.predicate)
        self.check(s.buffer, at, mask, memory)
        t = parse(s.buffer.dtype)
        assert parse(s.value.dtype).element == t.element, (s.value.dtype, t.text)
        assert np.shape(value) == np.shape(at), (np.shape(value), np.shape(at))
        if np.ndim(at) == 0:
            memory[at] = value
            return
        for i in range(len(at)):
            if mask[i]:
                memory[at[i]] = value[i]

    def offset(self, b: Buffer, indices: Any) -> Any:
        at = [self.expr(i) for i in indices]
        shape = [int(self.expr(d)) for d in b.shape]
        strides = [int(self.expr(d)) for d in b.strides]
        if not strides:
            strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
        if len(at) > 1:
            for i, n in zip(at, shape):
                if np.any(np.asarray(i) < 0) or np.any(np.asarray(i) >= n):
                    raise OutOfBounds(f"{b.name}: {i} in dimension of {n}")
        total: Any = int(self.expr(b.elem_offset))
        for i, k in zip(at, strides):
            total = total + i * k
        return total

    @staticmethod
    def check(b: Buffer, at: Any, mask: Any, memory: np.ndarray) -> None:
        bad = (np.asarray(at) < 0) | (np.asarray(at) >= len(memory))
        if np.any(bad & mask):
            raise OutOfBounds(f"{b.name}: {at} in {len(memory)} elements")

    # -- expressions

    def expr(self, e: Any) -> Any:
        return getattr(self, "_" + type(e).__name__.lower())(e)

    def _var(self, e: Any) -> Any:
        return self.env[e]

    _sizevar = _var

    def _intimm(self, e: Any) -> Any:
        return e.value

    _floatimm = _stringimm = _intimm

    def _typed(self, e: Any, value: Any) -> Any:
        t = parse(e.dtype)
        if t.is_float:
            return np.asarray(value).astype(t.numpy)[()]
        return value

    def _add(self, e: Any) -> Any:
        return self._typed(e, self.expr(e.a) + self.expr(e.b))

    def _sub(self, e: Any) -> Any:
        return self._typed(e, self.expr(e.a) - self.expr(e.b))

    def _mul(self, e: Any) -> Any:
        return self._typed(e, self.expr(e.a) * self.expr(e.b))

    def _div(self, e: Any) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        if parse(e.dtype).is_float:
            return self._typed(e, a / b)
        assert np.all(np.asarray(b) != 0)
        return np.trunc(np.asarray(a) / np.asarray(b)).astype(np.int64)[()]

    def _floordiv(self, e: Any) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        assert np.all(np.asarray(b) != 0), "division by zero"
        return a // b

    def _floormod(self, e: Any) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        assert np.all(np.asarray(b) != 0), "division by zero"
        return a % b

    def _min(self, e: Any) -> Any:
        return np.minimum(self.expr(e.a), self.expr(e.b))[()]

    def _max(self, e: Any) -> Any:
        return np.maximum(self.expr(e.a), self.expr(e.b))[()]

    def _eq(self, e: Any) -> Any:
        return np.equal(self.expr(e.a), self.expr(e.b))[()]

    def _ne(self, e: Any) -> Any:
        return np.not_equal(self.expr(e.a), self.expr(e.b))[()]

    def _lt(self, e: Any) -> Any:
        return np.less(self.expr(e.a), self.expr(e.b))[()]

    def _le(self, e: Any) -> Any:
        return np.less_equal(self.expr(e.a), self.expr(e.b))[()]

    def _gt(self, e: Any) -> Any:
        return np.greater(self.expr(e.a), self.expr(e.b))[()]

    def _ge(self, e: Any) -> Any:
        return np.greater_equal(self.expr(e.a), self.expr(e.b))[()]

    def _and(self, e: Any) -> Any:
        a = self.expr(e.a)
        if np.ndim(a) == 0 and not a:
            return a if parse(e.dtype).lanes == 1 else np.zeros(parse(e.dtype).lanes, bool)
        return np.logical_and(a, self.expr(e.b))[()]

    def _or(self, e: Any) -> Any:
        return np.logical_or(self.expr(e.a), self.expr(e.b))[()]

    def _not(self, e: Any) -> Any:
        return np.logical_not(self.expr(e.a))[()]

    def _select(self, e: Any) -> Any:
        c, t, f = self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value)
        return np.where(c, t, f)[()]

    def _cast(self, e: Any) -> Any:
        t = parse(e.dtype)
        value = np.asarray(self.expr(e.value)).astype(t.numpy)[()]
        return value if t.is_float else np.asarray(value).astype(np.int64)[()]

    def _ramp(self, e: Any) -> Any:
        return self.expr(e.base) + self.expr(e.stride) * np.arange(e.lanes)

    def _broadcast(self, e: Any) -> Any:
        return np.repeat(np.asarray(self.expr(e.value)), e.lanes)

    def _shuffle(self, e: Any) -> Any:
        lanes = np.concatenate([np.atleast_1d(self.expr(v)) for v in e.vectors])
        out = lanes[list(e.indices)]
        return out[0] if len(e.indices) == 1 else out

    def _let(self, e: Any) -> Any:
        self.env[e.var] = self.expr(e.value)
        return self.expr(e.body)

    def _bufferload(self, e: Any) -> Any:
        at = self.offset(e.buffer, e.indices)
        memory = self.memory[e.buffer.data]
        mask = np.ones(np.shape(at), bool) if e.predicate is None else self.expr(e.predicate)
        self.check(e.buffer, at, mask, memory)
        if e.predicate is None:
            value = memory[at]
        else:
            value = np.where(mask, memory[np.where(mask, at, 0)] if len(memory) else 0, 0)
        t = parse(e.buffer.dtype)
        return value.astype(t.numpy) if t.is_float else np.asarray(value).astype(np.int64)[()]

    def _call(self, e: Any) -> Any:
        name = e.op.name
        if name == "tir.likely":
            return self.expr(e.args[0])
        if name == "tir.if_then_else":
            c = self.expr(e.args[0])
            assert np.ndim(c) == 0
            return self.expr(e.args[1 if c else 2])
        if name in MATH:
            return self._typed(e, MATH[name](self.expr(e.args[0])))
        if name == "tir.call_pure_extern":
            args = [self.expr(a) for a in e.args[1:]]
            assert all(np.ndim(a) == 0 for a in args)
            return self._typed(e, EXTERN[e.args[0].value](*args))
        if name == "tir.prefetch":
            return 0
        raise NotImplementedError(name)
