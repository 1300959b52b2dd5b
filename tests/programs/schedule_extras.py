"""create_group, storage_align, prefetch, pragma, double_buffer, transform_layout, set_scope."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

N = 64


def program():
    A = te.placeholder((N, N), name="A")
    B = te.compute((N, N), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((N, N), lambda i, j: B[i, j] * 2, name="C")
    D = te.compute((N, N), lambda i, j: C[i, j] - A[i, j], name="D")
    return A, B, C, D, te.create_schedule(D.op)


def check(s, A, D):
    print(tvm.lower(s, [A, D], simple_mode=True))
    f = tvm.build(s, [A, D], "llvm")
    a = np.random.rand(N, N).astype("float32")
    d = tvm.nd.empty((N, N))
    f(tvm.nd.array(a), d)
    tvm.testing.assert_allclose(d.numpy(), (a + 1) * 2 - a, rtol=1e-5)


A, B, C, D, s = program()
g = s.create_group(outputs=C, inputs=A, include_inputs=False)
g.compute_at(s[D], D.op.axis[0])
check(s, A, D)
A, B, C, D, s = program()
s[B].compute_at(s[D], D.op.axis[0])
s[C].compute_at(s[D], D.op.axis[0])
s[B].storage_align(B.op.axis[0], 8, 3)
s[B].double_buffer()
check(s, A, D)
A, B, C, D, s = program()
s[D].prefetch(A, s[D].op.axis[0], 1)
s[D].pragma(s[D].op.axis[0], "auto_unroll_max_step", 16)
s[D].pragma(s[D].op.axis[1], "unroll_explicit", True)
check(s, A, D)
A, B, C, D, s = program()
s[B].transform_layout(lambda i, j: [i // 4, j, i % 4])
s[C].set_scope("global")
check(s, A, D)
A, B, C, D, s = program()
te.schedule.AutoInlineInjective(s)
check(s, A, D)
A, B, C, D, s = program()
AA = s.cache_read(A, "global", [B, D])
s[AA].compute_at(s[D], D.op.axis[0])
s[B].compute_at(s[D], D.op.axis[0])
s[C].compute_inline()
check(s, A, D)
