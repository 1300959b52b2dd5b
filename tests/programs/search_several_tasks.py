"""Several tasks searched together: weights, objectives, callbacks, logs, and the best of them."""

import os
import tempfile

import numpy as np
import tvm
from tvm import auto_scheduler, te
from tvm.auto_scheduler.task_scheduler import LogEstimatedLatency, TaskSchedulerCallback


@auto_scheduler.register_workload("several/scaled_sum")
def scaled_sum(n, m):
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    S = te.compute((n,), lambda i: te.sum(A[i, k] * 2.0, axis=k), name="S")
    return [A, S]


@auto_scheduler.register_workload("several/outer")
def outer(n):
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    return [A, B, te.compute((n, n), lambda i, j: A[i] * B[j], name="O")]


class Order(TaskSchedulerCallback):
    def __init__(self):
        self.rounds = []

    def pre_tune(self, task_scheduler, task_id):
        self.rounds.append(task_id)

    def post_tune(self, task_scheduler, task_id):
        assert task_scheduler.task_cts[task_id] >= 1


tasks = [
    auto_scheduler.SearchTask(func="several/scaled_sum", args=(24, 32), target="llvm"),
    auto_scheduler.SearchTask(func=outer, args=(40,), target="llvm"),
]
runner = auto_scheduler.LocalRunner(min_repeat_ms=1, timeout=30)
with tempfile.TemporaryDirectory() as folder:
    log_file = os.path.join(folder, "network.json")
    order, latency = Order(), os.path.join(folder, "latency.tsv")
    tuner = auto_scheduler.TaskScheduler(
        tasks,
        task_weights=[3, 1],
        strategy="round-robin",
        callbacks=[order, LogEstimatedLatency(latency)],
    )
    option = auto_scheduler.TuningOptions(
        num_measure_trials=4,
        num_measures_per_round=1,
        runner=runner,
        measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
        verbose=0,
    )
    tuner.tune(option, search_policy="sketch.random")
    assert order.rounds == [0, 1, 0, 1]
    with open(latency) as file:
        assert file.read().count("EstimatedLatency(ms)") == 4
    counts = [0, 0]
    for inp, _ in auto_scheduler.load_records(log_file):
        counts[[t.workload_key for t in tasks].index(inp.task.workload_key)] += 1
    assert counts == [2, 2]

    again = auto_scheduler.TaskScheduler(
        tasks, objective_func=lambda costs: costs[1], load_log_file=log_file, callbacks=[]
    )
    more = auto_scheduler.TuningOptions(
        num_measure_trials=2, num_measures_per_round=1, runner=runner, verbose=0
    )
    again.tune(more, search_policy="sketch.random", adaptive_training=True)
    assert again.ct == 2 and again.task_cts[1] >= again.task_cts[0]

    best = os.path.join(folder, "best.json")
    assert auto_scheduler.measure_record.distill_record_file(log_file, best) == 2
    with auto_scheduler.ApplyHistoryBest(best) as history:
        assert auto_scheduler.DispatchContext.current is history
        for task in tasks:
            found = history.query(task.target, task.workload_key, True, task.compute_dag)
            sch, args = task.compute_dag.apply_steps_from_state(found)
            func = tvm.build(sch, args, task.target)
            data = [
                np.random.uniform(size=[int(n) for n in t.shape]).astype("float32") for t in args
            ]
            arrays = [tvm.nd.array(d) for d in data]
            func(*arrays)
            if task is tasks[0]:
                expected = 2 * data[0].sum(axis=1)
            else:
                expected = np.outer(data[0], data[1])
            np.testing.assert_allclose(arrays[-1].numpy(), expected, rtol=1e-5)
        assert history.query("llvm", '["several/unknown"]') is None

    features, speeds, numbers = auto_scheduler.feature.get_per_store_features_from_file(log_file, 9)
    names = auto_scheduler.feature.get_per_store_feature_names()
    assert len(features) == 4 and sorted(set(numbers)) == [0, 1]
    assert all(f.shape[1] == len(names) for f in features)
    assert all(max(speeds[numbers == n]) == 1.0 for n in (0, 1))
print("OK")
