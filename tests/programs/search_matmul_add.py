"""A search for a product with an addition: task, options, log, best schedule, and going on."""

import os
import tempfile

import numpy as np
import tvm
from tvm import auto_scheduler, te


@auto_scheduler.register_workload
def product_add(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    product = te.compute(
        (N, M),
        lambda i, j: te.sum(A[i, k] * B[k, j], axis=k),
        name="product",
        attrs={"layout_free_placeholders": [B]},
    )
    out = te.compute((N, M), lambda i, j: product[i, j] + C[i, j], name="out")
    return [A, B, C, out]


class Seen(auto_scheduler.measure.PythonBasedMeasureCallback):
    """Counts what was measured."""

    def __init__(self):
        super().__init__()
        self.costs = []

    def callback(self, policy, inputs, results):
        assert isinstance(policy, auto_scheduler.search_policy.SearchPolicy)
        assert all(i.task.workload_key == policy.search_task.workload_key for i in inputs)
        self.costs += [
            float(np.mean([c.value for c in r.costs])) for r in results if not r.error_no
        ]


N, L, M = 48, 40, 56
target = tvm.target.Target("llvm")
task = auto_scheduler.SearchTask(func=product_add, args=(N, L, M, "float32"), target=target)
text = str(task.compute_dag)
assert "product(i, j)" in text and task.compute_dag.flop_ct == 2 * N * L * M + N * M

with tempfile.TemporaryDirectory() as folder:
    log_file = os.path.join(folder, "product_add.json")
    seen = Seen()
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=6,
        runner=auto_scheduler.LocalRunner(min_repeat_ms=2, timeout=30),
        measure_callbacks=[auto_scheduler.RecordToFile(log_file), seen],
        verbose=0,
    )
    task.tune(tune_option)
    assert len(seen.costs) == 6 == sum(1 for _ in auto_scheduler.load_records(log_file))
    with open(log_file) as file:
        assert all(line.startswith('{"i": [[') for line in file)

    sch, args = task.apply_best(log_file)
    assert [t.name for t in args] == ["A", "B", "C", "out"]
    assert "parallel" in str(tvm.lower(sch, args, simple_mode=True)) or N < 64
    func = tvm.build(sch, args, target)
    a = np.random.uniform(size=(N, L)).astype(np.float32)
    b = np.random.uniform(size=(L, M)).astype(np.float32)
    c = np.random.uniform(size=(N, M)).astype(np.float32)
    out = tvm.nd.empty((N, M), device=tvm.cpu())
    func(tvm.nd.array(a), tvm.nd.array(b), tvm.nd.array(c), out)
    np.testing.assert_allclose(out.numpy(), a @ b + c, rtol=1e-4)
    evaluator = func.time_evaluator(func.entry_name, tvm.cpu(), min_repeat_ms=1)
    arrays = [tvm.nd.array(x) for x in (a, b, c)]
    assert np.median(evaluator(*arrays, out).results) > 0
    print(task.print_best(log_file))

    # records in hand
    inp, res = auto_scheduler.load_best_record(log_file, task.workload_key)
    assert min(float(np.mean(r.costs)) for _, r in auto_scheduler.load_records(log_file)) <= float(
        np.mean(res.costs)
    )
    sch, args = task.compute_dag.apply_steps_from_state(inp.state)
    assert len(args) == 4 and task.compute_dag.print_python_code_from_state(inp.state)
    line = auto_scheduler.measure_record.dump_record_to_string(inp, res)
    again, result = auto_scheduler.measure_record.load_record_from_string(line)
    assert str(result) == str(res) and again.task.workload_key == task.workload_key
    whole = auto_scheduler.measure.recover_measure_input(again, rebuild_state=True)
    assert whole.state == task.compute_dag.infer_bound_from_state(inp.state)

    # going on from the log
    model = auto_scheduler.XGBModel()
    model.update_from_file(log_file)
    policy = auto_scheduler.SketchPolicy(
        task,
        model,
        init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log_file)],
        verbose=0,
    )
    more = auto_scheduler.TuningOptions(
        num_measure_trials=2,
        runner=auto_scheduler.LocalRPCMeasureContext(min_repeat_ms=2, timeout=30).runner,
        measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
        verbose=0,
    )
    task.tune(more, search_policy=policy)
    inputs, results = auto_scheduler.RecordReader(log_file).read_lines()
    assert len(inputs) == 8 and all(r.error_no == 0 for r in results)

    # one program built and timed by hand
    builder, runner = (
        auto_scheduler.LocalBuilder(timeout=60),
        auto_scheduler.LocalRunner(timeout=60),
    )
    measured = auto_scheduler.MeasureInput(task, task.compute_dag.init_state)
    (built,) = builder.build([measured])
    assert built.error_no == 0 and len(built.args) == 4
    (timed,) = runner.run([measured], [built])
    assert timed.error_no == 0 and timed.costs[0].value > 0
print("OK")
