"""Tensorize: replace an inner loop nest by a micro-kernel, here a matrix-vector product.

    python examples/05_tensorize_gemv.py

The micro-kernel is written in LLVM IR, so no compiler is needed beside tilewright. ``tensorize``
checks that the loop nest under the chosen axis computes what the intrinsic declares.
"""

import numpy as np

import tilewright as tvm
from tilewright import te

KERNEL = """
; cc[0:m] = 0
define i32 @gemv_reset(ptr %cc, i32 %m) {
entry:
  br label %test
test:
  %i = phi i32 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i32 %i, %m
  br i1 %more, label %body, label %done
body:
  %p = getelementptr float, ptr %cc, i32 %i
  store float 0.0, ptr %p, align 4
  %next = add i32 %i, 1
  br label %test
done:
  ret i32 0
}

; cc[i] += sum over j of aa[j] * bb[i * stride + j], eight j at a time; l is a multiple of 8
define i32 @gemv_update(ptr %cc, ptr %aa, ptr %bb, i32 %m, i32 %l, i32 %stride) {
entry:
  br label %rows
rows:
  %i = phi i32 [ 0, %entry ], [ %i.next, %row.end ]
  %more = icmp slt i32 %i, %m
  br i1 %more, label %row, label %done
row:
  %offset = mul i32 %i, %stride
  %b = getelementptr float, ptr %bb, i32 %offset
  br label %columns
columns:
  %j = phi i32 [ 0, %row ], [ %j.next, %column ]
  %sum = phi <8 x float> [ zeroinitializer, %row ], [ %sum.next, %column ]
  %inside = icmp slt i32 %j, %l
  br i1 %inside, label %column, label %row.end
column:
  %pa = getelementptr float, ptr %aa, i32 %j
  %pb = getelementptr float, ptr %b, i32 %j
  %va = load <8 x float>, ptr %pa, align 4
  %vb = load <8 x float>, ptr %pb, align 4
  %sum.next = call <8 x float> @llvm.fma.v8f32(<8 x float> %va, <8 x float> %vb, <8 x float> %sum)
  %j.next = add i32 %j, 8
  br label %columns
row.end:
  %p = getelementptr float, ptr %cc, i32 %i
  %old = load float, ptr %p, align 4
  %new = call reassoc float @llvm.vector.reduce.fadd.v8f32(float %old, <8 x float> %sum)
  store float %new, ptr %p, align 4
  %i.next = add i32 %i, 1
  br label %rows
done:
  ret i32 0
}

declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare float @llvm.vector.reduce.fadd.v8f32(float, <8 x float>)
"""


def intrin_gemv(rows, columns):
    """c[i] = sum_k a[k] * b[i, k], declared as a tensor program and as calls of the kernel."""
    a = te.placeholder((columns,), name="a")
    b = te.placeholder((rows, columns), name="b")
    k = te.reduce_axis((0, columns), name="k")
    c = te.compute((rows,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    Bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
    Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def intrin_func(ins, outs):
        aa, bb = ins
        cc = outs[0]

        def update():
            ib = tvm.tir.ir_builder.create()
            ib.emit(
                tvm.tir.call_extern(
                    "int32",
                    "gemv_update",
                    cc.access_ptr("rw"),
                    aa.access_ptr("r"),
                    bb.access_ptr("r"),
                    rows,
                    columns,
                    bb.strides[0],
                )
            )
            return ib.get()

        def reset():
            ib = tvm.tir.ir_builder.create()
            ib.emit(tvm.tir.call_extern("int32", "gemv_reset", cc.access_ptr("w"), rows))
            return ib.get()

        def body():
            ib = tvm.tir.ir_builder.create()
            ib.emit(reset())
            ib.emit(update())
            return ib.get()

        return body(), reset(), update()

    return te.decl_tensor_intrin(c.op, intrin_func, binds={a: Ab, b: Bb, c: Cb})


def main():
    N, M, L = 64, 48, 128
    factor = 16
    A = te.placeholder((N, L), name="A")
    B = te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")

    rng = np.random.default_rng(0)
    a = rng.standard_normal((N, L)).astype("float32")
    b = rng.standard_normal((M, L)).astype("float32")
    for reduction in (L, 32):
        s = te.create_schedule(C.op)
        x, y = C.op.axis
        (z,) = C.op.reduce_axis
        yo, yi = s[C].split(y, factor=factor)
        zo, zi = s[C].split(z, factor=reduction)
        s[C].reorder(x, yo, zo, yi, zi)
        s[C].tensorize(yi, intrin_gemv(factor, reduction))
        s[C].pragma(x, "import_llvm", KERNEL)
        print(tvm.lower(s, [A, B, C], simple_mode=True))
        func = tvm.build(s, [A, B, C], "llvm", name="gemv")
        c = tvm.nd.array(np.zeros((N, M), dtype="float32"))
        func(tvm.nd.array(a), tvm.nd.array(b), c)
        tvm.testing.assert_allclose(c.numpy(), a @ b.T, rtol=1e-3, atol=1e-4)
    print("tensorized product agrees with NumPy, with the reduction whole and in strips")


if __name__ == "__main__":
    main()
