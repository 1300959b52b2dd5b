"""Short ways for converters to compose operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtype import parse
from ...topi.elemwise import accumulator
from ..ir import Value
from ..sizes import Size
from .convert import Builder, OnnxNode


class Compose:
    """Adds operations for one node of the file. Numbers among the inputs take the type of the first
    value."""

    def __init__(self, b: Builder, node: OnnxNode) -> None:
        self.b = b
        self.node = node
        self.name = node.name

    def __call__(self, op: str, *inputs: Value | float, **attrs: Any) -> Value:
        dtype = next(v.dtype for v in inputs if isinstance(v, Value))
        values = [v if isinstance(v, Value) else self.number(v, dtype) for v in inputs]
        return self.b.add(op, values, self.name, **attrs)

    def number(self, value: float, dtype: str) -> Value:
        """A constant of rank 0."""
        return self.b.constant(np.asarray(value, parse(dtype).numpy), self.name + ".number")

    def constant(self, data: Any, dtype: str | None = None) -> Value:
        """A constant array."""
        array = np.asarray(data, None if dtype is None else parse(dtype).numpy)
        return self.b.constant(array, self.name + ".constant")

    def full(self, shape: Sequence[int], value: Any, dtype: str) -> Value:
        """A constant whose elements are one number."""
        return self.b.full(tuple(shape), value, parse(dtype).numpy, self.name + ".full")

    def cast(self, v: Value, dtype: str) -> Value:
        return v if v.dtype == dtype else self("cast", v, dtype=dtype)

    def wide(self, v: Value) -> Value:
        """A value in the type in which much is done to it before it is rounded."""
        return self.cast(v, accumulator(v.dtype))

    def reshape(self, v: Value, shape: Sequence[int]) -> Value:
        shape = tuple(d if isinstance(d, Size) else int(d) for d in shape)
        return v if v.shape == shape else self("reshape", v, shape=shape)

    def transpose(self, v: Value, axes: Sequence[int]) -> Value:
        axes = tuple(axes)
        return v if axes == tuple(range(len(v.shape))) else self("transpose", v, axes=axes)

    def broadcast(self, v: Value, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        if (1,) * (len(shape) - len(v.shape)) + v.shape == shape:
            return self.reshape(v, shape)
        return self("broadcast_to", v, shape=shape)

    def part(self, v: Value, axis: int, begin: int, end: int, step: int = 1) -> Value:
        """Elements begin, begin + step, ... before `end` along `axis`; an end of -1 with a step
        below zero means all down to the first."""
        if (begin, end, step) == (0, v.shape[axis], 1):
            return v
        begins, ends, steps = [0] * len(v.shape), list(v.shape), [1] * len(v.shape)
        begins[axis], ends[axis], steps[axis] = begin, end, step
        return self("slice", v, begin=begins, end=ends, strides=steps)

    def parts(self, v: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        """One part after another."""
        found, at = [], 0
        for size in sizes:
            found.append(self.part(v, axis, at, at + size))
            at += size
        return found

    def join(self, values: Sequence[Value], axis: int) -> Value:
        """One value after another; few at a time, since a kernel chooses among its inputs at each
        element."""
        while len(values) > 16:
            values = [self.join(values[k : k + 16], axis) for k in range(0, len(values), 16)]
        return values[0] if len(values) == 1 else self("concat", *values, axis=axis)

    def sum(self, v: Value, axes: Sequence[int]) -> Value:
        """Over some dimensions, which stay as extent 1."""
        return self("reduce", v, type="sum", axes=list(axes), keepdims=True) if axes else v

    def mean(self, v: Value, axes: Sequence[int]) -> Value:
        return self("reduce", v, type="mean", axes=list(axes), keepdims=True) if axes else v
