"""topi computations with topi.generic schedules, inside a target's scope."""

import numpy as np
import tvm
import tvm.testing
from tvm import te, topi

x, y = te.placeholder((12, 20), name="x"), te.placeholder((8, 20), name="y")
a, b = np.random.randn(12, 20).astype("float32"), np.random.randn(8, 20).astype("float32")


def check(schedule, out, ins, arrays, want):
    with tvm.target.Target("llvm"):
        s = schedule([out])
    f = tvm.build(s, [*ins, out], "llvm")
    o = tvm.nd.empty(tuple(int(v) for v in out.shape), out.dtype)
    f(*[tvm.nd.array(v) for v in arrays], o)
    tvm.testing.assert_allclose(o.numpy(), want, rtol=1e-4, atol=1e-5)


check(topi.generic.schedule_injective, topi.nn.relu(x), [x], [a], np.maximum(a, 0))
check(topi.generic.schedule_injective, topi.add(x, x), [x], [a], 2 * a)
check(topi.generic.schedule_reduce, topi.sum(x, axis=1), [x], [a], a.sum(1))
check(topi.generic.schedule_dense, topi.nn.dense(x, y), [x, y], [a, b], a @ b.T)
e = np.exp(a - a.max(1, keepdims=True))
check(topi.generic.schedule_softmax, topi.nn.softmax(x), [x], [a], e / e.sum(1, keepdims=True))
with tvm.target.Target("llvm"):
    s = topi.generic.schedule_extern([topi.tanh(x)])
