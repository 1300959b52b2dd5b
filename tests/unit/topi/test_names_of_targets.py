"""Operators under the names of targets: what they compute, and what is said of libraries."""

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi


def run(out, inputs, *arrays):
    f = tvm.build(te.create_schedule(out.op), [*inputs, out], "llvm")
    result = tvm.nd.array(np.zeros([int(d) for d in out.shape], out.dtype))
    f(*map(tvm.nd.array, arrays), result)
    return result.numpy()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_permutations_are_inverted(dtype):
    p = te.placeholder((7,), dtype, name="p")
    given = np.array([3, 0, 6, 1, 2, 5, 4], dtype)
    got = run(topi.invert_permutation(p), [p], given)
    np.testing.assert_array_equal(got, np.argsort(given))
    assert got.dtype == dtype


def test_products_for_tensor_cores():
    a, b = te.placeholder((16, 32), "float16", name="a"), te.placeholder((8, 32), "float16", "b")
    x, y = (np.arange(n * 32).reshape(n, 32).astype("float16") % 5 for n in (16, 8))
    out = topi.cuda.dense_tensorcore(a, b, None, "float32")
    np.testing.assert_array_equal(run(out, [a, b], x, y), x.astype("float32") @ y.T)
    with tvm.target.Target("cuda"):
        schedule = topi.cuda.schedule_dense_tensorcore([out])
    assert "threadIdx.x" in str(tvm.lower(schedule, [a, b, out]))


def test_thrust_is_not_there():
    assert not topi.cuda.is_thrust_available()
    assert not topi.cuda.can_use_thrust(tvm.target.Target("cuda"), "tvm.contrib.thrust.sort")


def test_sparse_convolutions_of_three_by_three():
    x = te.placeholder((1, 4, 4, 2), name="x")
    w = te.placeholder((3,), name="w")
    i, p = te.placeholder((3,), "int32", name="i"), te.placeholder((4,), "int32", name="p")
    one = topi.x86.spconv2d_3x3_nhwc(x, w, i, p)
    other = topi.nn.sparse_conv2d(x, w, i, p, "NHWC", 3)
    arrays = (
        np.arange(32, dtype="float32").reshape(1, 4, 4, 2),
        np.array([1, 2, 3], "float32"),
        np.array([0, 9, 17], "int32"),
        np.array([0, 1, 2, 3], "int32"),
    )
    inputs = [x, w, i, p]
    np.testing.assert_array_equal(run(one, inputs, *arrays), run(other, inputs, *arrays))
