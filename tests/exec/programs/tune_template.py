"""Templates with knobs, their spaces, a search, its log, and a build with the best of it."""

import logging
import os
import sys
import tempfile

import numpy as np
import tvm
from tvm import autotvm, te
from tvm.autotvm.task.space import FallbackConfigEntity, SplitEntity
from tvm.autotvm.tuner import GATuner, GridSearchTuner, RandomTuner, XGBTuner


@autotvm.template("programs/matmul_knobs")
def matmul_knobs(N, L, M, dtype):
    """Knobs as lists of values."""
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    cfg = autotvm.get_config()
    cfg.define_knob("tile_y", [1, 2, 4, 8, 16])
    cfg.define_knob("tile_x", [1, 2, 4, 8, 16])
    yo, yi = s[C].split(y, cfg["tile_y"].val)
    xo, xi = s[C].split(x, cfg["tile_x"].val)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


@autotvm.template("programs/matmul")
def matmul(N, L, M, dtype):
    """Knobs as splits, an order and annotations."""
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    ##### the space begins
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2, filter=lambda e: e.size[-1] <= 32)
    cfg.define_split("tile_k", k, num_outputs=2, policy="power2", max_factor=8)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    ko, ki = cfg["tile_k"].apply(s, C, k)
    cfg.define_reorder("order", [yo, xo, ko, ki, yi, xi], "candidate", candidate=[
        [yo, xo, ko, ki, yi, xi], [yo, xo, ko, yi, ki, xi],
    ])  # fmt: skip
    cfg.define_annotate("ann", [yi, xi], policy="try_unroll_vec")
    ##### the space ends
    cfg["order"].apply(s, C, [yo, xo, ko, ki, yi, xi])
    cfg["ann"].apply(
        s, C, [yi, xi], axis_lens=[cfg["tile_y"].size[-1], cfg["tile_x"].size[-1]],
        max_unroll=64, vec_size=[1, 2, 4, 8, 16, 32], cfg=cfg,
    )  # fmt: skip
    cfg.add_flop(2 * N * L * M)
    return s, [A, B, C]


@autotvm.template("programs/conv2d_gpu")
def conv2d_gpu(CI, H, CO, K):
    """A convolution for a GPU: four-way splits, virtual threads, an unrolling pragma."""
    data = te.placeholder((CI, H, H), name="data")
    kernel = te.placeholder((CO, CI, K, K), name="kernel")
    rc, ry, rx = (te.reduce_axis((0, e)) for e in (CI, K, K))
    out = H - K + 1
    conv = te.compute(
        (CO, out, out),
        lambda f, y, x: te.sum(data[rc, y + ry, x + rx] * kernel[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="conv",
    )
    s = te.create_schedule([conv.op])
    f, y, x = s[conv].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_f", f, num_outputs=4)
    cfg.define_split("tile_x", x, num_outputs=4)
    cfg.define_split("tile_rc", rc, num_outputs=2)
    cfg.define_knob("auto_unroll_max_step", [0, 512, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])
    cfg.multi_filter(lambda e: e["tile_f"].size[2] * e["tile_x"].size[2] <= 64)

    cache = s.cache_write(conv, "local")
    bf, vf, tf, fi = cfg["tile_f"].apply(s, conv, f)
    bx, vx, tx, xi = cfg["tile_x"].apply(s, conv, x)
    s[conv].bind(y, te.thread_axis("blockIdx.z"))
    s[conv].bind(bf, te.thread_axis("blockIdx.y"))
    s[conv].bind(bx, te.thread_axis("blockIdx.x"))
    s[conv].bind(vf, te.thread_axis("vthread"))
    s[conv].bind(vx, te.thread_axis("vthread"))
    s[conv].bind(tf, te.thread_axis("threadIdx.y"))
    s[conv].bind(tx, te.thread_axis("threadIdx.x"))
    s[conv].reorder(y, bf, bx, vf, vx, tf, tx, fi, xi)
    s[cache].compute_at(s[conv], tx)
    nf, ny, nx = s[cache].op.axis
    rc, ry, rx = s[cache].op.reduce_axis
    rco, rci = cfg["tile_rc"].apply(s, cache, rc)
    s[cache].reorder(rco, ry, rx, rci, nf, ny, nx)
    s[conv].pragma(y, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    s[conv].pragma(y, "unroll_explicit", cfg["unroll_explicit"].val)
    return s, [data, kernel, conv]


def check_spaces():
    task = autotvm.task.create("programs/matmul_knobs", args=(64, 64, 64, "float32"), target="llvm")
    assert len(task.config_space) == 25 and "tile_y" in str(task.config_space)
    assert task.flop == 2 * 64**3
    gpu = autotvm.task.create("programs/conv2d_gpu", args=(8, 10, 16, 3), target="cuda")
    space = gpu.config_space
    assert len(space) < space.range_length
    config = space.get(space.get_next_index(-1))
    assert isinstance(config["tile_f"], SplitEntity) and len(config["tile_f"].size) == 4
    s, args = gpu.instantiate(config)
    text = str(tvm.lower(s, args, simple_mode=True))
    assert "threadIdx.x" in text and "blockIdx.z" in text
    fallback = FallbackConfigEntity()
    with autotvm.task.ApplyConfig(fallback):
        gpu.func(*gpu.args)
    fallback.fallback_split("tile_f", [-1, 2, 4, 1])
    assert fallback["tile_f"].size == [2, 2, 4, 1] and fallback.is_fallback


def check_search(folder, Tuner, **options):
    N, L, M = 64, 64, 64
    task = autotvm.task.create("programs/matmul", args=(N, L, M, "float32"), target="llvm")
    log = os.path.join(folder, Tuner.__name__ + ".log")
    measure_option = autotvm.measure_option(
        builder="local", runner=autotvm.LocalRunner(number=2, repeat=1, cooldown_interval=0)
    )
    tuner = Tuner(task, **options)
    tuner.tune(
        n_trial=5,
        early_stopping=100,
        measure_option=measure_option,
        callbacks=[
            autotvm.callback.progress_bar(5, prefix=Tuner.__name__),
            autotvm.callback.log_to_file(log),
        ],
    )
    records = list(autotvm.record.load_from_file(log))
    assert len(records) == 5
    best = os.path.join(folder, "best.log")
    autotvm.record.pick_best(log, best)

    history = autotvm.apply_history_best(best)
    config = history.query(task.target, task.workload)
    assert config.to_json_dict()["entity"] == tuner.best_config.to_json_dict()["entity"]
    with history, tvm.target.Target("llvm"):
        s, arg_bufs = matmul(N, L, M, "float32")
        func = tvm.build(s, arg_bufs)
    a_np = np.random.uniform(size=(N, L)).astype(np.float32)
    b_np = np.random.uniform(size=(L, M)).astype(np.float32)
    c_tvm = tvm.nd.empty((N, M))
    func(tvm.nd.array(a_np), tvm.nd.array(b_np), c_tvm)
    tvm.testing.assert_allclose(c_tvm.numpy(), a_np.dot(b_np), rtol=1e-4)
    return tuner.best_flops


def main():
    logging.getLogger("autotvm").setLevel(logging.DEBUG)
    logging.getLogger("autotvm").addHandler(logging.StreamHandler(sys.stdout))
    check_spaces()
    with tempfile.TemporaryDirectory() as folder:
        rates = [
            check_search(folder, RandomTuner),
            check_search(folder, GridSearchTuner),
            check_search(folder, GATuner, pop_size=4, elite_num=2),
            check_search(folder, XGBTuner, plan_size=4, feature_type="knob", loss_type="rank"),
        ]
    assert max(rates) > 0
    print("OK")


if __name__ == "__main__":
    main()
