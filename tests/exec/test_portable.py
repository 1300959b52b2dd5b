"""What needs no device and no processes works where the system has none of POSIX's own calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BARE = '''
import asyncio, ctypes, mmap, os, platform, select, shutil, signal, subprocess, sys, tempfile, uuid
import click, llvmlite.binding, ml_dtypes, numpy as np, onnx, rich  # which ask what system it is
platform.uname()  # which is kept
# as it has decided where these functions are missing: when it is asked, and from 3.14 on at once
shutil._use_fd_functions, shutil._rmtree_impl = False, shutil._rmtree_unsafe

class Hidden:
    """As on Windows: the modules of POSIX alone are missing."""
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty"):
    sys.modules.pop(name, None)
MISSING = {
    os: "fork forkpty getegid geteuid getgid getpgid getuid killpg setpgid setsid memfd_create "
        "sched_getaffinity sched_setaffinity sysconf confstr O_CLOEXEC O_NONBLOCK uname "
        "register_at_fork fchmod fchown chown mkfifo pread pwrite posix_spawn wait3 wait4 nice "
        "getloadavg getpriority statvfs",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGUSR1 SIGUSR2 alarm pthread_sigmask setitimer",
    select: "epoll poll",
    mmap: "MADV_DONTNEED MAP_ANONYMOUS MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE",
}
for owner, names in MISSING.items():
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)

class CDLL(ctypes.CDLL):
    def __init__(self, name, *args, **kwargs):
        if name is None:
            raise TypeError("Windows has no library of all that is in a process")
        super().__init__(name, *args, **kwargs)

ctypes.CDLL = CDLL
import tilewright as tvm
from tilewright import arith, auto_scheduler, autotvm, te, tir, topi
import tilewright.cli.main, tilewright.measure.runner
from tilewright.cli import bench, compile, doctor, inspect, migrate, records, report, run, tune
'''

OPERATORS = """
a = te.placeholder((5, 7), name="a")
b = te.compute((5, 7), lambda i, j: te.exp(a[i, j]) + 1, name="b")
s = te.create_schedule(b.op)
s[b].vectorize(b.op.axis[1])
assert "T.exp" in str(tvm.lower(s, [a, b]))
f = tvm.build(s, [a, b], "llvm")
x, y = np.ones((5, 7), "float32"), tvm.nd.array(np.zeros((5, 7), "float32"))
for g in (f, None):
    if g is None:
        f.save("f.o")
        g = tvm.runtime.load_module("f.o")
    g(tvm.nd.array(x), y)
    np.testing.assert_allclose(y.numpy(), np.exp(x) + 1, rtol=1e-5)
    y = tvm.nd.array(np.zeros((5, 7), "float32"))
assert f.time_evaluator(f.entry_name, tvm.cpu(), number=1)(x, y).mean > 0
"""

NETWORK = """
from onnx import TensorProto, helper
v = helper.make_tensor_value_info
graph = helper.make_graph(
    [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("MatMul", ["e", "e"], ["y"])],
    "g", [v("x", TensorProto.FLOAT, [4, 4])], [v("y", TensorProto.FLOAT, [4, 4])])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.save(model, "model.onnx")
x = np.random.default_rng(0).random((4, 4), np.float32)
net = tvm.compile("model.onnx")
net.save("model.net")
for n in (net, tvm.load_network("model.net")):
    np.testing.assert_allclose(n.run({"x": x})["y"], np.exp(x) @ np.exp(x), rtol=1e-5)
"""

TUNING = """
@auto_scheduler.register_workload
def twice(n):
    a = te.placeholder((n,), name="a")
    return [a, te.compute((n,), lambda i: a[i] * 2, name="b")]

task = auto_scheduler.SearchTask(func=twice, args=(64,), target="llvm")
try:
    task.tune(auto_scheduler.TuningOptions(2, verbose=0))
except tvm.TilewrightError as error:
    assert "measuring candidates needs Linux or macOS" in str(error)
else:
    raise AssertionError("it did not refuse")
"""


@pytest.mark.parametrize("program", [OPERATORS, NETWORK, TUNING])
def test_without_calls_of_posix(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BARE + program],
        cwd=tmp_path,
        env={**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
