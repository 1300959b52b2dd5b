"""Loops written in Python, scheduled and printed again; functions of tensor programs; targets by
name; files by their suffix."""

import numpy as np

import tilewright as tvm
import tilewright.testing
from tilewright import te, tir
from tilewright.contrib import cc, utils
from tilewright.te.hybrid import script

# ruff: noqa: F821
# mypy: disable-error-code="name-defined"

WINDOW = 3


@script
def moving_sum(a):
    n = a.shape[0] - WINDOW + 1
    out = output_tensor((n,), a.dtype)
    for i in range(n):
        total = 0.0
        for j in const_range(WINDOW):
            total += a[i + j]
        out[i] = total
    return out


a = te.placeholder((34,), name="a")
b = moving_sum(a)
c = te.compute(b.shape, lambda i: b[i] * 2.0, name="c")
s = te.create_schedule(c.op)
outer, inner = s[b].split(b.op.axis[0], factor=8)
s[b].parallel(outer)
func = tvm.build(s, [a, c], tvm.target.Target("llvm"))

x = np.arange(34, dtype="float32")
out = tvm.nd.empty((32,))
func(tvm.nd.array(x), out)
tvm.testing.assert_allclose(out.numpy(), 2 * moving_sum(x))
tvm.testing.assert_allclose(moving_sum(x), np.convolve(x, np.ones(WINDOW), "valid"))
print(te.hybrid.build(te.create_schedule(b.op), [a], [b]).get_source())

prim = te.create_prim_func([a, c])
assert isinstance(prim, tir.PrimFunc)
folder = utils.tempdir()
module = tvm.build(prim, target="llvm")
for name in ("lib.so", "lib.tar", "lib.o"):
    module.export_library(file_name=folder.relpath(name))
    again = tvm.nd.empty((32,))
    tvm.runtime.load_module(folder.relpath(name))["main"](tvm.nd.array(x), again)
    tvm.testing.assert_allclose(again.numpy(), out.numpy())
if cc.get_cc():
    module.export_library(folder.relpath("cc.so"), fcompile=cc.create_shared)

layout = tir.bijective_layout("NCHW", "NCHW4c")
assert layout is not None
assert [int(d) for d in layout.forward_shape((1, 8, 2, 2))] == [1, 2, 2, 2, 4]
assert tvm.target.Target("nvidia/geforce-rtx-3090").arch == "sm_86"
assert tvm.ir.structural_equal(tvm.ir.load_json(tvm.ir.save_json(prim)), prim)


@tvm.target.generic_func
def preferred(n):
    return n


@preferred.register(["cpu"])
def of_cpu(n):
    return n + 1


with tvm.target.arm_cpu("rasp4b64"):
    assert preferred(1) == 2
assert preferred(1) == 1
