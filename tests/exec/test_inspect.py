"""`tilewright inspect`: of programs and of saved modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tilewright as tvm
from tests.graph.single import node_model
from tilewright import te
from tilewright.cli import inspect
from tilewright.cli.main import main
from tilewright.rt.drivers import nvrtc

PROGRAM = """
import tilewright as tvm
from tilewright import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2, name="B")
s = te.create_schedule(B.op)
bx, tx = s[B].split(B.op.axis[0], factor=64)
s[B].bind(bx, te.thread_axis("blockIdx.x"))
s[B].bind(tx, te.thread_axis("threadIdx.x"))
print("the program's own output")
for target in ("cuda -arch=sm_80", "opencl"):
    tvm.build(s, [A, B], target, name="twice")
s = te.create_schedule(B.op)
tvm.build(s, [A, B], "llvm", name="once")
"""


DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


def run(*args: Any) -> Any:
    return CliRunner().invoke(main, ["inspect", *map(str, args)])


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_all_stages_of_a_program(program: Path) -> None:
    done = run(program, "--json")
    assert done.exit_code == 0, done.output
    cuda, opencl, cpu = json.loads(done.stdout)
    assert (cuda["name"], opencl["name"], cpu["name"]) == ("twice", "twice", "once")
    assert list(cuda["stages"]) == ["tir", "lowered", "source", "asm"]
    assert 'T.launch_thread("blockIdx.x"' in cuda["stages"]["tir"]
    assert "__global__" in cuda["stages"]["source"] and "__kernel" in opencl["stages"]["source"]
    assert "define i32 @once" in cpu["stages"]["source"] and "once:" in cpu["stages"]["asm"]
    if nvrtc.find_compiler():
        figures = cuda["figures"]["twice_kernel"]
        assert 0 < figures["registers"] < 64 and figures["spill_bytes"] == 0
    else:
        assert "no CUDA compiler here" in cuda["stages"]["asm"]
    (plain,) = opencl["figures"].values()  # one block in simt: 64 lanes of 4 bytes, two warps
    assert plain == {"bytes_a_global_access": 128.0, "percent_of_moved_bytes_asked": 100.0}
    assert plain.items() <= cuda["figures"]["twice_kernel"].items()


def test_one_stage_of_one_function(program: Path) -> None:
    done = run(program, "--stage", "tir", "--function", "once")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("==== once: tir\n") and done.stdout.count("====") == 1
    assert "own output" not in done.stdout
    wrong = run(program, "--function", "thrice")
    assert wrong.exit_code == 2
    assert "builds no function 'thrice'; it has: twice, once" in wrong.output


def test_a_saved_module(tmp_path: Path) -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    path = tmp_path / "kernels.tw"
    tvm.build(s, [a, b], "opencl", name="more").export_library(str(path))
    done = run(path, "--stage", "source")
    assert done.exit_code == 0, done.output
    assert "def more(" in done.stdout and "__kernel void" in done.stdout


def test_a_model() -> None:
    groups = run(DIGITS, "--stage", "groups")
    assert groups.exit_code == 0, groups.output
    assert groups.stdout.count("conv2d+bias_add+relu") == 3
    graph = run(DIGITS, "--stage", "graph")
    lanes = tvm.target.Target("llvm").vector_bytes // 4  # of this machine
    assert f"layer2: float32[1, {16 // lanes}, 8, 8, {lanes}] = relu(layer1)" in graph.stdout
    done = run(DIGITS, "--function", "tw_kernel_7", "--json")
    (dense,) = json.loads(done.stdout)
    assert list(dense["stages"]) == ["lowered", "source", "asm"]
    assert "tw_kernel_7_(" in dense["stages"]["source"]
    assert "tw_kernel_7:" in dense["stages"]["asm"]
    kernels = run(DIGITS, "--target", "opencl", "--stage", "source", "--json")
    assert all("__kernel" in u["stages"]["source"] for u in json.loads(kernels.stdout)[1:])
    wrong = run(DIGITS, "--function", "conv")
    assert wrong.exit_code == 2 and "it has: digits, tw_kernel_0, tw_kernel_1" in wrong.output


def test_what_cannot_be_shown(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('out of luck')\n")
    empty = tmp_path / "empty.py"
    empty.write_text("")
    other = tmp_path / "other.bin"
    other.write_bytes(b"nothing of ours")
    for path, text in (
        (tmp_path / "missing.py", "there is no file"),
        (broken, "out of luck"),
        (empty, "ran, but built nothing"),
        (other, "other.bin"),
    ):
        done = run(path)
        assert done.exit_code == 2 and text in done.output and "Traceback" not in done.output


def test_a_network_with_instructions_of_a_cpu(tmp_path: Path) -> None:
    """Which C has no form of: the source is LLVM's."""
    data, weights = np.zeros((32, 64), np.uint8), np.ones((64, 32), np.int8)
    model, _ = node_model("MatMulInteger", [data], [weights])
    path = tmp_path / "bytes.onnx"
    path.write_bytes(model.SerializeToString())
    done = run(path, "--target", "llvm -mcpu=cascadelake", "--json")
    assert done.exit_code == 0, done.output
    sources = [unit["stages"].get("source", "") for unit in json.loads(done.stdout)]
    assert any("vpdpbusd" in text for text in sources)


def test_what_makes_a_kernel_slow_stands_above_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ptxas says it: of products of warp groups that wait for each other."""
    text = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to a branch"
    log = f"ptxas info    : (C7510) {text} in the function 'f'\n" * 2
    usage = {n: nvrtc.KernelUsage(32, 0, 0) for n in "fg"}
    for name, value in (
        ("compile_cuda", (b"", log)),
        ("resource_usage", usage),
        ("disassemble", "SASS\n"),
    ):
        monkeypatch.setattr(nvrtc, name, lambda *_, value=value: value)
    unit = inspect.Unit("module")
    inspect._add_cuda(unit, "", "sm_90a", {})
    said = "// f: C7510: wgmma.mma_async instructions are serialized due to a branch\n"
    assert unit.texts["asm"] == 2 * said + "SASS\n"
    assert unit.figures["f"]["performance_losses"] == 2
    assert "performance_losses" not in unit.figures["g"]


def test_kernels_of_a_network_come_with_their_figures(tmp_path: Path) -> None:
    """Occupancy, instructions, and the least time on a GPU of that architecture."""
    w = np.ones((256, 64), np.float16)
    path = tmp_path / "m.onnx"
    model, _ = node_model("MatMul", [np.ones((512, 256), np.float16)], [w])
    path.write_bytes(model.SerializeToString())
    target = ["--target", "cuda -arch=sm_80", "--precision", "float16"]
    done = CliRunner().invoke(main, ["inspect", str(path), "--stage", "sass", "--json", *target])
    assert done.exit_code == 0, done.output
    (unit,) = (u for u in json.loads(done.stdout) if u["figures"])
    assert "HMMA" in unit["stages"]["asm"]
    (kernel,) = (f for f in unit["figures"].values() if "registers" in f)
    assert 0 < kernel["percent_occupancy"] <= 100 and kernel["blocks_a_multiprocessor"] >= 1
    assert kernel["spill_bytes"] == 0 and kernel["shared_bytes"] > 0
    assert kernel["global_async_copies_of_128_bits"] == kernel["global_async_copies"] > 0
    assert any(name.startswith("HMMA") for name in kernel["hottest_instructions"])
    assert (
        1 <= kernel["turns_a_shared_access"] <= 1.1
        and kernel["percent_of_moved_bytes_asked"] == 100
    )
    assert 128 < kernel["bytes_a_global_access"] <= 512
    (estimate,) = (f for f in unit["figures"].values() if "us_at_least" in f)
    assert estimate["gflop"] == round(2 * 512 * 256 * 64 / 1e9, 4)
    assert estimate["us_at_least"] > 2 and estimate["kernels"] == 1
