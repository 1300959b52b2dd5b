"""The real cuda-bindings take the arguments that the CUDA driver passes them.

A stub of the driver library, compiled here, stands below them. It is no device: what runs on one
is tested where there is one.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CC = shutil.which("cc")


def has_bindings() -> bool:
    try:
        return importlib.util.find_spec("cuda.bindings.driver") is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.skipif(CC is None, reason="no C compiler to make the stub with")
@pytest.mark.skipif(not has_bindings(), reason="cuda-bindings are not installed")
def test_every_call_is_accepted(tmp_path):
    library = tmp_path / "libcuda.so.1"
    source = HERE / "stub_libcuda.c"
    command = [str(CC), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(library)]
    subprocess.run([*command, str(source)], check=True)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "error", str(HERE / "use_stub_cuda.py")],
        env={**os.environ, "LD_LIBRARY_PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("all calls accepted\n", 0), done.stderr
