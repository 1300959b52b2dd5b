"""Random tensor programs: one to five stages over one or two inputs.

A program is drawn from a `random.Random` and is data (`Spec`s), so that a failing one can be built
again and shrunk. In "exact" mode all data are small integers and all operations are exact on them,
whatever the order of evaluation; in "real" mode data are floats and a bound on the error says what
may differ.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.base.dtype import parse

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 24, 31, 33)
EXACT_TYPES = ("float32", "float32", "float32", "int32", "float64", "int8", "uint8", "int64")
REAL_TYPES = ("float32", "float32", "float64")
MOST_ELEMENTS = 6000


@dataclass
class Spec:
    """One stage: its kind, the earlier tensors it reads (by number), and its parameters."""

    kind: str
    reads: tuple[int, ...]
    params: dict[str, Any] = field(default_factory=dict)


@dataclass
class Program:
    """Inputs (shape, dtype) and stages; the last stage is the output."""

    mode: str
    inputs: list[tuple[tuple[int, ...], str]]
    stages: list[Spec]
    symbolic: bool = False
    data_seed: int = 0


def random_shape(rng: random.Random, most: int = MOST_ELEMENTS) -> tuple[int, ...]:
    rank = rng.choice((1, 2, 2, 2, 3, 3))
    shape = [rng.choice(EXTENTS) for _ in range(rank)]
    if rng.random() < 0.02:
        shape[rng.randrange(rank)] = 0
    while np.prod(shape) > most:
        shape[shape.index(max(shape))] = rng.choice((2, 3, 5))
    return tuple(shape)


def random_program(rng: random.Random, most: int = MOST_ELEMENTS) -> Program:
    """One program, of inputs of at most `most` elements; every tensor is on the way to the output
    or is dropped."""
    mode = rng.choice(("exact", "real"))
    types = EXACT_TYPES if mode == "exact" else REAL_TYPES
    shape = random_shape(rng, most)
    inputs = [(shape, rng.choice(types))]
    if rng.random() < 0.6:
        other = tuple(rng.choice((d, d, 1)) for d in shape)
        inputs.append((other, rng.choice(types)))
    program = Program(mode, inputs, [], rng.random() < 0.12, rng.randrange(1 << 30))
    shapes = [s for s, _ in inputs]
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4, 5))):
        last = len(shapes) - 1 if program.stages else rng.randrange(len(shapes))
        spec = _random_stage(rng, program, shapes, last)
        program.stages.append(spec)
        shapes.append(shape_of(spec, shapes))
    return program


def _random_stage(
    rng: random.Random, program: Program, shapes: list[tuple[int, ...]], last: int
) -> Spec:
    shape = shapes[last]
    kinds = ["unary", "unary", "binary", "binary", "reduce", "reduce", "stencil", "permute"]
    kinds += ["cast", "select", "window", "gather", "tuple_reduce", "scan", "merge", "pair"]
    kind = rng.choice(kinds)
    if kind == "reduce" or kind == "tuple_reduce":
        if not shape or (kind == "tuple_reduce" and 0 in shape):
            return Spec("unary", (last,), {"op": "neg"})
        axes = [d for d in range(len(shape)) if rng.random() < 0.5] or [len(shape) - 1]
        if len(axes) == len(shape) and rng.random() < 0.7:
            axes = axes[1:] or axes
        op = rng.choice(("sum", "sum", "max", "min"))
        return Spec(kind, (last,), {"axes": axes, "op": op})
    if kind == "binary" or kind == "pair":
        fits = [i for i, s in enumerate(shapes) if _broadcasts(s, shape)]
        other = rng.choice(fits)
        return Spec(kind, (last, other), {"op": rng.choice(("add", "sub", "mul", "max", "min"))})
    if kind == "stencil":
        d = rng.randrange(len(shape)) if shape else 0
        if not shape:
            return Spec("unary", (last,), {"op": "neg"})
        offsets = sorted({rng.randint(-2, 2) for _ in range(3)})
        return Spec(kind, (last,), {"axis": d, "offsets": offsets})
    if kind == "window":
        d = rng.randrange(len(shape)) if shape else 0
        if not shape or shape[d] < 3:
            return Spec("unary", (last,), {"op": "relu"})
        width = rng.randint(2, min(4, shape[d]))
        stride = rng.choice((1, 1, 2))
        return Spec(kind, (last,), {"axis": d, "width": width, "stride": stride})
    if kind == "permute":
        order = list(range(len(shape)))
        rng.shuffle(order)
        return Spec(kind, (last,), {"order": order})
    if kind == "cast":
        types = EXACT_TYPES if program.mode == "exact" else REAL_TYPES
        return Spec(kind, (last,), {"dtype": rng.choice(types)})
    if kind == "select":
        return Spec(kind, (last,), {"modulus": rng.choice((2, 3, 5)), "lazy": rng.random() < 0.5})
    if kind == "gather":
        d = rng.randrange(len(shape)) if shape else 0
        if not shape or shape[d] == 0:
            return Spec("unary", (last,), {"op": "neg"})
        return Spec(kind, (last,), {"axis": d, "factor": rng.choice((1, 2, 3, 5))})
    if kind == "scan":
        if len(shape) < 2 or 0 in shape or shape[0] < 2 or program.symbolic:
            return Spec("unary", (last,), {"op": "half"})
        return Spec(kind, (last,), {})
    if kind == "merge":
        if len(shape) < 2 or shape[1] == 0:
            return Spec("unary", (last,), {"op": "neg"})
        return Spec(kind, (last,), {})
    return Spec("unary", (last,), {"op": rng.choice(("neg", "relu", "half", "square", "math"))})


def _broadcasts(s: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(s) <= len(to) and all(a in (b, 1) for a, b in zip(reversed(s), reversed(to)))


def shape_of(spec: Spec, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Extents of a stage's result."""
    shape = shapes[spec.reads[0]]
    p = spec.params
    if spec.kind in ("reduce", "tuple_reduce"):
        return tuple(e for d, e in enumerate(shape) if d not in p["axes"])
    if spec.kind == "window":
        d = p["axis"]
        out = (shape[d] - p["width"]) // p["stride"] + 1
        return (*shape[:d], out, *shape[d + 1 :])
    if spec.kind == "permute":
        return tuple(shape[d] for d in p["order"])
    if spec.kind == "merge":
        return (shape[0] * shape[1], *shape[2:])
    return shape


# ---- tensors


class Built:
    """A program as tensors: placeholders, all stages, and the output."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.symbols: dict[Any, int] = {}
        self.placeholders = []
        values: list[Any] = []
        shapes: list[tuple[Any, ...]] = []
        for k, (shape, dtype) in enumerate(program.inputs):
            extents = tuple(self._extent(d) for d in shape)
            t = te.placeholder(extents, dtype, name=f"A{k}")
            self.placeholders.append(t)
            values.append(t)
            shapes.append(extents)
        for k, spec in enumerate(program.stages):
            t = build_stage(spec, values, f"S{k}", program.mode)
            values.append(t)
            shapes.append(tuple(t.shape))
        self.values = values
        self.output = values[-1]

    def _extent(self, d: int) -> Any:
        if not self.program.symbolic or d < 2:
            return d
        for var, value in self.symbols.items():
            if value == d:
                return var
        var = te.var(f"n{len(self.symbols)}")
        self.symbols[var] = d
        return var

    def symbols_as_consts(self) -> dict[Any, Any]:
        return {v: tir.const(value) for v, value in self.symbols.items()}

    def used(self) -> list[Any]:
        """The placeholders that the output needs."""
        seen: dict[Any, None] = {}
        stack = [self.output]
        while stack:
            t = stack.pop()
            if t not in seen:
                seen[t] = None
                op = t.op
                stack.extend(op.input_tensors)
        return [t for t in self.placeholders if t in seen]

    def feeds(self) -> dict[Any, np.ndarray]:
        rng = np.random.default_rng(self.program.data_seed)
        result = {}
        for t, (shape, dtype) in zip(self.placeholders, self.program.inputs):
            kind = parse(dtype)
            if self.program.mode == "exact":
                low = 0 if kind.is_uint else -3
                data = rng.integers(low, 4, shape)
            else:
                data = rng.uniform(-2, 2, shape)
            result[t] = np.asarray(data).astype(kind.numpy)
        return result


def build_stage(spec: Spec, values: list[Any], name: str, mode: str) -> Any:
    """The tensor of one stage."""
    x = values[spec.reads[0]]
    builders = {
        "unary": _unary,
        "binary": _binary,
        "pair": _pair,
        "reduce": _reduce,
        "tuple_reduce": _tuple_reduce,
        "stencil": _stencil,
        "window": _window,
        "permute": _permute,
        "cast": _cast,
        "select": _select,
        "gather": _gather,
        "scan": _scan,
        "merge": _merge,
    }
    return builders[spec.kind](spec, x, values, name, mode)


def _zero(x: Any) -> Any:
    return tir.const(0, x.dtype)


def _unary(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    op = spec.params["op"]
    kind = parse(x.dtype)

    def apply(v: Any) -> Any:
        if op == "relu":
            return tir.max(v, _zero(v))
        if op == "half":
            return v * tir.const(0.5, v.dtype) if kind.is_float else te.floordiv(v, 2)
        if op == "square":
            if mode == "exact":
                return tir.min(tir.max(v, _zero(v)), tir.const(3, v.dtype)) + v
            return v * v
        if op == "math" and kind.is_float and mode == "real":
            return te.tanh(v) + te.exp(tir.min(v, tir.const(1, v.dtype)))
        return _zero(v) - v

    return te.compute(x.shape, lambda *i: apply(x(*i)), name=name)


def _read(t: Any, indices: Any) -> Any:
    """An element of a tensor that is broadcast to the rank of `indices`."""
    tail = indices[len(indices) - len(t.shape) :]
    one = [tir.const(0) if _is_one(d) else i for i, d in zip(tail, t.shape)]
    return t(*one)


def _is_one(d: Any) -> bool:
    return getattr(d, "value", None) == 1


def _combine(op: str, a: Any, b: Any) -> Any:
    if op == "add":
        return a + b
    if op == "sub":
        return a - b
    if op == "mul":
        two, low = tir.const(2, b.dtype), _zero(b)
        return a * tir.max(tir.min(b, two), low)
    return tir.max(a, b) if op == "max" else tir.min(a, b)


def _binary(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    y = values[spec.reads[1]]
    op = spec.params["op"]
    return te.compute(x.shape, lambda *i: _combine(op, x(*i), _read(y, i)), name=name)


def _pair(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    """Two outputs of one operation, of which both are read by the next."""
    y = values[spec.reads[1]]
    op = spec.params["op"]
    first, second = te.compute(
        x.shape, lambda *i: (_combine(op, x(*i), _read(y, i)), x(*i)), name=name + "p"
    )
    return te.compute(x.shape, lambda *i: tir.max(first(*i), second(*i)), name=name)


def _reduce(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    axes, op = spec.params["axes"], spec.params["op"]
    ks = [te.reduce_axis((0, x.shape[d]), name=f"k{d}") for d in axes]
    shape = [e for d, e in enumerate(x.shape) if d not in axes]
    reducer = {"sum": te.sum, "max": te.max, "min": te.min}[op]
    if not parse(x.dtype).is_float and op == "sum" and parse(x.dtype).bits < 32:
        op = "max"
        reducer = te.max

    def element(*i: Any) -> Any:
        data, running = iter(i), iter(ks)
        indices = [next(running) if d in axes else next(data) for d in range(len(x.shape))]
        return reducer(x(*indices), axis=ks)

    return te.compute(shape, element, name=name)


def _tuple_reduce(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    """Index and value of the largest element along the axes (the first of equals)."""
    axes = spec.params["axes"]
    ks = [te.reduce_axis((0, x.shape[d]), name=f"k{d}") for d in axes]
    shape = [e for d, e in enumerate(x.shape) if d not in axes]

    def combine(a: Any, b: Any) -> Any:
        first = te.any(a[1] > b[1], te.all(a[1].equal(b[1]), a[0] < b[0]))
        return tir.Select(first, a[0], b[0]), tir.Select(first, a[1], b[1])

    best = te.comm_reducer(
        combine, lambda i, v: (tir.const(1 << 20, i), te.min_value(v)), name="best"
    )

    def element(*i: Any) -> Any:
        data, running = iter(i), iter(ks)
        indices = [next(running) if d in axes else next(data) for d in range(len(x.shape))]
        number: Any = tir.const(0)
        for k, d in zip(ks, axes):
            number = number * x.shape[d] + k
        return best((number, x(*indices)), axis=ks)

    where, value = te.compute(shape, element, name=name + "t")
    modulus = tir.const(3)
    return te.compute(
        shape,
        lambda *i: value(*i) + te.floormod(where(*i), modulus).astype(x.dtype),
        name=name,
    )


def _stencil(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    d, offsets = spec.params["axis"], spec.params["offsets"]
    extent = x.shape[d]

    def element(*i: Any) -> Any:
        total = _zero(x)
        for o in offsets:
            at = i[d] + o
            inside = te.all(at >= 0, at < extent)
            value = te.if_then_else(inside, x(*i[:d], at, *i[d + 1 :]), _zero(x))
            total = tir.max(total, value) if mode == "exact" else total + value
        return total

    return te.compute(x.shape, element, name=name)


def _window(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    d, width, stride = (spec.params[k] for k in ("axis", "width", "stride"))
    k = te.reduce_axis((0, width), name="w")
    out = te.floordiv(x.shape[d] - width, stride) + 1
    shape = [*x.shape[:d], out, *x.shape[d + 1 :]]
    return te.compute(
        shape,
        lambda *i: te.max(x(*i[:d], i[d] * stride + k, *i[d + 1 :]), axis=k),
        name=name,
    )


def _permute(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    order = spec.params["order"]

    def element(*i: Any) -> Any:
        back = [None] * len(order)
        for k, d in enumerate(order):
            back[d] = i[k]
        return x(*back)

    return te.compute([x.shape[d] for d in order], element, name=name)


def _cast(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    dtype = spec.params["dtype"]
    unsigned = parse(dtype).is_uint

    def element(*i: Any) -> Any:
        v = x(*i)
        if mode == "exact":  # keep every value small, whatever its type
            low = _zero(v) if unsigned or parse(v.dtype).is_uint else tir.const(-50, v.dtype)
            v = tir.max(tir.min(v, tir.const(50, v.dtype)), low)
        return v.astype(dtype)

    return te.compute(x.shape, element, name=name)


def _select(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    modulus = spec.params["modulus"]
    choose = te.if_then_else if spec.params["lazy"] else tir.Select

    def element(*i: Any) -> Any:
        place = sum(i[1:], i[0]) if i else tir.const(0)
        return choose(te.floormod(place, modulus).equal(0), x(*i), _zero(x) - x(*i))

    return te.compute(x.shape, element, name=name)


def _gather(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    d, factor = spec.params["axis"], spec.params["factor"]
    extent = x.shape[d]

    def element(*i: Any) -> Any:
        at = te.floormod(i[d] * factor + 1, extent)
        return x(*i[:d], at, *i[d + 1 :])

    return te.compute(x.shape, element, name=name)


def _scan(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    state = te.placeholder(x.shape, x.dtype, name=name + "s")
    init = te.compute((1, *x.shape[1:]), lambda *i: x(0, *i[1:]), name=name + "i")

    def step(t: Any, *i: Any) -> Any:
        return tir.max(state(t - 1, *i), x(t, *i))

    update = te.compute(x.shape, step, name=name + "u")
    return te.scan(init, update, state, inputs=[x], name=name)


def _merge(spec: Spec, x: Any, values: Any, name: str, mode: str) -> Any:
    inner = x.shape[1]

    def element(i: Any, *rest: Any) -> Any:
        return x(te.floordiv(i, inner), te.floormod(i, inner), *rest)

    return te.compute((x.shape[0] * inner, *x.shape[2:]), element, name=name)
