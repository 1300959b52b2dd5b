"""Schedules found by search: a dense layer with constant weights, and a rule of one's own.

    python examples/14_auto_schedule.py [TRIALS]

The search needs no template: it derives loop structures from the computation, and measures in
processes of their own. The weights of the layer are constant, so they may be laid out beforehand
as the found schedule likes them best. The second part teaches the search to transpose a matrix tile
by tile, which its own rules do not do: no element is used twice, so they see no reason to tile.
"""

import os
import sys
import tempfile

import numpy as np

import tilewright as tvm
from tilewright import auto_scheduler, te

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 6
ROWS, INPUTS, OUTPUTS = 256, 256, 512
SIZE = 2048


@auto_scheduler.register_workload
def dense(n, k, m):
    x, w = te.placeholder((n, k), name="x"), te.placeholder((k, m), name="w")
    bias = te.placeholder((m,), name="bias")
    r = te.reduce_axis((0, k), name="r")
    product = te.compute(
        (n, m),
        lambda i, j: te.sum(x[i, r] * w[r, j], axis=r),
        name="product",
        attrs={"layout_free_placeholders": [w]},
    )
    y = te.compute((n, m), lambda i, j: te.max(product[i, j] + bias[j], 0.0), name="y")
    return [x, w, bias, y]


def tune_dense(log):
    """Search, then build the best schedule from its record and check what it computes."""
    task = auto_scheduler.SearchTask(
        func=dense,
        args=(ROWS, INPUTS, OUTPUTS),
        target="llvm",
        layout_rewrite_option=auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED,
    )
    print(task.compute_dag)
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=TRIALS,
            num_measures_per_round=max(1, TRIALS // 2),
            measure_callbacks=[auto_scheduler.RecordToFile(log)],
            verbose=0,
        )
    )
    best = task.best_state(log)
    schedule, args, changes = auto_scheduler.apply_state(best, task.layout_rewrite_option)
    function = tvm.build(schedule, args, task.target, name="dense")

    rng = np.random.default_rng(0)
    shapes = [tuple(map(int, t.shape)) for t in task.compute_dag.tensors]
    arrays = [rng.random(shape, dtype="float32") - 0.5 for shape in shapes]
    x, w, bias, _ = arrays
    for change in changes:  # once, ahead of all calls
        arrays[change.index] = change.apply(arrays[change.index])
        print(f"argument {change.index}: {change.shape} becomes {arrays[change.index].shape}")
    function(*arrays)
    tvm.testing.assert_allclose(arrays[3], np.maximum(x @ w + bias, 0), rtol=1e-3, atol=1e-4)
    given = [tvm.nd.array(a) for a in arrays]
    seconds = function.time_evaluator("dense", tvm.cpu(0), number=10, repeat=3)(*given).mean
    print(best)
    print(f"dense: {task.compute_dag.flop_ct / seconds / 1e9:.1f} GFLOP/s after {TRIALS} trials")


@auto_scheduler.register_workload
def transpose(n, m):
    x = te.placeholder((n, m), name="x")
    return [x, te.compute((m, n), lambda i, j: x[j, i], name="y")]


RULE = auto_scheduler.PreloadCustomSketchRule


def is_transposition(policy, state, stage_id):
    if state.stages[stage_id].op.name != "y":
        return RULE.PASS
    return RULE.APPLY_AND_SKIP_REST


def in_tiles(policy, state, stage_id):
    """Tiles of a size that is left to the search: in one, rows and columns share cache lines."""
    y = state.stages[stage_id].op
    i, j = state[y].iters
    i0, i1 = state.split(y, i, [None])
    j0, j1 = state.split(y, j, [None])
    state.reorder(y, [i0, j0, i1, j1])
    return [[state, stage_id - 1]]


def tune_transpose():
    """The same search without the rule and with it."""
    task = auto_scheduler.SearchTask(func=transpose, args=(SIZE, SIZE), target="llvm")
    found = {}
    for name, rules in (("built-in rules", []), ("with tiles", [RULE(is_transposition, in_tiles)])):
        policy = auto_scheduler.SketchPolicy(task, None, verbose=0, init_search_callbacks=rules)
        options = auto_scheduler.TuningOptions(num_measure_trials=TRIALS, verbose=0)
        task.tune(options, search_policy=policy)
        found[name] = policy.best_cost
        print(f"transpose, {name}: {policy.best_cost * 1e3:.2f} ms")
    print(f"the rule is worth a factor of {found['built-in rules'] / found['with tiles']:.1f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        tune_dense(os.path.join(folder, "dense.json"))
    tune_transpose()
