"""Pass contexts and passes of the user's own: options, visitors, a rewrite in the pipeline."""

from typing import Any

import numpy as np
import tvm
import tvm.testing
from tvm import te

N = 128
A = te.placeholder((N,), name="A")
B = te.compute((N,), lambda i: A[i] + 1.0, name="B")


def schedule():
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(inner)
    return s


def run(f):
    out = tvm.nd.array(np.zeros(N, "float32"))
    f(tvm.nd.array(np.arange(N, dtype="float32")), out)
    return out.numpy()


text = str(tvm.lower(schedule(), [A, B]))
assert "i_inner" not in text
with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
    serial = str(tvm.lower(schedule(), [A, B]))
    assert "i_inner" in serial
    tvm.testing.assert_allclose(run(tvm.build(schedule(), [A, B], "llvm")), np.arange(N) + 1)

stores: list[Any] = []


@tvm.tir.transform.prim_func_pass(opt_level=0)
def double_the_constant(func, mod, ctx):
    def visit(node):
        if isinstance(node, tvm.tir.BufferStore):
            stores.append(node)

    tvm.tir.stmt_functor.post_order_visit(func.body, visit)

    def change(node):
        if node.value == 1.0:
            return tvm.tir.FloatImm("float32", 2.0)
        return None

    body = tvm.tir.stmt_functor.ir_transform(func.body, None, change, ["tir.FloatImm"])
    return func.with_body(body)


with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, double_the_constant)]}):
    f = tvm.build(schedule(), [A, B], "llvm")
assert stores
tvm.testing.assert_allclose(run(f), np.arange(N) + 2)

mod = tvm.lower(schedule(), [A, B], name="plus_one")
f = tvm.build(mod, target="llvm")
tvm.testing.assert_allclose(run(f["plus_one"]), np.arange(N) + 1)
