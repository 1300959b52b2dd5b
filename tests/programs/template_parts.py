"""The parts of a search of templates: a runner, a tuner and callbacks of one's own, logs."""

import os
import tempfile
import time

import numpy as np
import tvm
from tvm import autotvm, te
from tvm.autotvm.measure.measure import Runner
from tvm.autotvm.task.space import ReorderEntity, SplitEntity, get_factors, get_pow2s
from tvm.autotvm.tuner.xgboost_cost_model import XGBoostCostModel


@autotvm.template("parts/blur")
def blur(n, m):
    A = te.placeholder((n + 2, m), name="A")
    r = te.reduce_axis((0, 3), name="r")
    B = te.compute((n, m), lambda i, j: te.sum(A[i + r, j], axis=r), name="B")
    s = te.create_schedule(B.op)
    y, x = s[B].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2, filter=lambda e: e.size[-1] >= 4)
    cfg.define_knob("swap", [0, 1])
    yo, yi = cfg["tile_y"].apply(s, B, y)
    xo, xi = cfg["tile_x"].apply(s, B, x)
    if cfg["swap"].val:
        s[B].reorder(xo, yo, yi, xi)
    else:
        s[B].reorder(yo, xo, yi, xi)
    cfg.define_annotate("ann", [yi, xi], policy="try_unroll_vec")
    cfg["ann"].apply(
        s, B, [yi, xi], axis_lens=[cfg["tile_y"].size[-1], cfg["tile_x"].size[-1]],
        max_unroll=16, vec_size=[4, 8, 16], cfg=cfg,
    )  # fmt: skip
    return s, [A, B]


class Formula(Runner):
    """Gives each configuration a time by a formula."""

    def __init__(self):
        super().__init__(timeout=5, n_parallel=1)

    def run(self, measure_inputs, build_results):
        assert len(measure_inputs) == len(build_results)
        results = []
        for inp, built in zip(measure_inputs, build_results):
            if isinstance(built, autotvm.MeasureResult):  # it could not be built
                results.append(built)
                continue
            assert built.error is None and built.arg_info[1] == ((32, 16), "float32")
            cost = 1.0 / inp.config["tile_y"].size[-1] + 0.1 * inp.config["swap"].val
            results.append(autotvm.MeasureResult((cost, cost), 0, built.time_cost, time.time()))
        return results


class Backwards(autotvm.tuner.Tuner):
    """All configurations, the last first."""

    def __init__(self, task):
        super().__init__(task)
        self.at = task.config_space.range_length

    def has_next(self):
        return self.at > 0

    def next_batch(self, batch_size):
        first = max(0, self.at - batch_size)
        found = [self.task.config_space.get(i) for i in range(self.at - 1, first - 1, -1)]
        self.at = first
        return found


task = autotvm.task.create("parts/blur", args=(32, 16), target="llvm")
space = task.config_space
assert get_factors(12) == [1, 2, 3, 4, 6, 12] and get_pow2s(12) == [1, 2, 4, 8]
assert len(space) == space.range_length == 6 * 3 * 2 * 8 and list(space) == [
    "tile_y", "tile_x", "swap", "ann",
]  # fmt: skip
assert isinstance(space["tile_y"], SplitEntity)
config = space.get(77)
assert space.knob2point(space.point2knob(77)) == 77 == config.index
assert autotvm.ConfigEntity.from_json_dict(config.to_json_dict()).to_json_dict() == (
    config.to_json_dict()
)
assert len(config.get_flatten_feature()) == 2 + 2 + 1 + 22
assert ReorderEntity([1, 0]).perm == [1, 0]

features = autotvm.feature.get_itervar_feature(*task.instantiate(space.get(0)), take_log=False)
assert features[0][1][:3] == ["_attr_", 32, 1]
assert len(autotvm.feature.get_flatten_name(features)) == len(
    autotvm.feature.flatten_itervar_feature(features)
)

option = autotvm.measure_option(builder=autotvm.LocalBuilder(timeout=60), runner=Formula())
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "parts.log")
    database, monitor = autotvm.database.DummyDatabase(), autotvm.callback.Monitor()
    tuner = Backwards(task)
    with open(log, "w") as file:
        tuner.tune(
            n_trial=12,
            measure_option=option,
            callbacks=[
                autotvm.callback.log_to_file(file),
                autotvm.callback.log_to_database(database),
                monitor,
            ],
            si_prefix="M",
        )
    records = list(autotvm.record.load_from_file(log))
    assert [inp.config.index for inp, _ in records] == list(range(287, 275, -1))
    assert len(monitor.trial_scores()) == len(monitor.trial_timestamps()) == 12
    assert max(monitor.trial_scores()) == tuner.best_flops
    assert tuner.best_config.index == tuner.best_measure_pair[0].config.index
    good = database.filter(lambda inp, results: results[0].error_no == 0)
    assert len(good) == sum(r.error_no == 0 for _, r in records) > 0
    assert database.load(records[0][0]).error_no == records[0][1].error_no

    learned = autotvm.tuner.XGBTuner(task, plan_size=4, loss_type="rank", feature_type="knob")
    learned.load_history(records, min_seed_records=3)
    assert learned.cost_model.base_model is not None and learned.visited >= {287, 276}
    learned.tune(n_trial=12, measure_option=option)
    assert not set(learned.xs) - set(range(288)) and len(learned.xs) == 24

    droplet = autotvm.tuner.DropletTuner(task, start_position=[0, 0, 1, 0], pvalue=0.1)
    droplet.tune(n_trial=32, measure_option=option)
    assert droplet.best_config["tile_y"].size[-1] > 1  # it went downhill

    model = XGBoostCostModel(task, "knob", "reg")
    model.fit(range(0, 288, 4), [1.0 + space.point2knob(i)[0] for i in range(0, 288, 4)], 16)
    scores = model.predict(range(6))
    assert np.argmax(scores) >= 3 > np.argmin(scores)

    best = os.path.join(folder, "best.log")
    autotvm.record.pick_best(log, best)
    with autotvm.apply_history_best(best) as history, tvm.target.Target("llvm"):
        s, args = blur(32, 16)
        func = tvm.build(s, args)
        assert history.query(tvm.target.Target("llvm"), task.workload).index == (
            tuner.best_config.index
        )
    a = np.random.rand(34, 16).astype("float32")
    b = tvm.nd.empty((32, 16))
    func(tvm.nd.array(a), b)
    np.testing.assert_allclose(b.numpy(), a[:-2] + a[1:-1] + a[2:], rtol=1e-5)

    inputs = [autotvm.MeasureInput(task.target, task, tuner.best_config)]
    (built,) = autotvm.LocalBuilder(timeout=60).build(inputs)
    runner = autotvm.LocalRunner(number=2, repeat=3, cooldown_interval=0)
    runner.ref_input = [a, np.zeros((32, 16), "float32")]
    (result,) = runner.run(inputs, [built])
    assert result.error_no == 0 and len(result.costs) == 1
print("OK")
