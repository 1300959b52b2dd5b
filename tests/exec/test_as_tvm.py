"""Programs that import tvm run untouched: scripts, modules, and the processes that they start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = ("-m", "tilewright.as_tvm")

SAME = """
import pickle, sys
import tvm, tvm.testing, tvm.te.schedule
from tvm import te, topi, autotvm, auto_scheduler, tir, arith
from tvm.tir import expr as expressions
from tvm.contrib.utils import tempdir
import tilewright
assert tvm.te.Tensor is tilewright.te.Tensor and te is tilewright.te
assert sys.modules["tvm.te.schedule"] is tilewright.te.schedule
assert expressions is tvm.tir.expr
a = te.placeholder((4,), name="a")
assert isinstance(a, tilewright.te.Tensor) and isinstance(a, tvm.te.tensor.Tensor)
assert pickle.loads(pickle.dumps(tvm.te.Tensor)) is te.Tensor
assert pickle.loads(pickle.dumps(tvm.runtime.DataType("int8x4"))) == "int8x4"
"""

VERSIONS = """
import tvm, tilewright
assert tvm.__version__ == "0.18.0" and tilewright.__version__ != tvm.__version__
assert tuple(map(int, tvm.__version__.split(".")[:2])) >= (0, 8)
assert tvm.__name__ == "tvm" and "build" in dir(tvm) and tvm.__path__
"""

PATCHED = """
from unittest import mock
import tvm, tilewright
before = tvm.build
with mock.patch("tvm.build", lambda: 7):
    assert tilewright.build() == tvm.build() == 7
assert tilewright.build is tvm.build is before
"""

ABSENT = """
import tvm
def why(code):
    try:
        exec(code)
    except (ImportError, AttributeError) as error:
        return type(error).__name__ + ": " + str(error)
for code in ("from tvm import relay", "import tvm.relay.frontend", "import tvm.relax as rx",
             "from tvm.relay.testing import mlp"):
    assert why(code).startswith("ModuleNotFoundError: tvm.rel") and "onnx" in why(code).lower()
assert "auto_scheduler" in why("from tvm import meta_schedule as ms")
said = why("import tvm.te.nowhere")
assert "no module tilewright.te.nowhere" in said, said
try:
    from tvm import relay
except ModuleNotFoundError:
    relay = None
assert relay is None and not hasattr(tvm, "relay")
assert "onnx" in why("tvm.relay").lower()
"""

SPAWN = """
import multiprocessing, subprocess, sys
import tvm
from tvm import te

def extent(n):
    import tvm.testing
    return int(te.placeholder((n,)).shape[0]) * tvm.tir.const(2).value, tvm.__version__

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.map(extent, [3, 5]) == [(6, "0.18.0"), (10, "0.18.0")]
    code = "import tvm; from tvm import te; print(tvm.__version__, te.Tensor.__module__)"
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout
    assert said == "0.18.0 " + te.Tensor.__module__ + chr(10), said
"""

VARIABLES = """
import os
os.environ.pop("TILEWRIGHT_NUM_THREADS", None)
os.environ["TVM_NUM_THREADS"] = "1"
import tvm, numpy as np
from tilewright.rt import threads
assert threads.num_threads() == 1
"""

PLACES = """
import sys, helper
assert sys.argv == [__file__, "--size", "3"], sys.argv
assert __name__ == "__main__" and sys.modules["__main__"].helper is helper
sys.exit(helper.STATUS)
"""


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=cwd, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("program", [SAME, VERSIONS, PATCHED, ABSENT, SPAWN, VARIABLES])
def test_programs_run_untouched(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    done = run(*RUN, "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", [SAME, VERSIONS, SPAWN])
def test_an_import_does_the_same(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"import tilewright.as_tvm\n{program}")
    done = run("program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_scripts_have_their_arguments_neighbours_and_status(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "helper.py").write_text("import tvm.te\nSTATUS = 7")
    (tmp_path / "sub" / "program.py").write_text(PLACES)
    done = run(*RUN, "sub/program.py", "--size", "3", cwd=tmp_path)
    assert done.returncode == 7, done.stderr


OF_TVM = """
import tvm.testing
A_NUMBER = tvm.testing.parameter(1, 2)
number = A_NUMBER
def test_given(target, dev, number):
    assert dev.device_type and tvm.target.Target(target) and number in (1, 2)
"""

OF_OTHERS = """
import pytest
@pytest.fixture
def target():
    return "mine"
def test_own(target):
    assert target == "mine"
"""


@pytest.mark.parametrize("conftest", ["", 'pytest_plugins = ["tvm.testing.plugin"]\n'])
def test_targets_are_given_to_tests(tmp_path: Path, plain_pytest: None, conftest: str) -> None:
    """Whether a conftest.py loads the plugin or not; fixtures of others' stay theirs."""
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_of_tvm.py").write_text(OF_TVM)
    (tmp_path / "test_of_others.py").write_text(OF_OTHERS)
    done = run(*RUN, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


def test_modules_and_code_run(tmp_path: Path, plain_pytest: None) -> None:
    (tmp_path / "test_it.py").write_text("import tvm\ndef test_it():\n    assert tvm.te.compute\n")
    done = run(*RUN, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", cwd=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    done = run(*RUN, "-c", "import sys, tvm; print(sys.argv, tvm.__version__)", "x", cwd=tmp_path)
    assert done.stdout == "['-c', 'x'] 0.18.0\n", done.stderr


def test_mistakes_are_said(tmp_path: Path) -> None:
    assert run(*RUN, cwd=tmp_path).returncode == 2
    assert "usage" in run(*RUN, "--help", cwd=tmp_path).stdout
    done = run(*RUN, "nowhere.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "there is no file nowhere.py\n")
    assert "-m needs" in run(*RUN, "-m", cwd=tmp_path).stderr


def test_another_tvm_is_not_replaced_unseen(tmp_path: Path) -> None:
    (tmp_path / "tvm.py").write_text("")
    done = run("-c", "import tvm, tilewright.as_tvm", cwd=tmp_path)
    assert done.returncode == 1 and "tvm is imported already, from " in done.stderr


def test_errors_name_the_line_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import tvm\n\n1 / 0\n")
    done = run(*RUN, "program.py", cwd=tmp_path)
    assert done.returncode == 1 and 'program.py", line 3' in done.stderr
