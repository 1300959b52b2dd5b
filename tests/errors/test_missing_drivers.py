"""Where packages and drivers are missing: sources are still made, and running says what to get."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tilewright.base.errors import TilewrightError
from tilewright.driver.object_code import llvm_version

PROGRAM = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Missing())
import numpy as np
import tilewright as tw
from tilewright import te

a = te.placeholder((64,), name="A")
b = te.compute((64,), lambda i: te.exp(a[i]), name="B")
s = te.create_schedule(b.op)
s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
x = np.zeros(64, "float32")
for kind in ("cuda", "opencl"):
    f = tw.build(s, [a, b], kind)
    assert "kernel" in f.imported_modules[0].get_source()
    y = np.zeros(64, "float32")
    f.run_simt(x, y)
    assert (y == 1).all()
    for what in (lambda: f(x, y), lambda: tw.nd.array(x, tw.device(kind)), tw.device(kind).sync):
        try:
            what()
        except tw.TilewrightError as error:
            print(kind, type(error).__name__, error)
        else:
            print(kind, "works")
print(tw.cuda(0).exist, tw.opencl(0).exist, tw.opencl(0).why_missing())
"""


def run(*blocked: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(blocked=set(blocked))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_any_driver_package() -> None:
    out = run("pyopencl", "cuda", "llvmlite")
    lines = out.splitlines()
    assert [line.split(" ")[:2] for line in lines[:6]] == [
        ["cuda", "ArgumentError"],
        ["cuda", "TilewrightError"],
        ["cuda", "TilewrightError"],
        ["opencl", "ArgumentError"],
        ["opencl", "TilewrightError"],
        ["opencl", "TilewrightError"],
    ]
    assert all("pip install 'tilewright[cuda]'" in line for line in lines[:3])
    assert all("pip install 'tilewright[opencl]'" in line for line in lines[3:])
    assert lines[6].startswith("False False the Python package pyopencl cannot be imported")


def test_without_a_cuda_driver() -> None:
    from tilewright import cuda

    if cuda(0).exist:
        pytest.skip("there is a CUDA device here")
    cuda_lines = [line for line in run("llvmlite").splitlines() if line.startswith("cuda")]
    assert len(cuda_lines) == 3
    assert all("cuda(0) does not exist here: " in line for line in cuda_lines)
    wanted = ("install the NVIDIA driver", "pip install 'tilewright[cuda]'", "no CUDA device")
    assert all(any(w in line for w in wanted) for line in cuda_lines)


def test_compiling_without_llvmlite_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    with pytest.raises(TilewrightError, match=r"compiling takes llvmlite.*pip install llvmlite"):
        llvm_version.__wrapped__()
