"""Every example runs, checks itself, and says something."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(p.relative_to(ROOT / "examples") for p in (ROOT / "examples").rglob("*.py"))


def run_python(*command: str) -> subprocess.CompletedProcess[str]:
    """Python with warnings as errors, two threads at most, from the repository's root."""
    return subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=ROOT,
        env={**os.environ, "TILEWRIGHT_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_examples_are_found() -> None:
    names = {str(p) for p in EXAMPLES}
    assert len(names) >= 12
    assert {"01_matmul.py", "11_extern.py", "digits/run.py"} <= names


@pytest.mark.parametrize("path", EXAMPLES, ids=str)
def test_example_runs(path: Path) -> None:
    done = run_python(str(ROOT / "examples" / path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


TVM_SHIM = """
import importlib, importlib.abc, importlib.machinery, runpy, sys

class Tvm(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "tvm":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        real = importlib.import_module("tilewright" + module.__name__[3:])
        sys.modules[module.__name__] = real

sys.meta_path.insert(0, Tvm())
source = open(sys.argv[1]).read()
source = source.replace("import tilewright as tvm", "import tvm")
source = source.replace("from tilewright import", "from tvm import")
exec(compile(source, sys.argv[1], "exec"), {"__name__": "__main__"})
"""


@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.name[0].isdigit()], ids=str)
def test_example_runs_as_a_tvm_program(path: Path, tmp_path: Path) -> None:
    shim = tmp_path / "as_tvm.py"
    shim.write_text(TVM_SHIM)
    done = run_python(str(shim), str(ROOT / "examples" / path))
    assert done.returncode == 0, done.stdout + done.stderr
