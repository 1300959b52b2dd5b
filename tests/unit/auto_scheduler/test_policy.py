"""The search: the same seed and measurements give the same search; what it asks for and keeps."""

import numpy as np
import pytest

from tests.narrow import some
from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import COMPUTATIONS, Formula, policy_of
from tilewright import auto_scheduler as A
from tilewright import te
from tilewright.auto_scheduler.confirm import confirmations
from tilewright.auto_scheduler.features.columns import PLACE
from tilewright.auto_scheduler.measure import MeasureInput
from tilewright.auto_scheduler.sketch.rule import Condition
from tilewright.base.errors import TilewrightError
from tilewright.schedule.bounds import infer_bounds

SMALL = {"evolutionary_search_population": 64, "evolutionary_search_num_iters": 2}


def searched(seed=0, trials=24, model=None, make=COMPUTATIONS["matmul_relu"], **params):
    """(policy, measurer) after a search."""
    policy = policy_of(make(), seed, model() if model else None, **{**SMALL, **params})
    measurer = Formula()
    policy.search(trials, None, 8, measurer)
    return policy, measurer


def trees():
    return A.XGBModel(num_warmup_sample=1, verbose_eval=0, seed=1)


@pytest.mark.parametrize("model", [None, trees], ids=["random", "trees"])
def test_the_same_seed_and_measurements_give_the_same_search(model):
    first, second = (searched(3, model=model)[1].seen for _ in range(2))
    assert first == second
    assert len(first) == 24
    assert first != searched(4, model=model)[1].seen


@pytest.mark.parametrize(("plain_cost", "confirmed"), [(1.5e-4, True), (9e-4, False)])
def test_nothing_is_measured_twice_but_the_leaders(plain_cost, confirmed):
    """At the end, in turns with the default schedule, unless that is far slower."""
    plain = (("DS", "llvm"),)

    class Known(Formula):
        def cost(self, rows):
            return plain_cost if rows == plain else super().cost(rows)

    policy, measurer = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL), Known()
    policy.search(64, None, 8, measurer)
    assert len(measurer.seen) == 64
    assert len(set(measurer.seen)) == 58
    best, *_, other = measurer.seen[-6:]
    assert best == some(policy.best_state).rows and (other == plain) == confirmed
    assert measurer.seen[-6:] == [best, other, other, best, best, other]
    assert best in measurer.seen[:-6] and measurer.seen[0] == plain


def test_a_default_schedule_that_failed_has_its_turns():
    """Once it did, as on a machine that was busy."""

    class Failed(Formula):
        def cost(self, rows):
            if rows != (("DS", "llvm"),):
                return 1e-3
            return float("inf") if self.seen.count(rows) == 1 else 1e-4

    policy, measurer = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL), Failed()
    policy.search(64, None, 8, measurer)
    assert some(policy.best_state).rows == (("DS", "llvm"),)


@pytest.mark.parametrize(("trials", "again"), [(29, 0), (30, 6), (64, 6), (100, 9), (1000, 12)])
def test_few_of_the_measurements_are_of_leaders(trials, again):
    assert confirmations(trials) == again


def test_a_lucky_measurement_does_not_win():
    """What was fast once and slow when it was measured again is not the best."""

    class Lucky(Formula):
        def cost(self, rows):
            if rows == (("DS", "llvm"),):
                return 1e-4
            again = self.seen.count(rows) > 1
            return 1e-3 if again else 1e-5 if len(self.seen) == 8 else 1e-2

    policy, measurer = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL), Lucky()
    best = policy.search(64, None, 8, measurer)
    assert some(best).rows == (("DS", "llvm"),) and policy.best_cost == 1e-4
    assert measurer.seen.count(measurer.seen[7]) == 4


def test_the_best_is_kept():
    policy, measurer = searched()
    costs = [measurer.cost(rows) for rows in measurer.seen]
    assert policy.best_cost == min(costs)
    assert policy.best_state.rows in {r for r, c in zip(measurer.seen, costs) if c == min(costs)}
    assert policy.trials == 24


def test_rounds_are_as_large_as_asked():
    policy = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL)
    sizes = []
    policy.search(20, None, 8, Formula(), lambda p: sizes.append(p.trials))
    assert sizes == [8, 16, 20]


def test_a_second_search_goes_on():
    policy, measurer = searched(trials=16)
    policy.search(16, None, 8, measurer)
    assert policy.trials == 32
    assert len(set(measurer.seen)) == 32


def test_early_stopping():
    class Worse(Formula):
        def cost(self, rows):
            return 1.0 + len(self.seen)

    policy, measurer = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL), Worse()
    policy.search(100, 16, 8, measurer)
    # the first round has the best; two more without a better one; leaders and default again
    assert len(measurer.seen) == 24 + 9
    assert len(set(measurer.seen)) == 24


def test_a_small_space_is_measured_whole():
    x = te.placeholder((3, 5), name="x")
    y = te.compute((3, 5), lambda i, j: x[i, j] + 1.0, name="y")
    policy, measurer = policy_of([x, y], **SMALL), Formula()
    best = policy.search(50, None, 8, measurer)
    assert 1 <= len(set(measurer.seen)) <= 4
    assert best is policy.best_state
    assert policy.propose(4) == []


def test_failures_cost_only_themselves():
    policy = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL)
    measurer = Formula(fail_every=3)
    best = policy.search(24, None, 8, measurer)
    assert best is not None
    failed = set(measurer.seen[2::3])
    assert best.rows not in failed
    assert len(set(measurer.seen)) == 24  # failed ones are not tried again


def test_all_fail():
    policy = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL)
    assert policy.search(16, None, 8, Formula(fail_every=1)) is None
    assert policy.best_cost == float("inf")


def test_no_trials_no_measurements():
    policy, measurer = policy_of(COMPUTATIONS["conv2d"](), **SMALL), Formula()
    best = policy.search(0, None, 8, measurer)
    assert measurer.seen == []
    assert some(best).open == []


def test_samples():
    policy = policy_of(COMPUTATIONS["conv2d_bn_relu"](), **SMALL)
    assert len(policy.sample_initial_population()) == 50
    states = policy.sample_initial_population(7)
    assert len(states) == 7
    assert all(s.open == [] for s in states)
    assert policy.sample_initial_population(0) == []


def test_evolution_of_given_states():
    policy = policy_of(COMPUTATIONS["matmul"](), **SMALL)
    start = policy.sample_initial_population(10)
    found = policy.evolutionary_search(start, 5)
    assert len({s.rows for s in found}) == 5
    assert policy.evolutionary_search([], 5) == []
    with pytest.raises(TilewrightError, match="sample_initial_population"):
        policy.evolutionary_search([policy.task.compute_dag.get_init_state()], 5)


def test_the_model_leads():
    """Candidates that it likes are measured first, but for a few at random."""

    class Likes(A.RandomModel):
        def predict_programs(self, rows, offsets):
            self.asked = len(offsets) - 1
            return np.arange(len(offsets) - 1, dtype=np.float32)

    model = Likes(0)
    policy = policy_of(COMPUTATIONS["matmul"](), model=model, **SMALL, eps_greedy=0.0)
    best = [c.key for c in policy._evolve(policy._start(), 10)]
    other = policy_of(COMPUTATIONS["matmul"](), model=Likes(0), **SMALL, eps_greedy=0.0)
    assert [c.key for c in other.propose(5)] == best[:5]
    assert model.asked > 0


def test_a_share_at_random():
    """epsilon-greedy: of 20 candidates a quarter is not what the model likes best."""
    policies = [
        policy_of(COMPUTATIONS["matmul"](), seed=1, **SMALL, eps_greedy=e) for e in (0.0, 0.25)
    ]
    greedy, mixed = ([c.key for c in p.propose(20)] for p in policies)
    assert greedy[:15] == mixed[:15]
    assert len(set(greedy) & set(mixed)) < 20
    assert len(mixed) == 20


def test_measured_candidates_enter_the_next_population():
    policy, _ = searched(trials=8)
    good = {k for k, v in policy.measured.items() if np.isfinite(v)}
    start = policy._start()
    keys = {(k, row.tobytes()) for k, rows in enumerate(start) for row in rows}
    assert good <= keys


def test_sketches_are_printed(capsys):
    policy = policy_of(COMPUTATIONS["matmul"](), pack_operands=0)
    sketches = policy.generate_sketches(print_for_debug=True)
    text = capsys.readouterr().out
    assert text.count("---- sketch") == len(sketches) == 3
    assert str(sketches[1]) in text


def test_other_structures():
    policy = policy_of(
        COMPUTATIONS["matmul"](), cpu_multi_level_tiling_structure="SRS", pack_operands=0
    )
    loops = [i.name for i in policy.generate_sketches()[0].stages[2].iters]
    assert [n.split(".")[0] for n in loops] == ["i", "j", "k", "i", "j"]


# -- records


def test_records_are_not_measured_again(tmp_path):
    path = tmp_path / "records.json"
    policy, measurer = searched(trials=16)
    states = [A.State.from_rows(policy.task.compute_dag, rows) for rows in measurer.seen]
    inputs = [MeasureInput(policy.task, s) for s in states]
    results = Formula().measure(policy.task, policy, inputs)
    A.save_records(path, inputs, results)
    again = policy_of(
        COMPUTATIONS["matmul_relu"](), callbacks=[A.PreloadMeasuredStates(path)], **SMALL
    )
    assert len(again.measured) + len(again.library.costs) == 16
    assert len(again.library.costs) > 4
    assert again.trials == 0
    assert again.best_cost == policy.best_cost
    second = Formula()
    again.search(16, None, 8, second)
    assert len(second.seen) == 16
    assert not set(second.seen) & set(measurer.seen)


class Poor(Formula):
    """The search's own candidates are slow, or all fail."""

    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.fails = fails

    def measure(self, task, policy, inputs):
        found = super().measure(task, policy, inputs)
        slow = A.MeasureResult((), 4, "it fails", 0.1, 1.0) if self.fails else found[-1]
        return [r if i.state.is_default else slow for i, r in zip(inputs, found)]

    def cost(self, rows):
        return 1e-5 if rows[0][0] == "DS" else 1e-4


@pytest.mark.parametrize("fails", [False, True])
def test_no_search_ends_above_the_default_schedule(fails):
    policy, measurer = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL), Poor(fails)
    best = policy.search(9, None, 4, measurer)
    assert [rows[0][0] == "DS" for rows in measurer.seen] == [True] + [False] * 8
    assert (
        best is not None
        and best.is_default
        and policy.best_cost == 1e-5
        and len(set(measurer.seen)) == 9
    )


def test_the_default_schedule_may_be_left_out_or_known():
    params = {**SMALL, "default_schedule_first": 0}
    policy, measurer = policy_of(COMPUTATIONS["matmul_relu"](), **params), Formula()
    policy.search(3, None, 3, measurer)
    assert all(rows[0][0] != "DS" for rows in measurer.seen) and len(measurer.seen) == 3
    first = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL)
    inputs, results = first.continue_search_one_round(1, Formula())
    assert inputs[0].state.is_default
    begin = A.PreloadMeasuredStates(list(zip(inputs, results)))
    again = policy_of(COMPUTATIONS["matmul_relu"](), callbacks=[begin], **SMALL)
    assert again.best_state is not None and again.best_state.is_default
    assert again.best_cost == results[0].costs[0]
    inputs, _ = again.continue_search_one_round(1, Formula())
    assert inputs[0].state.rows != (("DS", "llvm"),)


def test_unmeasured_the_default_schedule_stands() -> None:
    policy = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL)
    assert some(policy.best_unmeasured()).is_default
    alone = policy_of(COMPUTATIONS["matmul_relu"](), default_schedule_first=0, **SMALL)
    assert not some(alone.best_unmeasured()).is_default


def test_a_default_schedule_has_features():
    """All pieces that run in parallel count, also where loops of several axes were fused."""
    a, b = te.placeholder((6, 30, 64), name="a"), te.placeholder((6, 64, 70), name="b")
    k = te.reduce_axis((0, 64), "k")
    c = te.compute((6, 30, 70), lambda z, i, j: te.sum(a[z, i, k] * b[z, k, j], axis=k), name="c")
    policy = policy_of([a, b, c], **SMALL)
    state = A.State.default(policy.task)
    rows = policy.features(state)
    pieces = np.exp2(rows[:, PLACE["parallel_prod"]]) - 1
    assert len(rows) and pieces.max() > 1
    sch, _, _ = A.apply_state(state, 0)
    (out,) = [x for x in sch.stages if x.is_output]
    bounds = infer_bounds(sch.normalize())
    leaf = out.leaf_iter_vars[0]
    assert int(bounds[out].extent[leaf]) == round(float(pieces.max()))


def test_records_of_other_tasks_teach_nothing(tmp_path):
    path = tmp_path / "records.json"
    other = policy_of(COMPUTATIONS["matmul"](), **SMALL)
    state = other.sample_initial_population(1)[0]
    inputs = [MeasureInput(other.task, state)]
    A.save_records(path, inputs, Formula().measure(other.task, other, inputs))
    policy = policy_of(COMPUTATIONS["matmul_relu"](), callbacks=[A.PreloadMeasuredStates(path)])
    assert policy.measured == {}
    assert policy.best_state is None


def test_a_model_learns_from_the_records_of_several_tasks(tmp_path):
    path = tmp_path / "records.json"
    for name in ("matmul", "matmul_relu"):
        policy, measurer = searched(trials=16, make=COMPUTATIONS[name])
        key, tensors = policy.task.workload_key, policy.task.compute_dag.tensors
        A.register_workload_tensors(key, tensors, override=True)
        states = [A.State.from_rows(policy.task.compute_dag, rows) for rows in measurer.seen]
        inputs = [MeasureInput(policy.task, s) for s in states]
        A.save_records(path, inputs, measurer.measure(policy.task, policy, inputs))
    model = trees()
    model.update_from_file(str(path))
    assert model.num_samples == 32 and model.trained  # two are the default schedules
    some = trees()
    some.update_from_file(path, n_lines=20)
    assert some.num_samples == 20
    with pytest.raises(TilewrightError, match="nowhere"):
        some.update_from_file(tmp_path / "nowhere.json")


# -- rules of users


def split_outputs(policy, state, stage_id):
    """A rule in TVM's words: cut the rows of outputs in two."""
    s = A.loop_state.State(state, policy.search_task.compute_dag)
    stage = s.stages[stage_id].op
    s.split(stage, s[stage].iters[0], [None])
    return [[s.state_object, stage_id - 1]]


def of_outputs(value):
    def meet(policy, state, stage_id):
        is_output = state.access.is_output(state.stages[stage_id].op)
        return value if is_output else A.PreloadCustomSketchRule.PASS

    return meet


RULE = A.PreloadCustomSketchRule


def test_a_rule_comes_first_and_alone():
    rule = RULE(of_outputs(RULE.APPLY_AND_SKIP_REST), split_outputs, "halves")
    policy = policy_of(C.chain(), callbacks=[rule])
    (sketch,) = policy.generate_sketches()
    assert [r[0] for r in sketch.rows] == ["SP", "CI", "CI"]
    assert len(sketch.open) == 1


def test_a_rule_beside_the_others():
    rule = RULE(of_outputs(RULE.APPLY), split_outputs)
    policy = policy_of(C.chain(), callbacks=[rule])
    assert [s.rows[0][0] for s in policy.generate_sketches()] == ["SP", "CI"]


def test_a_rule_that_passes_changes_nothing():
    rule = RULE(of_outputs(RULE.PASS), split_outputs)
    plain = policy_of(C.chain()).generate_sketches()
    found = policy_of(C.chain(), callbacks=[rule]).generate_sketches()
    assert [s.rows for s in found] == [s.rows for s in plain]


def test_a_rule_may_change_the_state_it_is_given():
    def apply(policy, state, stage_id):
        state.split(stage_id, state[stage_id].iters[0], [None])
        return [[state, stage_id - 1]]

    def meet(policy, state, stage_id):
        result = of_outputs(RULE.APPLY)(policy, state, stage_id)
        state.parallel(stage_id, 0) if result else None
        return result

    policy = policy_of(C.chain(), callbacks=[RULE(meet, apply)])
    assert [[r[0] for r in s.rows] for s in policy.generate_sketches()] == [
        ["SP", "CI", "CI"], ["CI", "CI"],
    ]  # fmt: skip


def test_candidates_of_a_rule_are_searched():
    rule = RULE(of_outputs(RULE.APPLY_AND_SKIP_REST), split_outputs)
    policy, measurer = policy_of(C.chain(2, 64), callbacks=[rule], **SMALL), Formula()
    policy.search(10, None, 5, measurer)
    assert len(set(measurer.seen)) >= 5
    assert all(rows[0][0] == "SP" for rows in measurer.seen[1:])


def test_the_order_of_callbacks_does_not_matter(tmp_path):
    """Records of a rule's candidates are known, also where they are loaded before the rule."""
    path = tmp_path / "records.json"
    rule = RULE(of_outputs(RULE.APPLY_AND_SKIP_REST), split_outputs)
    policy = policy_of(C.chain(2, 64), callbacks=[rule])
    state = policy.sample_initial_population(1)[0]
    inputs = [MeasureInput(policy.task, state)]
    A.save_records(path, inputs, Formula().measure(policy.task, policy, inputs))
    records = A.PreloadMeasuredStates(path)
    for callbacks in ([records, rule], [rule, records]):
        again = policy_of(C.chain(2, 64), callbacks=callbacks)
        assert list(again.measured) == [state.candidate.key]


def test_conditions_of_the_builtin_rules_are_those_of_users():
    assert [int(c) for c in Condition] == [RULE.PASS, RULE.APPLY, RULE.APPLY_AND_SKIP_REST]


class Building(Formula):
    """Notes what it is told to build, and to drop."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[MeasureInput] = []
        self.dropped: list[MeasureInput] = []

    def begin(self, task, policy, inputs):
        self.begun += inputs

    def drop(self, inputs):
        self.dropped += inputs


def test_the_first_of_a_round_are_built_while_others_are_looked_for(monkeypatch):
    policy, measurer = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL), Building()
    begun: list[int] = []
    propose = policy.propose

    def listened(count):
        begun.append(len(measurer.begun))
        return propose(count)

    monkeypatch.setattr(policy, "propose", listened)
    policy.search(8, None, 8, measurer)
    assert 0 < begun[0] < 8
    assert [item.state.rows for item in measurer.begun] == measurer.seen
    assert not measurer.dropped


def test_what_was_begun_of_a_round_that_is_not_found_is_dropped(monkeypatch):
    policy, measurer = policy_of(COMPUTATIONS["matmul_relu"](), **SMALL), Building()

    def fails(count):
        raise TilewrightError("no room")

    monkeypatch.setattr(policy, "propose", fails)
    with pytest.raises(TilewrightError, match="no room"):
        policy.search(8, None, 8, measurer)
    assert measurer.begun and measurer.dropped == measurer.begun
