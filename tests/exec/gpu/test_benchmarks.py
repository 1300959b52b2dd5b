"""The kernels of benchmarks/gpu.py: right in simt, and made of the instructions they should be."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from benchmarks import gpu, gpu_blas, gpu_clock, gpu_rates
from benchmarks.gpu_cases import BY_NAME
from benchmarks.gpu_static import row, table
from tests.stub_cuda import installed
from tilewright.report.sass import Static, compiled, launch_bounds, resident
from tilewright.rt.drivers import nvrtc

ROOT = Path(__file__).resolve().parents[3]
ARCHS = ("sm_80", "sm_90")


WHY = nvrtc.why_missing() or ("" if nvrtc.find_disassembler() else "no disassembler is installed")
needs_sass = pytest.mark.skipif(bool(WHY), reason=WHY or "a disassembler is here")


@cache
def static(name: str, arch: str) -> Static:
    built, _ = gpu.build(BY_NAME[name], tw.Target(f"cuda -arch={arch}"))
    (found,) = compiled(built, arch)
    return found


@pytest.mark.parametrize("name", BY_NAME)
def test_small_sizes_in_simt(name: str) -> None:
    (report,) = gpu.check_in_simt(BY_NAME[name]).values()
    assert report.findings == []


@needs_sass
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", BY_NAME)
def test_nothing_is_spilled(name: str, arch: str) -> None:
    s = static(name, BY_NAME[name].only or arch)
    assert s.stack == 0 and s.spills == 0
    assert s.count("LDL") == 0 and s.count("STL") == 0
    assert s.blocks * s.threads >= 256


@needs_sass
@pytest.mark.parametrize("arch", ARCHS)
def test_memory_kernels_move_sixteen_bytes_at_a_time(arch: str) -> None:
    s = static("elementwise", arch)
    assert s.count("LDG..128") == 2 and s.count("STG..128") == 1
    assert s.count("LDG") == 2 and s.count("STG") == 1
    s = static("row_sum", arch)
    assert s.count("LDG..128") == s.count("LDG") == 8
    for name in ("transpose", "transpose_tall"):
        s = static(name, arch)
        assert s.count("LDG") == s.count("STG") == 16
    assert {static(n, arch).occupancy for n in ("elementwise", "row_sum", "transpose")} == {100.0}


@needs_sass
@pytest.mark.parametrize("arch", ARCHS)
def test_float32_product(arch: str) -> None:
    s = static("matmul_f32", arch)
    # 16 of k, 8 x 8 elements a thread; what is loaded for 4 of k: 8 vectors of A and 8 of B
    assert s.count("FFMA", loop=True) == 1024
    assert s.count("LDS..128", loop=True) == 64
    # with all its registers taken, ptxas may load an element again
    assert s.count("LDS", loop=True) - 64 <= (s.registers == 128)
    assert s.count("LDGSTS..128", loop=True) == 4
    assert s.count("BAR", loop=True) == 1
    assert s.share("FFMA") > 88
    assert s.count("LDG") == s.count("LDGSTS..128") + s.count("LDGDEPBAR")
    assert s.count("STG..128") == s.count("STG") == 16
    assert s.registers <= 128 and s.blocks == 2
    assert s.count("HMMA") == 0


@needs_sass
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ["matmul_f16", "matmul_f16_mma"])
def test_tensor_core_products(name: str, arch: str) -> None:
    s = static(name, arch)
    multiply = s.count("HMMA.16816.F32", loop=True)
    assert multiply == s.count("HMMA", loop=True) and multiply % 32 == 0
    # fragments come from shared memory by ldmatrix alone, one for four products
    assert s.count("LDSM", loop=True) * 4 == multiply
    assert s.count("LDS", loop=True) == s.count("LDSM", loop=True)
    assert s.count("LDGSTS..128", loop=True) * 8 == multiply
    assert s.count("LD.E") == 0 and s.count("FFMA") == 0
    assert s.share("HMMA") > 35 and s.blocks == 2


@needs_sass
def test_warp_group_products() -> None:
    s = static("matmul_f16_wgmma", "sm_90a")
    assert s.count("HGMMA.64x256x16.F32") == s.count("HGMMA") == 16  # four steps written out
    assert s.count("UTMALDG.2D") > 0 and s.count("LDG") == s.count("LDSM") == s.count("HMMA.") == 0
    assert s.threads == 384 and s.blocks == 1


@needs_sass
def test_the_table(tmp_path: Path) -> None:
    assert (
        gpu.main(["--static", "--only", "row_sum", "--arch", "sm_80", "--out", str(tmp_path)]) == 0
    )
    (written,) = tmp_path.iterdir()
    assert table([row("row_sum", static("row_sum", "sm_80"))]) in written.read_text()


_WITHOUT = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("llvmlite", "torch", "scipy", "onnx", "pyopencl"):
            raise ImportError(name)
sys.meta_path.insert(0, Nothing())
from benchmarks import gpu
import tilewright as tw
for name in ("row_sum", "matmul_f16"):
    case = gpu.BY_NAME[name]
    gpu.check_in_simt(case)
    built, _ = gpu.build(case, tw.Target("cuda -arch=sm_80"))
    print(built.imported_modules[0].get_source().count("__global__"))
"""


def test_runs_without_llvm() -> None:
    command = [sys.executable, "-c", _WITHOUT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "1"]


@pytest.mark.skipif(tw.cuda(0).exist, reason="there is a GPU to measure on")
def test_says_that_there_is_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--only", "row_sum"]) == 2
    assert "no GPU to measure on: " in capsys.readouterr().err


@pytest.mark.skipif(not tw.opencl(0).exist, reason=f"no OpenCL: {tw.opencl(0).why_missing()}")
@pytest.mark.parametrize("name", ["row_sum", "transpose"])
def test_measuring_is_the_same_on_every_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_COPY_BYTES", 1 << 20)
    monkeypatch.setattr(gpu_clock, "_BURST", 1e-4)
    case = replace(BY_NAME[name], size=BY_NAME[name].small)
    found = gpu.measure(case, tw.opencl(0), None, 3)
    assert len(found["rounds"]) == len(found["peer_rounds"]) == 3
    assert found["rate"] > 0 and found["share"] > 0 and found["unit"] == "GB/s"
    about = {"device": "this one", "date": "today"}
    assert f"| {name} |" in gpu._markdown(about, [found]) and name in gpu._line(found)


@pytest.mark.skipif(not tw.cuda(0).exist, reason="no CUDA device")
def test_measures_on_a_gpu(tmp_path: Path) -> None:
    gpu.main(["--only", "row_sum", "matmul_f16", "--rounds", "1", "--out", str(tmp_path)])
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".md"]


class _Columns:
    """What cuBLAS does with its arguments, in the CPU's memory: matrices by columns."""

    def cublasCreate_v2(self, handle: Any) -> int:
        return 0

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:
        return 0

    def cublasGetVersion_v2(self, handle: Any, number: Any) -> int:
        number._obj.value = 120000
        return 0

    def cublasGemmEx(
        self, handle: Any, ta: int, tb: int, m: int, n: int, k: int, alpha: Any,
        a: Any, a_type: int, lda: int, b: Any, b_type: int, ldb: int, beta: Any,
        c: Any, c_type: int, ldc: int, compute: int, how: int,
    ) -> int:  # fmt: skip
        def matrix(address: Any, kind: int, rows: int, columns: int, lead: int) -> Any:
            dtype = np.dtype({0: "float32", 2: "float16"}[kind])
            size = lead * columns * dtype.itemsize
            raw = (ctypes.c_char * size).from_address(address.value)
            return np.frombuffer(memoryview(raw), dtype).reshape(columns, lead).T[:rows]

        assert (ta, tb, compute, how) == (0, 0, 68, -1)
        assert (alpha._obj.value, beta._obj.value) == (1.0, 0.0)
        x, y = matrix(a, a_type, m, k, lda), matrix(b, b_type, k, n, ldb)
        matrix(c, c_type, m, n, ldc)[:] = x.astype("float32") @ y.astype("float32")
        return 0


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_what_cublas_is_asked_for(kind: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.random(s).astype(kind) for s in ((4, 6), (6, 10))]
    arrays.append(np.zeros((4, 10), "float32"))
    faces = [
        SimpleNamespace(shape=x.shape, __cuda_array_interface__={"data": (x.ctypes.data, False)})
        for x in arrays
    ]
    stream = SimpleNamespace(handle=0)
    stream.runtime = SimpleNamespace(stream=stream)
    blas = gpu_blas.Cublas(_Columns(), stream)
    blas.product(kind, *faces)(1)()
    assert blas.name == "cuBLAS 120000"
    a, b, c = (x.astype("float32") for x in arrays)
    np.testing.assert_allclose(c, a @ b, rtol=1e-6)


@pytest.mark.parametrize(("seconds", "number"), [(49e-6, 20), (51e-6, 1)])
def test_short_runs_are_timed_by_twenties(
    seconds: float, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def runs(number: int) -> Any:
        made.append(number)
        return lambda: None

    monkeypatch.setattr(gpu_clock.Clock, "seconds", lambda self, work, times: seconds * made[-1])
    clock = gpu_clock.Clock(SimpleNamespace(stream=None))
    assert clock.timer(runs)() == pytest.approx(seconds)
    assert made[-1] == number


def test_runs_of_ours_and_of_others_are_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_COPY_BYTES", 1 << 20)
    case = replace(BY_NAME["row_sum"], size=BY_NAME["row_sum"].small)
    with installed("sm_80") as stub:
        dev = tw.cuda(0)
        built, args = gpu.build(case, tw.Target.from_device(dev))
        arrays = [tw.nd.empty([int(d) for d in a.shape], a.dtype, dev) for a in args]
        for x in arrays:
            x.copyfrom(np.ones(x.shape, x.dtype))
        copy, _ = gpu._copy(dev.runtime)
        for runs in (gpu_clock.prepared(built, arrays), copy):
            start = len(stub.calls)
            launch = runs(20)
            launch()
            names = [c[0] for c in stub.calls[start:]]
            assert names.count("cuGraphLaunch") == 1
            works = names.count("cuLaunchKernel") + names.count("cuMemcpyDtoDAsync")
            assert works == 20, "all are captured"
        del copy, runs, launch, arrays, built
        assert not stub.violations


def test_a_cublas_that_does_not_start_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another CUDA than the driver's."""

    class Refusing(_Columns):
        def cublasCreate_v2(self, handle: Any) -> int:
            return 1

    stream = SimpleNamespace(handle=0, runtime=None)
    monkeypatch.setattr(gpu_blas, "_libraries", lambda: iter([Refusing(), _Columns()]))
    assert gpu_blas.find(stream).name == "cuBLAS 120000"


def _device(compute: str, processors: int, mhz: int, bandwidth: float) -> Any:
    limits = SimpleNamespace(
        compute_version=compute, multi_processor_count=processors, max_clock_rate=mhz * 1000,
        memory_bandwidth=bandwidth,
    )  # fmt: skip
    return SimpleNamespace(kind="cuda", limits=limits)


def test_what_devices_have_by_their_data_sheets() -> None:
    a100 = gpu_rates.rates(_device("8.0", 108, 1410, 1.555e12))
    assert a100["tensor"] == pytest.approx(312e12, rel=2e-3) == a100["mma"]
    assert a100["float32"] == pytest.approx(19.5e12, rel=2e-3)
    h100 = gpu_rates.rates(_device("9.0", 132, 1830, 3.35e12))
    assert h100["tensor"] == pytest.approx(989e12, rel=2e-3)
    assert h100["float32"] == pytest.approx(61.8e12, rel=2e-3)
    assert gpu_rates.units_of("9.9") == gpu_rates.units_of("9.0")
    assert gpu_rates.units_of("13.0") == gpu_rates.units_of("12.0")
    with installed("sm_80"):
        assert gpu_rates.rates(tw.cuda(0).runtime)["memory"] == pytest.approx(1.555e12, rel=1e-3)


def test_every_device_has_its_bars() -> None:
    ampere, hopper = (gpu_rates.rates(_device(c, 100, 1500, 2e12)) for c in ("8.0", "9.0"))
    mma, wgmma = BY_NAME["matmul_f16_mma"], BY_NAME["matmul_f16_wgmma"]
    assert mma.bar_on(ampere) == mma.bar
    assert mma.bar_on(hopper) == pytest.approx(0.62 * mma.bar, rel=1e-3)
    assert wgmma.bar_on(hopper) == wgmma.bar and mma.bar_on({}) == mma.bar
    assert BY_NAME["row_sum"].estimate(hopper) == pytest.approx(1700)
    assert mma.estimate({}) == 0.0


def test_without_cublas_a_bar_is_of_what_the_device_has() -> None:
    case = replace(BY_NAME["matmul_f32"], size=BY_NAME["matmul_f32"].small)
    with installed("sm_80"):
        found = gpu.measure(case, tw.cuda(0), None, 1)
        wanted = 0.85 * 40 * 1.5e9 * 128 / 1e9
    assert found["share"] == pytest.approx(100 * found["rate"] / wanted)
    assert found["met"] is False and found["beside"] == "85% of what the device has at most"


def test_which_kernels_an_architecture_runs() -> None:
    old = {name for name, case in BY_NAME.items() if not case.runs_on("sm_75")}
    assert old == {"matmul_f16_mma", "matmul_f16_wgmma"}
    assert all(c.runs_on("sm_90a") for c in BY_NAME.values())
    assert [c.name for c in BY_NAME.values() if not c.runs_on("sm_90")] == ["matmul_f16_wgmma"]


def test_how_many_blocks_fit() -> None:
    assert resident("sm_80", 256, 32, 0) == 8  # by threads
    assert resident("sm_80", 256, 128, 0) == 2  # by registers
    assert resident("sm_80", 128, 32, 80 * 1024) == 2  # by shared memory
    assert resident("sm_75", 32, 16, 0) == 16  # by blocks
    source = "__global__ void __launch_bounds__(256, 2) f("
    assert launch_bounds(source) == {"f": 256}
