# %% [markdown]
# # A matrix product, to the machine's peak
#
# For readers who have written [a first schedule](01_first_schedule.py) and want to see what makes
# a kernel fast. Every step shows its loops, the machine code of its innermost loop, and what was
# measured.
#
# The product of two square matrices does `2 N^3` operations on `3 N^2` numbers: there is enough
# work for each number that memory need not be the limit. How far can schedules alone bring it?

# %%
import numpy as np
import show

import tilewright as tvm
from tilewright import te
from tilewright.driver.peak import sample_peak

N = 768
target = tvm.target.Target("llvm")
LANES = target.vector_bytes // 4  # float32 elements of a vector register
rng = np.random.default_rng(0)
a, b = rng.random((2, N, N), dtype="float32")
want = a @ b
rates, programs = {}, {}
peaks = []


def product():
    """C = A B as a formula; the same for all steps."""
    A = te.placeholder((N, N), name="A")
    B = te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), name="k")
    C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C


def measure(name, s, args):
    """Build a step, check it, time it, keep its rate, and show its loops and its hottest loop."""
    f = tvm.build(s, args, target, name="product")
    c = np.empty((N, N), "float32")
    f(a, b, c)
    np.testing.assert_allclose(c, want, rtol=1e-4)
    (once,) = f.time_evaluator("product", tvm.cpu(0), number=1)(a, b, c).results
    peaks.extend(sample_peak(target) / 1e9 for _ in range(10))
    repeat = max(1, min(20, int(0.2 / once)))
    times = f.time_evaluator("product", tvm.cpu(0), number=1, repeat=repeat)(a, b, c).results
    rates[name] = 2 * N**3 / min(once, *times) / 1e9
    programs[name] = show.loops(s, args)
    print(programs[name], show.hot_loop(f.get_source("asm")), sep="\n\n")
    print(f"\n{name}: {rates[name]:.1f} GFLOP/s")


# %% [markdown]
# Times are the best of some runs, since whatever else the machine does can only add. Beside each
# step the peak is sampled too: a program that does nothing but multiply and add in registers (an
# *FMA*, a fused multiply-add, counts as two operations) on one core.
#
# ## Step 0: as it is written
#
# Three loops, the sum innermost. Each step of it waits for the one before, and walks down a
# column of `B`: one element of every cache line that it loads is used.

# %%
A, B, C = product()
s = te.create_schedule(C.op)
measure("0 as written", s, [A, B, C])

# %% [markdown]
# ## Step 1: another order
#
# With `j` innermost, `B` and `C` are read along their rows, and no step waits for its neighbour.
# A sum in another order is allowed here: every `C[i, j]` still adds its terms in the order of
# `k`.

# %%
A, B, C = product()
s = te.create_schedule(C.op)
i, j = C.op.axis
(k,) = C.op.reduce_axis
s[C].reorder(i, k, j)
measure("1 reordered", s, [A, B, C])
assert "for k, j in" in programs["1 reordered"]

# %% [markdown]
# The instructions end in `ss` on x86: one element at a time.
#
# ## Step 2: vectors
#
# tilewright leaves it to the schedule which loop becomes vectors. Two registers wide, since two
# can be computed at once.

# %%
A, B, C = product()
s = te.create_schedule(C.op)
i, j = C.op.axis
(k,) = C.op.reduce_axis
jo, ji = s[C].split(j, factor=2 * LANES)
s[C].reorder(i, k, jo, ji)
s[C].vectorize(ji)
measure("2 vectorised", s, [A, B, C])
assert "T.Broadcast(A[" in programs["2 vectorised"]

# %% [markdown]
# Look at the loop: for every FMA there is a load of `C` and a store. The arithmetic waits for
# memory.
#
# ## Step 3: a tile in registers
#
# `cache_write` gives `C` a stage that computes into a buffer of its own. If that buffer is a tile
# small enough, and every index into it is constant, it lives in registers for the whole sum. With
# 16 registers, 6 rows of 2 vectors take twelve; one row of `B` takes two, and an element of `A`,
# spread over a vector, the rest.

# %%
ROWS = 6 if target.num_vector_registers < 32 else 12
COLS = 2 * LANES


def in_registers():
    A, B, C = product()
    s = te.create_schedule(C.op)
    tile = s.cache_write(C, "global")
    io, jo, ii, ji = s[C].tile(*C.op.axis, ROWS, COLS)
    s[C].vectorize(ji)
    s[tile].compute_at(s[C], jo)
    i, j = s[tile].op.axis
    (k,) = s[tile].op.reduce_axis
    s[tile].reorder(k, i, j)
    s[tile].unroll(i)
    s[tile].vectorize(j)
    return s, [A, B, C], tile, (io, jo, ii, ji)


s, args, _, _ = in_registers()
measure("3 in registers", s, args)
steps = programs["3 in registers"].split("for k in")[1].split("for i_inner in")[0]
assert steps.count("C_global[0:") == 2 and " C[" not in steps

# %% [markdown]
# Now a step of the loop has as many FMAs as the tile has vectors, and no store at all.
#
# ## Step 4: read along, not across
#
# What remains is `B`: the loop over `k` jumps a whole row at each step, so that each vector comes
# from another page of memory. `cache_read` copies a panel of `B`, as wide as the tile, into a
# buffer where it lies in one piece, and the panel serves all rows of `A`: `jo` goes outermost,
# and the copy is computed there.


# %%
def packed():
    s, args, tile, (io, jo, ii, ji) = in_registers()
    _, B, C = args
    s[C].reorder(jo, io, ii, ji)
    s[tile].compute_at(s[C], io)
    panel = s.cache_read(B, "global", [tile])
    s[panel].compute_at(s[C], jo)
    s[panel].vectorize(s[panel].op.axis[1])
    return s, args, jo


s, args, _ = packed()
measure("4 packed", s, args)
assert f"B_global = T.allocate([{N * COLS}]" in programs["4 packed"]

# %% [markdown]
# The same as a picture: which loops stand in which, what is unrolled and vectorised, and where each
# buffer is filled.

# %%
s

# %% [markdown]
# ## Step 5: all cores
#
# Columns of tiles are independent, so they run in parallel. Each thread packs its own panel.

# %%
s, args, jo = packed()
s[args[2]].parallel(jo)
measure("5 parallel", s, args)

# %% [markdown]
# ## What each step was worth
#
# The line is the peak of one core, the best of all samples. The parallel step may pass it: it has
# more cores. A machine that does other work at the same time shows less of both.

# %%
peak = max(peaks)
print(f"one core: {peak:.1f} GFLOP/s; step 4 reaches {rates['4 packed'] / peak:.0%} of it")
show.bars(f"Product of {N} x {N} matrices", rates, "GFLOP/s", ("peak of one core", peak))

# %% [markdown]
# Nobody has to do this by hand for each size: [templates](../templates.md) leave sizes of tiles
# open and try them, and the [auto-scheduler](../auto_scheduler.md) finds the structure too. The
# operator library knows this one already:

# %%
from tilewright import topi

A, B = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
with target:
    C = topi.matmul(A, B)
    s = topi.generic.schedule_dense([C])
f = tvm.build(s, [A, B, C], target, name="product")
c = np.empty((N, N), "float32")
f(a, b, c)
np.testing.assert_allclose(c, want, rtol=1e-4)
times = f.time_evaluator("product", tvm.cpu(0), number=1, repeat=20)(a, b, c).results
print(f"topi: {2 * N**3 / min(times) / 1e9:.1f} GFLOP/s")

# %% [markdown]
# ## Exercises
#
# 1. Change `ROWS` to 3 and to 8, and measure step 4 again. Explain both with the number of
#    registers. (`show.hot_loop` shows moves from and to the stack, `(%rsp)` on x86, where they do
#    not suffice.)
# 2. `N = 768` is a multiple of every tile here. Take 770. What appears in the loops, and what
#    does it cost?
# 3. Write `C = A B + 1` with the addition as a stage of its own, `D`. Schedule it so that the
#    addition is done on the tile in registers. (`s[C].compute_at(s[D], ...)` instead of
#    `cache_write`.)

# %% tags=["solution"]
# 1: too few chains of additions to fill both pipes; too many for the registers.
whole = {}
for ROWS in (3, 8):
    s, args, _ = packed()
    f = tvm.build(s, args, target, name="product")
    whole[ROWS] = show.hot_loop(f.get_source("asm"))
    times = f.time_evaluator("product", tvm.cpu(0), number=1, repeat=5)(a, b, c).results
    print(f"{ROWS} rows: {2 * N**3 / min(times) / 1e9:.1f} GFLOP/s")
if target.num_vector_registers == 16 and "x86_64" in target.triple:
    assert "(%rsp" in whole[8] and "(%rsp" not in whole[3]

# %% tags=["solution"]
# 3: the consumer's tile is where the product is computed.
A, B, C = product()
D = te.compute((N, N), lambda i, j: C[i, j] + 1, name="D")
s = te.create_schedule(D.op)
io, jo, ii, ji = s[D].tile(*D.op.axis, 6, COLS)
s[D].vectorize(ji)
s[C].compute_at(s[D], jo)
i, j = s[C].op.axis
s[C].reorder(C.op.reduce_axis[0], i, j)
s[C].unroll(i)
s[C].vectorize(j)
f = tvm.build(s, [A, B, D], target)
f(a, b, c)
np.testing.assert_allclose(c, want + 1, rtol=1e-4)
print(show.loops(s, [A, B, D]))

# %% tags=["solution"]
# 2: the rows of the last tile get a condition, and its last columns a mask.
N, ROWS = 770, 6
s, args, _ = packed()
text = show.loops(s, args)
print(text[:1500])
assert "T.likely" in text or "if " in text
a2, b2 = rng.random((2, N, N), dtype="float32")
c2 = np.empty((N, N), "float32")
f = tvm.build(s, args, target, name="product")
f(a2, b2, c2)
np.testing.assert_allclose(c2, a2 @ b2, rtol=1e-4)
times = f.time_evaluator("product", tvm.cpu(0), number=1, repeat=5)(a2, b2, c2).results
print(f"770: {2 * N**3 / min(times) / 1e9:.1f} GFLOP/s")
