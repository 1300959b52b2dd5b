"""Programs as users of TVM v0.18 wrote them run unchanged and check their own results."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.tvm_alias import SKIPPED

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OWN = {"test_programs.py", "tvm_alias.py", "gpu_kit.py"}
# options of the run that tests this are not for programs that run pytest themselves
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
PROGRAMS = sorted(p for p in HERE.glob("*.py") if p.name not in OWN)


def run(program: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(HERE / "tvm_alias.py"), str(program)],
        cwd=ROOT,
        env={**ENVIRONMENT, "TILEWRIGHT_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_programs_are_found() -> None:
    assert len(PROGRAMS) >= 10


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_program_runs(program: Path) -> None:
    done = run(program)
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
