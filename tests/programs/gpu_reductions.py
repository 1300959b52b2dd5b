"""Reductions on GPUs as TVM's tutorials and tests write them: across threads, factored, argmax,
softmax, scans."""

import numpy as np
import tvm
import tvm.testing
from gpu_kit import rand, run_everywhere
from tvm import te


def test_cross_thread_reduction_of_the_tutorial():
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    _, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    xo, xi = s[B].split(s[B].op.axis[0], factor=16)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    a = rand(70, 67)
    mod = run_everywhere(s, [A, B], [a], [a.sum(axis=1)], rtol=1e-4, atol=1e-4)
    text = mod.imported_modules[0].get_source("cuda")
    assert "__shfl_down_sync" in text


def test_sum_of_everything_over_two_axes():
    n = m = 48
    A = te.placeholder((n, m), name="A")
    k1, k2 = te.reduce_axis((0, n), "k1"), te.reduce_axis((0, m), "k2")
    B = te.compute((1,), lambda _: te.sum(A[k1, k2], axis=[k1, k2]), name="B")
    s = te.create_schedule(B.op)
    fused = s[B].fuse(*s[B].op.reduce_axis)
    _, ki = s[B].split(fused, factor=64)
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(ki, tx)
    s[B].set_store_predicate(tx.equal(0))
    s[B].bind(s[B].op.axis[0], te.thread_axis("blockIdx.x"))
    a = rand(n, m)
    run_everywhere(s, [A, B], [a], [a.sum().reshape(1)], rtol=1e-4, atol=1e-4)


def test_argmax_across_threads():
    def fcombine(x, y):
        lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
        rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
        return lhs, rhs

    def fidentity(t0, t1):
        return tvm.tir.const(-1, t0), te.min_value(t1)

    argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
    nn, mm, num_thread = 12, 128, 32
    idx = te.placeholder((nn, mm), name="idx", dtype="int32")
    val = te.placeholder((nn, mm), name="val", dtype="float32")
    k = te.reduce_axis((0, mm), "k")
    T0, T1 = te.compute((nn,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    s = te.create_schedule(T0.op)
    _, tx = s[T0].split(s[T0].op.reduce_axis[0], factor=num_thread)
    ty, _ = s[T0].split(s[T0].op.axis[0], nparts=num_thread // 8)
    s[T0].bind(tx, te.thread_axis((0, num_thread), "threadIdx.x"))
    s[T0].bind(ty, te.thread_axis((0, num_thread // 8), "threadIdx.y"))
    np_idx = np.repeat(np.arange(mm, dtype="int32").reshape(1, mm), nn, axis=0)
    np_val = rand(nn, mm)
    best = np_val.argmax(axis=1).astype("int32")
    run_everywhere(s, [idx, val, T0, T1], [np_idx, np_val], [best, np_val.max(axis=1)])


def test_argmax_factored():
    def fcombine(x, y):
        later = x[1] >= y[1]
        return tvm.tir.Select(later, x[0], y[0]), tvm.tir.Select(later, x[1], y[1])

    argmax = te.comm_reducer(
        fcombine, lambda t0, t1: (tvm.tir.const(-1, t0), te.min_value(t1)), name="argmax"
    )
    nn, mm = 10, 90
    A = te.placeholder((nn, mm), name="A")
    k = te.reduce_axis((0, mm), "k")
    B0, B1 = te.compute((nn,), lambda i: argmax((k.var, A[i, k]), axis=k), name="B")
    s = te.create_schedule(B0.op)
    _, ki = s[B0].split(k, factor=16)
    BF0, _BF1 = s.rfactor(B0, ki)
    bx, ty = s[B0].split(s[B0].op.axis[0], factor=4)
    s[B0].bind(bx, te.thread_axis("blockIdx.x"))
    s[B0].bind(ty, te.thread_axis("threadIdx.y"))
    tx = s[B0].op.reduce_axis[0]
    thread_x = te.thread_axis("threadIdx.x")
    s[B0].bind(tx, thread_x)
    s[BF0].compute_at(s[B0], tx)
    s[B0].set_store_predicate(thread_x.var.equal(0))
    a = rand(nn, mm)
    run_everywhere(s, [A, B0, B1], [a], [a.argmax(1).astype("int32"), a.max(1)])


def test_softmax_with_a_block_a_row():
    m, n, num_thread = 6, 100, 64
    A = te.placeholder((m, n), name="A")
    k1, k2 = te.reduce_axis((0, n), "k1"), te.reduce_axis((0, n), "k2")
    max_elem = te.compute((m,), lambda i: te.max(A[i, k1], axis=k1), name="max_elem")
    exp = te.compute((m, n), lambda i, j: te.exp(A[i, j] - max_elem[i]), name="exp")
    expsum = te.compute((m,), lambda i: te.sum(exp[i, k2], axis=k2), name="expsum")
    B = te.compute((m, n), lambda i, j: exp[i, j] / expsum[i], name="B")
    s = te.create_schedule([B.op])
    block_x, thread_x = te.thread_axis("blockIdx.x"), te.thread_axis((0, num_thread), "threadIdx.x")
    s[exp].bind(exp.op.axis[0], block_x)
    s[max_elem].bind(max_elem.op.axis[0], block_x)
    k = expsum.op.reduce_axis[0]
    _, ki = s[expsum].split(k, factor=num_thread)
    EF = s.rfactor(expsum, ki)
    s[expsum].bind(s[expsum].op.axis[0], block_x)
    s[expsum].bind(s[expsum].op.reduce_axis[0], thread_x)
    s[EF].compute_at(s[expsum], s[expsum].op.reduce_axis[0])
    s[expsum].set_store_predicate(thread_x.var.equal(0))
    tx, _ = s[B].split(B.op.axis[1], nparts=num_thread)
    s[B].bind(B.op.axis[0], block_x)
    s[B].bind(tx, thread_x)
    a = rand(m, n)
    e = np.exp(a - a.max(1, keepdims=True))
    run_everywhere(s, [A, B], [a], [e / e.sum(1, keepdims=True)], rtol=1e-4)


def test_scan_on_a_block_of_threads():
    m, n = te.size_var("m"), te.size_var("n")
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
    s_scan = tvm.te.scan(s_init, s_update, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    num_thread = 64
    block_x, thread_x = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    for stage in (s_init, s_update):
        xo, xi = s[stage].split(stage.op.axis[1], factor=num_thread)
        s[stage].bind(xo, block_x)
        s[stage].bind(xi, thread_x)
    x = rand(9, 100)
    run_everywhere(s, [X, s_scan], [x], [np.cumsum(x, axis=0)], rtol=1e-4, atol=1e-5)


def test_lstm_cell_in_one_kernel():
    """Env threads around the whole scan: the recurrent weights stay with their threads."""
    num_step, num_hidden, batch, num_thread = 3, 16, 2, 8
    Xi2h = te.placeholder((num_step, batch, 4, num_hidden), name="Xi2h")
    Wh2h = te.placeholder((4, num_hidden, num_hidden), name="Wh2h")
    s_state_h = te.placeholder((num_step, batch, num_hidden))
    s_state_c = te.placeholder((num_step, batch, num_hidden))
    s_init_c = te.compute((1, batch, num_hidden), lambda *i: 0.0, name="init_c")
    s_init_h = te.compute((1, batch, num_hidden), lambda *i: 0.0, name="init_h")
    k = te.reduce_axis((0, num_hidden), name="ki2h")
    s_h2h = te.compute(
        (num_step, batch, 4, num_hidden),
        lambda t, i, x, j: te.sum(s_state_h[t - 1, i, k] * Wh2h[x, j, k], axis=k),
        name="s_h2h",
    )
    gates = te.compute(Xi2h.shape, lambda *i: Xi2h(*i) + s_h2h(*i), name="gates")
    gshape = (num_step, batch, num_hidden)
    in_gate = te.compute(gshape, lambda t, i, j: te.sigmoid(gates[t, i, 0, j]), name="in_gate")
    in_tr = te.compute(gshape, lambda t, i, j: te.tanh(gates[t, i, 1, j]), name="in_tr")
    forget = te.compute(gshape, lambda t, i, j: te.sigmoid(gates[t, i, 2, j]), name="forget")
    out_gate = te.compute(gshape, lambda t, i, j: te.sigmoid(gates[t, i, 3, j]), name="out_gate")
    next_c = te.compute(
        gshape,
        lambda t, i, j: (
            forget[t, i, j] * s_state_c[t - 1, i, j] + in_gate[t, i, j] * in_tr[t, i, j]
        ),
        name="next_c",
    )
    next_h = te.compute(
        gshape, lambda t, i, j: out_gate[t, i, j] * te.tanh(next_c[t, i, j]), name="next_h"
    )
    update_c = te.compute(gshape, lambda *i: next_c(*i), name="update_c")
    update_h = te.compute(gshape, lambda *i: next_h(*i), name="update_h")
    scan_h, scan_c = tvm.te.scan(
        [s_init_h, s_init_c],
        [update_h, update_c],
        [s_state_h, s_state_c],
        inputs=[Xi2h],
        name="lstm_scan",
    )
    s = te.create_schedule(scan_h.op)
    for stage in (gates, in_gate, in_tr, forget, out_gate):
        s[stage].compute_inline()
    block_x = te.thread_axis((0, 1), "blockIdx.x")
    thread_x = te.thread_axis((0, num_thread), "threadIdx.x")
    s[scan_h.op].env_threads([block_x, thread_x])
    s_state_h_S = s.cache_read(s_state_h, "shared", [s_h2h])
    s_state_c_S = s.cache_read(s_state_c, "shared", [next_c])
    Wh2hL = s.cache_read(Wh2h, "local", [s_h2h])
    for init in (s_init_h, s_init_c):
        _, xi = s[init].split(init.op.axis[2], factor=num_thread)
        s[init].bind(xi, thread_x)
    for state in (s_state_h_S, s_state_c_S):
        _, xi = s[state].split(s[state].op.axis[2], factor=num_thread)
        s[state].bind(xi, thread_x)
    s[Wh2hL].compute_at(s[s_h2h], s_h2h.op.axis[3])
    s[s_h2h].set_scope("shared")
    _, xi = s[s_h2h].split(s_h2h.op.axis[3], factor=num_thread)
    s[s_h2h].bind(xi, thread_x)
    for stage in (next_h, next_c):
        s[stage].set_scope("shared")
    for stage in (next_c, next_h, update_c, update_h):
        _, xi = s[stage].split(stage.op.axis[2], factor=num_thread)
        s[stage].bind(xi, thread_x)
    x, w = rand(num_step, batch, 4, num_hidden), rand(4, num_hidden, num_hidden)
    h = c = np.zeros((batch, num_hidden), "float32")
    hs, cs = [], []
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    # step 0 of a scan is its initial state
    for t in range(num_step):
        if t > 0:
            g = x[t] + np.einsum("ik,xjk->ixj", h, w)
            c = sigmoid(g[:, 2]) * c + sigmoid(g[:, 0]) * np.tanh(g[:, 1])
            h = sigmoid(g[:, 3]) * np.tanh(c)
        hs.append(h)
        cs.append(c)
    want = [np.stack(v).astype("float32") for v in (hs, cs)]
    run_everywhere(s, [Xi2h, Wh2h, scan_h, scan_c], [x, w], want, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    tvm.testing.main()
