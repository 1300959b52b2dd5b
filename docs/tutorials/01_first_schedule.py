# %% [markdown]
# # A first schedule
#
# For readers who know Python and NumPy and have never written a schedule. It takes a quarter of
# an hour; nothing but tilewright is needed.
#
# tilewright keeps two things apart: *what* is computed, as tensor expressions, and *how*, as a
# schedule. The same formula can be computed in many ways; a schedule chooses one, and cannot
# change the result.

# %%
import numpy as np
import show  # the tutorials' helper for listings and charts, in the same folder

import tilewright as tvm
from tilewright import te

# %% [markdown]
# ## What: a formula
#
# A *placeholder* is an input: a shape and an element type (`float32` unless you say otherwise). A
# *compute* says what each element of its result is, as a function of the indices. No memory is
# taken, and nothing runs yet.

# %%
N = 1000
A = te.placeholder((N,), name="A")
B = te.placeholder((N,), name="B")
C = te.compute((N,), lambda i: A[i] + 2 * B[i], name="C")
print(C.shape, C.dtype)
print(C.op.body[0])
assert C.dtype == "float32"

# %% [markdown]
# ## How: a schedule
#
# `te.create_schedule` makes the plainest schedule: one loop for each dimension, in order.
# `tvm.lower` shows the program that a schedule makes, in a notation of Python. The arguments of
# the function are listed, inputs and outputs alike.

# %%
s = te.create_schedule(C.op)
print(tvm.lower(s, [A, B, C], simple_mode=True))
assert "for i in range(1000)" in str(tvm.lower(s, [A, B, C]))

# %% [markdown]
# Schedules are changed by *primitives*. `split` makes two loops of one; the inner one has
# `factor` steps. 1000 is no multiple of 16, so the last steps of the inner loop have nothing to
# do: a condition leaves them out. You never write it yourself.

# %%
outer, inner = s[C].split(C.op.axis[0], factor=16)
print(show.loops(s, [A, B, C]))
assert "T.likely" in show.loops(s, [A, B, C])

# %% [markdown]
# `vectorize` turns a loop into instructions that work on several elements at once. Its extent has
# to be constant, which is what the split was for. The condition becomes a mask: `predicate` says
# which of the 16 elements are read and written. `parallel` shares the steps of a loop among
# threads.

# %%
s[C].vectorize(inner)
s[C].parallel(outer)
print(show.loops(s, [A, B, C]))
assert "T.parallel(63)" in show.loops(s, [A, B, C])

# %% [markdown]
# A notebook draws the loops of a schedule that a cell ends with. (In a terminal, `s.show()` opens
# the same in a browser.)

# %%
s

# %% [markdown]
# ## Run it
#
# `tvm.build` makes machine code in memory. The target `"llvm"` is this machine's CPU. The
# function takes NumPy arrays as they are, without copies; results are written into the array that
# is given for them.

# %%
f = tvm.build(s, [A, B, C], "llvm", name="axpy")
rng = np.random.default_rng(0)
a = rng.random(N, dtype="float32")
b = rng.random(N, dtype="float32")
c = np.empty(N, dtype="float32")
f(a, b, c)
np.testing.assert_allclose(c, a + 2 * b, rtol=1e-6)
print(c[:4])

# %% [markdown]
# A schedule that would change the result is refused, and the error says why. Here the second
# split names a loop that the first one has already replaced:

# %%
try:
    s[C].split(C.op.axis[0], factor=4)
except tvm.ScheduleError as error:
    print(error)
else:
    raise AssertionError("the second split must be refused")

# %% [markdown]
# ## Order matters: walking through memory
#
# What does a schedule change, if not the result? Time. The sum of two matrices, once row by row,
# once column by column: in the second order each step lands in another cache line.

# %%
M = 2048
X, Y = te.placeholder((M, M), name="X"), te.placeholder((M, M), name="Y")
Z = te.compute((M, M), lambda i, j: X[i, j] + Y[i, j], name="Z")


def add(order):
    """The sum with its loops in the given order, built, checked and timed: milliseconds."""
    s = te.create_schedule(Z.op)
    s[Z].reorder(*order(Z.op.axis))
    print(show.loops(s, [X, Y, Z]), end="\n\n")
    f = tvm.build(s, [X, Y, Z], "llvm", name="add")
    x, y = rng.random((2, M, M), dtype="float32")
    z = np.empty((M, M), dtype="float32")
    f(x, y, z)
    np.testing.assert_array_equal(z, x + y)
    times = f.time_evaluator("add", tvm.cpu(0), number=1, repeat=5)(x, y, z).results
    return 1e3 * min(times)


times = {
    "rows outside": add(lambda axes: axes),
    "columns outside": add(lambda axes: reversed(axes)),
}
show.bars("One sum of two 2048 x 2048 matrices, two orders", times, "ms")

# %% [markdown]
# ## Words of this page
#
# - **tensor**: what an operation yields: a shape, an element type, a formula; no memory.
# - **stage**: an operation as the schedule sees it, `s[C]`: its loops and where they stand.
# - **axis**: one loop. `C.op.axis` are those that come from the dimensions.
# - **primitive**: a change of loops: `split`, `reorder`, `vectorize`, `parallel` and
#   [others](../primitives.md).
# - **lowering**: from a schedule to a program of loops; **building**: from there to machine code.
#
# ## Exercises
#
# 1. Compute `D[i] = max(A[i] - B[i], 0)` for `N = 1000` with a vectorised loop of 8, and compare
#    with NumPy. (`te.max` reduces; the maximum of two values is `tvm.tir.max`.)
# 2. Schedule the sum of matrices of the last section in tiles of 32 x 32 (`s[Z].tile`), and look
#    at its loops. Why is there no condition?
# 3. What happens if you vectorise the outer loop of a `split` and not the inner one?

# %% tags=["solution"]
D = te.compute((N,), lambda i: tvm.tir.max(A[i] - B[i], 0.0), name="D")
s = te.create_schedule(D.op)
s[D].vectorize(s[D].split(D.op.axis[0], factor=8)[1])
d = np.empty(N, dtype="float32")
tvm.build(s, [A, B, D], "llvm")(a, b, d)
np.testing.assert_array_equal(d, np.maximum(a - b, 0))

# 2: both extents of 2048 are multiples of 32, which the compiler proves.
s = te.create_schedule(Z.op)
s[Z].tile(*Z.op.axis, 32, 32)
print(show.loops(s, [X, Y, Z]))
assert "likely" not in show.loops(s, [X, Y, Z])

# 3: it is legal: elements 8 apart are computed together, gathered one by one, which is slow.
s = te.create_schedule(D.op)
s[D].vectorize(s[D].split(D.op.axis[0], factor=8)[0])
print(show.loops(s, [A, B, D]))
