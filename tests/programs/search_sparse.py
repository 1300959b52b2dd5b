"""A sparse product by a rule of one's own, measured on indices that make sense."""

import os
import tempfile

import numpy as np
import tvm
from tvm import auto_scheduler, te

M, N, K, ROWS = 12, 24, 20, 4  # blocks of ROWS rows and one column


def random_sparse(generator):
    """Data (blocks, ROWS), column of each block, and where each row of blocks begins."""
    data, columns, begins = [], [], [0]
    for _ in range(N // ROWS):
        chosen = np.sort(generator.choice(K, size=generator.integers(1, 6), replace=False))
        columns += list(chosen)
        data += list(generator.uniform(-1, 1, (len(chosen), ROWS)))
        begins.append(len(columns))
    return np.array(data, "float32"), np.array(columns, "int32"), np.array(begins, "int32")


@auto_scheduler.register_workload
def sparse_product(M, N, K, shape_data, shape_columns, shape_begins):
    X = te.placeholder((M, K), name="X")
    data = te.placeholder(shape_data, name="program_data")
    columns = te.placeholder(shape_columns, dtype="int32", name="program_columns")
    begins = te.placeholder(shape_begins, dtype="int32", name="program_begins")
    most = te.reduce_axis((0, shape_columns[0]), name="e")

    def element(m, block, row):
        inside = te.all(most >= begins[block], most < begins[block + 1])
        value = data[most, row] * X[m, columns[most]]
        return te.sum(te.if_then_else(inside, value, 0.0), axis=most)

    blocks = te.compute((M, N // ROWS, ROWS), element, name="blocks", tag="sparse_blocks")
    out = te.compute((M, N), lambda m, n: blocks[m, n // ROWS, n % ROWS], name="out")
    return [X, data, columns, begins, out]


def meet_condition_func(search_policy, state, stage_id):
    state = auto_scheduler.loop_state.State(state, search_policy.search_task.compute_dag)
    if state.stages[stage_id].op.tag == "sparse_blocks":
        return auto_scheduler.PreloadCustomSketchRule.APPLY_AND_SKIP_REST
    return auto_scheduler.PreloadCustomSketchRule.PASS


def apply_func(search_policy, state, stage_id):
    s0 = auto_scheduler.loop_state.State(state, search_policy.search_task.compute_dag)
    blocks, out = s0.stages[stage_id].op, s0.stages[stage_id + 1].op
    m, block, row, entry = s0[blocks].iters
    m_split = s0.split(blocks, m, [None])
    split_step = len(s0.transform_steps) - 1
    s0.reorder(blocks, [m_split[0], block, m_split[1], entry, row])
    outer, inner = s0.follow_split(out, s0[out].iters[0], split_step, 1)
    assert s0[out].iters[0] == outer and inner.range is None
    s0.compute_at(blocks, out, s0[out].iters[0])
    return [[s0.state_object, stage_id - 1]]


generator = np.random.default_rng(3)
data, columns, begins = random_sparse(generator)
x = generator.uniform(-1, 1, (M, K)).astype(np.float32)
dense = np.zeros((N, K), np.float32)
for block in range(N // ROWS):
    for entry in range(begins[block], begins[block + 1]):
        dense[block * ROWS : (block + 1) * ROWS, columns[entry]] = data[entry]

target = tvm.target.Target("llvm")
task = auto_scheduler.SearchTask(
    func=sparse_product,
    args=(M, N, K, data.shape, columns.shape, begins.shape),
    target=target,
    task_inputs={
        "program_data": tvm.runtime.ndarray.array(data),
        "program_columns": tvm.runtime.ndarray.array(columns),
        "program_begins": tvm.runtime.ndarray.array(begins),
    },
)
assert list(task.task_input_names) == ["program_data", "program_columns", "program_begins"]

with tempfile.TemporaryDirectory() as folder:
    log_file = os.path.join(folder, "sparse.json")
    rule = auto_scheduler.PreloadCustomSketchRule(meet_condition_func, apply_func, "SparseBlocks")
    policy = auto_scheduler.SketchPolicy(
        task,
        program_cost_model=auto_scheduler.XGBModel(),
        init_search_callbacks=[rule],
        params={"default_schedule_first": 0},
        verbose=0,
    )
    (sketch,) = policy.generate_sketches()
    assert any(row[0] == "FSP" for row in sketch.transform_steps)
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=3,
        runner=auto_scheduler.LocalRunner(min_repeat_ms=2, timeout=30, check_correctness=True),
        measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
        verbose=0,
    )
    task.tune(tune_option, policy)
    records = list(auto_scheduler.load_records(log_file))
    assert len(records) == 3 and all(r.error_no == 0 for _, r in records)
    assert records[0][0].task.task_input_names[1] == "program_columns"
    sch, args = task.apply_best(log_file)
    func = tvm.build(sch, args, target)
    out = tvm.nd.array(np.zeros((M, N), np.float32))
    func(*map(tvm.nd.array, (x, data, columns, begins)), out)
    tvm.testing.assert_allclose(out.numpy(), x @ dense.T, atol=1e-4, rtol=1e-4)
print("OK")
