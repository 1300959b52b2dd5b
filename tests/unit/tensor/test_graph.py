"""Operations as a graph: order, replacing inputs, scans, externs, intrinsics."""

import numpy as np
import pytest

from tests.narrow import as_a, int_of, some, value_of
from tilewright import te
from tilewright.interp.te_eval import te_eval
from tilewright.loopir import ir_builder
from tilewright.loopir.expr import Call, IntImm, Select
from tilewright.loopir.iter import IterVar
from tilewright.loopir.op import call_extern, call_packed
from tilewright.loopir.stmt import Evaluate
from tilewright.tensor.op import (
    ComputeOp,
    ExternOp,
    ScanOp,
    TensorComputeOp,
    post_order,
    replace_inputs,
)


def chain():
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] + 1, name="b")
    c = te.compute((4,), lambda i: b[i] * a[i], name="c")
    return a, b, c


def test_post_order():
    a, b, c = chain()
    assert [op.name for op in post_order([c])] == ["a", "b", "c"]
    assert post_order([b.op, c]) == [a.op, b.op, c.op]
    assert te.schedule.PostDFSOrder([c.op], te.schedule.CreateReadGraph([c.op])) == [
        a.op, b.op, c.op,
    ]  # fmt: skip
    assert te.schedule.CreateReadGraph([c])[c.op] == (b, a)


def test_long_chains_do_not_recurse():
    t = te.placeholder((2,), name="x")
    for _ in range(3000):
        t = te.compute((2,), lambda i, t=t: t[i])
    assert len(post_order([t])) == 3001


def test_replacing_inputs_keeps_what_does_not_change():
    a, b, c = chain()
    other = te.placeholder((4,), name="z")
    assert replace_inputs(c.op, {other: a}) is c.op
    assert replace_inputs(a.op, {a: other}) is a.op
    new = replace_inputs(c.op, {a: other})
    assert new.input_tensors == (b, other) and new.axis == c.op.axis and new.name == "c"
    assert c.op.input_tensors == (b, a) and str(new.body[0]) == "b[i] * z[i]"


def test_replacing_inputs_of_reductions_to_several_values():
    a, z = te.placeholder((4, 3), name="a"), te.placeholder((4, 3), name="z")
    k = te.reduce_axis((0, 3), "k")
    pair = te.comm_reducer(
        lambda x, y: (Select(x[1] > y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t, u: (0, te.min_value(u)),
        "pair",
    )
    index, _ = te.compute((4,), lambda i: pair((k.var, a[i, k]), axis=k))
    new = replace_inputs(index.op, {a: z})
    first, second = new.body
    assert new.input_tensors == (z,) and new.reduce_axis == (k,)
    assert first.source is second.source and (first.value_index, second.value_index) == (0, 1)


def recurrence():
    x, s = te.placeholder((6, 3), name="x"), te.placeholder((6, 3), name="s")
    init = te.compute((1, 3), lambda _, i: x[0, i], name="init")
    half = te.compute((6, 3), lambda t, i: s[t - 1, i] * 0.5, name="half")
    update = te.compute((6, 3), lambda t, i: half[t, 2 - i] + x[t, i], name="update")
    return x, s, init, half, update, te.scan(init, update, s, inputs=[x], name="rec")


def test_scan_operation():
    x, _, init, half, update, r = recurrence()
    op = r.op
    assert isinstance(op, ScanOp) and op.input_tensors == (init, update) and op.inputs == (x,)
    assert (int_of(some(op.scan_axis.dom).min), int_of(some(op.scan_axis.dom).extent)) == (1, 5)
    assert op.scan_axis.var.name == "rec.idx" and op.scan_axis.iter_type == IterVar.Ordered
    assert [a.var.name for a in op.spatial_axis_] == ["rec.out0.i1"]
    assert op.root_iter_vars() == (op.scan_axis, *op.spatial_axis_)
    assert [int(d) for d in r.shape] == [6, 3] and r.dtype == "float32"
    assert te.schedule.ScanGetBody(op) == [half.op, update.op]
    new = as_a(ScanOp, replace_inputs(op, {update: half}))
    assert new.update == (half,) and new.spatial_axis_ == op.spatial_axis_


def test_scan_fix_points():
    *_, r = recurrence()
    (mirrored,) = te.schedule.ScanFixPointAnalysis(r.op).values()
    x, s = te.placeholder((6, 3, 4), name="x"), te.placeholder((6, 3, 4), name="s")
    init = te.compute((1, 3, 4), lambda _, i, j: x[0, i, j])
    half = te.compute((6, 4, 3), lambda t, j, i: s[t - 1, i, j] * 0.5)
    k = te.reduce_axis((0, 4), "k")
    update = te.compute((6, 3, 4), lambda t, i, j: te.sum(half[t, k, i] * x[t, i, j], axis=k))
    points = te.schedule.ScanFixPointAnalysis(te.scan(init, update, s).op)
    assert isinstance(mirrored, IntImm) and mirrored.value == 0
    assert [p.value for p in points.values()] == [1, 0]


def fix_points(step, ndim=2):
    """What the analysis says of a scan over (4, 3, ...) whose update is `step(state)`."""
    s = te.placeholder((4, 3, 3)[: ndim + 1], name="s")
    init = te.compute((1, *s.shape[1:]), lambda *_: 0.0)
    op = te.scan(init, step(s), s).op
    return [p.value for p in te.schedule.ScanFixPointAnalysis(op).values()]


def test_scan_fix_points_of_axes_that_meet():
    shape = (4, 3, 3)
    straight = te.compute
    assert fix_points(lambda s: straight(shape, lambda t, i, j: s[t - 1, i, j])) == [1, 1]
    # one dimension of the result is reached by two axes: both are given up
    turned = fix_points(
        lambda s: te.compute(shape, lambda t, i, j: s[t - 1, i, j] + s[t - 1, j, i])
    )
    assert turned == [0, 0]
    # an axis that is read at one place is given up, the other stands
    first = fix_points(lambda s: te.compute(shape, lambda t, i, j: s[t - 1, 0, j] + s[t - 1, i, j]))
    assert first == [0, 1]

    def two_ways(s):
        """`i` reaches the update in its place, and meets `j` in a tensor on the way."""
        both = te.compute(shape, lambda t, i, j: s[t - 1, i, j] * s[t - 1, i, i])
        return te.compute(shape, lambda t, i, j: both[t, i, j])

    assert fix_points(two_ways) == [0, 0]


def test_scan_fix_points_give_up_an_axis_for_every_reader_of_its_dimension():
    """A dimension that one tensor reads by an axis and another by a number is no fix point, also
    where the update does not depend on the other place."""

    def step(s):
        row = te.compute((4, 3), lambda t, i: s[t - 1, i] * 2.0)
        return te.compute((4, 3), lambda t, i: row[t, i] + row[t, 0])

    assert fix_points(step, ndim=1) == [0]
    assert fix_points(lambda s: te.compute((4, 3), lambda t, i: s[t - 1, i] + 1.0), ndim=1) == [1]
    assert fix_points(lambda s: te.compute((4, 3), lambda t, i: 1.0 + s[t - 1, 2]), ndim=1) == [0]
    # nothing reaches the update
    assert fix_points(lambda s: te.compute((4, 3), lambda t, i: 1.0), ndim=1) == [0]


def test_scan_of_several_states_gives_a_list():
    s, r = te.placeholder((5,), name="s"), te.placeholder((5, 2), name="r")
    states = te.scan(
        [te.compute((1,), lambda t: 1.0), te.compute((1, 2), lambda t, i: 2.0)],
        [
            te.compute((5,), lambda t: s[t - 1] * 2),
            te.compute((5, 2), lambda t, i: r[t - 1, i] + s[t - 1]),
        ],
        [s, r],
    )
    assert isinstance(states, list) and [t.ndim for t in states] == [1, 2]
    got = te_eval(states, {})
    assert got[0].tolist() == [1, 2, 4, 8, 16] and got[1][:, 0].tolist() == [2, 3, 5, 9, 17]


def test_extern_operation():
    a = te.placeholder((4, 3), "int32", name="a")
    t = te.extern((4,), [a], lambda ins, outs: call_packed("f", ins[0], outs[0]), name="e")
    op = t.op
    assert isinstance(op, ExternOp) and op.input_tensors == (a,) and t.dtype == "int32"
    assert isinstance(op.body, Evaluate) and isinstance(op.body.value, Call)
    (i,), (o,) = op.input_placeholders, op.output_placeholders
    assert (i.name, o.name) == ("a", "e") and [int_of(d) for d in i.shape] == [4, 3]
    b = te.placeholder((4, 3), "int32", name="b")
    new = as_a(ExternOp, replace_inputs(op, {a: b}))
    assert new.inputs == (b,) and new.body is op.body


def test_extern_with_given_buffers():
    from tilewright.loopir.buffer import decl_buffer

    a = te.placeholder((4,), name="a")
    x, y = decl_buffer((4,), name="x", offset_factor=2), decl_buffer((4,), "int32", name="y")
    t = te.extern(
        (4,), [a], lambda ins, outs: call_packed("f", *ins, *outs), in_buffers=x, out_buffers=y
    )
    assert t.op.input_placeholders == (x,) and t.op.output_placeholders == (y,)
    assert t.dtype == "int32"
    two = te.extern([(2,), (3, 3)], [a], lambda ins, outs: call_packed("g", *outs))
    assert isinstance(two, list) and [t.ndim for t in two] == [1, 2]


def test_extern_primfunc():
    from tilewright.loopir.buffer import decl_buffer
    from tilewright.loopir.expr import Var
    from tilewright.loopir.stmt import PrimFunc

    x, y = decl_buffer((5,), name="x"), decl_buffer((5,), name="y")
    ib = ir_builder.create()
    p, q = ib.buffer_ptr(x), ib.buffer_ptr(y)
    with ib.for_range(0, 5, name="i") as i:
        q[i] = p[i] * 3.0
    params = [Var("x_handle", "handle"), Var("y_handle", "handle")]
    func = PrimFunc(params, ib.get(), None, dict(zip(params, (x, y))))
    a = te.placeholder((5,), name="a")
    t = te.extern_primfunc([a], func, name="triple")
    v = np.arange(5, dtype="float32")
    assert te_eval(t, {a: v})[0].tolist() == (v * 3).tolist() and t.op.name == "triple"


def vadd(width):
    x, y = te.placeholder((width,), name="x"), te.placeholder((width,), name="y")
    z = te.compute((width,), lambda i: x[i] + y[i], name="z")
    calls = []

    def body(ins, outs):
        calls.append((ins, outs))
        return call_extern("int32", "vadd", *(b.access_ptr("r") for b in (*ins, *outs)))

    intrin = te.decl_tensor_intrin(
        z.op, body, name="vadd", default_buffer_params={"offset_factor": 4}
    )
    ((ins, outs),) = calls
    return intrin, ins, outs, (x, y, z)


def test_tensor_intrinsic_declaration():
    intrin, ins, outs, (x, y, z) = vadd(8)
    assert intrin.name == "vadd" and intrin.op is z.op and intrin.inputs == (x, y)
    assert intrin.buffers == (*ins, *outs) and all(b.offset_factor == 4 for b in intrin.buffers)
    assert isinstance(intrin.body, Evaluate) and intrin.reduce_init is None
    assert intrin.reduce_update is None and intrin.scalar_params == ()


def test_tensor_intrinsic_binds_and_parts():
    from tilewright.loopir.buffer import decl_buffer

    x = te.placeholder((4,), name="x")
    k = te.reduce_axis((0, 4), "k")
    z = te.compute((), lambda: te.sum(x[k], axis=k))
    mine = decl_buffer((4,), name="mine")

    def body(ins, outs):
        return tuple(call_extern("int32", f"f{i}", ins[0].data) for i in range(3))

    intrin = te.decl_tensor_intrin(z.op, body, binds={x: mine})
    assert intrin.buffers[0] is mine
    parts = (intrin.body, intrin.reduce_init, intrin.reduce_update)
    assert [value_of(as_a(Call, as_a(Evaluate, p).value).args[0]) for p in parts] == [
        "f0",
        "f1",
        "f2",
    ]


def test_tensor_compute_operation():
    intrin, *_ = vadd(8)
    a, b = te.placeholder((3, 8), name="a"), te.placeholder((24,), name="b")
    t = te.compute((3, 8), lambda i: intrin(a[i, 0:8], b[i * 8 : i * 8 + 8]), name="t", tag="g")
    op = t.op
    assert isinstance(op, TensorComputeOp) and op.tensors == (a, b) == op.input_tensors
    assert op.schedulable_ndim == 1 and op.tag == "g" and t.dtype == "float32"
    assert [a.iter_type for a in op.axis] == [IterVar.DataPar, IterVar.Opaque]
    assert [[str(r) for r in region] for region in op.regions] == [
        ["T.Range(i, i + 1)", "T.Range(0, 8)"],
        ["T.Range(i * 8, i * 8 + 8)"],
    ]
    new = as_a(TensorComputeOp, replace_inputs(op, {a: te.placeholder((3, 8), name="c")}))
    assert [x.name for x in new.tensors] == ["c", "b"] and new.axis == op.axis
    x, y = np.ones((3, 8), "float32"), np.arange(24, dtype="float32")
    np.testing.assert_array_equal(te_eval(t, {a: x, b: y})[0], x + y.reshape(3, 8))


def test_outputs_are_cached():
    a, _, c = chain()
    assert isinstance(c.op, ComputeOp) and c.op.output(0) is c and c.op.outputs == (c,)
    with pytest.raises(Exception, match="outputs"):
        a.op.output(1)
