"""Two blurs after one another: tiles with recomputed borders, a rolling buffer, prefetching."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

H, W = 61, 45
A = te.placeholder((H, W), name="A")
B = te.compute(
    (H, W - 2), lambda y, x: A[y, x] + A[y, x + 1] * 2.0 + A[y, x + 2], name="horizontal"
)
C = te.compute(
    (H - 2, W - 2), lambda y, x: B[y, x] + B[y + 1, x] * 2.0 + B[y + 2, x], name="vertical"
)


def tiles(s):
    yo, xo, _, xi = s[C].tile(C.op.axis[0], C.op.axis[1], 16, 16)
    s[B].compute_at(s[C], xo)
    s[B].vectorize(B.op.axis[1])
    s[C].vectorize(xi)
    s[C].parallel(yo)


def rolling(s):
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].rolling_buffer()


def prefetched(s):
    s[B].prefetch(A, B.op.axis[0], 1)


def inlined(s):
    s[B].compute_inline()
    fused = s[C].fuse(*C.op.axis)
    s[C].vectorize(s[C].split(fused, 8)[1])


a = np.random.default_rng(0).integers(0, 100, (H, W)).astype("float32")
b = a[:, :-2] + 2 * a[:, 1:-1] + a[:, 2:]
want = b[:-2] + 2 * b[1:-1] + b[2:]
for change in (tiles, rolling, prefetched, inlined):
    s = te.create_schedule(C.op)
    change(s)
    f = tvm.build(s, [A, C], "llvm")
    c = tvm.nd.array(np.zeros_like(want))
    f(tvm.nd.array(a), c)
    np.testing.assert_array_equal(c.numpy(), want, err_msg=change.__name__)
