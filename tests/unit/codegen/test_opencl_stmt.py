"""Barriers in OpenCL source, loops and branches around and between them: what PoCL gets."""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tests.exec.gpu.corpus.matmul import Tiles, tiled
from tests.exec.gpu.corpus.recurrence import prefix
from tests.exec.gpu.corpus.transpose import transpose
from tilewright import te, tir


def source(target: str, made: tuple[Any, Any]) -> str:
    schedule, args = made
    return tw.build(schedule, args, target).imported_modules[0].get_source()


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


def between(extent: Any, condition: Any, low: Any = lambda t: 0) -> str:
    """The source of loops, and of a branch with one, in a kernel with a barrier."""

    def kernel(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        tx, bx = te.thread_axis((0, 8), "threadIdx.x"), te.thread_axis((0, 8), "blockIdx.x")
        ib.scope_attr(bx, "thread_extent", 8)
        ib.scope_attr(tx, "thread_extent", 8)
        b = ib.buffer_ptr(outs[0])
        at = bx.var * 8 + tx.var
        with ib.for_range(low(tx.var), extent(tx.var), name="i"), ib.for_range(0, 3, name="j"):
            b[at] = b[at] + 1.0
        ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", "shared"))
        with ib.if_scope(condition(tx.var, bx.var)), ib.for_range(0, 3, name="k"):
            b[at] = b[at] * 2.0
        return ib.get()

    b = te.extern((64,), [], kernel, dtype="float32", name="B")
    return source("opencl", (te.create_schedule(b.op), [b]))


def test_loops_that_threads_run_unequally_often_are_hidden() -> None:
    text = between(lambda t: t + 1, lambda t, block: t < 4)
    lines = [x.strip() for x in text.splitlines()]
    at = lines.index("int times = TW_OWN(((int)get_local_id(0)) + 1);")
    assert lines[at + 1].startswith("for (int i = 0; i < times;")
    assert text.count("TW_OWN(") == 3  # the macro, twice
    assert "__asm__" in text and "#define TW_OWN(x) (x)" in text


def test_loops_that_begin_unequally_are_hidden_once() -> None:
    text = between(lambda t: t * 2 + 1, lambda t, block: t < 4, lambda t: t)
    assert text.count("TW_OWN(") == 3  # the macro, twice


def test_branches_that_threads_take_alike_are_hidden_where_they_have_loops() -> None:
    text = between(lambda t: 5, lambda t, block: block < 4)
    assert "if (TW_OWN(((int)get_group_id(0)) < 4)) {" in text
    assert text.count("TW_OWN(") == 3


def test_loops_that_all_threads_of_a_block_run_alike_are_hidden_too() -> None:
    block = te.thread_axis((0, 8), "blockIdx.x")
    text = rows_of_blocks(block)
    assert "TW_OWN((((int)get_group_id(0)) & 1) + 1)" in text
    assert text.count("TW_OWN(") == 3


def rows_of_blocks(block: Any) -> str:
    """A kernel that has a barrier, and before it a loop over rows that runs once or twice."""

    def kernel(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        tx = te.thread_axis((0, 8), "threadIdx.x")
        ib.scope_attr(block, "thread_extent", 8)
        ib.scope_attr(tx, "thread_extent", 8)
        b = ib.buffer_ptr(outs[0])
        at = block.var * 8 + tx.var
        with (
            ib.for_range(0, block.var % 2 + 1, name="i"),
            ib.for_range(0, 3, name="j"),
        ):
            b[at] = b[at] + 1.0
        ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", "shared"))
        return ib.get()

    b = te.extern((64,), [], kernel, dtype="float32", name="B")
    return source("opencl", (te.create_schedule(b.op), [b]))


def test_nothing_is_hidden_that_pocl_sees() -> None:
    assert "TW_OWN" not in between(lambda t: 5, lambda t, block: t < 4)
    assert "TW_OWN" not in source("opencl", tiled(Tiles()))


def without() -> tuple:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    return s, [a, b]
