"""cache_write and rfactor of reductions: whose axes and variables the new operations have."""

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import ScheduleError


def prefixes():
    """Sums of the first n elements for each n, never below n."""
    x = te.placeholder((10,), name="x")

    def element(n):
        k = te.reduce_axis((0, n), "k")
        start = tir.Select(n > 1, tir.const(0, "float32"), n.astype("float32"))
        total = te.comm_reducer(lambda a, b: te.max(a + b, n.astype("float32")), lambda _: start)
        return total(x[k], axis=k)

    return x, te.compute((10,), element, name="y")


@pytest.mark.parametrize("tile", [0, 5])
def test_what_a_reduction_depends_on_moves_into_the_cache(tile):
    x, y = prefixes()
    s = te.create_schedule(y.op)
    if tile:
        s[y].split(y.op.axis[0], tile)
    s.cache_write(y, "local")
    data = np.arange(10, dtype="float32") - 3
    out = np.zeros(10, "float32")
    tvm.build(s, [x, y], "llvm")(data, out)
    expected = []
    for n in range(10):
        value = 0.0 if n > 1 else float(n)
        for k in range(n):
            value = max(value + data[k], n)
        expected.append(value)
    np.testing.assert_array_equal(out, expected)


def test_tiles_of_it_must_divide():
    _, y = prefixes()
    s = te.create_schedule(y.op)
    s[y].split(y.op.axis[0], 4)
    with pytest.raises(ScheduleError, match="the extent of k depends on the element"):
        s.cache_write(y, "local")


@pytest.mark.parametrize("place", [0, 1])
def test_rfactor_keeps_the_variables_of_loops(place):
    a = te.placeholder((6, 8, 3), name="A")
    k, m = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 3), "m")
    b = te.compute((6,), lambda i: te.sum(a[i, k, m], axis=[k, m]), name="B")
    s = te.create_schedule(b.op)
    ko, ki = s[b].split(k, factor=4)
    parts = s.rfactor(b, ki, place)
    assert parts.op.axis[place].var is ki.var
    left = parts.op.reduce_axis
    assert left[0] is m and left[1].var is ko.var and left[1] is not ko
    assert s[b].op.reduce_axis[0].var.name == "k.inner.v"
    x = np.arange(144, dtype="float32").reshape(6, 8, 3)
    y = np.zeros(6, "float32")
    tvm.build(s, [a, b], "llvm")(x, y)
    np.testing.assert_array_equal(y, x.sum((1, 2)))
