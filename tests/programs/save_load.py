"""export_library and load_module."""

import numpy as np
import tvm
import tvm.testing
from tvm import te
from tvm.contrib import utils

n = tvm.runtime.convert(1024)
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
s = te.create_schedule(C.op)
fadd = tvm.build(s, [A, B, C], target="llvm", name="myadd")
temp = utils.tempdir()
path = temp.relpath("myadd.so")
fadd.export_library(path)
print(temp.listdir())
loaded = tvm.runtime.load_module(path)
dev = tvm.cpu(0)
a = tvm.nd.array(np.random.uniform(size=1024).astype(A.dtype), dev)
b = tvm.nd.array(np.random.uniform(size=1024).astype(B.dtype), dev)
c = tvm.nd.array(np.zeros(1024, dtype=C.dtype), dev)
loaded(a, b, c)
tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
c2 = tvm.nd.empty((1024,), device=dev)
loaded["myadd"](a, b, c2)
np.testing.assert_equal(c2.numpy(), c.numpy())
assert a.shape == (1024,) and str(a.dtype) == "float32" and a.device == dev
