"""Loop primitives on extents that nothing divides; results must not change."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

M, N = 37, 53


def program():
    A = te.placeholder((M, N), name="A")
    B = te.compute((M, N), lambda i, j: A[i, j] * 3 + 1, name="B")
    C = te.compute((M, N), lambda i, j: B[i, j] - A[i, j], name="C")
    return A, B, C, te.create_schedule(C.op)


def check(s, A, C):
    mod = tvm.lower(s, [A, C], simple_mode=True)
    assert isinstance(mod["main"], tvm.tir.PrimFunc)
    f = tvm.build(s, [A, C], "llvm")
    a = np.random.default_rng(0).integers(-9, 9, (M, N)).astype("float32")
    c = tvm.nd.array(np.full((M, N), -1, "float32"))
    f(tvm.nd.array(a), c)
    np.testing.assert_array_equal(c.numpy(), a * 2 + 1)
    return mod


def split_nparts(s, B, C):
    s[C].split(C.op.axis[0], nparts=4)


def tile(s, B, C):
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], x_factor=10, y_factor=5)
    s[C].reorder(xi, yo, xo, yi)


def fuse(s, B, C):
    fused = s[C].fuse(C.op.axis[0], C.op.axis[1])
    outer, inner = s[C].split(fused, factor=16)
    s[C].parallel(outer)
    s[C].vectorize(inner)


def attach(s, B, C):
    xo, xi = s[C].split(C.op.axis[1], factor=8)
    s[B].compute_at(s[C], xo)
    s[B].vectorize(B.op.axis[1])
    s[C].unroll(xi)


def inline(s, B, C):
    s[B].compute_inline()


def back_to_root(s, B, C):
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].compute_root()


def scopes(s, B, C):
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope("local")
    s[B].storage_align(B.op.axis[0], 16, 0)
    s[C].pragma(C.op.axis[0], "auto_unroll_max_step", 4)


def layout(s, B, C):
    s[B].transform_layout(lambda i, j: [j, i])


for change in (split_nparts, tile, fuse, attach, inline, back_to_root, scopes, layout):
    A, B, C, s = program()
    change(s, B, C)
    print("#", change.__name__)
    print(check(s, A, C))
