"""A drawn program as tensors, with data for its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.dtype import parse
from tilewright.loopir.subst import substitute

from .elements import tame
from .programs import Program, Spec
from .stages import Making, build_stage
from .values import Array, draw_array

DIGITS = {("bfloat", 16): 8, ("float", 16): 11, ("float", 32): 24, ("float", 64): 53}


class Built:
    """A program as tensors: placeholders, all stages, and the outputs (the last stage first)."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.symbols: dict[Any, int] = {}
        self.sizes: dict[Any, tuple[float, int]] = {}  # in "exact" mode: at most, binary places
        self.values: list[Any] = []
        for k, given in enumerate(program.inputs):
            extents = tuple(self._extent(d) for d in given.shape)
            t = te.placeholder(extents, given.dtype, name=f"A{k}")
            self.sizes[t] = (3.0, 0)
            self.values.append(t)
        self.placeholders = list(self.values)
        for k, spec in enumerate(program.stages):
            self.values.append(self._stage(spec, f"S{k}"))
        first = len(program.inputs)
        self.outputs = [self.values[-1]]
        self.outputs += [self.values[first + k] for k in program.also]
        self.output = self.values[-1]

    def _extent(self, d: int) -> Any:
        """An extent as written or as a variable: the same for the same number."""
        for var, value in self.symbols.items():
            if value == d:
                return var
        if not self.program.symbolic or d < 2 or (d * 7 % 10) / 10 >= self.program.symbolic:
            return tir.const(d, "int64") if self.program.wide else d
        var = te.var(f"n{len(self.symbols)}", "int64" if self.program.wide else "int32")
        self.symbols[var] = d
        return var

    def _stage(self, spec: Spec, name: str) -> Any:
        program = self.program
        reads = [self.values[r] for r in spec.reads]
        if program.mode == "exact":
            reads = self._small_enough(spec, reads, name)
        making = Making(spec, reads[0], reads, name, program.mode, program.rounding)
        t = build_stage(making)
        if program.mode == "exact":
            self.sizes[t] = self._size(spec, reads, t.dtype)
        return t

    def _small_enough(self, spec: Spec, reads: list[Any], name: str) -> list[Any]:
        """Tensors to read, made small first where a float could not hold the result."""
        types = [t.dtype for t in reads] + [spec.params.get("dtype", "int32")]
        if not self._overflows(spec, reads, types):
            return reads
        small = []
        for n, t in enumerate(reads):
            if spec.kind == "take" and n == 1:
                small.append(t)
                continue
            less = te.compute(t.shape, lambda *i, t=t: tame(t(*i)), name=f"{name}m{n}")
            self.sizes[less] = (3.0, 0)
            small.append(less)
        if spec.kind == "reduce" and self._overflows(spec, small, types):
            spec.params["op"] = "max"  # so long a sum has no place in so short a type
        return small

    def _overflows(self, spec: Spec, reads: list[Any], types: list[str]) -> bool:
        """Whether some float among `types` may not hold the result exactly."""
        for kind in map(parse, types):
            if kind.is_float:
                most, places = self._size(spec, reads, kind.text)
                if most * 2.0**places > 2.0 ** DIGITS[kind.code, kind.bits]:
                    return True
        return False

    def _size(self, spec: Spec, reads: list[Any], dtype: str) -> tuple[float, int]:
        """How large a result may be, and how many binary places it may have."""
        sizes = [self.sizes[t] for t in reads]
        op = spec.params.get("op")
        most = sum(2 * s for s, _ in sizes) + 3.0
        if spec.kind == "cast":
            most = 50.0
        if spec.kind == "reduce" and op == "sum":
            most = sizes[0][0] * float(np.prod([self.extent(d) for d in reads[0].shape])) + 3.0
        places = sum(p for _, p in sizes) if op == "mul" else max(p for _, p in sizes)
        kind = parse(dtype)
        if not kind.is_float:
            return (most if most <= kind.max_value else 2.0 * float(kind.max_value)), 0
        return most, places + (op == "half")

    def extent(self, d: Any) -> int:
        """The number that an extent is."""
        known = {v: tir.const(value, v.dtype) for v, value in self.symbols.items()}
        return int(tvm.arith.Analyzer().simplify(substitute(d, known)))

    def shape(self, t: Any) -> tuple[int, ...]:
        return tuple(self.extent(d) for d in t.shape)

    def used(self) -> list[Any]:
        """The placeholders that the outputs need."""
        seen: dict[Any, None] = {}
        stack = list(self.outputs)
        while stack:
            t = stack.pop()
            if t not in seen:
                seen[t] = None
                stack.extend(t.op.input_tensors)
        return [t for t in self.placeholders if t in seen]

    def feeds(self, number: int = 0) -> dict[Any, Array]:
        """Data set `number` of the inputs."""
        rng = np.random.default_rng((self.program.data_seed, number))
        return {
            t: draw_array(rng, self.program.mode, given.shape, given.dtype, given.below)
            for t, given in zip(self.placeholders, self.program.inputs)
        }
