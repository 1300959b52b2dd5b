"""Statements that users make and passes do not see: what they compute."""

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import CompileError, OperandError, UsageError


def run(body, *buffers):
    func = tir.PrimFunc(list(buffers), body)
    arrays = [tvm.nd.array(np.arange(8, dtype=b.dtype)) for b in buffers]
    tvm.build(func, target="llvm")(*arrays)
    return [a.numpy() for a in arrays]


def loop(body, n=8):
    i = te.var("i")
    return tir.For(i, 0, n, tir.ForKind.SERIAL, body(i))


def test_tensors_are_realized():
    t = te.placeholder((8,), name="t")
    a, b = (tir.decl_buffer((8,), "float32", n) for n in "ab")
    body = tir.stmt_seq(
        loop(lambda i: tir.ProducerStore(t, a[i] * 2, [i + 3])),
        loop(lambda i: tir.BufferStore(b, t[i + 3] + 1, [i])),
    )
    where = tvm.ir.Range.from_min_extent(3, 8)
    body = tir.ProducerRealize(t, [where], tir.const(1, "bool"), body, "local")
    assert 'T.realize(t[3:11], "local")' in str(body)
    found = run(tir.AttrStmt(t.op, "realize_scope", tir.StringImm("local"), body), a, b)
    np.testing.assert_array_equal(found[1], np.arange(8) * 2 + 1)


def test_boxes_of_buffers_are_realized():
    a, b, box = (tir.decl_buffer((8,), "int32", n) for n in ("a", "b", "box"))
    body = tir.stmt_seq(
        loop(lambda i: tir.BufferStore(box, a[i + 4] * 3, [i + 4]), 4),
        loop(lambda i: tir.BufferStore(b, box[i + 4], [i]), 4),
    )
    where = tvm.ir.Range.from_min_extent(4, 4)
    body = tir.BufferRealize(box, [where], tir.const(1, "bool"), body)
    assert 'T.realize(box[4:8], "global")' in str(body)
    np.testing.assert_array_equal(run(body, a, b)[1][:4], np.arange(4, 8) * 3)


def test_declared_buffers_share_memory():
    a = tir.decl_buffer((8,), "int32", "a")
    view = tir.decl_buffer((2, 4), "int32", "view", data=a.data)
    body = tir.DeclBuffer(view, loop(lambda i: tir.BufferStore(view, i * i, [1, i]), 4))
    assert "view = T.decl_buffer((2, 4)" in str(tir.PrimFunc([a], body))
    np.testing.assert_array_equal(run(body, a)[0], [0, 1, 2, 3, 0, 1, 4, 9])


def test_constants_are_stored():
    a = tir.decl_buffer((8,), "float32", "a")
    memory = te.var("memory", "handle")
    known = tir.decl_buffer((2, 4), "float32", "known", data=memory)
    values = np.arange(8, dtype="float32").reshape(2, 4) / 2
    body = loop(lambda i: tir.BufferStore(a, known[i // 4, i % 4], [i]))
    given = tir.AllocateConst(memory, "float32", [2, 4], tvm.nd.array(values), body)
    assert "T.allocate_const([0.0, 0.5" in str(given)
    np.testing.assert_array_equal(run(given, a)[0], values.ravel())
    many = tir.AllocateConst(memory, "float32", [100, 100], np.zeros((100, 100)), body)
    with pytest.raises(CompileError, match="make it an argument"):
        run(many, a)
    with pytest.raises(OperandError, match="takes the values"):
        tir.AllocateConst(memory, "float32", [2], 0, body)


def test_what_cannot_be_lowered_says_why():
    t = te.placeholder((8,), name="t")
    a = tir.decl_buffer((8,), "float32", "a")
    with pytest.raises(CompileError, match="t is used where it is not realized"):
        run(loop(lambda i: tir.BufferStore(a, t[i], [i])), a)
    body = tir.BufferRealize(a, [tvm.ir.Range(0, 8)], te.var("c") > 1, tir.Evaluate(0))
    with pytest.raises(CompileError, match="under a condition"):
        tvm.lower(tir.PrimFunc([], body))


def test_structures():
    t, u = te.placeholder((8,), name="t"), te.placeholder((8,), name="t")
    i = te.var("i")
    first = tir.ProducerStore(t, i + 1, [i])
    assert tvm.ir.structural_equal(first, tir.ProducerStore(t, i + 1, [i]))
    assert not tvm.ir.structural_equal(first, tir.ProducerStore(u, i + 1, [i]))
    assert tvm.ir.structural_hash(first) == tvm.ir.structural_hash(tir.ProducerStore(t, i + 1, [i]))
    seen: list[Any] = []
    tir.stmt_functor.post_order_visit(first, seen.append)
    assert seen[-1] is first and i in seen
    changed = tir.stmt_functor.substitute(first, {i: tir.const(2)})
    assert [int(x) for x in changed.indices] == [2]


@pytest.mark.parametrize(
    "name", ["Block", "BlockRealize", "MatchBufferRegion", "StmtSRef", "BlockScope", "Schedule"]
)
def test_blocks_are_refused(name):
    with pytest.raises(UsageError, match=f"{name}: TensorIR's blocks are not part"):
        getattr(tir, name)(1, 2)
