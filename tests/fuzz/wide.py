"""`python -m tests.fuzz.wide --cases N --seed S`: index arithmetic past 31 bits.

Random programs over huge extents, constant or symbolic, under random schedules. No memory is
needed: some iterations of the lowered loops are evaluated twice, in Python's integers and as a
machine would, wrapping each operation to its type. Wherever a value counts (indices, conditions,
bounds of loops, what is stored) the two must agree, indices must lie in their buffers, and
what an output stores at an element must be read from where the formula says.
"""

from __future__ import annotations

import argparse
import math
import random
from typing import Any

import tilewright as tvm
from tilewright import te
from tilewright.base.dtype import MOST_SIZE, parse
from tilewright.base.errors import ScheduleError
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.fold import trunc_div, wrap_int

SIZES = (1, 2, 3, 7, 64, 1000, 46341, 50000, 65536, 70001, 99991, 1 << 17)
Pair = tuple[Any, Any]  # exact and as a machine has it; of vectors, lists


class Refused(Exception):
    """The program says of these sizes that it does not take them."""


class Wrong(Exception):
    """A value that counts is not what it should be."""


def _op(kind: type, a: int, b: int) -> Any:
    if kind in (E.FloorDiv, E.FloorMod, E.Div, E.Mod) and b == 0:
        return 0
    if kind is E.Div:
        return trunc_div(a, b)
    if kind is E.Mod:
        return a - b * trunc_div(a, b)
    return _PYTHON[kind](a, b)


_PYTHON: dict[type, Any] = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.FloorDiv: lambda a, b: a // b,
    E.FloorMod: lambda a, b: a % b,
    E.Min: min,
    E.Max: max,
    E.LT: lambda a, b: a < b,
    E.LE: lambda a, b: a <= b,
    E.GT: lambda a, b: a > b,
    E.GE: lambda a, b: a >= b,
    E.EQ: lambda a, b: a == b,
    E.NE: lambda a, b: a != b,
    E.And: lambda a, b: a and b,
    E.Or: lambda a, b: a or b,
}
_RING = (E.Add, E.Sub, E.Mul, E.Min, E.Max)


class Machine:
    """Evaluates expressions; `addresses64` as LLVM does, which computes indices in 64 bits."""

    def __init__(self, sizes: dict[E.Var, int], addresses64: bool, rng: random.Random) -> None:
        self.env: dict[E.Var, Pair] = {v: (n, n) for v, n in sizes.items()}
        self.addresses64 = addresses64
        self.rng = rng
        self.checked = 0
        self.reads: list[tuple[str, int]] = []

    def same(self, e: Any, index: bool = False) -> Any:
        """The value of an expression where it counts."""
        exact, machine = self.value(e, index and self.addresses64)
        self.checked += 1
        if exact != machine:
            raise Wrong(f"{e} is {exact}, computed as {machine}")
        return exact

    def value(self, e: Any, wide: bool = False) -> Pair:
        t, kind = parse(e.dtype), type(e)
        if kind in (E.IntImm, E.FloatImm):
            return e.value, e.value
        if isinstance(e, E.Var):
            exact, machine = self.env[e]
            return exact, self.wrap(t, machine, wide)
        if kind is E.Ramp:
            base, stride = self.value(e.base, wide), self.value(e.stride, wide)
            lanes = [[b + s * i for i in range(e.lanes)] for b, s in zip(base, stride)]
            return lanes[0], self.wrap(t, lanes[1], wide)
        if kind is E.Broadcast:
            exact, machine = self.value(e.value, wide)
            return [exact] * e.lanes, [machine] * e.lanes
        if kind in _PYTHON:
            inner = wide and kind in _RING
            x, y = self.value(e.a, inner), self.value(e.b, inner)
            if t.is_float:
                return x[0], x[0]
            exact, machine = (_lanes(lambda a, b: _op(kind, a, b), *z) for z in zip(x, y))
            return exact, machine if t.is_bool else self.wrap(t, machine, inner)
        if kind is E.Cast:
            source = parse(e.value.dtype)
            exact, machine = self.value(e.value, wide and source.bits >= 32)
            if t.is_float and source.is_int and exact != machine:
                raise Wrong(f"{e.value} is {exact}, computed as {machine}")
            if not t.is_int:
                return exact, machine
            if t.bits >= 32 and source.is_int:  # the value counts, unless it is data
                return exact, self.wrap(t, machine, wide)
            return self.wrap(t, exact, False), self.wrap(t, machine, False)
        if kind is E.Not:
            exact, machine = self.value(e.a)
            return (not exact), (not machine)
        if kind is E.Select:
            return self.value(e.true_value if self.same(e.condition) else e.false_value, wide)
        if kind is E.BufferLoad:
            return self.load(e)
        if kind is E.Call:
            if e.op.name == "tir.likely":
                return self.value(e.args[0], wide)
            if e.op.name == "tir.if_then_else":
                return self.value(e.args[1] if self.same(e.args[0]) else e.args[2], wide)
        raise NotImplementedError(f"{kind.__name__}: {e}")

    def wrap(self, t: Any, x: Any, wide: bool) -> Any:
        if wide or not t.is_int:
            return x
        return _lanes(lambda a: wrap_int(t.element, a), x)

    def place(self, buffer: Any, indices: Any, predicate: Any) -> Any:
        at = self.same(indices[0], index=True)
        size = self.exact(buffer.shape[0])
        active = [True] if predicate is None else self.same(predicate)
        lanes = at if isinstance(at, list) else [at]
        flags = active if len(active) == len(lanes) else active * len(lanes)
        for lane, flag in zip(lanes, flags):
            if flag and not 0 <= lane < size:
                raise Wrong(f"{buffer.name}[{indices[0]}] is element {lane} of {size}")
        return at

    def exact(self, e: Any) -> int:
        return int(self.value(e, True)[0])

    def load(self, e: E.BufferLoad) -> Pair:
        at = self.place(e.buffer, e.indices, e.predicate)
        self.reads.append((e.buffer.name, at))
        one = [1] * len(at) if isinstance(at, list) else 1
        return one, one

    # -- statements

    def run(self, s: Any) -> None:
        kind = type(s)
        if kind is S.For:
            low, extent = self.same(s.min, True), self.same(s.extent, True)
            spots = {0, extent - 1, self.rng.randrange(max(extent, 1))} if extent > 0 else set()
            few = sorted(spots)
            for i in few if len(self.env) < 6 else few[:1] and [self.rng.choice(few)]:
                self.bind(s.loop_var, low + i, s.body)
        elif kind is S.AttrStmt and s.attr_key in ("thread_extent", "virtual_thread"):
            extent = self.exact(s.value)
            if extent > 0:
                at = self.rng.choice((0, extent - 1, self.rng.randrange(extent)))
                self.bind(s.node.var, min(at, (1 << 31) - 2), s.body)
        elif kind is S.LetStmt:
            exact, machine = self.value(s.value, self.addresses64)
            self.env[s.var] = exact, machine
            self.run(s.body)
        elif kind is S.IfThenElse:
            branch = s.then_case if self.same(s.condition, True) else s.else_case
            if branch is not None:
                self.run(branch)
        elif kind is S.AssertStmt:
            if not self.same(s.condition):
                raise Refused
            self.run(s.body)
        elif kind is S.SeqStmt:
            for part in s.seq if len(s.seq) < 9 else self.rng.sample(s.seq, 8):
                self.run(part)
        elif kind is S.BufferStore:
            self.store(s)
        elif kind is S.Evaluate:
            return
        else:
            self.run(s.body)

    def bind(self, var: E.Var, value: int, body: Any) -> None:
        machine = value if self.addresses64 else wrap_int(var.dtype, value)
        self.env[var] = value, machine
        if value != wrap_int(var.dtype, value):
            raise Wrong(f"{var.name} of type {var.dtype} takes the value {value}")
        self.run(body)
        del self.env[var]

    def store(self, s: S.BufferStore) -> None:
        self.reads = []
        value, machine = self.value(s.value)
        if self.wrap(parse(s.value.dtype), value, False) != machine:
            raise Wrong(f"stored is {value}, computed as {machine}: {s}")
        self.wrote(s.buffer.name, self.place(s.buffer, s.indices, s.predicate), s)

    def wrote(self, name: str, at: Any, s: S.BufferStore) -> None:
        """The hook for who knows what is read for an element."""


def _lanes(f: Any, *x: Any) -> Any:
    if any(isinstance(v, list) for v in x):
        n = max(len(v) for v in x if isinstance(v, list))
        return [f(*(v[i] if isinstance(v, list) else v for v in x)) for i in range(n)]
    return f(*x)


class Case:
    """One program: B[i, j] reads A at a place that a formula gives, under a random schedule."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.symbolic = rng.random() < 0.4
        self.gpu = rng.random() < 0.35
        self.shape = [rng.choice(SIZES[5:]) for _ in range(2)]
        self.shape[rng.randrange(3) : 0] = [rng.choice(SIZES) for _ in range(rng.randrange(2))]
        if rng.random() < 0.2:
            self.shape[0] = rng.choice((1 << 31, 3_000_000_000, (1 << 31) - 1, 1 << 33))
        while math.prod(self.shape) >= 1 << 62:
            self.shape.pop()
        self.sizes: dict[E.Var, int] = {}
        self.dims = [self._dim(n, k) for k, n in enumerate(self.shape)]
        self.kind = rng.choice(("copy", "reshape", "padded", "sum"))

    def _dim(self, n: int, k: int) -> Any:
        if not self.symbolic or self.rng.random() < 0.3:
            return n
        var = te.var(f"n{k}", "int64" if n > MOST_SIZE else "int32")
        self.sizes[var] = n
        return var

    def build(self) -> Any:
        """The schedule and its arguments."""
        dims = self.dims
        flat: Any = 1
        for d in dims:
            flat = d * flat
        A = te.placeholder(tuple(dims), "int8", name="A")
        if self.kind == "reshape":
            flat = flat if isinstance(flat, int) else tvm.tir.Cast("int64", flat)
            big: Any = 1
            for d in dims:
                big = (d if isinstance(d, int) else d.astype("int64")) * big
            self.flat_dtype = "int64"
            B = te.compute((big,), lambda x: A[tuple(_digits(x, dims))], name="B")
        elif self.kind == "padded":
            B = te.compute(
                tuple(d + 2 for d in dims),
                lambda *i: te.if_then_else(
                    te.all(*[x >= 1 for x in i], *[x - 1 < d for x, d in zip(i, dims)]),
                    A[tuple(x - 1 for x in i)],
                    tvm.tir.const(0, "int8"),
                ),
                name="B",
            )
        elif self.kind == "sum" and len(dims) > 1:
            axes = [te.reduce_axis((0, d), f"k{n}") for n, d in enumerate(dims[1:])]
            B = te.compute((dims[0],), lambda i: te.sum(A[(i, *axes)], axis=axes), name="B")
        else:
            B = te.compute(tuple(dims), lambda *i: A[i] + i[0].astype("int8"), name="B")
        s = te.create_schedule(B.op)
        self.schedule(s, A, B)
        return s, [A, B]

    def schedule(self, s: Any, A: Any, B: Any) -> None:
        rng = self.rng
        out, target = s[B], B
        if rng.random() < 0.3:
            target = s.cache_write(B, "local" if self.gpu else "global")
        if target is not B:
            leaf = self._tile(s[B], list(s[B].op.axis))
            s[target].compute_at(s[B], rng.choice(leaf))
            if rng.random() < 0.4 and not self.gpu:
                self._tile(s[target], list(s[target].op.axis), bind=False)
            return
        leaves = self._tile(out, list(out.op.axis))
        if out.op.reduce_axis:
            axes = list(out.op.reduce_axis)
            while len(axes) > 1:
                axes = [out.fuse(axes[0], axes[1]), *axes[2:]]
            o, i = out.split(axes[0], factor=rng.choice((4, 64, 1000)))
            if rng.random() < 0.5 and not self.gpu:
                s.rfactor(B, rng.choice((o, i)))
        elif rng.random() < 0.3:
            cached = s.cache_read(A, "local" if self.gpu else "global", [B])
            s[cached].compute_at(out, rng.choice(leaves))

    def _tile(self, stage: Any, axes: list[Any], bind: bool = True) -> list[Any]:
        rng = self.rng
        for _ in range(rng.randrange(1, 5)):
            k = rng.randrange(len(axes))
            if len(axes) > 1 and rng.random() < 0.7:
                k = min(k, len(axes) - 2)
                axes[k : k + 2] = [stage.fuse(axes[k], axes[k + 1])]
            else:
                how = {rng.choice(("factor", "nparts")): rng.choice((2, 7, 16, 64, 1000, 65536))}
                axes[k : k + 1] = stage.split(axes[k], **how)
        if rng.random() < 0.3:
            rng.shuffle(axes)
            stage.reorder(*axes)
        if self.gpu and bind:
            while len(axes) > 2:
                axes[:2] = (
                    [stage.fuse(axes[0], axes[1])] if self._adjacent(stage, axes) else axes[1:]
                )
            o, i = stage.split(axes[0], factor=rng.choice((32, 64, 256)))
            stage.bind(o, te.thread_axis("blockIdx.x"))
            stage.bind(i, te.thread_axis("threadIdx.x"))
            return [i]
        if bind and rng.random() < 0.3:
            stage.parallel(stage.leaf_iter_vars[0])
        if bind and not stage.op.reduce_axis and rng.random() < 0.4:
            rest = list(stage.leaf_iter_vars)
            o, i = stage.split(rest[-1], factor=rng.choice((4, 8)))
            stage.vectorize(i)
            return [o]
        return list(stage.leaf_iter_vars)[: len(stage.op.axis)]

    def _adjacent(self, stage: Any, axes: list[Any]) -> bool:
        leaves = list(stage.leaf_iter_vars)
        return leaves.index(axes[1]) == leaves.index(axes[0]) + 1

    def source(self, at: int) -> int | None:
        """Which element of A the element `at` of B is computed from, where that is one."""
        if self.kind == "sum" and len(self.shape) > 1:
            return None
        if self.kind != "padded":
            return at
        place, found = [], 0
        for n in reversed(self.shape):
            place.append(at % (n + 2) - 1)
            at //= n + 2
        for x, n in zip(reversed(place), self.shape):
            if not 0 <= x < n:
                return None
            found = found * n + x
        return found


def _digits(x: Any, dims: list[Any]) -> list[Any]:
    result: list[Any] = []
    for d in reversed(dims[1:]):
        result.append(x % d)
        x = x // d
    return [x, *reversed(result)]


class _Formula(Machine):
    def __init__(self, case: Case, *args: Any) -> None:
        super().__init__(*args)
        self.case = case

    def wrote(self, name: str, at: Any, s: S.BufferStore) -> None:
        spots = at if isinstance(at, list) else [at]
        if name != "B" or s.predicate is not None:
            return
        for buffer, index in self.reads:
            found = index if isinstance(index, list) else [index]
            for lane, (b, a) in enumerate(zip(spots, found)):
                want = self.case.source(b)
                if buffer == "A" and want is not None and a != want:
                    raise Wrong(
                        f"element {b} of B reads element {a} of A, not {want} (lane {lane})"
                    )


def run_case(seed: int) -> str:
    """ "ok", "refused" (by a check at entry) or "schedule" (not lowered); Wrong is a finding."""
    case = Case(seed)
    try:
        s, args = case.build()
        func = next(iter(tvm.lower(s, args).functions.values()))
    except ScheduleError:
        return "schedule"
    if case.gpu and case.symbolic and _too_many(func, case.sizes):
        return "refused"
    sizes = {**case.sizes, **_strides(func, case.sizes)}
    machine = _Formula(case, sizes, not case.gpu, random.Random(seed))
    try:
        for _ in range(4):
            machine.run(func.body)
    except Refused:
        return "refused"
    return "ok"


def _shape(b: Any, sizes: dict[E.Var, int]) -> list[int]:
    machine = Machine(sizes, True, random.Random(0))
    return [machine.exact(d) for d in b.shape]


def _too_many(func: Any, sizes: dict[E.Var, int]) -> bool:
    """Whether the runtime refuses the arrays: more elements than int32 counts."""
    for b in func.buffer_map.values():
        count = 1
        for n in _shape(b, sizes):
            count *= n
        if count >= 1 << 31:
            return True
    return False


def _strides(func: Any, sizes: dict[E.Var, int]) -> dict[E.Var, int]:
    found: dict[E.Var, int] = {}
    for b in func.buffer_map.values():
        step = 1
        for n, stride in zip(reversed(_shape(b, sizes)), reversed(b.strides)):
            if isinstance(stride, E.Var):
                found[stride] = step
            step *= n
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts: dict[str, int] = {}
    bad = 0
    for seed in range(options.seed, options.seed + options.cases):
        try:
            result = run_case(seed)
        except Exception as error:
            bad += 1
            print(f"seed {seed}: {type(error).__name__}: {error}")
            continue
        counts[result] = counts.get(result, 0) + 1
    print(counts, "findings:", bad)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
