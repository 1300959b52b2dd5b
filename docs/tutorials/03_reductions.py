# %% [markdown]
# # Reductions and rfactor
#
# For readers of [A first schedule](01_first_schedule.py) whose programs add up, take maxima or
# look for the largest element: how reductions are written, scheduled, and computed in parallel.

# %%
import numpy as np
import show

import tilewright as tvm
from tilewright import te

rng = np.random.default_rng(0)

# %% [markdown]
# ## A reduction has an axis of its own
#
# `te.reduce_axis` makes the loop over which a sum runs. Many outputs, one sum each: a row sum.
# The stage has two kinds of axes then, `op.axis` and `op.reduce_axis`; both can be split,
# reordered and unrolled.

# %%
n, m = te.var("n"), te.var("m")
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), name="k")
B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
s = te.create_schedule(B.op)
print(show.loops(s, [A, B]))

# %% [markdown]
# A reduction lowers to two programs: one sets the elements to the identity (here 0), the other
# one updates them. `n` and `m` are variables, so the function takes matrices of every size.

# %%
f = tvm.build(s, [A, B], "llvm")
for shape in ((3, 5), (1, 1), (4, 0), (100, 37)):
    a = rng.random(shape, dtype="float32")
    b = np.empty(shape[0], "float32")
    f(a, b)
    np.testing.assert_allclose(b, a.sum(axis=1), rtol=1e-5)

# %% [markdown]
# ## Other reducers
#
# `te.sum`, `te.prod`, `te.max`, `te.min`, `te.any` and `te.all` are there. `te.comm_reducer`
# makes others of a function that combines two values, and its identity. The function has to be
# associative and commutative, since schedules change the order in which it is applied; nobody can
# check that for you.

# %%
product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
P = te.compute((n,), lambda i: product(A[i, k], axis=k), name="P")
f = tvm.build(te.create_schedule(P.op), [A, P], "llvm")
a = rng.uniform(0.5, 1.5, (20, 30)).astype("float32")
p = np.empty(20, "float32")
f(a, p)
np.testing.assert_allclose(p, np.prod(a, axis=1), rtol=1e-5)

# %% [markdown]
# A reducer may carry several values. The largest element *and* where it stands:

# %%


def larger(left, right):
    """The pair (index, value) with the larger value; of equal ones, the one that came first."""
    keep = tvm.tir.any(left[1] > right[1], tvm.tir.all(left[1] == right[1], left[0] < right[0]))
    return tvm.tir.Select(keep, left[0], right[0]), tvm.tir.Select(keep, left[1], right[1])


def smallest(index_type, value_type):
    return tvm.tir.const(2**31 - 1, index_type), tvm.te.min_value(value_type)


argmax = te.comm_reducer(larger, smallest, name="argmax")
index, value = te.compute((n,), lambda i: argmax((k.var, A[i, k]), axis=k), name="argmax")
s = te.create_schedule(index.op)
f = tvm.build(s, [A, index, value], "llvm")
at, most = np.empty(20, "int32"), np.empty(20, "float32")
f(a, at, most)
np.testing.assert_array_equal(at, a.argmax(axis=1))
np.testing.assert_array_equal(most, a.max(axis=1))
print(show.loops(s, [A, index, value]))

# %% [markdown]
# ## One long sum: why loops alone do not help
#
# A sum to one element has no output axis to run in parallel or to vectorise, and its steps wait
# for each other. Running the reduction axis in parallel would be a race, so it is refused:

# %%
N = 1 << 22
X = te.placeholder((N,), name="X")
r = te.reduce_axis((0, N), name="r")
S = te.compute((1,), lambda i: te.sum(X[r], axis=r), name="S")
s = te.create_schedule(S.op)
try:
    s[S].parallel(S.op.reduce_axis[0])
except tvm.ScheduleError as error:
    print(error)
else:
    raise AssertionError("a reduction axis must not run in parallel")

# %% [markdown]
# ## rfactor
#
# `s.rfactor(S, axis)` turns one of the loops of a reduction into an axis of a new stage of
# partial results, `S.rf`; the old stage adds these up. It changes the order of additions, and is
# the only primitive that does so.


# %%
def plain():
    s = te.create_schedule(S.op)
    return s, []


def lanes():
    """Sixteen partial sums next to each other: vectors."""
    s = te.create_schedule(S.op)
    _, ki = s[S].split(S.op.reduce_axis[0], factor=16)
    partial = s.rfactor(S, ki)
    ko = s[partial].op.reduce_axis[0]
    s[partial].reorder(ko, s[partial].op.axis[0])
    s[partial].vectorize(s[partial].op.axis[0])
    return s, [partial]


def threads():
    """As many partial sums as there are pieces for threads, each in vectors in turn."""
    s = te.create_schedule(S.op)
    piece, _ = s[S].split(S.op.reduce_axis[0], nparts=16)
    partial = s.rfactor(S, piece)
    _, lane = s[partial].split(s[partial].op.reduce_axis[0], factor=64)
    inner = s.rfactor(partial, lane)
    s[partial].parallel(s[partial].op.axis[0])  # after rfactor, which makes a new stage of it
    s[inner].compute_at(s[partial], s[partial].op.axis[0])
    s[inner].reorder(s[inner].op.reduce_axis[0], s[inner].op.axis[0])
    s[inner].vectorize(s[inner].op.axis[0])
    return s, [partial, inner]


x = rng.random(N, dtype="float32")
times, errors = {}, {}
for make in (plain, lanes, threads):
    s, _ = make()
    print(f"# {make.__name__}\n{show.loops(s, [X, S])}\n")
    f = tvm.build(s, [X, S], "llvm", name="total")
    total = np.empty(1, "float32")
    f(x, total)
    np.testing.assert_allclose(total, [x.sum(dtype="float64")], rtol=1e-3)
    errors[make.__name__] = abs(total[0] / x.sum(dtype="float64") - 1)
    repeats = f.time_evaluator("total", tvm.cpu(0), number=1, repeat=10)(x, total).results
    times[make.__name__] = 1e3 * min(repeats)
    print(f"{times[make.__name__]:.2f} ms, relative error {errors[make.__name__]:.1e}\n")
assert errors["lanes"] < errors["plain"]
show.bars(f"Sum of {N} numbers", times, "ms")

# %% [markdown]
# The error shrinks too: 16 sums of a sixteenth of the numbers each stay smaller than one sum of
# all, so fewer digits are lost.
#
# ## A reduction over several axes
#
# Several reduction axes make one reduction. `fuse` joins them where that helps, and `rfactor`
# takes the axis that `fuse` or `split` returned. The norm of a matrix:

# %%
R, Q = 300, 700
M = te.placeholder((R, Q), name="M")
i, j = te.reduce_axis((0, R), name="i"), te.reduce_axis((0, Q), name="j")
T = te.compute((), lambda: te.sum(M[i, j] * M[i, j], axis=[i, j]), name="T")
norm = te.compute((), lambda: te.sqrt(T()), name="norm")
s = te.create_schedule(norm.op)
partial = s.rfactor(T, T.op.reduce_axis[0])  # one partial sum a row
s[partial].parallel(s[partial].op.axis[0])
f = tvm.build(s, [M, norm], "llvm")
data, result = rng.random((R, Q), dtype="float32"), np.empty((), "float32")
f(data, result)
np.testing.assert_allclose(result, np.linalg.norm(data), rtol=1e-5)
print(show.loops(s, [M, norm]))

# %% [markdown]
# ## Exercises
#
# 1. Write the mean of the columns of a matrix of any size, and test it with (50, 7).
# 2. `te.compute` of a reduction must have the reduction at its top: `te.sum(...) / n` is refused.
#    Try it, read the message, and write it in two stages.
# 3. Use `rfactor` for the *argmax* of one long vector, and check where it finds the largest
#    element. Which of two equal elements is found, and why does that not depend on the schedule?

# %% tags=["solution"]
# 1 and 2: the division is a stage of its own.
k = te.reduce_axis((0, n), name="k")
try:
    te.compute((m,), lambda j: te.sum(A[k, j], axis=k) / n.astype("float32"))
except tvm.TilewrightError as error:
    print(error)
else:
    raise AssertionError("a reduction inside an expression must be refused")
total = te.compute((m,), lambda j: te.sum(A[k, j], axis=k), name="total")
mean = te.compute((m,), lambda j: total[j] / n.astype("float32"), name="mean")
f = tvm.build(te.create_schedule(mean.op), [A, mean], "llvm")
a, c = rng.random((50, 7), dtype="float32"), np.empty(7, "float32")
f(a, c)
np.testing.assert_allclose(c, a.mean(axis=0), rtol=1e-5)

# %% tags=["solution"]
# 3: the first, since `larger` compares places where values are equal.
V = te.placeholder((4096,), name="V")
k = te.reduce_axis((0, 4096), name="k")
index, value = te.compute((1,), lambda i: argmax((k.var, V[k]), axis=k), name="first")
s = te.create_schedule(index.op)
outer, _ = s[index].split(index.op.reduce_axis[0], nparts=8)
partial, _ = s.rfactor(index, outer)
s[partial].parallel(s[partial].op.axis[0])
f = tvm.build(s, [V, index, value], "llvm")
v = rng.integers(0, 100, 4096).astype("float32")
at, most = np.empty(1, "int32"), np.empty(1, "float32")
f(v, at, most)
assert at[0] == v.argmax() and most[0] == v.max()
