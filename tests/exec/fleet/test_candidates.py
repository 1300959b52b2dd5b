"""Candidates on a fleet fare as on this machine: right ones are timed, others cost themselves."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.unit.measure.runner_kit import FAST, LLVM, calls, product
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.fleet.client import Fleet
from tilewright.fleet.local import LocalFleet
from tilewright.fleet.measurer import FleetMeasurer
from tilewright.measure.program import describe
from tilewright.measure.result import MeasureErrorNo as No
from tilewright.measure.result import Measurement
from tilewright.measure.runner import Timing
from tilewright.runtime import load_module
from tilewright.topi.schedules.default import default_schedule


def measured(fleet: LocalFleet, programs: list[dict[str, Any]], **timing: Any) -> list[Measurement]:
    how = Timing(**{**FAST, **timing})
    with FleetMeasurer(Fleet(fleet.address), fleet.key, how) as measurer:
        found = dict(measurer.measure(programs))
        assert sum(measurer.counts.values()) == len(programs)
    assert sorted(found) == list(range(len(programs)))
    return [found[i] for i in range(len(programs))]


def test_candidates_are_timed_and_checked(real: LocalFleet) -> None:
    found = measured(real, [product(2), product(4)], check=True, repeat=2)
    assert all(r.ok and 1e-8 < r.cost < 1 for r in found), found


@pytest.mark.parametrize(
    ("name", "argument", "reason"), [("raise", 11, "SIGSEGV"), ("exit", 3, "status 3")]
)
def test_a_crash_costs_that_candidate_alone(
    real: LocalFleet, name: str, argument: int, reason: str
) -> None:
    found = measured(real, [product(2), calls(name, argument=argument), product(4)])
    assert [r.error_no for r in found] == [No.NO_ERROR, No.RUNTIME_DEVICE, No.NO_ERROR]
    assert reason in found[1].message


def test_a_hang_costs_that_candidate_alone(real: LocalFleet) -> None:
    found = measured(real, [product(2), calls("pause"), product(4)], run_timeout=20.0)
    assert [r.error_no for r in found] == [No.NO_ERROR, No.RUN_TIMEOUT, No.NO_ERROR]
    assert "more than 20 s" in found[1].message


def test_what_cannot_be_built_says_why(real: LocalFleet) -> None:
    bad = {**product(2), "trace": "[]x"}
    with FleetMeasurer(Fleet(real.address), None, Timing(**FAST)) as measurer:
        built = measurer.build([bad, product(8)])
    assert built[0].error_no == No.INSTANTIATION_ERROR and built[0].message
    assert built[1].error_no == No.NO_ERROR and built[1].seconds > 0


def test_what_is_built_there_is_a_file_here_and_runs_there(
    real: LocalFleet, tmp_path: Path
) -> None:
    path = str(tmp_path / "candidate")
    with FleetMeasurer(Fleet(real.address), real.key, Timing(**FAST)) as measurer:
        (built,) = measurer.build([{**product(2), "export": path}])
        assert built.error_no == No.NO_ERROR and load_module(path)["candidate"]
        ((_, found),) = measurer.measure([{"target": LLVM.export(), "library": path}])
        assert found.ok, found.message
        with pytest.raises(TilewrightError, match=r"cannot read .*gone: No such file"):
            next(measurer.measure([{"target": LLVM.export(), "library": f"{path}-gone"}]))


def test_given_data_travel_with_the_candidate(real: LocalFleet, tmp_path: Path) -> None:
    """Wrong results on the given data are found; the device sees no file of the search's."""
    A = te.placeholder((4,), "int32", name="A")
    B = te.compute((4,), lambda i: tvm.tir.Select(A[i] == 41, A[i] + 1, A[i]), name="B")
    program = describe(te.create_schedule(B.op), [A, B], LLVM)
    np.save(tmp_path / "a.npy", np.full(4, 41, "int32"))
    program["inputs"] = {"0": str(tmp_path / "a.npy")}
    with FleetMeasurer(Fleet(real.address), real.key, Timing(**FAST)) as measurer:
        tickets = [measurer.submit(program)]
        measurer._data(str(tmp_path / "a.npy"))
        (tmp_path / "a.npy").unlink()
        ((_, found),) = measurer.run(tickets)
    assert found.ok, found.message


def test_a_device_of_another_cpu_is_set_aside_by_name() -> None:
    """It claims what it is not: no candidate is held against it, and the search is told."""
    program = product(2)
    program["target"] = tvm.target.Target("llvm -mtriple=aarch64-linux-gnu").export()
    with (
        LocalFleet(1) as fleet,
        FleetMeasurer(Fleet(fleet.address), "local", Timing(**FAST)) as measurer,
        pytest.warns(UserWarning, match="device0 of the fleet is set aside: cannot run code"),
    ):
        ((_, found),) = measurer.measure([program])
    assert found.error_no != No.NO_ERROR and "aarch64" in found.message


def test_a_device_without_the_accelerator_that_it_claims_is_set_aside() -> None:
    target = tvm.target.Target("cuda -arch=sm_80")
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] + 1)
    program = describe(default_schedule(b, target), [a, b], target)
    with (
        LocalFleet(1, target="cuda") as fleet,
        FleetMeasurer(Fleet(fleet.address), "local", Timing(**FAST)) as measurer,
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        ((_, found),) = measurer.measure([program])
    if not tvm.cuda(0).exist:
        assert found.error_no != No.NO_ERROR and "does not exist here" in found.message
        (warning,) = told
        assert "device0 of the fleet is set aside: cannot run code for it" in str(warning.message)
