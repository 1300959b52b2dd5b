"""The cases of Ansor's benchmark (OSDI 2020): operators, shapes, costs, references.

`cases(batch)` has ten operators with four shapes each, matmul twice (B an input, B constant), and
two subgraphs with four shapes each. `small_cases()` has every operator in a shape that an
interpreter can run. `cases_of` names these and the sets of ops_layers.py. Workloads stand in
ops_workloads.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from benchmarks import ops_layers
from benchmarks import ops_reference as reference
from benchmarks import ops_workloads as workloads
from benchmarks.ops_reference import Array, Conv
from tilewright.measure.flop import count_flop

Shape = tuple[int, ...]
GROUPS = 4
DEPTH = 16
CONSTANT_B = " B const"


@dataclass(frozen=True)
class Case:
    """A workload of one shape.

    `func(*args)` gives the tensors, the output last. `constants`: which of them are weights that
    everyone may prepare beforehand. `flop`: float operations, a multiply-add two; `bytes`: every
    input read and the output written once. `reference` gives the output from the inputs. `conv`:
    how it steps, where it is a convolution. `tolerance`: for `error`.
    """

    name: str
    op: str
    func: Callable[..., list[Any]]
    args: Shape
    constants: Shape
    flop: float
    bytes: float
    reference: Callable[..., Array]
    conv: Conv | None = None
    tolerance: float = 1e-4

    def shapes(self) -> list[Shape]:
        """The shapes of all arguments."""
        return [tuple(map(int, t.shape)) for t in self.func(*self.args)]

    def inputs(self, seed: int = 0) -> list[Array]:
        """float32 numbers from -1 to 1 for every argument but the last."""
        rng = np.random.default_rng(seed)
        return [rng.random(shape, np.float32) * 2 - 1 for shape in self.shapes()[:-1]]

    def error(self, got: Array, wanted: Array) -> float:
        """The largest deviation, as a share of the largest number; ValueError for a wrong shape."""
        if got.shape != wanted.shape:
            raise ValueError(f"{self.name}: the shape is {got.shape}, not {wanted.shape}")
        return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def _stepped(rank: int, **how: Any) -> Callable[..., Conv]:
    """The last two of a workload's arguments are the stride and the padding."""
    return lambda *shape: Conv(rank, shape[-2], shape[-1], **how)


# Every operator: its workload, which arguments are constant, and how it steps as a convolution.
_OPERATORS: dict[str, tuple[Callable[..., list[Any]], Shape, Callable[..., Conv] | None]] = {
    "C1D": (workloads.conv1d, (1,), _stepped(1)),
    "C2D": (workloads.conv2d, (1,), _stepped(2)),
    "C3D": (workloads.conv3d, (1,), _stepped(3)),
    "GMM": (workloads.matmul, (), None),
    "GRP": (
        workloads.conv2d,
        (1,),
        lambda *shape: Conv(2, shape[5], shape[6], groups=shape[7] if shape[7:] else GROUPS),
    ),
    "DIL": (workloads.conv2d, (1,), _stepped(2, dilation=2)),
    "DEP": (
        workloads.depthwise,
        (1,),
        lambda *shape: Conv(2, shape[-2], shape[-1], groups=shape[2], kind="depthwise"),
    ),
    "T2D": (
        workloads.conv2d_transpose,
        (1,),
        _stepped(2, transposed=True),
    ),
    "CAP": (workloads.capsule, (1,), _stepped(2, kind="capsule")),
    "NRM": (workloads.norm, (), None),
    "ConvLayer": (
        workloads.conv_layer,
        (1, 2, 3),
        _stepped(2, kind="layer"),
    ),
    "TBS": (workloads.scores, (), None),
}
_REFERENCES: dict[str, Callable[..., Array]] = {
    "GMM": reference.matmul,
    "NRM": reference.norm,
    "TBS": reference.scores,
}
_FURTHER: dict[str, Shape] = {"DIL": (2,), "GRP": (1, GROUPS)}

_C2D = ((224, 224, 3, 64, 7, 2, 3), (56, 56, 64, 64, 1, 1, 0), (14, 14, 256, 256, 3, 1, 1),
        (7, 7, 512, 512, 3, 1, 1))  # fmt: skip
SHAPES: dict[str, tuple[Shape, ...]] = {
    "C1D": ((256, 64, 128, 3, 2, 1), (128, 128, 256, 1, 2, 0), (64, 256, 256, 5, 1, 2),
            (32, 512, 512, 3, 1, 1)),
    "C2D": _C2D,
    "C3D": tuple((DEPTH, *shape) for shape in _C2D),
    "GMM": ((128, 128, 128), (512, 32, 512), (512, 512, 512), (1024, 1024, 1024)),
    "GRP": ((56, 56, 64, 128, 3, 2, 1), (28, 28, 128, 256, 3, 2, 1), (14, 14, 256, 256, 3, 1, 1),
            (7, 7, 512, 512, 3, 1, 1)),
    "DIL": _C2D,
    "DEP": ((112, 112, 32, 3, 1, 1), (112, 112, 64, 3, 2, 1), (14, 14, 512, 3, 2, 1),
            (7, 7, 1024, 3, 1, 1)),
    "T2D": ((4, 4, 512, 256, 4, 2, 1), (8, 8, 256, 128, 4, 2, 1), (16, 16, 128, 64, 4, 2, 1),
            (32, 32, 64, 3, 4, 2, 1)),
    "CAP": ((16, 16, 32, 32, 3, 2, 1), (8, 8, 32, 32, 3, 1, 1), (16, 16, 8, 16, 3, 2, 1),
            (8, 8, 16, 16, 3, 1, 1)),
    "NRM": ((256, 256), (512, 512), (1024, 1024), (4096, 1024)),
    "ConvLayer": ((224, 224, 3, 64, 7, 2, 3), (56, 56, 64, 128, 3, 2, 1),
                  (28, 28, 128, 256, 1, 2, 0), (7, 7, 512, 512, 3, 1, 1)),
    "TBS": ((128, 12, 64), (128, 16, 64), (64, 12, 128), (128, 12, 128)),
}  # fmt: skip
_SMALL: dict[str, tuple[Shape, ...]] = {
    "C1D": ((13, 6, 16, 3, 2, 1),),
    "C2D": ((7, 9, 6, 16, 3, 2, 1), (5, 5, 8, 16, 1, 1, 0)),
    "C3D": ((4, 5, 6, 3, 16, 3, 2, 1),),
    "GMM": ((24, 16, 20), (7, 5, 11)),
    "GRP": ((6, 6, 16, 32, 3, 2, 1),),
    "DIL": ((9, 9, 4, 16, 3, 1, 1),),
    "DEP": ((8, 8, 16, 3, 2, 1), (6, 5, 12, 3, 1, 1)),
    "T2D": ((4, 4, 8, 16, 4, 2, 1), (3, 4, 5, 3, 4, 2, 1)),
    "CAP": ((4, 4, 3, 8, 3, 2, 1),),
    "NRM": ((16, 24), (5, 7)),
    "ConvLayer": ((6, 6, 5, 16, 3, 2, 1),),
    "TBS": ((12, 2, 8),),
}


def _case(op: str, shape: Shape, batch: int, note: str = "") -> Case:
    func, constants, steps = _OPERATORS[op]
    args = (batch, *shape, *_FURTHER.get(op, ()))
    if shape[7:] and op == "GRP":
        args = (batch, *shape[:7], 1, *shape[7:])
    if note:
        args, constants = (*args, 1), (1,)
    tensors = func(*args)
    conv = steps(*shape) if steps else None
    return Case(
        name=f"{op} {','.join(map(str, shape))}{note}" + (f" x{batch}" if batch > 1 else ""),
        op=op,
        func=func,
        args=args,
        constants=constants,
        flop=float(count_flop([tensors[-1].op])),
        bytes=4.0 * sum(prod(map(int, t.shape)) for t in tensors),
        reference=conv.reference if conv else _REFERENCES[op],
        conv=conv,
        # millions of squares, which ONNX Runtime adds up one after the other in float32
        tolerance=1e-2 if op == "NRM" else 1e-4,
    )


def _all(shapes: dict[str, tuple[Shape, ...]], batch: int) -> list[Case]:
    found = []
    for op, rows in shapes.items():
        found += [_case(op, shape, batch) for shape in rows]
        if op == "GMM":
            found += [_case(op, shape, batch, CONSTANT_B) for shape in rows]
    return found


def cases(batch: int = 1) -> list[Case]:
    """The benchmark's cases at a batch size."""
    return _all(SHAPES, batch)


def small_cases(batch: int = 1) -> list[Case]:
    """Every operator in small, also odd, shapes, for checks of results."""
    return _all(_SMALL, batch)


def cases_of(which: str, batch: int = 1) -> list[Case]:
    """The cases of a set: "suite", "small", "layers" (constants are weights), "odd:SEED" (some
    products with constant B). ValueError for another name."""
    kind, _, seed = which.partition(":")
    if kind in ("suite", "small"):
        return cases(batch) if kind == "suite" else small_cases(batch)
    if kind == "layers":
        found = [(op, shape, op == "GMM") for _, op, shape in ops_layers.layers()]
    elif kind == "odd" and seed.isdigit():
        drawn = enumerate(ops_layers.odd(int(seed)))
        found = [(op, shape, op == "GMM" and n % 4 == 0) for n, (op, shape) in drawn]
    else:
        raise ValueError(f"there is no set {which!r}: suite, small, layers, odd:SEED")
    return [_case(op, shape, batch, CONSTANT_B if b else "") for op, shape, b in found]
