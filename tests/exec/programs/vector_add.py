"""The first program of every course: add vectors of any length, save, load, call."""

import os
import tempfile

import numpy as np
import tvm
import tvm.testing
from tvm import te

tgt = tvm.target.Target(target="llvm", host="llvm")
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
assert isinstance(C, te.Tensor)
assert C.dtype == "float32" and C.op.name == "C" and len(C.shape) == 1

s = te.create_schedule(C.op)
outer, inner = s[C].split(C.op.axis[0], factor=64)
s[C].parallel(outer)
s[C].vectorize(inner)
print(tvm.lower(s, [A, B, C], simple_mode=True))
fadd = tvm.build(s, [A, B, C], tgt, name="myadd")

dev = tvm.device(tgt.kind.name, 0)
for length in (1, 63, 64, 1000, 32768):
    a = tvm.nd.array(np.random.uniform(size=length).astype(A.dtype), dev)
    b = tvm.nd.array(np.random.uniform(size=length).astype(B.dtype), dev)
    c = tvm.nd.array(np.zeros(length, dtype=C.dtype), dev)
    fadd(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    fadd["myadd"](a, b, c)

evaluator = fadd.time_evaluator(fadd.entry_name, dev, number=10, repeat=3)
result = evaluator(a, b, c)
assert result.mean > 0 and len(result.results) == 3 and min(result.results) > 0

c = tvm.nd.empty((8,), "float32", dev)
try:
    fadd(a, b, c)
except Exception as error:
    assert "C" in str(error)
else:
    raise SystemExit("a wrong shape was not noticed")

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "myadd.tar")
    fadd.export_library(path)
    loaded = tvm.runtime.load_module(path)
    c = tvm.nd.array(np.zeros(32768, dtype="float32"), dev)
    loaded(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
