"""Tutorials run as plain programs, in which assertions say that what their text claims holds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exec.plain_install import plain_environment, uses_extras
from tools.tutorials import ROOT, cells, tutorials

SECONDS = 60


def run_tutorial(path: Path, folder: Path, environment: dict[str, str]) -> None:
    """Run a tutorial in an empty folder, in which it may leave nothing; warnings are errors."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * SECONDS,  # beside other tests; alone it has to be done within SECONDS
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert not list(folder.iterdir()), "a tutorial leaves files where it is run"


@pytest.mark.parametrize("path", tutorials(), ids=lambda path: path.stem)
def test_a_tutorial_runs_without_extras(path: Path, tmp_path: Path) -> None:
    environment = plain_environment(tmp_path / "plain", str(ROOT / "src"))
    run_tutorial(path, tmp_path / "run", environment)


@pytest.mark.parametrize(
    "path", [p for p in tutorials() if uses_extras(p)], ids=lambda path: path.stem
)
def test_a_tutorial_runs_with_extras(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    run_tutorial(path, tmp_path / "run", environment)


@pytest.mark.parametrize("path", tutorials(), ids=lambda path: path.stem)
def test_a_tutorial_names_its_reader_asserts_and_has_exercises(path: Path) -> None:
    found = cells(path.read_text())
    heading, _, text = found[0].source.partition("\n")
    assert heading.startswith("# ") and text.strip().startswith("For ")
    assert sum("assert" in cell.source for cell in found if not cell.markdown) >= 3
    assert any("## Exercises" in cell.source for cell in found if cell.markdown)
    assert any(cell.solution for cell in found)
