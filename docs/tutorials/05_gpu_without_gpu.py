# %% [markdown]
# # GPU schedules without a GPU
#
# For readers who know [schedules of CPUs](01_first_schedule.py) and have no GPU at hand, or do
# not trust the kernel that they have: blocks and threads, shared memory, barriers, and races
# found.
#
# A kernel runs as *blocks* of *threads*. A schedule says which loop is which by `bind`; for the
# rest the primitives are the same. `simt` runs the kernel's loop IR in Python, all threads side
# by side, and reports what a GPU would silently do wrong.

# %%
import numpy as np
import show

import tilewright as tvm
from tilewright import te, tir
from tilewright.interp import simt

rng = np.random.default_rng(0)

# %% [markdown]
# ## One thread for each element
#
# Blocks of 64 threads. `bind` gives a loop to the index of blocks or of threads. 1000 is no
# multiple of 64, so the last block asks which of its threads have an element.

# %%
n = 1000
A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
C = te.compute((n,), lambda i: A[i] + B[i], name="C")
s = te.create_schedule(C.op)
block, thread = s[C].split(C.op.axis[0], factor=64)
s[C].bind(block, te.thread_axis("blockIdx.x"))
s[C].bind(thread, te.thread_axis("threadIdx.x"))
f = tvm.build(s, [A, B, C], "cuda -arch=sm_80", name="add")
source = f.imported_modules[0].get_source()
print(source[source.index('extern "C"') :])
assert "__global__" in source

# %% [markdown]
# The CUDA text is what a GPU would get. `run_simt` runs the same kernel here and returns what it
# counted: how many elements were read and written, and how much of what memory moved was asked
# for.

# %%
a, b = rng.random((2, n), dtype="float32")
c = np.zeros(n, "float32")
report = f.run_simt(a, b, c)["add_kernel"]
np.testing.assert_array_equal(c, a + b)
print(report)

# %% [markdown]
# ## Which thread takes which element
#
# Threads of a *warp*, 32 neighbours, read memory together, 32 bytes at a time. If neighbours read
# neighbours, all of what is moved is used. Bind the outer loop to threads instead, and each of
# them walks through a stretch of its own:


# %%
def copy(threads_outside):
    X = te.placeholder((4096,), name="X")
    Y = te.compute((4096,), lambda i: X[i] * 2, name="Y")
    s = te.create_schedule(Y.op)
    outer, inner = s[Y].split(Y.op.axis[0], factor=16 if threads_outside else 256)
    s[Y].bind(outer if threads_outside else inner, te.thread_axis("threadIdx.x"))
    f = tvm.build(s, [X, Y], "cuda", name="twice")
    x, y = rng.random(4096, dtype="float32"), np.zeros(4096, "float32")
    report = f.run_simt(x, y)["twice_kernel"]
    np.testing.assert_array_equal(y, 2 * x)
    return 100 * report.coalescing


used = {"neighbours read neighbours": copy(False), "stretches": copy(True)}
assert used["neighbours read neighbours"] == 100 > used["stretches"]
show.bars("Moved bytes that were asked for", used, "%")

# %% [markdown]
# ## Shared memory
#
# Threads of a block share a fast memory. A transposition wants rows on both sides: a tile is read
# along rows of `X` into shared memory, and written along rows of `Y` from there. `cache_read`
# makes the tile, `compute_at` says that each block has its own. The compiler puts the barrier
# between writing and reading.

# %%
N, T = 128, 32


def transpose(pad, tiled=True):
    X = te.placeholder((N, N), name="X")
    Y = te.compute((N, N), lambda i, j: X[j, i], name="Y")
    s = te.create_schedule(Y.op)
    tile = s.cache_read(X, "shared", [Y]) if tiled else None
    by, bx, ty, tx = s[Y].tile(*Y.op.axis, T, T)
    _, ty = s[Y].split(ty, factor=8)
    s[Y].bind(by, te.thread_axis("blockIdx.y"))
    s[Y].bind(bx, te.thread_axis("blockIdx.x"))
    s[Y].bind(ty, te.thread_axis("threadIdx.y"))
    s[Y].bind(tx, te.thread_axis("threadIdx.x"))
    if tile is not None:
        s[tile].compute_at(s[Y], bx)
        i, j = s[tile].op.axis
        i, y = s[tile].split(i, factor=8)
        s[tile].bind(y, te.thread_axis((0, 8), "threadIdx.y"))
        s[tile].bind(j, te.thread_axis((0, T), "threadIdx.x"))
        if pad:
            s[tile].storage_align(s[tile].op.axis[0], T, 1)
    return s, [X, Y]


for title, options in (
    ("no tile", {"pad": False, "tiled": False}),
    ("tile", {"pad": False}),
    ("padded tile", {"pad": True}),
):
    s, args = transpose(**options)
    f = tvm.build(s, args, "cuda", name="transpose")
    x, y = rng.random((N, N), dtype="float32"), np.zeros((N, N), "float32")
    report = f.run_simt(x, y)["transpose_kernel"]
    np.testing.assert_array_equal(y, x.T)
    turns = f"{report.bank_conflicts:.1f} turns an access" if report.bank_conflicts else "not used"
    print(f"{title}: {report.coalescing:.0%} of global memory's bytes used; shared memory: {turns}")
assert report.coalescing == 1 and report.bank_conflicts == 1

# %% [markdown]
# Shared memory is 32 *banks*, of which each serves one address at a time. A column of a tile of
# 32 columns lies in one bank: 32 threads take turns. One element of padding after each row
# (`storage_align`) moves each row to the next bank.
#
# ## A race, found
#
# Schedules get their barriers from the compiler. Kernels that are written by hand, as loop IR,
# can forget them. Here is a reversal through shared memory, without the barrier:


# %%
def reverse(barrier):
    A, B = tir.decl_buffer((64,), name="A"), tir.decl_buffer((64,), name="B")
    ib = tir.ir_builder.create()
    tx = te.thread_axis((0, 64), "threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 64)
    tile = ib.allocate("float32", (64,), name="tile", scope="shared")
    tile[tx.var] = ib.buffer_ptr(A)[tx.var]
    if barrier:
        ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", tir.StringImm("shared")))
    ib.buffer_ptr(B)[tx.var] = tile[63 - tx.var]
    return tir.PrimFunc([A.data, B.data], ib.get()).with_attr("global_symbol", "reverse")


a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
simt.run_kernel(reverse(True), None, [a, b])
np.testing.assert_array_equal(b, a[::-1])
try:
    simt.run_kernel(reverse(False), None, [a, b])
except tvm.SimtError as error:
    print(error)
    assert "race" in str(error)
else:
    raise AssertionError("the race must be found")

# %% [markdown]
# On a GPU this kernel might pass every test for years: which thread is first depends on the card.
# `simt` does not try orders of threads; it knows which barrier each thread has passed, and so
# finds the race whatever the result was. [GPU kernels in simt](../simt.md) lists all that it
# finds.
#
# ## A matrix product
#
# The same tiles as on a CPU, at two levels: a block's tile in shared memory, a thread's in
# registers.

# %%
M = 64
A, B = te.placeholder((M, M), name="A"), te.placeholder((M, M), name="B")
k = te.reduce_axis((0, M), name="k")
C = te.compute((M, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
s = te.create_schedule(C.op)
shared = [s.cache_read(x, "shared", [C]) for x in (A, B)]
total = s.cache_write(C, "local")
by, bx, yi, xi = s[C].tile(*C.op.axis, 32, 32)
ty, yi = s[C].split(yi, factor=4)
tx, xi = s[C].split(xi, factor=4)
s[C].reorder(by, bx, ty, tx, yi, xi)
s[C].bind(by, te.thread_axis("blockIdx.y"))
s[C].bind(bx, te.thread_axis("blockIdx.x"))
s[C].bind(ty, te.thread_axis("threadIdx.y"))
s[C].bind(tx, te.thread_axis("threadIdx.x"))
s[total].compute_at(s[C], tx)
ko, ki = s[total].split(s[total].op.reduce_axis[0], factor=8)
s[total].reorder(ko, ki, *s[total].op.axis)
for tile in shared:
    s[tile].compute_at(s[total], ko)
    flat = s[tile].fuse(*s[tile].op.axis)
    rest, x = s[tile].split(flat, factor=8)
    rest, y = s[tile].split(rest, factor=8)
    s[tile].bind(y, te.thread_axis((0, 8), "threadIdx.y"))
    s[tile].bind(x, te.thread_axis((0, 8), "threadIdx.x"))
f = tvm.build(s, [A, B, C], "cuda", name="product")
a, b = rng.random((2, M, M), dtype="float32")
c = np.zeros((M, M), "float32")
print(f.run_simt(a, b, c)["product_kernel"])
np.testing.assert_allclose(c, a @ b, rtol=1e-4)

# %% [markdown]
# With a GPU, `f(x, y, z)` on arrays of `tvm.cuda(0)` runs the same function; see
# [devices](../devices.md). [Scheduling for GPUs](../gpu.md) goes on from here: asynchronous
# copies and tensor cores.
#
# ## Exercises
#
# 1. Add up the rows of a 64 x 256 matrix with one block a row and 64 threads, so that threads add
#    up parts of a row and their sums are joined: `split` the reduction, `rfactor`, and bind the
#    axis of the result's reduction to `threadIdx.x`.
# 2. How many threads does a block of the matrix product have? Change the tile of a thread to 8 x
#    4.
# 3. Take `s[tile].compute_at` away from the matrix product. What does the compiler say, and why?

# %% tags=["solution"]
# 1: an allreduce over threads.
X = te.placeholder((64, 256), name="X")
k = te.reduce_axis((0, 256), name="k")
Y = te.compute((64,), lambda i: te.sum(X[i, k], axis=k), name="Y")
s = te.create_schedule(Y.op)
_, ki = s[Y].split(Y.op.reduce_axis[0], factor=64)
partial = s.rfactor(Y, ki)
s[Y].bind(s[Y].op.axis[0], te.thread_axis("blockIdx.x"))
tx = te.thread_axis("threadIdx.x")
s[Y].bind(s[Y].op.reduce_axis[0], tx)
s[partial].compute_at(s[Y], s[Y].op.reduce_axis[0])
s[Y].set_store_predicate(tx.var.equal(0))
f = tvm.build(s, [X, Y], "cuda", name="rows")
x, y = rng.random((64, 256), dtype="float32"), np.zeros(64, "float32")
print(f.run_simt(x, y)["rows_kernel"])
np.testing.assert_allclose(y, x.sum(axis=1), rtol=1e-5)

# %% [markdown] tags=["solution"]
# 2: 8 x 8 = 64: a block's tile is 32 x 32, a thread's 4 x 4. With 8 x 4 (`split(yi, factor=8)`)
# there are 4 x 8 = 32, so the copies to shared memory have to be split over `threadIdx.y` by 4 as
# well.

# %% tags=["solution"]
# 3: threads of one block share it, so it has to be computed inside of what blocks do.
s = te.create_schedule(C.op)
tile = s.cache_read(A, "shared", [C])
by, bx, ty, tx = s[C].tile(*C.op.axis, 32, 32)
for axis, name in (
    (by, "blockIdx.y"),
    (bx, "blockIdx.x"),
    (ty, "threadIdx.y"),
    (tx, "threadIdx.x"),
):
    s[C].bind(axis, te.thread_axis(name))
s[tile].bind(tile.op.axis[0], te.thread_axis((0, 64), "threadIdx.y"))
try:
    tvm.build(s, [A, B, C], "cuda")
except tvm.CompileError as error:
    print(error)
else:
    raise AssertionError("shared memory outside of a block must be refused")
