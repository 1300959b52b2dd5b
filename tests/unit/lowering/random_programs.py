"""Random loop programs like those of loop_nest: tiled, guarded, reduced, with inner stages."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer

K = S.ForKind


class Program:
    """A function, its arrays and the values of its symbols."""

    def __init__(self, seed: int, symbolic: bool | None = None, kinds: bool = True) -> None:
        self.rng = random.Random(seed)
        self.kinds = kinds
        self.symbolic = self.rng.random() < 0.3 if symbolic is None else symbolic
        self.scalars: dict[str, int] = {}
        self.symbols: dict[str, E.Var] = {}
        self.count = 0
        self.dtype = self.rng.choice(["int32", "float32"])
        self.params = [self.buffer(f"A{i}") for i in range(2)]
        body = self.pipeline(self.params, depth=0, outputs=True)
        params: list[E.Var] = [E.Var(b.name, "handle") for b, _ in self.params]
        buffers = dict(zip(params, [b for b, _ in self.params]))
        self.func = S.PrimFunc((*params, *self.symbols.values()), body, None, buffers)
        self.arrays = {
            b.name: np.array(
                [self.rng.randrange(-4, 5) for _ in range(int(np.prod(shape)))], self.dtype
            ).reshape(shape)
            for b, shape in self.params
        }

    def extent(self, rank: int = 1) -> tuple[Any, int]:
        largest = {1: 11, 2: 8, 3: 4}[rank]
        value = self.rng.choice([n for n in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11) if n <= largest])
        if not self.symbolic or self.rng.random() < 0.4:
            return value, value
        name = f"n{value}"
        var = self.symbols.setdefault(name, E.Var(name))
        self.scalars[name] = value
        return var, value

    def buffer(self, name: str, scope: str = "global") -> tuple[Buffer, list[int]]:
        rank = 1 if name.startswith("L") else self.rng.choice([1, 2, 2, 3])
        dims = [self.extent(rank) for _ in range(rank)]
        b = Buffer([d for d, _ in dims], self.dtype, name, scope=scope)
        return b, [n for _, n in dims]

    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def pipeline(self, sources: list[Any], depth: int, outputs: bool = False) -> S.Stmt:
        """A few stages, each reading what stands before it."""
        known = list(sources)
        made: list[tuple[Buffer, bool]] = []
        parts: list[S.Stmt] = []
        number = self.rng.choice([1, 2, 3]) if outputs else 1
        for i in range(number):
            is_output = outputs and i == number - 1
            target = self.buffer(self.name("O" if is_output else "T"))
            if is_output:
                self.params.append(target)
            parts.append(self.stage(target, known, depth))
            made.append((target[0], is_output))
            known.append(target)
        body = S.seq(parts)
        for b, is_output in reversed(made):
            if not is_output:
                body = S.Allocate(b, body)
        return body

    def stage(self, target: tuple[Buffer, list[int]], sources: list[Any], depth: int) -> S.Stmt:
        rng = self.rng
        buffer = target[0]
        loops: list[tuple[E.Var, Any, bool]] = []
        guards: list[Any] = []
        point = [self.axis(d, loops, guards, True) for d in buffer.shape]
        reduction = rng.random() < 0.4
        data_loops, data_guards = list(loops), list(guards)
        rpoint = []
        if reduction:
            extent, _ = self.extent(2)
            rpoint.append(self.axis(extent, loops, guards, False))
        private: list[Any] = []
        wrap: S.Stmt | None = None
        if depth == 0 and rng.random() < 0.3 and not reduction:
            private = [self.buffer(self.name("L"))]
            wrap = self.stage(private[0], sources, depth + 1)
        value = self.value(sources + private, point + rpoint, 3)
        if not reduction:
            body = self.guarded(S.BufferStore(buffer, value, point), guards)
            if wrap is not None:
                body = S.Allocate(private[0][0], S.seq(wrap, body))
            return self.nest(body, loops)
        old = E.BufferLoad(buffer, point)
        combine = rng.choice([E.Add, E.Max, E.Min])
        update = self.guarded(S.BufferStore(buffer, combine(old, value), point), guards)
        zero = E.const(0, self.dtype)
        init = self.nest(self.guarded(S.BufferStore(buffer, zero, point), data_guards), data_loops)
        from tilewright.loopir.copies import fresh_copy

        return S.seq(fresh_copy(init), self.nest(update, loops))

    def axis(self, extent: Any, loops: list[Any], guards: list[Any], data: bool) -> Any:
        """Loops over one axis; gives its value."""
        rng = self.rng
        base = self.name("i" if data else "k")
        if rng.random() < 0.4:
            var = E.Var(base)
            loops.append((var, extent, data))
            return var
        factor = rng.choice([2, 3, 4, 8])
        outer, inner = E.Var(base + ".outer"), E.Var(base + ".inner")
        loops.append((outer, E.convert(extent + factor - 1) // factor, data))
        loops.append((inner, E.const(factor), data))
        value = outer * factor + inner
        divides = isinstance(extent, int) and extent % factor == 0
        fixed = E.const_int(extent)
        if not (divides or (fixed is not None and fixed % factor == 0)):
            guards.append(op.likely(value < extent))
        return value

    def guarded(self, body: S.Stmt, guards: list[Any]) -> S.Stmt:
        for g in reversed(guards):
            body = S.IfThenElse(g, body)
        return body

    def nest(self, body: S.Stmt, loops: list[tuple[E.Var, Any, bool]]) -> S.Stmt:
        order = list(loops)
        self.rng.shuffle(order)
        for depth, (var, extent, data) in enumerate(reversed(order)):
            kind = K.SERIAL
            choice = self.rng.random()
            if self.kinds and data:
                if depth == 0 and choice < 0.4:
                    kind = K.VECTORIZED
                elif choice < 0.2 and E.const_int(extent) is not None:
                    kind = K.UNROLLED
                elif depth == len(order) - 1 and choice < 0.4:
                    kind = K.PARALLEL
            body = S.For(var, 0, extent, kind, body)
        return body

    def value(self, sources: list[Any], point: list[Any], depth: int) -> Any:
        rng = self.rng
        choice = rng.random()
        if depth == 0 or choice < 0.35:
            b, _ = rng.choice(sources)
            at = []
            for d in b.shape:
                i = rng.choice(point)
                if rng.random() < 0.4:
                    i = i + rng.randrange(3)
                at.append(E.FloorMod(E.convert(i), E.convert(d)))
            return E.BufferLoad(b, at)
        if choice < 0.45:
            return E.cast(self.dtype, rng.choice(point))
        a = self.value(sources, point, depth - 1)
        b = self.value(sources, point, depth - 1)
        if choice < 0.55:
            return op.if_then_else(rng.choice(point) % 3 < 2, a, b)
        if choice < 0.62:
            return E.Select(rng.choice(point) >= 2, a, b)
        return rng.choice([E.Add, E.Sub, E.Max, E.Min])(a, b)
