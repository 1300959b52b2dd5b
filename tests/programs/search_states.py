"""States by hand: every primitive, ranges, annotations, records, and the loops that they become."""

import json
import pickle

import numpy as np
import tvm
from tvm import auto_scheduler, te
from tvm.auto_scheduler import _ffi_api, workload_registry
from tvm.auto_scheduler.loop_state import Stage, State
from tvm.testing.auto_scheduler import (
    conv2d_nchw_bn_relu_auto_scheduler_test,
    get_tiled_matmul,
    matmul_auto_scheduler_test,
)


def extents(state, stage):
    return [int(it.range.extent) for it in state[stage].iters]


def run(dag, state, *arrays):
    sch, args = dag.apply_steps_from_state(state)
    func = tvm.build(sch, args, "llvm")
    given = [tvm.nd.array(a) for a in arrays]
    out = tvm.nd.array(np.zeros([int(n) for n in args[-1].shape], "float32"))
    func(*given, out)
    return out.numpy()


def check_loops():
    A, B, C = matmul_auto_scheduler_test(48, 36, 30)
    dag = auto_scheduler.ComputeDAG([A, B, C])
    s = dag.get_init_state()
    assert s.stage_ops[2] == C.op and extents(s, C) == [48, 36, 30]
    i, j, k = s[C].iters
    i0, i1, i2 = s.split(C, i, [4, 3])
    j0, j1 = s.split(C, j, [9], inner_to_outer=False)
    assert [int(x.range.extent) for x in (i0, i1, i2, j0, j1)] == [4, 4, 3, 9, 4]
    k0, k1 = s.split(C, s[C].iters[5], [10])
    s.reorder(C, [i0, j0, i1, k0, k1, i2, j1])
    outer = s.fuse(C, [i0, j0])
    assert outer.range.extent == 36 and extents(s, C) == [36, 4, 3, 10, 3, 4]
    annotated = {
        "parallel": s.parallel(C, outer),
        "unroll": s.unroll(C, s[C].iters[4]),
        "vectorize": s.vectorize(C, s[C].iters[5]),
    }
    for name, it in annotated.items():
        assert it.annotation == State.ANNOTATION_TRANS_TABLE[name]
    s.pragma(C, s[C].iters[1], "auto_unroll_max_step$16")
    text = str(s)
    assert "parallel" in text and "vectorize" in text and "auto_unroll_max_step" in text
    a, b = np.random.rand(48, 30).astype("float32"), np.random.rand(30, 36).astype("float32")
    np.testing.assert_allclose(run(dag, s, a, b), a @ b, rtol=1e-4)
    assert len(s.transform_steps) == 9
    code = dag.print_python_code_from_state(s)
    assert ".fuse(" in code and ".vectorize(" in code

    gpu = dag.get_init_state()
    x, y, _ = gpu[C].iters
    for it, thread in ((x, "blockIdx.x"), (y, "threadIdx.x")):
        assert gpu.bind(C, it, thread).annotation == State.ANNOTATION_TRANS_TABLE[thread]
    assert "blockIdx.x" in str(tvm.lower(*dag.apply_steps_from_state(gpu)))


def check_places():
    tensors = conv2d_nchw_bn_relu_auto_scheduler_test(1, 14, 14, 4, 8, 3, 1, 1)
    dag = auto_scheduler.ComputeDAG(tensors)
    s = dag.get_init_state()
    pad, conv, bias, mul, add, relu = (s.stage_ops[n] for n in (1, 3, 5, 7, 9, 10))
    for stage in (add, mul, bias):
        s.compute_inline(stage)
        assert s[stage].compute_at == Stage.COMPUTE_AT_TRANS_TABLE["inlined"]
    s.compute_at(conv, relu, s[relu].iters[1])
    assert s[conv].compute_at == Stage.COMPUTE_AT_TRANS_TABLE["iter"]
    assert s[conv].iters[0].range is None
    known = dag.infer_bound_from_state(s)
    assert extents(known, conv) == [1, 1, 14, 14, 4, 3, 3]
    local = s.cache_write(conv, "global")
    kernel = s.cache_read(tensors[1], "global", [local])
    s.compute_at(kernel, local, s[local].iters[1])
    s.storage_align(kernel, s[kernel].iters[2], 8, 4)
    assert _ffi_api.SearchPolicyUtilsHasCacheWriteStage(
        s, [op.name for op in s.stage_ops].index(local.name)
    )
    assert not _ffi_api.SearchPolicyUtilsIsTiled(s[local])
    shapes = [[int(n) for n in t.shape] for t in dag.tensors[:-1]]
    arrays = [np.random.rand(*shape).astype("float32") for shape in shapes]
    plain = run(dag, dag.init_state, *arrays)
    np.testing.assert_allclose(run(dag, s, *arrays), plain, rtol=1e-4)
    s.compute_root(conv)
    s.compute_inline(pad)
    assert s[conv].compute_at == Stage.COMPUTE_AT_TRANS_TABLE["root"]


def check_followers():
    A, B, C = matmul_auto_scheduler_test(64, 32, 16)
    D = te.compute(C.shape, lambda i, j: te.max(C[i, j], 0.0), name="D")
    dag = auto_scheduler.ComputeDAG([A, B, D])
    s = dag.get_init_state()
    first = s.split(D, s[D].iters[0], [4, 2])
    step = len(s.transform_steps) - 1
    second = s.split(D, s[D].iters[3], [2, 4])
    s.follow_split(C, s[C].iters[0], step, 2)
    assert extents(s, C)[:3] == [int(x.range.extent) for x in first]
    s.reorder(D, [first[0], second[0], first[1], second[1], first[2], second[2]])
    s.fuse(D, [s[D].iters[0], s[D].iters[1]])
    s.follow_fused_split(C, s[C].iters[3], [step, step + 1], 0, True)
    assert extents(s, C)[3:5] == [4, 8]

    r = dag.get_init_state()
    ko, ki = r.split(C, r[C].iters[2], [4])
    made = r.rfactor(C, ko, 2)
    assert extents(r, made) == [64, 32, 4, 4] and extents(r, C) == [64, 32, 4]
    a, b = np.random.rand(64, 16).astype("float32"), np.random.rand(16, 32).astype("float32")
    np.testing.assert_allclose(run(dag, r, a, b), a @ b, rtol=1e-4)


def check_records():
    dag, s = get_tiled_matmul()
    key = workload_registry.register_workload_tensors(dag.workload_key(), dag.tensors)
    task = auto_scheduler.SearchTask(compute_dag=dag, workload_key=key, target="llvm")
    inp = auto_scheduler.measure.MeasureInput(task, s)
    res = auto_scheduler.measure.MeasureResult([0.25, 0.5], 0, "", 1.5, 7)
    line = auto_scheduler.measure_record.dump_record_to_string(inp, res)
    assert json.loads(line)["r"] == [[0.25, 0.5], 0, 1.5, 7]
    found, result = auto_scheduler.measure_record.load_record_from_string(line)
    assert str(result) == str(res)
    assert dag.infer_bound_from_state(found.state) == dag.infer_bound_from_state(s)

    moved = pickle.loads(pickle.dumps(task))
    assert moved.workload_key == task.workload_key and str(moved.target) == str(task.target)
    assert str(moved.compute_dag.init_state) == str(dag.init_state)
    kept = pickle.loads(pickle.dumps(inp.serialize()))
    del workload_registry.WORKLOAD_FUNC_REGISTRY[key]
    back = auto_scheduler.MeasureInput.deserialize(kept)
    assert key in workload_registry.WORKLOAD_FUNC_REGISTRY
    assert back.task.compute_dag.infer_bound_from_state(back.state) == s
    text = _ffi_api.SerializeSearchTask(task)
    assert _ffi_api.DeserializeSearchTask(text).workload_key == key

    option = auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    _, args = dag.apply_steps_from_state(s, layout_rewrite=option)
    assert [int(n) for n in args[1].shape] == [4, 8, 4, 4, 512]
    assert len(dag.rewrite_layout_from_state(s).tensors[1].shape) == 5
    assert auto_scheduler.get_shape_from_rewritten_layout("4j8j2i", ["i", "j"]) == [2, 32]


check_loops()
check_places()
check_followers()
check_records()
print("OK")
