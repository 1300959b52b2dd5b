"""Several outputs of one compute, and several output ops of one schedule."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

m, n = te.var("m"), te.var("n")
A0 = te.placeholder((m, n), name="A0")
A1 = te.placeholder((m, n), name="A1")
B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A1[i, j] * 3), name="B")
C = te.compute((m, n), lambda i, j: B0[i, j] + B1[i, j], name="C")
s = te.create_schedule([B0.op, C.op])
x, y = s[C].split(C.op.axis[1], 4)
print(tvm.lower(s, [A0, A1, B0, B1, C], simple_mode=True))
f = tvm.build(s, [A0, A1, B0, B1, C], "llvm")
a0, a1 = np.random.rand(7, 9).astype("float32"), np.random.rand(7, 9).astype("float32")
outs = [tvm.nd.empty((7, 9)) for _ in range(3)]
f(tvm.nd.array(a0), tvm.nd.array(a1), *outs)
tvm.testing.assert_allclose(outs[0].numpy(), a0 + 2)
tvm.testing.assert_allclose(outs[1].numpy(), a1 * 3, rtol=1e-6)
tvm.testing.assert_allclose(outs[2].numpy(), a0 + 2 + a1 * 3, rtol=1e-5)
