# %% [markdown]
# # Tuning with templates
#
# For readers whose [schedule](02_matmul.py) has numbers in it, such as sizes of tiles, that they
# would rather have tried than guessed. The module is `autotvm`; [Templates and
# tuning](../templates.md) has all of it.
#
# A *template* is a function that makes a schedule and leaves decisions open as *knobs*. A *task*
# is a template for one problem and target; a *tuner* measures configurations of the task on the
# machine.

# %%
import os
import tempfile

import numpy as np
import show

import tilewright as tvm
from tilewright import autotvm, te

rng = np.random.default_rng(0)
N = 256

# %% [markdown]
# ## A template
#
# `define_split` leaves the lengths open that an axis is cut into, `define_knob` a value from a
# list. `cfg` holds what is chosen; while the template is run for the first time, it collects the
# knobs.


# %%
@autotvm.template("tutorial/matmul")
def matmul(n, m, k, dtype):
    A = te.placeholder((n, k), name="A", dtype=dtype)
    B = te.placeholder((k, m), name="B", dtype=dtype)
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = te.create_schedule(C.op)

    cfg = autotvm.get_config()
    y, x = s[C].op.axis
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=16)
    cfg.define_split("tile_x", x, num_outputs=2, filter=lambda e: 8 <= e.size[-1] <= 64)
    cfg.define_knob("cache", [False, True])

    if cfg["cache"].val:
        tile = s.cache_write(C, "global")
    yo, yi = cfg["tile_y"].apply(s, C, s[C].op.axis[0])
    xo, xi = cfg["tile_x"].apply(s, C, s[C].op.axis[1])
    if cfg["cache"].val:
        s[C].reorder(yo, xo, yi, xi)
        s[tile].compute_at(s[C], xo)
        i, j = s[tile].op.axis
        s[tile].reorder(s[tile].op.reduce_axis[0], i, j)
        s[tile].unroll(i)
        s[tile].vectorize(j)
    else:
        s[C].reorder(yo, xo, r, yi, xi)
    s[C].vectorize(xi)
    return s, [A, B, C]


task = autotvm.task.create("tutorial/matmul", args=(N, N, N, "float32"), target="llvm")
print(task.config_space)
assert len(task.config_space) == 40

# %% [markdown]
# Forty configurations. Any of them can be looked at without measuring it:

# %%
config = task.config_space.get(33)
print(config)
s, args = task.instantiate(config)
print(show.loops(s, args))

# %% [markdown]
# ## A search
#
# Candidates are built and timed in processes of their own: one that crashes or hangs costs
# itself. Each measurement is written to a log as soon as it is there. `XGBTuner` learns from what
# it has measured; for a space as small as this one, a grid would do. It trains with xgboost, which
# is an extra: `pip install 'tilewright[train]'`. Without it `GATuner` searches here, which crosses
# and mutates the best so far.

# %%
try:
    import xgboost

    print("xgboost", xgboost.__version__)
    tuner = autotvm.tuner.XGBTuner(task, seed=0)
except ImportError:
    print("xgboost is not installed: GATuner searches in place of XGBTuner")
    tuner = autotvm.tuner.GATuner(task, seed=0)

# %%
TRIALS = 16
folder = tempfile.TemporaryDirectory()
log = os.path.join(folder.name, "matmul.log")
option = autotvm.measure_option(
    builder=autotvm.LocalBuilder(timeout=30),
    runner=autotvm.LocalRunner(number=3, repeat=2, cooldown_interval=0),
)
tuner.tune(n_trial=TRIALS, measure_option=option, callbacks=[autotvm.callback.log_to_file(log)])

# %% [markdown]
# The log is lines of JSON, one a measurement. The curve of the best so far says whether more
# trials would be worth it.

# %%
best, so_far, tried = 0.0, [], set()
for measured, result in autotvm.record.load_from_file(log):
    if result.error_no == autotvm.MeasureErrorNo.NO_ERROR:
        rate_of_it = task.flop / min(result.costs) / 1e9
        best = max(best, rate_of_it)
        tried.add(measured.config.index)
    so_far.append(best)
assert len(so_far) == TRIALS and so_far == sorted(so_far)
name = type(tuner).__name__
show.curves("Best configuration so far", {name: so_far}, "trials", "GFLOP/s")

# %% [markdown]
# ## Using what was found
#
# Within `apply_history_best` the template gets the best configuration of the log for its task; one
# that was measured again counts with the median, since the least of many measurements was lucky.
# Without it, it gets the first choice of every knob, and says so in the log `autotvm`.


# %%
def rate():
    with tvm.target.Target("llvm"):
        s, args = matmul(N, N, N, "float32")
        f = tvm.build(s, args, name="matmul")
    a, b = rng.random((2, N, N), dtype="float32")
    c = np.empty((N, N), "float32")
    f(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    times = f.time_evaluator("matmul", tvm.cpu(0), number=1, repeat=20)(a, b, c).results
    return 2 * N**3 / min(times) / 1e9


rates = {"first choices": rate()}
with autotvm.apply_history_best(log) as history:
    print("best:", history.query(task.target, task.workload))
    assert history.query(task.target, task.workload).index in tried
    rates["tuned"] = rate()
show.bars("Product of 256 x 256 matrices", rates, "GFLOP/s")

# %% [markdown]
# ## Exercises
#
# 1. Give the template a knob that runs the outer loop in parallel or not. What becomes of the
#    number of configurations?
# 2. A tile of 16 rows by 64 columns does not fit into registers. Keep such configurations out
#    with `cfg.multi_filter`, and count what is left.
# 3. Search with `autotvm.tuner.RandomTuner` and draw both curves in one chart.


# %% tags=["solution"]
# 1 and 2: 80 with the knob; fewer with the filter, which sees a whole configuration.
@autotvm.template("tutorial/matmul_2")
def matmul_2(n):
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    r = te.reduce_axis((0, n), name="r")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    y, x = s[C].op.axis
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=16)
    cfg.define_split("tile_x", x, num_outputs=2, filter=lambda e: 8 <= e.size[-1] <= 64)
    cfg.define_knob("cache", [False, True])
    cfg.define_knob("parallel", [False, True])
    cfg.multi_filter(lambda c: c["tile_y"].size[-1] * c["tile_x"].size[-1] <= 128)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, r, yi, xi)
    s[C].vectorize(xi)
    if cfg["parallel"].val:
        s[C].parallel(yo)
    return s, [A, B, C]


smaller = autotvm.task.create("tutorial/matmul_2", args=(N,), target="llvm").config_space
print(len(smaller), "of", smaller.range_length)
assert len(smaller) < smaller.range_length == 80

# %% tags=["solution"]
# 3
log_2 = os.path.join(folder.name, "random.log")
tuner = autotvm.tuner.RandomTuner(task)
tuner.tune(n_trial=TRIALS, measure_option=option, callbacks=[autotvm.callback.log_to_file(log_2)])
best, at_random = 0.0, []
for _, result in autotvm.record.load_from_file(log_2):
    if result.error_no == autotvm.MeasureErrorNo.NO_ERROR:
        best = max(best, task.flop / min(result.costs) / 1e9)
    at_random.append(best)
folder.cleanup()
show.curves(
    "Best configuration so far",
    {name: so_far, "RandomTuner": at_random},
    "trials",
    "GFLOP/s",
)
