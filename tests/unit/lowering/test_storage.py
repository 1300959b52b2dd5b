"""flatten_buffers, rewrite_storage, inject_virtual_threads: where data lies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.unit.lowering.builders import K, checked, function, lines, loop, nodes, thread
from tilewright import te
from tilewright.base.errors import CompileError
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.lowering.flatten_buffers import flatten_buffers
from tilewright.lowering.inject_virtual_threads import inject_virtual_threads
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.rewrite_storage import rewrite_storage

A = Buffer((4000,), "float32", "A")
B = Buffer((4000,), "float32", "B")
DATA = {"A": np.arange(4000, dtype="float32"), "B": np.zeros(4000, "float32")}


def store(b: Buffer, at: object, value: object) -> S.Stmt:
    return S.BufferStore(b, value, [at])


# -- flatten_buffers


def test_compact_and_strided_indices() -> None:
    n, m, s0, s1 = (E.Var(x) for x in ("n", "m", "s0", "s1"))
    two = Buffer((n, m), "float32", "T")
    wide = Buffer((n, m), "float32", "W", strides=[s0, s1])
    body = loop(
        "i", n, lambda i: loop("j", m, lambda j: S.BufferStore(two, wide[i, j] + 1.0, [i, j]))
    )
    func = function(body, two, wide)
    arrays = {
        "T": np.zeros((3, 5), "float32"),
        "W": np.arange(15, dtype="float32").reshape(3, 5),
    }
    new = checked(flatten_buffers, func, arrays)
    assert lines(new)[-1].strip() == "T_1[i * m + j] = W[i * s0 + j * s1] + T.float32(1)"
    assert new.buffer_map[new.params[0]] is two
    flat = {x.buffer for x in nodes(new, S.BufferStore)}
    assert [b.data for b in flat] == [two.data] and {b.ndim for b in flat} == {1}


def test_aligned_allocation_spans_its_strides() -> None:
    tmp = Buffer((4, 6), "float32", "T", strides=[8, 1])
    fill = loop("i", 4, lambda i: loop("j", 6, lambda j: S.BufferStore(tmp, A[i * 6 + j], [i, j])))
    read = loop("i", 4, lambda i: loop("j", 6, lambda j: store(B, i * 6 + j, tmp[i, j])))
    new = checked(flatten_buffers, function(S.Allocate(tmp, S.seq(fill, read)), A, B), DATA)
    (allocation,) = nodes(new, S.Allocate)
    assert int(allocation.buffer.shape[0]) == 3 * 8 + 6


def test_no_dimensions_and_offset() -> None:
    point = Buffer((), "float32", "P")
    shifted = Buffer((3,), "float32", "S", data=A.data, elem_offset=7)
    body = S.seq(S.BufferStore(point, shifted[2], []), store(B, 1, point[()]))
    new = flatten_buffers(function(S.Allocate(point, body), A, B), LowerOptions())
    loads = nodes(new, E.BufferLoad)
    assert [int(x.indices[0]) for x in loads] == [9, 0]


def test_attributes_follow_their_buffer() -> None:
    tmp = Buffer((4, 6), "float32", "T")
    body = S.AttrStmt(tmp, "double_buffer_scope", 1, S.BufferStore(tmp, 0.0, [1, 2]))
    new = flatten_buffers(function(S.Allocate(tmp, body)), LowerOptions())
    (attr,) = nodes(new, S.AttrStmt)
    assert attr.node is nodes(new, S.Allocate)[0].buffer


def test_wrong_number_of_indices() -> None:
    two = Buffer((4, 6), "float32", "T")
    with pytest.raises(CompileError, match="T has 2 dimensions, but is used with 1 indices"):
        flatten_buffers(function(S.BufferStore(two, 0.0, [1]), two), LowerOptions())


def test_more_than_2_31_elements_are_addressed_in_64_bits() -> None:
    big = Buffer((65536, 65536), "int8", "A")
    body = loop("i", 65536, lambda i: S.BufferStore(big, E.const(0, "int8"), [i, i]))
    new = flatten_buffers(function(body, big), LowerOptions())
    (one,) = nodes(new, S.BufferStore)
    assert one.indices[0].dtype == "int64"


# -- rewrite_storage


def big(name: str, size: object = 1000, dtype: str = "float32", scope: str = "") -> Buffer:
    return Buffer((size,), dtype, name, scope=scope)


def chain(*buffers: Buffer) -> S.Stmt:
    """A -> buffers[0] -> buffers[1] ... -> B, each made when the one before is dead but one."""
    n = buffers[0].shape[0]
    parts, last = [], A
    for b in (*buffers, B):
        parts.append(
            loop("i", n, lambda i, b=b, last=last: store(b, i, last[i].astype(b.dtype) + 1))
        )
        last = b
    body = S.seq(parts)
    for b in reversed(buffers):
        body = S.Allocate(b, body)
    return body


def test_two_memories_serve_a_chain() -> None:
    func = function(chain(big("T1"), big("T2", 900), big("T3"), big("T4")), A, B)
    arrays = {**DATA, "A": DATA["A"]}
    func = function(chain(big("T1", 900), big("T2"), big("T3"), big("T4")), A, B)
    new = checked(rewrite_storage, func, arrays)
    sizes = [int(s.buffer.shape[0]) for s in nodes(new, S.Allocate)]
    assert sizes == [1000, 1000]


def test_types_scopes_and_sizes_keep_buffers_apart() -> None:
    for other in (big("T3", dtype="int32"), big("T3", scope="shared"), big("T3", 17000)):
        tmp = chain(big("T1"), big("T2"), other)
        new = rewrite_storage(function(tmp, A, B), LowerOptions())
        assert len(nodes(new, S.Allocate)) == 3


def test_symbolic_sizes_share_if_equal() -> None:
    n = E.Var("n")
    func = function(chain(big("T1", n + 1), big("T2", n + 1), big("T3", n + 1)), A, B, scalars=(n,))
    new = checked(rewrite_storage, func, DATA, n=20)
    assert len(nodes(new, S.Allocate)) == 2


def test_small_buffers_stay() -> None:
    func = function(chain(big("T1", 16), big("T2", 16), big("T3", 16)), A, B)
    assert len(nodes(rewrite_storage(func, LowerOptions()), S.Allocate)) == 3


def test_a_use_in_a_loop_lasts_for_the_loop() -> None:
    """T1 is read in each step of k, after T2 was written in the step before."""
    t1, t2 = big("T1"), big("T2")
    first = loop("i", 1000, lambda i: store(t1, i, A[i]))

    def step(k: E.Var) -> S.Stmt:
        fill = loop("i", 1000, lambda i: store(t2, i, t1[i] + k.astype("float32")))
        use = loop("i", 1000, lambda i: store(B, k * 1000 + i, t2[i]))
        return S.Allocate(t2, S.seq(fill, use))

    body = S.Allocate(t1, S.seq(first, loop("k", 3, step)))
    new = checked(rewrite_storage, function(body, A, B), DATA)
    assert len(nodes(new, S.Allocate)) == 2
    assert type(new.body) is S.Allocate and type(new.body.body) is S.Allocate


def test_a_use_in_a_launch_lasts_for_all_its_threads() -> None:
    """T1 is last read in the launch that first writes T2: for a block that comes later, when an
    earlier one has written."""
    t1, t2 = big("T1"), big("T2")

    def launch(n: int, step: Callable[[E.Var], S.Stmt]) -> S.Stmt:
        block = te.thread_axis((0, n), "blockIdx.x")
        return S.AttrStmt(block, "thread_extent", E.const(n), step(block.var))

    parts = [
        launch(1000, lambda i: store(t1, i, A[i])),
        launch(1000, lambda i: S.seq(store(B, i, t1[999 - i]), store(t2, i, B[i]))),
        launch(1000, lambda i: store(B, i, t2[i])),
    ]
    body = S.Allocate(t1, S.Allocate(t2, S.seq(parts)))
    assert len(nodes(rewrite_storage(function(body, A, B), LowerOptions()), S.Allocate)) == 2


def test_a_parallel_loop_keeps_its_own_memory() -> None:
    t1 = big("T1")

    def step(k: E.Var) -> S.Stmt:
        fill = loop("i", 1000, lambda i: store(t1, i, A[i] + k.astype("float32")))
        use = loop("i", 1000, lambda i: store(B, k * 1000 + i, t1[i]))
        return loop("once", 2, lambda _: S.Allocate(t1, S.seq(fill, use)))

    body = loop("k", 3, step, K.PARALLEL)
    new = checked(rewrite_storage, function(body, A, B), DATA)
    assert type(new.body) is S.For and type(new.body.body) is S.Allocate


def test_size_known_inside_only() -> None:
    t1 = big("T1", E.Var("unused"))

    def step(k: E.Var) -> S.Stmt:
        own = Buffer((k + 1000,), "float32", "T1")
        return S.Allocate(own, S.seq(store(own, k, A[k]), store(B, k, own[k])))

    new = checked(rewrite_storage, function(loop("k", 3, step), A, B), DATA)
    assert type(new.body) is S.For and t1.ndim == 1


def test_disabled() -> None:
    func = function(chain(big("T1"), big("T2"), big("T3")), A, B)
    assert rewrite_storage(func, LowerOptions(disable_storage_rewrite=True)) is func


# -- inject_virtual_threads


def virtual(count: int, body_of: object) -> S.Stmt:
    vt = thread("vthread")
    return S.AttrStmt(vt, "virtual_thread", count, body_of(vt.var))  # type: ignore[operator]


def test_statements_are_interleaved() -> None:
    def body_of(v: E.Var) -> S.Stmt:
        return loop("k", 4, lambda k: store(B, v * 4 + k, A[v * 4 + k] + 1.0))

    new = checked(inject_virtual_threads, function(virtual(2, body_of), A, B), DATA)
    (k,) = nodes(new, S.For)
    assert type(k.body) is S.SeqStmt and len(k.body) == 2


def test_buffers_that_depend_on_the_thread_get_a_part_each() -> None:
    acc, shared = Buffer((2,), "float32", "acc"), Buffer((4,), "float32", "S")

    def body_of(v: E.Var) -> S.Stmt:
        fill = loop("i", 4, lambda i: store(shared, i, A[i]))
        init = store(acc, 1, 0.0)
        add = loop("k", 4, lambda k: store(acc, 1, acc[1] + shared[k] * A[v * 4 + k]))
        body = S.seq(fill, init, add, store(B, v, acc[1]))
        return S.Allocate(shared, S.Allocate(acc, body))

    new = checked(inject_virtual_threads, function(virtual(3, body_of), A, B), DATA)
    sizes = {s.buffer.name: int(s.buffer.shape[0]) for s in nodes(new, S.Allocate)}
    assert sizes == {"S": 4, "acc": 6}
    assert sum(s.buffer.name == "S" for s in nodes(new, S.BufferStore)) == 1


def test_dependence_through_lets_loops_and_conditions() -> None:
    tmp = Buffer((1,), "float32", "T")

    def body_of(v: E.Var) -> S.Stmt:
        x = E.Var("x", "float32")
        let = S.LetStmt(x, A[v], store(tmp, 0, x))
        branch = S.IfThenElse(v < 2, store(tmp, 0, tmp[0] * 2.0))
        ragged = loop("k", v + 1, lambda k: store(tmp, 0, tmp[0] + A[k]))
        return S.Allocate(tmp, S.seq(let, branch, ragged, store(B, v, tmp[0])))

    new = checked(inject_virtual_threads, function(virtual(3, body_of), A, B), DATA)
    assert int(nodes(new, S.Allocate)[0].buffer.shape[0]) == 3


def test_many_virtual_threads_run_in_a_loop() -> None:
    func = function(virtual(40, lambda v: store(B, v, A[v] + 1.0)), A, B)
    new = checked(inject_virtual_threads, func, DATA)
    assert [int(s.extent) for s in nodes(new, S.For)] == [40]


def test_nested_virtual_threads() -> None:
    def outer(v: E.Var) -> S.Stmt:
        return virtual(2, lambda w: store(B, v * 2 + w, A[v * 2 + w] + 1.0))

    new = checked(inject_virtual_threads, function(virtual(2, outer), A, B), DATA)
    assert len(nodes(new, S.BufferStore)) == 4 and not nodes(new, S.AttrStmt)


def pointers(where: object) -> list[E.Call]:
    return [c for c in nodes(where, E.Call) if c.op.name == "tir.tvm_access_ptr"]


def test_symbolic_number_of_virtual_threads() -> None:
    n = E.Var("n")
    vt = thread("vthread")
    body = S.AttrStmt(vt, "virtual_thread", n, store(B, vt.var, A[vt.var] + 1.0))
    new = checked(inject_virtual_threads, function(body, A, B, scalars=(n,)), DATA, n=5)
    assert [s.kind for s in nodes(new, S.For)] == [K.SERIAL]


def test_pointer_into_a_virtual_threads_part() -> None:
    acc = Buffer((2,), "float32", "acc")

    def body_of(v: E.Var) -> S.Stmt:
        call = S.Evaluate(op.call_extern("int32", "note", acc.access_ptr("rw"), v))
        return S.Allocate(acc, S.seq(store(acc, 1, A[v]), call, store(B, v, acc[1])))

    new = inject_virtual_threads(function(virtual(3, body_of), A, B), LowerOptions())
    assert [str(c.args[2]) for c in pointers(new)] == ["0", "2", "4"]


def test_virtual_threads_around_asserts_attributes_and_while() -> None:
    count = Buffer((1,), "int32", "n")

    def body_of(v: E.Var) -> S.Stmt:
        step = S.seq(store(count, 0, count[0] - 1), store(B, v, B[v] + A[v]))
        checked_step = S.AssertStmt(v < 7, "few", S.While(count[0] > 0, step))
        marked = S.AttrStmt(count, "volatile_scope", 1, S.AttrStmt(E.Var("x"), "note", v, step))
        return S.Allocate(count, S.seq(store(count, 0, v), checked_step, marked))

    checked(inject_virtual_threads, function(virtual(3, body_of), A, B), DATA)


def test_pointers_follow_their_memory() -> None:
    t1, t2 = big("T1"), big("T2")
    parts = []
    for t in (t1, t2):
        fill = loop("i", 1000, lambda i, t=t: store(t, i, A[i]))
        call = S.Evaluate(op.call_extern("int32", "note", t.access_ptr("r")))
        parts += [fill, S.AttrStmt(t.data, "volatile_scope", 1, call)]
    func = function(S.Allocate(t1, S.Allocate(t2, S.seq(parts))), A, B)
    new = rewrite_storage(func, LowerOptions())
    (memory,) = nodes(new, S.Allocate)
    assert all(c.args[1] is memory.buffer.data for c in pointers(new))
    assert all(s.node is memory.buffer.data for s in nodes(new, S.AttrStmt))


def test_pointer_keeps_a_buffer_alive() -> None:
    t1, t2 = big("T1"), big("T2")
    fills = [loop("i", 1000, lambda i, t=t: store(t, i, A[i])) for t in (t1, t2)]
    call = S.Evaluate(op.call_extern("int32", "note", t1.access_ptr("r")))
    func = function(S.Allocate(t1, S.Allocate(t2, S.seq(*fills, call))), A, B)
    assert len(nodes(rewrite_storage(func, LowerOptions()), S.Allocate)) == 2
