"""The operator benchmark: workloads against their references, a peer in its process, the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright
from benchmarks import ops, where
from benchmarks.ops_channel import Competitor, Failure
from benchmarks.ops_layers import LAYERS
from benchmarks.ops_suite import Case, cases, cases_of, small_cases
from tilewright import te
from tilewright.measure.flop import count_flop

SMALL = [*small_cases(), *small_cases(3)]
PEER = ["-m", "benchmarks.ops_peers", "onnxruntime", "--threads", "1"]


@pytest.mark.parametrize("case", SMALL, ids=lambda c: c.name)
def test_a_workload_computes_its_reference(case: Case) -> None:
    tensors = case.func(*case.args)
    inputs, y = case.inputs(), np.full(case.shapes()[-1], np.nan, np.float32)
    tilewright.build(te.create_schedule(tensors[-1].op), tensors, "llvm")(*inputs, y)
    assert case.error(y, case.reference(*inputs)) < 1e-6


def test_the_suite_has_every_operator_and_shape() -> None:
    found = cases()
    assert len(found) == len({c.name for c in found}) == 13 * 4
    assert {c.op for c in found} == {c.op for c in small_cases()}
    batched = cases(16)
    assert all(b.flop == 16 * c.flop for b, c in zip(batched, found))
    assert len({(c.func, c.args) for c in [*found, *batched]}) == 2 * len(found)


def test_sets_of_layers_and_of_odd_shapes() -> None:
    layers, odd = cases_of("layers"), [cases_of(f"odd:{seed}") for seed in (0, 0, 1)]
    assert len(LAYERS) >= 15 and len({c.name for c in layers}) == len(layers) >= 100
    assert len({c.name for c in odd[0]}) == len(odd[0]) >= 40
    assert [c.name for c in odd[0]] == [c.name for c in odd[1]] != [c.name for c in odd[2]]
    for case in [*layers, *odd[0], *odd[2]]:
        assert case.flop > 0 and all(n > 0 for shape in case.shapes() for n in shape), case.name
    with pytest.raises(ValueError, match="there is no set"):
        cases_of("odd")


@pytest.mark.parametrize("which", ["layers", "odd:3", "odd:4"])
def test_layers_and_odd_shapes_compute_their_references(which: str) -> None:
    """The least of each operator."""
    least: dict[str, Case] = {}
    for case in sorted(cases_of(which), key=lambda c: c.flop):
        least.setdefault(case.op, case)
    for case in least.values():
        if case.flop < 5e7:
            test_a_workload_computes_its_reference(case)


def test_operations_are_those_of_the_plain_formula() -> None:
    by_name = {c.name: c for c in cases()}
    assert by_name["GMM 512,32,512"].flop == 2 * 512 * 32 * 512
    assert by_name["C2D 14,14,256,256,3,1,1"].flop == 2 * 14 * 14 * 256 * 256 * 9
    # each element of x meets every element of the kernel, at the border too
    assert by_name["T2D 4,4,512,256,4,2,1"].flop == 2 * 4 * 4 * 512 * 256 * 16
    assert by_name["DEP 14,14,512,3,2,1"].flop == 2 * 7 * 7 * 512 * 9
    assert by_name["GMM 128,128,128"].bytes == 3 * 4 * 128 * 128


def test_weights_of_free_layout_are_the_constant_ones() -> None:
    for case in cases():
        tensors = case.func(*case.args)
        reader = [t.op for t in _stages(tensors[-1]) if "layout_free_placeholders" in t.op.attrs]
        free = [tensors.index(w) for op in reader for w in op.attrs["layout_free_placeholders"]]
        assert free == [i for i in case.constants if i < 2], case.name
        assert count_flop([tensors[-1].op]) == case.flop


def _stages(tensor: te.Tensor) -> list[te.Tensor]:
    found = [tensor]
    for t in found:
        found += [x for x in t.op.input_tensors if x not in found]
    return [t for t in found if isinstance(t.op, te.ComputeOp)]


def test_a_peer_prepares_checks_and_times(tmp_path: Path) -> None:
    path = tmp_path / "reference.npy"
    peer = Competitor("onnxruntime", PEER, {})
    try:
        for case in (c for c in small_cases() if c.op in ("T2D", "CAP", "NRM")):
            np.save(path, case.reference(*case.inputs()))
            asked = {"case": case.name, "batch": 1, "set": "small", "reference": str(path)}
            told = peer.ask("load", **asked)
            assert list(told["groups"]) == ["onnxruntime"]
            assert told["failed"] == {}
            for name, times in peer.ask("time", group="onnxruntime", seconds=0.0)["times"].items():
                assert name in told["groups"]["onnxruntime"]
                assert len(times) >= 3 and min(times) > 0
        np.save(path, np.load(path) + 1)
        with pytest.raises(Failure, match="off by"):
            peer.ask("load", **asked)
    finally:
        assert peer.close() == 0


def test_a_dead_process_is_a_failure_and_starts_anew() -> None:
    dying = Competitor("dying", ["-c", "import sys; sys.exit(3)"], {})
    for _ in range(2):
        with pytest.raises(Failure, match="dying: its process ended with status 3"):
            dying.ask("time")


def test_ratios_are_clipped_and_small_cases_left_out() -> None:
    rows = [
        {"best_peer_s": 80e-6, "tuned_ratio": 8.0, "untuned_ratio": 0.5},
        {"best_peer_s": 60e-6, "tuned_ratio": 0.5},
        {"best_peer_s": 10e-6, "tuned_ratio": 0.25},
    ]
    found = ops.summary(rows)
    assert found["tuned_geomean_all"] == pytest.approx((2 * 0.5 * 0.25) ** (1 / 3))
    assert found["tuned_geomean_50us"] == pytest.approx(1.0)
    assert (found["tuned_worst_all"], found["tuned_worst_50us"]) == (0.25, 0.5)
    assert found["untuned_geomean_all"] == 0.5
    assert (found["tuned_cases"], found["tuned_without"]) == (3, 0)
    assert (found["untuned_cases"], found["untuned_without"]) == (1, 2)


def test_a_figure_says_where_it_comes_from() -> None:
    found = where.facts()
    assert {"date", "commit", "processor", "target", "packages"} <= set(found)
    assert found["processor"] and found["packages"]["numpy"] == np.__version__


def test_cases_are_chosen_by_parts_of_their_names() -> None:
    found = cases()
    assert len(ops.select(found, "")) == len(found)
    assert [c.name for c in ops.select(found, "C2D 14,14")] == ["C2D 14,14,256,256,3,1,1"]
    assert {c.op for c in ops.select(found, "GMM,NRM")} == {"GMM", "NRM"}
    assert len(ops.select(found, "C2D 7,7;NRM 256,256")) == 2
