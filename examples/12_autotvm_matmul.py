"""A matrix product as a template: two knobs, a search for their best values, the best one used.

    python examples/12_autotvm_matmul.py [TRIALS]

The template says which schedules there are; the search builds and times some of them in processes
of their own and writes what it finds to a log, from which later builds take the best. XGBTuner
learns from what was measured and needs xgboost (`pip install 'tilewright[train]'`); without it
GATuner searches.
"""

import os
import sys
import tempfile

import numpy as np

import tilewright as tvm
from tilewright import autotvm, te

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
SIZE = 256


@autotvm.template("example/matmul")
def matmul(n, m, k, dtype):
    A = te.placeholder((n, k), name="A", dtype=dtype)
    B = te.placeholder((k, m), name="B", dtype=dtype)
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = te.create_schedule(C.op)

    cfg = autotvm.get_config()
    y, x = s[C].op.axis
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=64)
    cfg.define_split("tile_x", x, num_outputs=2, filter=lambda e: 8 <= e.size[-1] <= 64)
    cfg.define_knob("unroll", [False, True])

    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, r, yi, xi)
    s[C].vectorize(xi)
    if cfg["unroll"].val:
        s[C].unroll(yi)
    return s, [A, B, C]


def run(title):
    """Build with the configuration of the present context, check, time."""
    with tvm.target.Target("llvm"):
        s, args = matmul(SIZE, SIZE, SIZE, "float32")
        func = tvm.build(s, args, name="matmul")
    rng = np.random.default_rng(0)
    a, b = (tvm.nd.array(rng.random((SIZE, SIZE), dtype="float32")) for _ in range(2))
    c = tvm.nd.array(np.zeros((SIZE, SIZE), dtype="float32"))
    func(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() @ b.numpy(), rtol=1e-4)
    seconds = func.time_evaluator(func.entry_name, tvm.cpu(0), number=5, repeat=3)(a, b, c).mean
    print(f"{title:<10}{seconds * 1e3:9.3f} ms {2 * SIZE**3 / seconds / 1e9:8.1f} GFLOP/s")


def make_tuner(task):
    """The tuner that learns, or the best of those that do not where there is no xgboost."""
    try:
        import xgboost  # noqa: F401
    except ImportError:
        print("xgboost is not installed: GATuner searches in place of XGBTuner")
        return autotvm.tuner.GATuner(task)
    return autotvm.tuner.XGBTuner(task)


def main():
    task = autotvm.task.create("example/matmul", args=(SIZE, SIZE, SIZE, "float32"), target="llvm")
    print(task.config_space)
    option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=30),
        runner=autotvm.LocalRunner(number=3, repeat=2, cooldown_interval=0),
    )
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "matmul.log")
        tuner = make_tuner(task)
        tuner.tune(
            n_trial=TRIALS,
            measure_option=option,
            callbacks=[autotvm.callback.log_to_file(log)],
        )
        run("untuned")
        with autotvm.apply_history_best(log) as history:
            print("best:", history.query(task.target, task.workload))
            run("tuned")


if __name__ == "__main__":
    main()
