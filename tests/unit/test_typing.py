"""What type checkers make of users' programs: correct ones pass under strict rules, mistakes do
not; and the stubs that they read are up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.make_stubs import stubs

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "typing"
CORRECT, MISSPELT = ("correct.py", "tutorials.py"), "misspelt.py"


def lines_found(output: str) -> dict[str, set[int]]:
    """The numbers of the lines with errors, by file."""
    found: dict[str, set[int]] = {}
    for name, line in re.findall(r"(\w+\.py):(\d+)(?::\d+)?(?: -|:) error", output):
        found.setdefault(name, set()).add(int(line))
    return found


def judge(command: list[str]) -> None:
    files = [str(FOLDER / name) for name in (*CORRECT, MISSPELT)]
    done = subprocess.run([*command, *files], capture_output=True, text=True, cwd=ROOT)
    found = lines_found(done.stdout)
    for name in CORRECT:
        assert name not in found, done.stdout + done.stderr
    text = (FOLDER / MISSPELT).read_text().splitlines()
    wrong = {n for n, line in enumerate(text, 1) if line.endswith("# wrong")}
    assert len(wrong) >= 20
    assert found[MISSPELT] == wrong, done.stdout + done.stderr


def test_mypy_judges_programs_rightly() -> None:
    pytest.importorskip("mypy")
    judge([sys.executable, "-m", "mypy", "--strict"])


def test_pyright_judges_programs_rightly() -> None:
    pytest.importorskip("pyright")
    judge([sys.executable, "-m", "pyright", "--pythonpath", sys.executable])


def test_stubs_are_up_to_date() -> None:
    for path, text in stubs().items():
        assert path.read_text() == text, f"{path} is stale: python -m tools.make_stubs"
