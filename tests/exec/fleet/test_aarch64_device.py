"""An archive on a board: a worker of another processor, with a Python and a NumPy of its own and
nothing else, takes part in a search."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.exec.fleet.board_kit import PYTHON, board_python
from tests.exec.fleet.test_search import fleet_test_product
from tilewright import auto_scheduler
from tilewright.cli import archive
from tilewright.fleet.client import Fleet
from tilewright.fleet.facts import FleetError
from tilewright.fleet.local import LocalFleet
from tilewright.fleet.tls import make_certificates

TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"


@contextmanager
def board(python: Path, file: Path, *args: str) -> Iterator[str]:
    """An archive that runs on a board; the line that it says once it is up."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    with subprocess.Popen(
        [str(python), str(file), *args],
        env={**env, "XDG_CACHE_HOME": str(file.parent / "cache")},
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


# an emulator's times change as those of a board that grows hot
@pytest.mark.filterwarnings("ignore:device emulated of the fleet is set aside")
def test_a_board_takes_part_in_a_search(tmp_path: Path) -> None:
    python = board_python(tmp_path)
    certificates, file = tmp_path / "certificates", tmp_path / "device.pyz"
    make_certificates(certificates)
    try:
        archive.write(file, "aarch64", PYTHON, certificates)
    except FleetError as error:
        pytest.skip(f"no packages for AArch64: {error}")
    llvm = subprocess.run([str(python), "-c", "import llvmlite"], capture_output=True, text=True)
    assert "No module named 'llvmlite'" in llvm.stderr
    with LocalFleet(0, builders=2, secure=str(certificates)) as fleet:
        how = ("--fleet", fleet.address, "--key", "board", "--target", TARGET)
        with board(python, file, *how, "--name", "emulated") as said:
            assert "device 'emulated' of key 'board' is up" in said
            with Fleet(fleet.address, certificates) as seen:
                (facts,) = seen.devices("board").values()
            assert facts.machine == "aarch64" and facts.python.startswith(PYTHON)
            results = searched(fleet.address, certificates)
    assert [(r.error_no, r.error_msg) for r in results] == [(0, "")] * 16
    assert all(0 < cost < 10 for r in results for cost in r.costs)


def searched(address: str, certificates: Path) -> list[Any]:
    """What a search for the board measures; results are compared with the interpreter's."""
    found: list[Any] = []

    class Kept(auto_scheduler.PythonBasedMeasureCallback):
        def callback(self, policy: Any, inputs: Any, results: Any) -> None:
            found.extend(results)

    runner = auto_scheduler.DaskRunner(
        address, key="board", certificates=certificates, timeout=60, number=1, min_repeat_ms=0,
        check_correctness=True,
    )  # fmt: skip
    task = auto_scheduler.SearchTask(func=fleet_test_product, args=(16,), target=TARGET)
    policy = auto_scheduler.SketchPolicy(
        task, auto_scheduler.RandomModel(), verbose=0, params={"evolutionary_search_population": 64}
    )
    option = auto_scheduler.TuningOptions(
        num_measure_trials=16, num_measures_per_round=8, runner=runner, measure_callbacks=[Kept()],
        builder=auto_scheduler.LocalBuilder(timeout=60), verbose=0,
    )  # fmt: skip
    task.tune(option, policy)
    return found
