# %% [markdown]
# # The auto-scheduler, and a rule of your own
#
# For readers who have tuned [a template](07_templates.py) and would rather not write one, and for
# those whose computation the built-in rules do not know. The method is Ansor's; [its
# page](../auto_scheduler.md) says what is searched, and how.
#
# The auto-scheduler needs the computation only. It derives *sketches*, loop structures with open
# lengths, by rules; fills them in at random; lets a learned model choose among thousands; and
# measures the few that promise most.

# %%
import os
import tempfile

import numpy as np
import show

import tilewright as tvm
from tilewright import auto_scheduler, te

rng = np.random.default_rng(0)
folder = tempfile.TemporaryDirectory()

# %% [markdown]
# ## A workload and a task
#
# A workload is a function of numbers that returns its tensors, inputs first. A task is a workload
# for certain numbers and a target.


# %%
@auto_scheduler.register_workload
def dense(n, k, m):
    x, w = te.placeholder((n, k), name="x"), te.placeholder((k, m), name="w")
    bias = te.placeholder((m,), name="bias")
    r = te.reduce_axis((0, k), name="r")
    product = te.compute((n, m), lambda i, j: te.sum(x[i, r] * w[r, j], axis=r), name="product")
    return [x, w, bias, te.compute((n, m), lambda i, j: product[i, j] + bias[j], name="y")]


task = auto_scheduler.SearchTask(func=dense, args=(128, 256, 512), target="llvm")
print(task.compute_dag)

# %% [markdown]
# ## Sketches
#
# Each rule looks at one stage, from the output up to the inputs. For a product whose only reader
# works element by element, multi-level tiling with the reader fused gives the structure `SSRSRS`:
# two levels of tiles over the result's axes, then the reduction, a level, the rest of the
# reduction, and the tile in registers. `None` is a length that the search has to choose.

# %%
policy = auto_scheduler.SketchPolicy(task, None, params={"pack_operands": 0}, verbose=0)
sketches = policy.generate_sketches()
print(len(sketches), "sketches; the first:")
print(sketches[0])
assert "None" in str(sketches[0])

# %% [markdown]
# ## Without measuring
#
# `auto_schedule` gives a schedule at once: the operator library's default, unless the model that
# comes with tilewright sees something much better.

# %%
x, w = rng.random((128, 256), dtype="float32"), rng.random((256, 512), dtype="float32")
bias, y = rng.random(512, dtype="float32"), np.empty((128, 512), "float32")
rates = {}


def rate(s, args):
    f = tvm.build(s, args, task.target, name="dense")
    f(x, w, bias, y)
    np.testing.assert_allclose(y, x @ w + bias, rtol=1e-4)
    times = f.time_evaluator("dense", tvm.cpu(0), number=1, repeat=20)(x, w, bias, y).results
    return task.compute_dag.flop_ct / min(times) / 1e9


tensors = task.compute_dag.tensors
plain = te.create_schedule(tensors[-1].op)
rates["as written"] = rate(plain, tensors)
rates["not measured"] = rate(*auto_scheduler.auto_schedule(task))

# %% [markdown]
# ## With measurements
#
# 12 are few (200 are common), so that this page is made quickly. Every measurement goes to a file
# of records, from which a later search goes on.

# %%
records = os.path.join(folder.name, "dense.json")
options = auto_scheduler.TuningOptions(
    num_measure_trials=12,
    num_measures_per_round=6,
    measure_callbacks=[auto_scheduler.RecordToFile(records)],
    verbose=0,
)
task.tune(options)
schedule, args = task.apply_best(records)
rates["12 trials"] = rate(schedule, args)
show.bars("Dense layer of 128 x 256 x 512", rates, "GFLOP/s")

# %% [markdown]
# The best schedule as a program, to read or to go on from by hand:

# %%
print(task.print_best(records))
measured = list(auto_scheduler.load_records(records))
assert len(measured) == 12

# %% [markdown]
# ## A rule of your own
#
# Built-in rules tile what uses its elements more than once. A transposition uses each once, so
# its two loops stay as they are, and each read of a column fetches a cache line of which one
# element is used. You know better: in tiles, all of a line is used before it is dropped. A rule
# has two functions:
#
# - the *condition*, `f(policy, state, stage_id)`, says whether the rule applies to a stage:
#   `PASS`, `APPLY` (other rules make their sketches too), or `APPLY_AND_SKIP_REST`;
# - the *action*, with the same arguments, changes the state and returns a list of `[state, next
#   stage]`. Rules go from the last stage to the first, so the next one is `stage_id - 1`.
#
# Lengths given as `None` are left to the search.


# %%
@auto_scheduler.register_workload
def transpose(n, m):
    x = te.placeholder((n, m), name="x")
    return [x, te.compute((m, n), lambda i, j: x[j, i], name="y")]


RULE = auto_scheduler.PreloadCustomSketchRule


def is_transposition(policy, state, stage_id):
    return RULE.APPLY_AND_SKIP_REST if state.stages[stage_id].op.name == "y" else RULE.PASS


def in_tiles(policy, state, stage_id):
    y = state.stages[stage_id].op
    i, j = state[y].iters
    i0, i1 = state.split(y, i, [None])
    j0, j1 = state.split(y, j, [None])
    state.reorder(y, [i0, j0, i1, j1])
    return [[state, stage_id - 1]]


SIZE = 2048
turn = auto_scheduler.SearchTask(func=transpose, args=(SIZE, SIZE), target="llvm")
costs, structures = {}, {}
for name, rules in (("built-in rules", []), ("with tiles", [RULE(is_transposition, in_tiles)])):
    policy = auto_scheduler.SketchPolicy(
        turn,
        None,
        seed=0,
        verbose=0,
        params={"default_schedule_first": 0},
        init_search_callbacks=rules,
    )
    structures[name] = str(policy.generate_sketches()[0])
    print(f"{name}:\n{structures[name]}")
    few = auto_scheduler.TuningOptions(num_measure_trials=6, verbose=0)
    turn.tune(few, search_policy=policy)
    costs[name] = 1e3 * policy.best_cost
assert "None" in structures["with tiles"] and "None" not in structures["built-in rules"]
show.bars(f"Transposing {SIZE} x {SIZE} elements", costs, "ms")

# %% [markdown]
# States know TVM's vocabulary: `split`, `follow_split`, `fuse`, `reorder`, `compute_at`,
# `compute_inline`, `cache_read`, `cache_write`, `rfactor`, `parallel`, `vectorize`, `unroll`,
# `bind`, `pragma` and others ([the list](../auto_scheduler.md#a-rule-of-ones-own)).
#
# The operator library's default schedule knows transpositions; `default_schedule_first=0` kept it
# out of this comparison.
#
# ## Exercises
#
# 1. Go on from the records: search 6 more trials with
#    `init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(records)]`. How do you see that
#    nothing was measured twice?
# 2. Change the rule so that the inner tile is fixed at 16 x 16.
# 3. Write a rule for `dense` that gives the state of the built-in rules and one more.

# %% tags=["solution"]
# 1: records are 18, all of different steps.
policy = auto_scheduler.SketchPolicy(
    task, None, verbose=0, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(records)]
)
more = auto_scheduler.TuningOptions(
    num_measure_trials=6, measure_callbacks=[auto_scheduler.RecordToFile(records)], verbose=0
)
task.tune(more, search_policy=policy)
print(len(list(auto_scheduler.load_records(records))), "records")


# %% tags=["solution"]
# 2: numbers instead of None.
def in_fixed_tiles(policy, state, stage_id):
    y = state.stages[stage_id].op
    i, j = state[y].iters
    i0, i1 = state.split(y, i, [16])
    j0, j1 = state.split(y, j, [16])
    state.reorder(y, [i0, j0, i1, j1])
    return [[state, stage_id - 1]]


rules = [RULE(is_transposition, in_fixed_tiles)]
policy = auto_scheduler.SketchPolicy(turn, None, init_search_callbacks=rules, verbose=0)
(fixed,) = policy.generate_sketches()
print(fixed)
assert "16" in str(fixed) and "None" not in str(fixed)


# %% tags=["solution"]
# 3: APPLY keeps the other rules; the action adds a state in which nothing is tiled.
def is_product(policy, state, stage_id):
    return RULE.APPLY if state.stages[stage_id].op.name == "product" else RULE.PASS


def as_it_is(policy, state, stage_id):
    return [[state, stage_id - 1]]


counts = []
for rules in ([], [RULE(is_product, as_it_is)]):
    policy = auto_scheduler.SketchPolicy(task, None, init_search_callbacks=rules, verbose=0)
    counts.append(len(policy.generate_sketches()))
print(counts)
assert counts[1] == counts[0] + 1
folder.cleanup()
