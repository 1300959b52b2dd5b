# %% [markdown]
# # Intrinsics and tensorize
#
# For readers who know [schedules](02_matmul.py) and have an instruction or a hand-written kernel
# that they want used: calling functions, rules that lower them, and replacing loops by a kernel.

# %%
import numpy as np
import show

import tilewright as tvm
from tilewright import te, tir

rng = np.random.default_rng(0)
target = tvm.target.Target("llvm")

# %% [markdown]
# ## Calling a function by name
#
# `te.exp`, `te.sqrt` and their like are operations that the compiler knows: it makes vectors of
# them. A function of the C library can be called by name; *pure* says that it does nothing but
# give a value. Another way is an intrinsic of LLVM, with the number of its arguments that belong
# to its name.

# %%
n = 64
A = te.placeholder((n,), name="A")
by_name = te.compute((n,), lambda i: tir.call_pure_extern("float32", "expf", A[i]), name="by_name")
known = te.compute((n,), lambda i: te.exp(A[i]), name="known")
rounded = te.compute(
    (n,),
    lambda i: tir.call_llvm_pure_intrin(
        "float32", "llvm.rint.f32", tir.const(1, "uint32"), by_name[i]
    ),
    name="rounded",
)
s = te.create_schedule([known.op, rounded.op])
f = tvm.build(s, [A, known, rounded], target)
a = rng.random(n, dtype="float32")
e, r = np.empty(n, "float32"), np.empty(n, "float32")
f(a, e, r)
np.testing.assert_allclose(e, np.exp(a), rtol=1e-6)
np.testing.assert_array_equal(r, np.rint(np.exp(a)))

# %% [markdown]
# ## An operation of your own, lowered by a rule
#
# `register_op_attr` makes a name known and says what it may do; `register_intrin_lowering` says
# what a call becomes on a kind of target. The same tensor program then has another meaning for
# each target.

# %%
tvm.ir.register_op_attr("tir.softsign", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)


def softsign_on_cpus(call):
    x = call.args[0]
    return x / (tir.const(1, x.dtype) + tir.abs(x))


tvm.ir.register_intrin_lowering("tir.softsign", target="llvm", f=softsign_on_cpus, level=99)
B = te.compute((n,), lambda i: tir.call_intrin("float32", "tir.softsign", A[i]), name="B")
s = te.create_schedule(B.op)
f = tvm.build(s, [A, B], target)
a = rng.standard_normal(n, dtype="float32")
b = np.empty(n, "float32")
f(a, b)
np.testing.assert_allclose(b, a / (1 + np.abs(a)), rtol=1e-6)
print(show.loops(s, [A, B]))

# %% [markdown]
# ## tensorize: loops that become a kernel
#
# Let there be a kernel that adds the products of `rows` rows of a matrix with a vector to `c`. It
# could be C, assembly, or an accelerator's instruction; here it is text in LLVM's language, so
# that this page needs no compiler. It takes eight columns at a time.

# %%
KERNEL = """
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare float @llvm.vector.reduce.fadd.v8f32(float, <8 x float>)

; c[i] += sum over j of a[j] * b[i * stride + j]; columns is a multiple of 8
define i32 @gemv_update(ptr %c, ptr %a, ptr %b, i32 %rows, i32 %columns, i32 %stride) {
entry:
  br label %row
row:
  %i = phi i32 [ 0, %entry ], [ %i.next, %end ]
  %first = mul i32 %i, %stride
  %line = getelementptr float, ptr %b, i32 %first
  br label %column
column:
  %j = phi i32 [ 0, %row ], [ %j.next, %column ]
  %sum = phi <8 x float> [ zeroinitializer, %row ], [ %sum.next, %column ]
  %pa = getelementptr float, ptr %a, i32 %j
  %pb = getelementptr float, ptr %line, i32 %j
  %va = load <8 x float>, ptr %pa, align 4
  %vb = load <8 x float>, ptr %pb, align 4
  %sum.next = call <8 x float> @llvm.fma.v8f32(<8 x float> %va, <8 x float> %vb, <8 x float> %sum)
  %j.next = add i32 %j, 8
  %more = icmp slt i32 %j.next, %columns
  br i1 %more, label %column, label %end
end:
  %p = getelementptr float, ptr %c, i32 %i
  %old = load float, ptr %p, align 4
  %new = call reassoc float @llvm.vector.reduce.fadd.v8f32(float %old, <8 x float> %sum.next)
  store float %new, ptr %p, align 4
  %i.next = add i32 %i, 1
  %again = icmp slt i32 %i.next, %rows
  br i1 %again, label %row, label %done
done:
  ret i32 0
}

define i32 @gemv_reset(ptr %c, i32 %rows) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %c, i32 %i
  store float 0.0, ptr %p, align 4
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %rows
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""

# %% [markdown]
# ### What it computes, and how it is called
#
# `te.decl_tensor_intrin` says both: a tensor program that the loops have to match, and functions
# that emit the call. Buffers describe what the kernel takes: rows of `b` may lie apart
# (`strides`), the others are dense. For reductions there are three: the whole (`body`), setting
# to zero (`reset`), and adding (`update`), so that the reduction may be cut outside of the
# kernel.


# %%
def gemv(rows, columns):
    a = te.placeholder((columns,), name="a")
    b = te.placeholder((rows, columns), name="b")
    k = te.reduce_axis((0, columns), name="k")
    c = te.compute((rows,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    stride = te.var("stride")
    buffers = {
        a: tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1]),
        b: tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[stride, 1]),
        c: tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1]),
    }

    def emit(ins, outs):
        (aa, bb), (cc,) = ins, outs

        def call(name, *args):
            return tir.Evaluate(tir.call_extern("int32", name, *args))

        reset = call("gemv_reset", cc.access_ptr("w"), rows)
        pointers = cc.access_ptr("rw"), aa.access_ptr("r"), bb.access_ptr("r")
        update = call("gemv_update", *pointers, rows, columns, bb.strides[0])
        return tir.SeqStmt([reset, update]), reset, update

    return te.decl_tensor_intrin(c.op, emit, binds=buffers)


# %% [markdown]
# ### In a schedule
#
# The loops from `yi` inwards, 16 rows by 32 columns, are what the kernel does. `tensorize` checks
# that, and the pragma `import_llvm` brings the kernel's code along.

# %%
N, M, L = 64, 48, 128
X, Y = te.placeholder((N, L), name="X"), te.placeholder((M, L), name="Y")
k = te.reduce_axis((0, L), name="k")
Z = te.compute((N, M), lambda i, j: te.sum(X[i, k] * Y[j, k], axis=k), name="Z")
s = te.create_schedule(Z.op)
x, y = Z.op.axis
yo, yi = s[Z].split(y, factor=16)
ko, ki = s[Z].split(Z.op.reduce_axis[0], factor=32)
s[Z].reorder(x, yo, ko, yi, ki)
s[Z].tensorize(yi, gemv(16, 32))
s[Z].pragma(x, "import_llvm", KERNEL)
print(show.loops(s, [X, Y, Z]))
f = tvm.build(s, [X, Y, Z], target)
a, b = rng.random((N, L), dtype="float32"), rng.random((M, L), dtype="float32")
c = np.empty((N, M), "float32")
f(a, b, c)
np.testing.assert_allclose(c, a @ b.T, rtol=1e-4)

# %% [markdown]
# ### Loops that do not match
#
# A kernel for other loops is refused, with both sides of the comparison:

# %%
s = te.create_schedule(Z.op)
x, y = Z.op.axis
yo, yi = s[Z].split(y, factor=16)
s[Z].tensorize(yi, gemv(16, 32))
try:
    tvm.lower(s, [X, Y, Z])
except tvm.TilewrightError as error:
    print(error)
else:
    raise AssertionError("the reduction of 128 is not the kernel's of 32")

# %% [markdown]
# ## What is ready
#
# `tilewright.topi.tensor_intrin` has dot products of bytes and NVIDIA's tensor cores; see
# [Scheduling for GPUs](../gpu.md#tensor-cores). `simt` runs the latter without a GPU.
#
# ## Exercises
#
# 1. Tensorize the whole reduction (no split of `k`). Which of the three parts is called then?
# 2. Give the kernel 5 rows (`gemv(5, 32)`): 48 is no multiple of 5. What happens at the end?
# 3. Write the kernel's `update` with `tir.ir_builder` loops instead of a call: an intrinsic that
#    brings its own loop IR.

# %% tags=["solution"]
# 1: the body, which sets to zero and adds.
s = te.create_schedule(Z.op)
x, y = Z.op.axis
yo, yi = s[Z].split(y, factor=16)
s[Z].tensorize(yi, gemv(16, L))
s[Z].pragma(x, "import_llvm", KERNEL)
print(show.loops(s, [X, Y, Z]))
c[:] = 0
tvm.build(s, [X, Y, Z], target)(a, b, c)
np.testing.assert_allclose(c, a @ b.T, rtol=1e-4)

# %% tags=["solution"]
# 2: the last call would have 3 rows, which the kernel does not say that it can do: refused.
s = te.create_schedule(Z.op)
yo, yi = s[Z].split(Z.op.axis[1], factor=5)
ko, ki = s[Z].split(Z.op.reduce_axis[0], factor=32)
s[Z].reorder(Z.op.axis[0], yo, ko, yi, ki)
s[Z].tensorize(yi, gemv(5, 32))
try:
    tvm.lower(s, [X, Y, Z])
except tvm.TilewrightError as error:
    print(error)
else:
    raise AssertionError("a tail must be refused")


# %% tags=["solution"]
# 3: vectors are not needed for it to be right; the compiler sees through it, unlike through a call.
def gemv_in_loops(rows, columns):
    a = te.placeholder((columns,), name="a")
    b = te.placeholder((rows, columns), name="b")
    k = te.reduce_axis((0, columns), name="k")
    c = te.compute((rows,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    strides = {a: [1], b: [te.var("stride"), 1], c: [1]}
    buffers = {
        t: tir.decl_buffer(t.shape, t.dtype, name=t.op.name, offset_factor=1, strides=strides[t])
        for t in (a, b, c)
    }

    def emit(ins, outs):
        (aa, bb), (cc,) = ins, outs

        def reset():
            ib = tir.ir_builder.create()
            with ib.for_range(0, rows, name="i") as i:
                ib.emit(cc.vstore([i], tir.const(0, "float32")))
            return ib.get()

        def update():
            ib = tir.ir_builder.create()
            with ib.for_range(0, rows, name="i") as i, ib.for_range(0, columns, name="j") as j:
                ib.emit(cc.vstore([i], cc.vload([i]) + aa.vload([j]) * bb.vload([i, j])))
            return ib.get()

        return tir.SeqStmt([reset(), update()]), reset(), update()

    return te.decl_tensor_intrin(c.op, emit, binds=buffers)


s = te.create_schedule(Z.op)
x, y = Z.op.axis
yo, yi = s[Z].split(y, factor=16)
ko, ki = s[Z].split(Z.op.reduce_axis[0], factor=32)
s[Z].reorder(x, yo, ko, yi, ki)
s[Z].tensorize(yi, gemv_in_loops(16, 32))
c[:] = 0
tvm.build(s, [X, Y, Z], target)(a, b, c)
np.testing.assert_allclose(c, a @ b.T, rtol=1e-4)
