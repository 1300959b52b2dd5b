from __future__ import annotations

from typing import Any

import pytest

from tests.narrow import as_a, value_of
from tilewright import tir
from tilewright.base.errors import TilewrightError
from tilewright.loopir.iter import IterVar


def test_loops_branches_and_memory() -> None:
    ib = tir.ir_builder.create()
    n = tir.SizeVar("n")
    source = tir.decl_buffer((n,), "float32", name="A")
    a = ib.buffer_ptr(source)
    tmp = ib.allocate("float32", 4, name="tmp", scope="local")
    with ib.for_range(0, n, name="i", kind="parallel") as i:
        with ib.if_scope(ib.likely(i < 10)):
            tmp[0] = a[i] + 1
            a[i] = tmp[0]
        with ib.else_scope():
            a[i] = 0
    ib.emit(tir.call_extern("int32", "done"))
    assert str(ib.get()).splitlines() == [
        'tmp = T.allocate([4], "float32", "local")',
        "for i in T.parallel(n):",
        "    A = T.Buffer((n,))",
        "    if T.likely(i < 10):",
        '        tmp_1 = T.Buffer((4,), data=tmp, scope="local")',
        "        tmp_1[0] = A[i] + T.float32(1)",
        "        A[i] = tmp_1[0]",
        "    else:",
        "        A[i] = T.float32(0)",
        'T.call_extern("int32", "done")',
    ]


def test_kinds_bounds_and_types_of_loops() -> None:
    ib = tir.ir_builder.create()
    b = ib.buffer_ptr(tir.decl_buffer((64,), "int64", name="B"))
    with ib.for_range(2, 10, kind="unroll") as i:
        b[i] = i.astype("int64")
    with ib.for_range(0, tir.Var("m", "int64"), for_type="vectorize") as j:
        b[j] = j
    with ib.for_range(0, 4, dtype="int64", name="k") as k:
        b[k] = k
    first, second, third = (as_a(tir.For, s) for s in as_a(tir.SeqStmt, ib.get()).seq)
    assert (first.kind, value_of(first.min), value_of(first.extent)) == (tir.ForKind.UNROLLED, 2, 8)
    assert as_a(tir.BufferStore, first.body).value.dtype == "int64"
    assert (second.kind, second.loop_var.dtype) == (tir.ForKind.VECTORIZED, "int64")
    assert third.extent.dtype == "int64"
    with pytest.raises(ValueError, match="Unknown kind 'fast'"):
        ib.for_range(0, 4, kind="fast")


def test_one_index_reads_a_matrix_flat() -> None:
    ib = tir.ir_builder.create()
    a = ib.buffer_ptr(tir.decl_buffer((4, 5, 6), "float32", name="A"))
    x = tir.Var("x")
    assert str(a[x]) == "A[x // 6 // 5, x // 6 % 5, x % 6]"
    assert str(a[1, 2, x]) == "A[1, 2, x]"
    with pytest.raises(TilewrightError, match="buffer A has 3 dimensions, got 2 indices"):
        _ = a[1, 2]
    flat = ib.buffer_ptr(tir.decl_buffer((4, 6), name="B"), shape=(24,))
    assert str(flat[x]) == "B[x]"


def test_stores_keep_the_buffers_type() -> None:
    ib = tir.ir_builder.create()
    a = ib.buffer_ptr(tir.decl_buffer((8,), "float16", name="A"))
    a[0] = 1.5
    a[tir.Ramp(0, 1, 4)] = tir.Var("x", "float16")
    with pytest.raises(ValueError, match="does not match content type float32 vs float16"):
        a[0] = tir.Var("y", "float32")
    one, four = (as_a(tir.BufferStore, s) for s in as_a(tir.SeqStmt, ib.get()).seq)
    assert one.value.dtype == "float16" and four.value.dtype == "float16x4"


def test_lets_attributes_threads_and_whiles() -> None:
    ib = tir.ir_builder.create()
    tx = IterVar((0, 32), "threadIdx.x", IterVar.ThreadIndex, "threadIdx.x")
    p = ib.pointer("int32", name="P")
    ib.scope_attr(tx, "thread_extent", 32)
    ib.scope_attr(tx, "pragma_note", "text")
    v = ib.let("v", tx + 1)
    with ib.while_loop(p[0] < 10):
        p[0] = p[0] + v
    text = str(ib.get()).splitlines()
    assert text[0] == 'threadIdx_x = T.launch_thread("threadIdx.x", 32)'
    assert '"pragma_note", "text")' in text[1]
    assert text[-3:] == ["v: T.int32 = threadIdx_x + 1", "while P[0] < 10:", "    P[0] = P[0] + v"]


def test_misuse() -> None:
    ib = tir.ir_builder.create()
    with pytest.raises(RuntimeError, match="else_scope can only follow an if_scope"):
        ib.else_scope()
    with pytest.raises(TilewrightError, match="buffer_ptr takes a buffer"):
        ib.buffer_ptr(tir.Var("x"))  # type: ignore[arg-type]
    with pytest.raises(TilewrightError, match="emit takes"):
        ib.emit(3)
    with ib.for_range(0, 2), pytest.raises(RuntimeError, match="inside construction scope"):
        ib.get()
    assert isinstance(ib.get(), tir.For)
    assert str(ib.get()) == "T.evaluate(0)"


def test_memory_as_an_object_is_its_buffer() -> None:
    ib = tir.ir_builder.create()
    p = ib.pointer("float32", name="p")
    tmp = ib.allocate("float32", 4, name="tmp")
    held = tmp.asobject()
    assert isinstance(held, tir.Buffer) and held.data is tmp.asexpr()
    ib.scope_attr(held, "double_buffer_scope", 1)
    tmp[0] = p[0]
    body = ib.get()
    marked = as_a(tir.AttrStmt, as_a(tir.Allocate, body).body)
    assert marked.node is held.data
    pointer: Any = p  # as TVM's builder lets one write
    pointers, arrays = tir.PrimFunc([pointer], body), tir.PrimFunc([p.asobject()], body)
    assert pointers.params == (p.asobject().data,) and not pointers.buffer_map
    assert list(arrays.buffer_map.values()) == [p.asobject()]
