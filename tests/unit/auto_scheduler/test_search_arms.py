"""Arms of the search differ where they say so, and what is made of their results."""

import argparse
import xml.etree.ElementTree as ElementTree
from contextlib import nullcontext

import numpy as np
import pytest

import tilewright as tvm
from benchmarks import ablation, paper, paper_figures
from benchmarks.beam import BeamPolicy, beam_search, simplest
from benchmarks.ops_suite import small_cases
from benchmarks.search_arms import (
    AHEAD,
    ARMS,
    SWITCHES,
    WHOLE,
    Kept,
    again,
    arms_of,
    differences,
    search,
)
from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import COMPUTATIONS, Formula, policy_of, task_of
from tilewright import auto_scheduler as A
from tilewright.base.errors import TilewrightError

SMALL = {"evolutionary_search_population": 64}
PRODUCT, CONV = (next(c for c in small_cases() if c.op == op) for op in ("GMM", "ConvLayer"))


def task(name):
    if name == "layer":
        return task_of(CONV.func(*CONV.args), layout_rewrite_option=AHEAD)
    if name == "long":
        return task_of(C.norm(1, 64))
    return task_of(COMPUTATIONS[name]())


@pytest.mark.parametrize(
    ("arm", "name", "changed", "alike"),
    [
        ("sketches", "matmul_relu", "library", None),
        ("limited", "matmul_relu", "sketches", None),
        ("no evolution", "matmul", "generations", None),
        ("random model", "matmul", "model", None),
        ("no crossover", "layer", "mixes", None),
        ("fixed places", "softmax", "columns", "matmul"),
        ("no layout rewrite", "layer", "layouts", "matmul"),
        ("no packing", "matmul", "sketches", "layer"),
        ("no split reduction", "long", "sketches", "matmul"),
        ("no pragmas", "layer", "columns", "matmul"),
        ("beam", "matmul", "beam", None),
        ("samples", "matmul", "generations", None),
        ("blind", "matmul", "model", None),
    ],
)
def test_an_arm_searches_something_else_where_it_says_so(arm, name, changed, alike):
    assert changed in differences(task(name), {arm: ARMS[arm]})[arm]
    assert alike is None or differences(task(alike), {arm: ARMS[arm]}) == {}


def test_the_whole_search_differs_from_itself_in_nothing():
    assert differences(task("layer"), {WHOLE: ARMS[WHOLE]}) == {}


@pytest.mark.parametrize("name", ["limited", "no crossover", "no layout rewrite", "beam", "blind"])
def test_the_same_seed_gives_the_same_search(name):
    found = [search(task("matmul"), ARMS[name], 12, 3, Formula(), **SMALL) for _ in range(2)]
    assert found[0].costs == found[1].costs and len(found[0].costs) <= 12
    assert found[0].state.rows == found[1].state.rows
    assert len(found[0].costs) == 12 or "no program was left" in found[0].ended


def test_what_is_limited_to_the_library_measures_nothing_else():
    heard = Formula()
    search(task("matmul_relu"), ARMS["limited"], 16, 0, heard, **SMALL)
    assert heard.seen and all(rows[-1][0] == "DS" for rows in heard.seen)
    params = {"sketches": 0, "default_schedule_first": 0}
    with pytest.raises(TilewrightError, match="nothing to search"):
        policy_of(COMPUTATIONS["matmul"](), **params)


def test_without_pragmas_of_rules_no_program_has_one():
    policies = [policy_of(COMPUTATIONS["conv2d"](), rule_pragmas=n) for n in (1, 0)]
    texts = [repr([s.rows for s in p.sample_initial_population(20)]) for p in policies]
    assert "skip_zeros" in texts[0] and "skip_zeros" not in texts[1]


def test_failures_are_counted():
    found = search(task("matmul"), ARMS["sketches"], 12, 0, Formula(fail_every=3), **SMALL)
    assert sum(found.failed.values()) == found.costs.count(float("inf")) == 4
    assert found.report()["costs"].count(None) == 4


@pytest.mark.parametrize("name", ["matmul_relu", "conv2d_bn_relu", "softmax"])
def test_a_beam_is_of_legal_programs(name):
    policy = policy_of(COMPUTATIONS[name]())
    spaces = policy.population.spaces
    scores = np.random.default_rng(1)
    found = beam_search(spaces, lambda k, rows: scores.random(len(rows)), 6, policy.rng)
    assert len({c.key for c in found}) == len(found) == 6
    for candidate in found:
        space, row = spaces[candidate.sketch], candidate.row
        for g in space.groups:
            assert g.fitting(row[None, g.start : g.stop], space.max_inner).all()
        places = row[None, [c.column for c in space.locations]]
        assert (space.places_of.legal(places) == places).all()
        sch, args, _ = A.apply_state(policy.state_of(candidate), 0)
        tvm.lower(sch, args)


def test_a_beam_finds_what_every_decision_leads_to():
    policy = policy_of(COMPUTATIONS["matmul_relu"]())
    (space, *_) = policy.population.spaces
    goal = space.sample(1, np.random.default_rng(5))[0]
    goal[: len(space.sketch.open)] = simplest(space)[: len(space.sketch.open)]
    found = beam_search([space], lambda k, rows: -np.abs(rows - goal).sum(axis=1), 4, policy.rng)
    assert found[0].row.tolist() == goal.tolist()


def test_rounds_of_a_beam_are_new():
    policy, heard = ARMS["beam"].policy(task("matmul_relu"), 0, **SMALL), Formula()
    assert isinstance(policy, BeamPolicy)
    for _ in range(2):
        policy.continue_search_one_round(8, heard)
    assert len(set(heard.seen)) == 16


def test_winners_take_turns():
    found = {n: search(task("matmul"), ARMS[n], 8, 0, Formula(), **SMALL) for n in (WHOLE, "beam")}
    heard = Formula()
    seconds = again(found, 3, lambda: nullcontext(heard))
    assert seconds == {n: heard.cost(f.state.rows) for n, f in found.items()}
    assert len(heard.seen) == 6 and heard.seen[:2] != heard.seen[4:]


def test_names_of_arms():
    assert list(arms_of("whole, beam")) == ["whole", "beam"]
    with pytest.raises(ValueError, match="no arm 'bean'"):
        arms_of("bean")


def test_a_run_that_ends_early_keeps_what_it_has(tmp_path):
    path = tmp_path / "out.json"
    Kept(path, {"trials": 4}, False).add("a", {"x": 1})
    with pytest.raises(FileExistsError, match="--resume"):
        Kept(path, {"trials": 4}, False)
    with pytest.raises(FileExistsError, match="trials"):
        Kept(path, {"trials": 5}, True)
    assert Kept(path, {"trials": 4}, True).rows == {"a": {"key": "a", "x": 1}}


def test_an_ablation_is_summed_up_over_the_cases_that_an_arm_changes():
    def row(case, **seconds):
        runs = [{"ended": ""}]
        return {"case": case, "arms": {n: {"again_s": s, "runs": runs} for n, s in seconds.items()}}

    rows = [
        row("a", whole=[1.0, 1.0, 1.2], packing=[2.0, 2.0, 2.0]),
        row("b", whole=[1.0, 1.0, 1.0], packing=[0.5, 2.0, None]),
        row("c", whole=[1.0, 1.0, 1.0]),
    ]
    found = ablation.summary(rows)["packing"]
    assert found["cases"] == {"a": 0.5, "b": 0.8} and found["worst"] == "a"
    assert found["geomean"] == pytest.approx(0.4**0.5) and found["shown"] == "nothing"
    assert found["seeds"] == pytest.approx([1.0, 0.5, 0.6])
    assert found["failed"] == ["b: 1 searches of packing found nothing"]
    assert "packing" in ablation.table(rows)
    five = [row("a", whole=[1.0] * 5, packing=[1.1, 1.2, 1.3, 1.4, 1.5])]
    assert ablation.summary(five)["packing"]["shown"] == "helps"


def test_one_case_of_an_ablation(monkeypatch):
    monkeypatch.setattr(ablation, "ProgramMeasurer", lambda **_: nullcontext(Formula()))
    monkeypatch.setattr(ablation, "again", lambda f, n: again(f, n, lambda: nullcontext(Formula())))
    given = argparse.Namespace(seeds=2, trials=4, rounds=1)
    arms = {n: SWITCHES[n] for n in (WHOLE, "no crossover")}
    row = ablation.one_case(PRODUCT, arms, given, SMALL)
    assert [len(row["arms"][n]["again_s"]) for n in arms] == [2, 2]
    assert row["arms"][WHOLE]["runs"][0]["costs"]


@pytest.mark.parametrize("arm", ["beam", paper.ROUND_ROBIN])
def test_a_curve_of_networks(arm):
    nets = {"a": ([task("matmul"), task("chain")], [2, 1]), "b": ([task("matmul")], [3])}
    row = paper.curve(nets, arm, 0, 12, Formula())
    assert row["network"] == "a+b" and len(row["units"]) == 2
    known = [s for _, s in row["trace"] if s is not None]
    assert known and row["seconds"] <= known[0]


def test_figures(tmp_path):
    run = {"costs": [None, 4.0, 2.0, 3.0]}
    ends = {"costs": [2.5, 5.0]}
    rows = [
        {"figure": 6, "batch": 1, "op": "GMM", "seconds": {"whole": 1.0, "beam": 2.0, "x": None}},
        {"figure": 6, "batch": 1, "op": "GMM", "seconds": {"whole": 2.0, "beam": 1.0, "x": 3.0}},
        {
            "figure": 7,
            "case": "c",
            "seconds": {"whole": 1.0},
            "runs": {"whole": run, "beam": ends, "default": {"costs": []}},
        },
        {"figure": 9, "network": "n", "ours_ms": 2, "tuned_ms": 1, "onnxruntime_ms": 4},
        {"figure": 9, "network": "m", "failed": "no Conv of 3 dimensions"},
        {"figure": 10, "network": "n", "arm": "whole", "trace": [[4, None], [8, 2.0], [12, 1.0]]},
    ]
    file = tmp_path / "paper.json"
    kept = Kept(file, {}, False)
    for n, row in enumerate(rows):
        kept.add(str(n), row)
    written = paper_figures.draw(file, tmp_path / "figures")
    for path in written[1:]:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert [p.stem for p in written] == [
        "tables",
        "figure6-batch1",
        "figure9",
        "figure7",
        "figure10-n",
    ]
    text = written[0].read_text()
    assert "| GMM | 0.71 | 0.71 |" in text and "| beam | 2500.0000 | 3 (never 0) |" in text
    assert "m: no Conv of 3 dimensions" in text


def test_until_a_search_is_as_fast():
    points = paper_figures.best_so_far([(1, None), (2, 4.0), (3, 5.0), (4, 1.0)])
    assert points == [(2.0, 4.0), (3.0, 4.0), (4.0, 1.0)]
    assert paper_figures.match(points, 2.0) == 4 and paper_figures.match(points, 0.5) is None
    curves = paper_figures.curves_of({"a": [points, [(1.0, 2.0)]], "b": [[]]})
    assert curves == {"a": [(2.0, 1 / 3), (3.0, 1 / 3), (4.0, 1 / 1.5)]}
