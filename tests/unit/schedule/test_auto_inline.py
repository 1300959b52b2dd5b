"""te.schedule's AutoInline... and InferBound."""

import numpy as np

import tilewright as tvm
from tilewright import te, tir


def program():
    a = te.placeholder((4, 8), name="A")
    v = te.placeholder((8,), name="V")
    b = te.compute((4, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4, 8), lambda i, j: b[i, j] * v[j], name="C", tag="broadcast")
    d = te.compute((8, 4), lambda i, j: c[j, i], name="D")
    e = te.compute((8, 4), lambda i, j: d[i, j] - 2.0, name="E")
    return a, v, e


def allocations(s, args):
    return str(tvm.lower(s, args)).count("T.allocate")


def test_each_inlines_its_kind():
    for name, left in [("AutoInlineElemWise", 2), ("AutoInlineBroadcast", 2)]:
        a, v, e = program()
        s = te.create_schedule(e.op)
        getattr(te.schedule, name)(s)
        assert allocations(s, [a, v, e]) == left
    a, v, e = program()
    s = te.create_schedule(e.op)
    te.schedule.AutoInlineInjective(s)
    assert allocations(s, [a, v, e]) == 0
    f = tvm.build(s, [a, v, e], "llvm")
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-8, 9, shape).astype("f") for shape in ((4, 8), 8))
    y = np.zeros((8, 4), "f")
    f(x, w, y)
    np.testing.assert_array_equal(y, ((x + 1) * w).T - 2)


def test_what_is_scheduled_is_not_inlined():
    a, v, e = program()
    s = te.create_schedule(e.op)
    d = e.op.input_tensors[0]
    s[d].split(d.op.axis[0], factor=2)
    te.schedule.AutoInlineInjective(s)
    assert allocations(s, [a, v, e]) == 1


def test_bounds_of_all_axes():
    a, _, e = program()
    s = te.create_schedule(e.op)
    outer, inner = s[e].split(e.op.axis[0], factor=3)
    bounds = te.schedule.InferBound(s)
    assert int(bounds[outer].extent) == 3 and int(bounds[inner].extent) == 3
    assert int(bounds[e.op.axis[1]].extent) == 4
    assert a is not None


def test_node_constructors_take_numbers():
    x = te.var("x", "int32")
    low = tir.Max(tir.Min(x, 127), -128)
    assert low.dtype == "int32" and int(low.b) == -128
