"""int8 products summed in int32."""

import numpy as np
import tvm
from tvm import te

M, N, K = 16, 24, 40
A = te.placeholder((M, K), name="A", dtype="int8")
B = te.placeholder((N, K), name="B", dtype="int8")
k = te.reduce_axis((0, K), name="k")
C = te.compute(
    (M, N), lambda i, j: te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k), name="C"
)
Q = te.compute(
    (M, N),
    lambda i, j: tvm.tir.Max(tvm.tir.Min(C[i, j] >> 6, 127), -128).astype("int8"),
    name="Q",
)
s = te.create_schedule(Q.op)
jo, ji = s[Q].split(Q.op.axis[1], 8)
s[C].compute_at(s[Q], jo)
ko, ki = s[C].split(k, 4)
s[C].reorder(ko, C.op.axis[0], C.op.axis[1], ki)
s[C].unroll(ki)
s[Q].vectorize(ji)
f = tvm.build(s, [A, B, Q], tvm.target.Target("llvm"))
a = np.random.randint(-128, 128, (M, K)).astype("int8")
b = np.random.randint(-128, 128, (N, K)).astype("int8")
q = tvm.nd.array(np.zeros((M, N), "int8"))
f(tvm.nd.array(a), tvm.nd.array(b), q)
np.testing.assert_array_equal(
    q.numpy(), np.clip((a.astype("int32") @ b.T.astype("int32")) >> 6, -128, 127)
)
