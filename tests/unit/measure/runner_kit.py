"""What tests of measurements share: candidates, and how to measure them."""

from typing import Any

import tilewright as tvm
from tilewright import te
from tilewright.measure.program import describe
from tilewright.measure.result import Measurement
from tilewright.measure.runner import Measurer, Timing

LLVM = tvm.target.Target("llvm")
FAST: dict[str, Any] = {
    "number": 1,
    "repeat": 1,
    "n_parallel": 1,
    "build_timeout": 60.0,
    "run_timeout": 60.0,
}


def product(factor: int, n: int = 16) -> dict[str, Any]:
    A, B = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[1], factor=factor)
    s[C].unroll(inner)
    return describe(s, [A, B, C], LLVM)


def calls(name: str, dtype: str = "int32", argument: int | None = None) -> dict[str, Any]:
    """A candidate that calls a function of the C library."""
    A = te.placeholder((4,), "int32", name="A")

    def element(i: Any) -> Any:
        given = A[i] if argument is None else tvm.tir.const(argument, "int32")
        return tvm.tir.call_extern(dtype, name, given)

    B = te.compute((4,), element, name="B")
    return describe(te.create_schedule(B.op), [A, B], LLVM)


def measured(programs: list[dict[str, Any]], **timing: Any) -> list[Measurement]:
    with Measurer(Timing(**{**FAST, **timing})) as measurer:
        found = dict(measurer.measure(programs))
    assert sorted(found) == list(range(len(programs)))
    return [found[i] for i in range(len(programs))]
