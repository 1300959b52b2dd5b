"""Scans with several states, several stages, and schedules of their parts."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

m, n = te.var("m"), te.var("n")
X = te.placeholder((m, n), name="X")
first, second = te.placeholder((m, n), name="first"), te.placeholder((m, n), name="second")
init1 = te.compute((1, n), lambda _, i: X[0, i], name="init1")
init2 = te.compute((1, n), lambda _, i: tvm.tir.const(0, "float32"), name="init2")
mean = te.compute((m, n), lambda t, i: (first[t - 1, i] + X[t, i]) * 0.5, name="mean")
update1 = te.compute((m, n), lambda t, i: mean[t, i] + second[t - 1, i], name="update1")
update2 = te.compute((m, n), lambda t, i: second[t - 1, i] * 0.5 + X[t, i], name="update2")
out1, out2 = te.scan([init1, init2], [update1, update2], [first, second], inputs=[X], name="out")


def reference(x):
    a, b = np.zeros_like(x), np.zeros_like(x)
    a[0] = x[0]
    for t in range(1, len(x)):
        a[t] = (a[t - 1] + x[t]) * 0.5 + b[t - 1]
        b[t] = b[t - 1] * 0.5 + x[t]
    return a, b


def plain(s):
    pass


def scheduled(s):
    s[mean].compute_at(s[update1], update1.op.axis[1])
    for update in (update2, init1):
        _, inner = s[update].split(s[update].op.axis[1], factor=4)
        s[update].vectorize(inner)


def inlined(s):
    s[mean].compute_inline()


x = np.random.default_rng(0).standard_normal((9, 13)).astype("float32")
for change in (plain, scheduled, inlined):
    s = te.create_schedule(out1.op)
    change(s)
    print(tvm.lower(s, [X, out1, out2], simple_mode=True))
    f = tvm.build(s, [X, out1, out2], "llvm")
    a, b = tvm.nd.array(np.zeros_like(x)), tvm.nd.array(np.zeros_like(x))
    f(tvm.nd.array(x), a, b)
    want = reference(x)
    tvm.testing.assert_allclose(a.numpy(), want[0], rtol=1e-4, atol=1e-5)
    tvm.testing.assert_allclose(b.numpy(), want[1], rtol=1e-4, atol=1e-5)
