"""Parallel regions of compiled code, and the choice of an OpenMP runtime."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.unit.rt.kernels import array, info_of, make
from tilewright.base.errors import TilewrightError
from tilewright.rt import threads

# out[t] = threads of the region + 1, for each thread t
REGION = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
@tw_num_threads = external global i32
define internal void @body(ptr %out) {
  %t = call i32 @omp_get_thread_num()
  %n = call i32 @omp_get_num_threads()
  %v = add i32 %n, 1
  %p = getelementptr i32, ptr %out, i32 %t
  store i32 %v, ptr %p
  ret void
}
define i32 @region(ptr %slots) {
  %out = load ptr, ptr %slots
  %n = load i32, ptr @tw_num_threads
  call void @GOMP_parallel(ptr @body, ptr %out, i32 %n, i32 0)
  ret i32 0
}
"""

HEAD = f"""
import sys
import numpy as np
sys.path.insert(0, {os.getcwd()!r})
from tests.unit.rt.kernels import add_function, array, info_of, make
from tests.unit.rt.test_threads import REGION
from tilewright.rt import threads
"""
SCRIPT = (
    HEAD
    + """
f = make(REGION, info_of("region", [array("out", "int32", [8], is_output=True)]))
def team():
    out = np.zeros(8, np.int32)
    f(out)
    return out[out > 0].tolist()
"""
)


@pytest.fixture(scope="module")
def region():
    return make(REGION, info_of("region", [array("out", "int32", [8], is_output=True)]))


@pytest.fixture(autouse=True)
def restore():
    yield
    threads.set_num_threads(0)


def run(code: str, head: str = SCRIPT, **env: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "TILEWRIGHT_"))}
    done = subprocess.run(
        [sys.executable, "-c", head + code],
        capture_output=True,
        text=True,
        check=False,
        env={**clean, **env},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_region_has_the_threads_asked_for(region, count):
    if threads.runtime().is_serial:
        pytest.skip("no OpenMP runtime on this machine")
    threads.set_num_threads(count)
    out = np.zeros(8, np.int32)
    region(out)
    assert out.tolist() == [count + 1] * count + [0] * (8 - count)


def test_the_default_is_the_cores_of_the_process():
    cores = len(os.sched_getaffinity(0))
    threads.set_num_threads(3)
    assert threads.num_threads() == 3
    threads.set_num_threads(0)
    assert threads.num_threads() == cores
    with pytest.raises(TilewrightError, match="cannot be -1"):
        threads.set_num_threads(-1)


def test_the_environment_gives_the_number():
    assert run("print(team())", TILEWRIGHT_NUM_THREADS="1").strip() == "[2]"


def test_without_a_runtime_loops_run_serially():
    out = run("print(team(), threads.runtime().is_serial)", TILEWRIGHT_OPENMP="serial")
    assert out.strip() == "[2] True"


def test_finding_none_warns_once():
    code = """
import warnings
threads._runtime = None
threads._SYSTEM = ()
threads._loaded_paths = threads._wheel_paths = lambda: []
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    a, b = threads.runtime(), threads.runtime()
print(a is b, a.is_serial, len(seen), "run serially" in str(seen[0].message))
"""
    assert run(code).strip() == "True True 1 True"


def test_a_path_that_is_no_runtime_is_an_error(tmp_path):
    path = tmp_path / "libgomp.so"
    path.write_bytes(b"nothing")
    with pytest.raises(TilewrightError, match="not a library that exports GOMP_parallel"):
        threads._choose(str(path))


def test_a_loaded_runtime_is_preferred():
    runtime = threads.runtime()
    if runtime.is_serial:
        pytest.skip("no OpenMP runtime on this machine")
    loaded = threads._loaded_paths()
    assert loaded
    assert threads._choose("").path == loaded[0]


@pytest.mark.parametrize(
    ("path", "is_runtime"),
    [
        ("/usr/lib/libgomp.so.1", True),
        ("/x/torch.libs/libgomp-a34b3233.so.1.0.0", True),
        ("/opt/libiomp5.so", True),
        ("/usr/lib/libomp.so.5", True),
        ("/usr/lib/libompi.so", False),
        ("/usr/lib/libcompat.so", False),
    ],
)
def test_names_of_runtimes(path, is_runtime):
    assert bool(threads._LOADED.search(path)) is is_runtime


def test_the_wheel_of_xgboost_is_found_without_importing_it():
    code = "from tilewright.rt import threads; threads._wheel_paths(); import sys; "
    code += "print('xgboost' in sys.modules)"  # other tests of this process import it
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr
    paths = threads._wheel_paths()
    if not paths:
        pytest.skip("xgboost's wheel is not installed, or carries no runtime")
    assert threads._open(paths[0]) is not None


def test_a_forked_child_runs_serially_instead_of_hanging():
    code = """
import os
before = team()
pid = os.fork()
if pid == 0:
    print(before == [x for x in before], team(), flush=True)
    os._exit(0)
print(os.waitpid(pid, 0)[1], team() == before)
"""
    assert run(code, TILEWRIGHT_NUM_THREADS="2").splitlines() == ["True [2]", "0 True"]


def test_serial_code_loads_no_runtime():
    code = """
x = np.zeros(3, np.float32)
add_function()(x, x, np.zeros(3, np.float32))
print(threads._runtime)
"""
    assert run(code, HEAD).strip() == "None"
