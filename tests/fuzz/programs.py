"""Random tensor programs: one to five stages over one to three inputs.

A program is drawn from a `random.Random` and is data (`Spec`s), so that a failing one can be built
again (built.py) and shrunk. Its mode says which data it gets (values.py) and how results compare:

- "exact": small whole numbers of any type, all operations exact whatever their order;
- "full": any value of any type. Integers wrap; floats go through operations that round once each
  and that neither contraction nor another order of evaluation changes;
- "real" and "special": floats of any type around 1 (special: with NaN, infinities and subnormal
  numbers among them), compared within the bounds of te_eval_bound.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .values import ALL_TYPES, FLOATS

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 24, 31, 33)
MODES = ("exact", "exact", "full", "full", "full", "real", "real", "special")
TYPES = {
    "exact": ("float32", "float32", "int32", *ALL_TYPES),
    "full": ("int32", "int32", "int64", "float32", *ALL_TYPES),
    "real": ("float32", "float32", "float64", *FLOATS),
    "special": ("float32", *FLOATS),
}
INDEX_TYPES = ("int32", "int32", "int64", "int8", "uint8", "int16", "uint32")
MOST_ELEMENTS, ENOUGH = 6000, 200
Shape = tuple[int, ...]

UNARY = (
    "neg", "relu", "half", "square", "math", "abs", "not", "popcount", "clz", "floor", "ceil",
    "trunc", "round", "nearbyint", "sqrt", "isnan", "isfinite", "quotient", "quotient", "remainder",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "max", "min", "add", "sub", "mul", "and", "or", "xor", "shl", "shr",
    "floordiv", "floormod", "truncdiv", "truncmod", "divide", "less", "equal", "differ", "least",
)  # fmt: skip
KINDS = (
    "unary", "unary", "binary", "binary", "binary", "reduce", "reduce", "reduce", "stencil",
    "permute", "cast", "select", "window", "gather", "take", "tuple_reduce", "twice_reduce", "scan",
    "merge", "pair", "extern",
)  # fmt: skip


@dataclass
class Spec:
    """One stage: its kind, the earlier tensors it reads (by number), and its parameters."""

    kind: str
    reads: tuple[int, ...]
    params: dict[str, Any] = field(default_factory=dict)


@dataclass
class Input:
    """A tensor given from outside; `below`: it holds indices that are less than this."""

    shape: Shape
    dtype: str
    below: int = 0


@dataclass
class Program:
    """Inputs and stages; the last stage is an output, `also` names others that are.

    `rounding`: "add" or "mul", which of the two a "full" program does with floats. `symbolic`: the
    share of extents that are variables; `wide`: extents are int64.
    """

    mode: str
    inputs: list[Input]
    stages: list[Spec]
    symbolic: float = 0.0
    data_seed: int = 0
    also: tuple[int, ...] = ()
    rounding: str = "add"
    wide: bool = False


def random_shape(rng: random.Random, most: int = MOST_ELEMENTS) -> Shape:
    rank = rng.choice((1, 2, 2, 2, 3, 3, 4))
    shape = [rng.choice(EXTENTS) for _ in range(rank)]
    if rank == 1:
        shape[0] *= rng.choice((1, 13, 31))
    if rng.random() < 0.02:
        shape[rng.randrange(rank)] = 0
    while np.prod(shape) > most:
        shape[shape.index(max(shape))] = rng.choice((2, 3, 5))
    return tuple(shape)


def random_program(
    rng: random.Random, most: int = MOST_ELEMENTS, on_device: bool = False
) -> Program:
    """One program, of inputs of at most `most` elements; every tensor is on the way to an output
    or is dropped. Most outputs have at least ENOUGH elements."""
    enough = rng.random() < 0.8
    for _ in range(8):
        draw = _Draw(rng, most, on_device)
        if not enough or np.prod(draw.shapes[-1]) >= ENOUGH:
            break
    return draw.program


class _Draw:
    """A program while it is drawn; `shapes` are those of all inputs, then of all stages."""

    def __init__(self, rng: random.Random, most: int, on_device: bool) -> None:
        self.rng, self.most, self.on_device = rng, most, on_device
        mode = rng.choice(MODES)
        shape = random_shape(rng, most)
        inputs = [Input(shape, rng.choice(TYPES[mode]))]
        if rng.random() < 0.6:
            dtype = inputs[0].dtype if rng.random() < 0.6 else rng.choice(TYPES[mode])
            inputs.append(Input(tuple(rng.choice((d, d, 1)) for d in shape), dtype))
        symbolic = rng.choice((0.4, 1.0)) if rng.random() < 0.2 else 0.0
        self.program = Program(mode, inputs, [], symbolic, rng.randrange(1 << 30))
        self.program.rounding = rng.choice(("add", "add", "mul"))
        self.program.wide = rng.random() < 0.08
        if rng.random() < 0.3:
            below = max(1, rng.choice(shape))
            length = rng.choice(EXTENTS)
            inputs.append(Input((length,), rng.choice(INDEX_TYPES), below))
        self.shapes: list[Shape] = [i.shape for i in inputs]
        self.sources = [k for k, i in enumerate(inputs) if not i.below]
        for number in range(rng.choice((1, 2, 2, 3, 3, 4, 5))):
            self.stage(self.sources[-1] if number else rng.choice(self.sources))
        count = len(self.program.stages)
        if count > 1 and rng.random() < 0.15:
            self.program.also = (rng.randrange(count - 1),)

    def stage(self, last: int) -> None:
        spec = self.spec(self.rng.choice(KINDS), last)
        self.program.stages.append(spec)
        self.shapes.append(shape_of(spec, self.shapes))
        self.sources.append(len(self.shapes) - 1)

    def spec(self, kind: str, last: int) -> Spec:
        """A stage of that kind on tensor number `last`, or a simple one where that cannot be."""
        rng, shape = self.rng, self.shapes[last]
        op = rng.choice(UNARY)
        simple = Spec("unary", (last,), {"op": op, "number": rng.randrange(100)})
        if not shape and kind not in ("unary", "binary", "pair", "cast", "select"):
            return simple
        axis = rng.randrange(len(shape)) if shape else 0
        if kind in ("reduce", "tuple_reduce", "twice_reduce"):
            return self.reduction(kind, last)
        if kind in ("binary", "pair"):
            fits = [i for i in self.sources if _broadcasts(self.shapes[i], shape)]
            op = rng.choice(BINARY if kind == "binary" else BINARY[:5])
            promote = rng.random() < 0.3
            return Spec(kind, (last, rng.choice(fits)), {"op": op, "promote": promote})
        if kind == "stencil":
            offsets = sorted({rng.randint(-2, 2) for _ in range(3)})
            return Spec(kind, (last,), {"axis": axis, "offsets": offsets})
        if kind == "window":
            if shape[axis] < 3:
                return simple
            width, stride = rng.randint(2, min(4, shape[axis])), rng.choice((1, 1, 2))
            return Spec(kind, (last,), {"axis": axis, "width": width, "stride": stride})
        if kind == "permute":
            return Spec(kind, (last,), {"order": rng.sample(range(len(shape)), len(shape))})
        if kind == "cast":
            types = FLOATS if self.program.mode in ("real", "special") else ALL_TYPES
            return Spec(kind, (last,), {"dtype": rng.choice(types)})
        if kind == "select":
            modulus = rng.choice((2, 3, 5))
            return Spec(kind, (last,), {"modulus": modulus, "lazy": rng.random() < 0.5})
        if kind == "gather" and shape[axis]:
            return Spec(kind, (last,), {"axis": axis, "factor": rng.choice((1, 2, 3, 5))})
        steps = len(shape) > 1 and 0 not in shape and shape[0] > 1
        if kind == "scan" and steps and not self.program.symbolic:
            return Spec(kind, (last,), {"op": rng.choice(("max", "last", "states"))})
        if kind == "merge" and len(shape) > 1 and shape[1]:
            return Spec(kind, (last,), {})
        if kind == "take" and 0 not in shape:
            return self.take(last, axis)
        exact = self.program.mode in ("exact", "full")
        if kind == "extern" and exact and 0 not in shape:
            ways = ("reverse", "running", "scatter", "packed")
            way = rng.choice(ways[:3] if self.on_device else ways)
            return Spec(kind, (last,), {"way": way, "threads": self.on_device})
        return simple

    def reduction(self, kind: str, last: int) -> Spec:
        rng, shape = self.rng, self.shapes[last]
        if kind != "reduce" and 0 in shape:
            return Spec("unary", (last,), {"op": "neg"})
        axes = [d for d in range(len(shape)) if rng.random() < 0.4] or [len(shape) - 1]
        if len(axes) == len(shape) and rng.random() < 0.8:
            axes = axes[1:] or axes
        params: dict[str, Any] = {"axes": axes, "op": rng.choice(("sum", "sum", "max", "min"))}
        if kind == "reduce":
            params["start"] = rng.choice(("", "", "", "", "const", "read"))
            params["where"] = rng.random() < 0.1
        left = tuple(e for d, e in enumerate(shape) if d not in axes)
        starts = [i for i in self.sources if self.shapes[i] == left]
        if params.get("start") == "read" and starts and left:
            return Spec(kind, (last, rng.choice(starts)), params)
        return Spec(kind, (last,), params)

    def take(self, last: int, axis: int) -> Spec:
        """Elements of one axis by indices that are read: an input's, or an earlier stage's."""
        rng, shape = self.rng, self.shapes[last]
        given = [k for k, i in enumerate(self.program.inputs) if 0 < i.below <= shape[axis]]
        lines = [k for k in self.sources if len(self.shapes[k]) == 1 and 0 not in self.shapes[k]]
        if not given and not lines:
            return Spec("gather", (last,), {"axis": axis, "factor": 3})
        index = rng.choice(given or lines)
        length = self.shapes[index][0]
        if np.prod(shape) // shape[axis] * length > 4 * self.most:
            return Spec("gather", (last,), {"axis": axis, "factor": 2})
        return Spec("take", (last, index), {"axis": axis, "given": index in given})


def _broadcasts(s: Shape, to: Shape) -> bool:
    return len(s) <= len(to) and all(a in (b, 1) for a, b in zip(reversed(s), reversed(to)))


def shape_of(spec: Spec, shapes: list[Shape]) -> Shape:
    """Extents of a stage's result."""
    shape = shapes[spec.reads[0]]
    p = spec.params
    if spec.kind in ("reduce", "tuple_reduce", "twice_reduce"):
        return tuple(e for d, e in enumerate(shape) if d not in p["axes"])
    if spec.kind == "window":
        d = p["axis"]
        out = (shape[d] - p["width"]) // p["stride"] + 1
        return (*shape[:d], out, *shape[d + 1 :])
    if spec.kind == "permute":
        return tuple(shape[d] for d in p["order"])
    if spec.kind == "merge":
        return (shape[0] * shape[1], *shape[2:])
    if spec.kind == "take":
        d = p["axis"]
        return (*shape[:d], *shapes[spec.reads[1]], *shape[d + 1 :])
    return shape


def types_of(program: Program) -> set[str]:
    """The types of a program's inputs and casts."""
    casts = {s.params["dtype"] for s in program.stages if s.kind == "cast"}
    return {i.dtype for i in program.inputs} | casts
