"""ScheduleOps as statements on tensors, and back to a function that computes the same."""

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir

KINDS = (tir.ProducerStore, tir.ProducerLoad, tir.ProducerRealize, tir.BufferStore)


def nodes(stmt):
    found: list[object] = []
    tir.stmt_functor.post_order_visit(stmt, found.append)
    return {kind: [x for x in found if type(x) is kind] for kind in KINDS}


def ops(s):
    s = s.normalize()
    return te.schedule.ScheduleOps(s, te.schedule.InferBound(s))


def run(func, *arrays):
    given = [tvm.nd.array(a) for a in arrays]
    tvm.build(tvm.IRModule({"main": func}), target="llvm")(*given)
    return given[-1].numpy()


@pytest.mark.parametrize("size", [37, None], ids=["constant", "symbolic"])
def test_loops_are_on_tensors(size):
    n = te.size_var("n") if size is None else size
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 8)
    s[b].compute_at(s[c], outer)
    stmt = ops(s)
    found = nodes(stmt)
    assert [x.producer.op.name for x in found[tir.ProducerStore]] == ["B", "C"]
    assert {x.producer.op.name for x in found[tir.ProducerLoad]} == {"A", "B"}
    assert [x.producer.op.name for x in found[tir.ProducerRealize]] == ["B", "C"]
    assert not found[tir.BufferStore] and type(stmt) is tir.ProducerRealize
    box = found[tir.ProducerRealize][0].bounds[0]
    assert str(box.min).endswith("* 8") and box.extent.value == 8
    func = te.schedule.SchedulePostProcToPrimFunc([a, c], stmt, None)
    x = np.arange(37, dtype="float32")
    np.testing.assert_array_equal(run(func, x, 0 * x), (x + 1) * 2)


def test_reductions_and_scopes():
    a = te.placeholder((6, 40), name="A")
    k = te.reduce_axis((0, 40), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(k, 8)
    part = s.rfactor(b, inner)
    s[part].set_scope("local")
    stmt = ops(s)
    realized = {x.producer.op.name: x for x in nodes(stmt)[tir.ProducerRealize]}
    assert realized["B.rf"].storage_scope == "local"
    func = te.schedule.SchedulePostProcToPrimFunc([a, b], stmt)
    x = np.random.default_rng(0).integers(0, 9, (6, 40)).astype("float32")
    np.testing.assert_array_equal(run(func, x, np.zeros(6, "float32")), x.sum(1))


def test_scans_and_chosen_buffers():
    a = te.placeholder((5, 3), name="A")
    state = te.placeholder((5, 3), name="state")
    first = te.compute((1, 3), lambda _, i: a[0, i], name="first")
    step = te.compute((5, 3), lambda t, i: state[t - 1, i] + a[t, i], name="step")
    total = te.scan(first, step, state, name="total")
    stmt = ops(te.create_schedule(total.op))
    own = tir.decl_buffer((5, 3), name="own")
    func = te.schedule.SchedulePostProcToPrimFunc([a, own], stmt, {total: own})
    assert func.buffer_map[func.params[1]] is own
    x = np.arange(15, dtype="float32").reshape(5, 3)
    np.testing.assert_array_equal(run(func, x, 0 * x), x.cumsum(0))


def test_memory_whose_address_is_taken_stays_a_buffer():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.extern((8,), [b], lambda i, o: tir.call_packed("f", i[0], o[0]), name="C")
    found = nodes(ops(te.create_schedule(c.op)))
    assert [x.buffer.name for x in found[tir.BufferStore]] == ["B"]
    assert not found[tir.ProducerStore]
