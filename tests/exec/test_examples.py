"""Examples, and programs as TVM's users write them, run and check their own results."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.exec.plain_install import plain_environment

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = sorted(p.relative_to(ROOT / "examples") for p in (ROOT / "examples").rglob("*.py"))


def run_python(
    *command: str, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Python with warnings as errors, two threads at most, from the repository's root."""
    return subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=ROOT,
        env={**environment, "TILEWRIGHT_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_examples_are_found() -> None:
    names = {str(p) for p in EXAMPLES}
    assert len(names) >= 12
    assert {"01_matmul.py", "11_extern.py", "digits/run.py"} <= names


@pytest.mark.parametrize("path", EXAMPLES, ids=str)
def test_example_runs_without_extras(path: Path, tmp_path: Path) -> None:
    search = os.environ.get("PYTHONPATH", "")
    environment = plain_environment(tmp_path / "plain", search)
    done = run_python(str(ROOT / "examples" / path), environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.name[0].isdigit()], ids=str)
def test_example_runs_as_a_tvm_program_with_extras(path: Path) -> None:
    done = run_python(str(HERE / "as_tvm.py"), str(ROOT / "examples" / path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted((HERE / "programs").glob("*.py")), ids=lambda p: p.stem)
def test_tvm_program_runs(path: Path) -> None:
    done = run_python(str(HERE / "as_tvm.py"), str(path))
    assert done.returncode == 0, done.stdout + done.stderr
