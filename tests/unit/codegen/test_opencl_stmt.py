"""Barriers in OpenCL source, and loops around them: what PoCL gets behind both."""

from __future__ import annotations

import tilewright as tw
from tests.exec.gpu.corpus.matmul import Tiles, tiled
from tests.exec.gpu.corpus.recurrence import prefix
from tests.exec.gpu.corpus.transpose import transpose
from tilewright import te


def source(target: str, made: tuple) -> str:
    return tw.build(*made, target).imported_modules[0].get_source()


def test_only_pocl_gets_the_barrier() -> None:
    text = source("opencl", tiled(Tiles()))
    assert "#ifdef POCL_DEVICE_ADDRESS_BITS\n#define TW_LOOP_END barrier(" in text
    assert "#else\n#define TW_LOOP_END\n#endif" in text


def test_it_stands_behind_the_loop() -> None:
    lines = [x.strip() for x in source("opencl", tiled(Tiles())).splitlines()]
    at = lines.index("TW_LOOP_END;")
    assert lines[at - 1] == "}" and lines.count("TW_LOOP_END;") == 1
    depth, start = 0, at - 1
    while depth or start == at - 1:
        depth += lines[start].count("}") - lines[start].count("{")
        start -= 1
    assert lines[start + 1].startswith("for (int k_outer")


def test_nothing_stands_behind_other_loops() -> None:
    assert "TW_LOOP_END" not in source("opencl", transpose(32, 32))  # no loop around its barrier
    assert "TW_LOOP_END" not in source("opencl", prefix(2, 64))  # no loop at all
    assert "TW_LOOP_END" not in source("cuda", tiled(Tiles()))


def test_something_stays_behind_barriers_of_pocl() -> None:
    text = source("opencl", transpose(32, 32))
    guard, macro, end = text.splitlines()[:3]
    assert guard.startswith("#if defined(POCL_DEVICE_ADDRESS_BITS)") and end == "#endif"
    assert macro.startswith("#define barrier(") and "__asm__ volatile" in macro
    assert text.count("#define barrier(") == 1


def test_kernels_without_barriers_need_nothing() -> None:
    assert "#" not in source("opencl", without())
    assert "__asm__" not in source("cuda", transpose(32, 32))


def without() -> tuple:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    return s, [a, b]
