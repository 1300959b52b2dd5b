"""What tests of fleets share: libraries to upload, where other processes find these tests."""

import os
from pathlib import Path
from typing import Any

import tilewright as tvm
from tilewright import te
from tilewright.measure.process import environment


def with_tests() -> dict[str, Any]:
    """The environment of a process that imports these tests, wherever it runs."""
    made = environment()
    root = str(Path(__file__).resolve().parents[3])
    return {**made, "PYTHONPATH": os.pathsep.join([made["PYTHONPATH"], root])}


def add_one(target: Any = "llvm", n: int = 1024, bind: bool = False) -> Any:
    """A library with `add_one`: b = a + 1 for n numbers."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    if bind:
        outer, inner = s[B].split(B.op.axis[0], factor=32)
        s[B].bind(outer, te.thread_axis("blockIdx.x"))
        s[B].bind(inner, te.thread_axis("threadIdx.x"))
    return tvm.build(s, [A, B], target, name="add_one")


def calls(name: str, argument: int = 0) -> Any:
    """A library whose `calls` calls a function of the C library."""
    A = te.placeholder((1,), "int32", name="A")
    given = tvm.tir.const(argument, "int32")
    B = te.compute((1,), lambda i: tvm.tir.call_extern("int32", name, given) + A[i], name="B")
    return tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="calls")


def uploaded(remote: Any, library: Any, folder: Path, name: str = "lib.tar") -> Any:
    """The library as the session has loaded it."""
    library.export_library(folder / name)
    remote.upload(folder / name)
    return remote.load_module(name)


def ints(remote: Any) -> list[Any]:
    """The arguments of `calls` there."""
    import numpy as np

    return [tvm.nd.array(np.zeros(1, "int32"), remote.cpu(0)) for _ in range(2)]
