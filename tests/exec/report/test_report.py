"""`tilewright report` and `tilewright run --trace`: pages of networks, programs and records."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tests.unit.report.test_search as search
from tests.unit.report.html import Parsed
from tilewright.auto_scheduler.lines import encode
from tilewright.auto_scheduler.record_file import read_records
from tilewright.base.errors import TilewrightError
from tilewright.cli.main import main
from tilewright.graph.build import compile as compile_graph
from tilewright.graph.build import flops
from tilewright.graph.onnx.load import load_onnx
from tilewright.graph.tasks import extract_tasks
from tilewright.report.network import network_page, plan_page
from tilewright.report.search import records_page

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.onnx"
PROGRAM = """
import sys
import tilewright as tvm
from tilewright import te

n = int(sys.argv[1])
A = te.placeholder((n, n), name="A")
B = te.placeholder((n, n), name="B")
k = te.reduce_axis((0, n), "k")
C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
s = te.create_schedule(C.op)
i, j = C.op.axis
io, ii = s[C].split(i, 4)
jo, ji = s[C].split(j, 16)
s[C].reorder(io, jo, k, ii, ji)
s[C].vectorize(ji)
s[C].unroll(ii)
s[C].parallel(io)
tvm.build(s, [A, B, C], "llvm", name="matmul")
print("its own output")
s = te.create_schedule(C.op)
block, thread = s[C].split(C.op.axis[0], 32)
s[C].bind(block, te.thread_axis("blockIdx.x"))
s[C].bind(thread, te.thread_axis("threadIdx.x"))
tvm.build(s, [A, B, C], "opencl", name="matmul_gpu")
"""


def run(*args: Any) -> Any:
    return CliRunner().invoke(main, list(map(str, args)))


def report(tmp_path: Path, *args: Any) -> Parsed:
    out = tmp_path / "page.html"
    start = time.perf_counter()
    done = run("report", "-o", out, *args)
    assert done.exit_code == 0, done.output
    assert time.perf_counter() - start < 60
    assert f"report written to {out}" in done.output
    text = out.read_text()
    assert len(text) < 5_000_000
    parsed = Parsed(text)
    assert parsed.errors == []
    return parsed


def test_a_network(tmp_path: Path) -> None:
    page = report(tmp_path, DIGITS)
    data, kernels = page.data, page.kernels
    net: Any = compile_graph(load_onnx(DIGITS))
    boxes = data["graph"]["boxes"]
    assert [b["nodes"] for b in boxes] == [" + ".join(n) for n in net.nodes]
    assert [b["kernel"] for b in boxes] == [c.kernel for c in net.calls]
    assert abs(sum(b["share"] for b in boxes) - 1) < 1e-6
    assert all(b["seconds"] > 0 for b in boxes)
    points = data["roofline"]["points"]
    assert [(p["flops"], p["bytes"]) for p in points] == [(w.flops, w.bytes) for w in net.work]
    assert data["roofline"]["peak"] > 1e8 and len(data["roofline"]["roofs"]) == 2
    assert sum(p["flops"] for p in points) >= flops(load_onnx(DIGITS))
    assert data["memory"]["size"] == net.workspace_bytes
    for kernel in kernels:
        assert [c["title"] for c in kernel["codes"]] == ["Loops", "LLVM IR", "Assembly"]
        assert kernel["passes"][0]["name"] == "loop_nest" and kernel["tree"]
        assert abs(sum(kernel["codes"][0]["weights"]) - 1) < 0.01
        for code in kernel["codes"]:
            assert len(code["places"]) == len(code["text"].split("\n"))


def test_values_that_live_together_have_places_of_their_own() -> None:
    memory = plan_page(load_onnx(DIGITS)).memory
    assert memory is not None
    for a in memory.held:
        assert a.offset >= 0 and a.offset + a.bytes <= memory.size
        for b in memory.held:
            alive = a.first <= b.last and b.first <= a.last
            apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
            assert a is b or not alive or apart


def test_a_network_for_another_machine(tmp_path: Path) -> None:
    page = report(tmp_path, DIGITS, "--target", "opencl")
    points = page.data["roofline"]["points"]
    assert page.data["roofline"]["peak"] is None
    assert all(p["seconds"] is None for p in points)
    assert abs(sum(b["share"] for b in page.data["graph"]["boxes"]) - 1) < 1e-6
    assert "Nothing was measured" in page.data["roofline"]["note"]
    assert any("__kernel" in c["text"] for k in page.kernels for c in k["codes"])


def test_a_program(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    page = report(tmp_path, path, "--", "64")
    cpu, gpu = page.kernels
    assert (cpu["name"], gpu["name"]) == ("matmul", "matmul_gpu")
    (point, other) = page.data["roofline"]["points"]
    assert point["flops"] == 2 * 64**3 and point["bytes"] == 3 * 4 * 64**2
    assert point["seconds"] > 0 and other["seconds"] is None
    assert [c["title"] for c in gpu["codes"]] == ["Loops", "OpenCL C"]
    assert "opencl are not timed" in gpu["figures"]["not timed"]
    assert "not timed" not in cpu["figures"]
    hot = max(range(len(cpu["codes"][0]["weights"])), key=cpu["codes"][0]["weights"].__getitem__)
    assert "A_1[" in cpu["codes"][0]["text"].split("\n")[hot]
    assembly = cpu["codes"][2]
    rows = zip(assembly["text"].split("\n"), assembly["places"])
    products = [place for line, place in rows if "fmadd" in line or "vmulps" in line]
    weights = cpu["codes"][0]["weights"]
    assert products and max(weights[p - 1] for p in products if p) > 0.05
    names = [p["name"] for p in cpu["passes"]]
    assert "vectorize_loops" in names and "unroll_loops" in names
    assert "check_bounds" in cpu["unchanged"]


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text("".join(encode(search.ansor((1e-3 / k,), k)) + "\n" for k in range(1, 6)))
    page = report(tmp_path, path)
    (task,) = page.data["tuning"]
    assert [t["seconds"] for t in task["trials"]] == [1e-3 / k for k in range(1, 6)]
    assert page.kernels == [] and page.data["graph"] is None


def mistakes(tmp_path: Path) -> list[tuple[tuple[Any, ...], str]]:
    failing = tmp_path / "failing.py"
    failing.write_text("raise ValueError('on purpose')\n")
    idle = tmp_path / "idle.py"
    idle.write_text("print('nothing')\n")
    saved = tmp_path / "saved.tw"
    compiled: Any = compile_graph(load_onnx(DIGITS))
    compiled.save(saved)
    log = tmp_path / "log.json"
    log.write_text(encode(search.ansor((1e-3,), 8)) + "\n")
    return [
        ((tmp_path / "none.onnx",), "there is no file"),
        ((failing,), "on purpose"),
        ((idle,), "lowered and built nothing"),
        ((saved,), "report on the model that it was compiled from"),
        ((idle, "--target", "cuda"), "are of models; a program says itself"),
        ((log, "--", "7"), "arguments are of programs"),
        ((DIGITS, "--", "7"), "arguments are of programs"),
    ]


def test_mistakes_are_answered(tmp_path: Path) -> None:
    for args, text in mistakes(tmp_path):
        done = run("report", "-o", tmp_path / "out.html", *args)
        assert done.exit_code == 2 and text in done.output, (args, done.output)
        assert not (tmp_path / "out.html").exists()


def test_a_program_that_ends_with_a_status(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + "sys.exit(0)\n")
    assert len(report(tmp_path, path, "--", "32").kernels) == 2
    path.write_text(PROGRAM + "sys.exit(3)\n")
    assert run("report", path, "-o", tmp_path / "x.html", "--", "32").exit_code == 2


def test_what_is_said_as_json(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = run("report", DIGITS, "-o", out, "--json")
    facts = json.loads(done.stdout)
    assert facts["bytes"] == out.stat().st_size and facts["file"] == str(out)


def test_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    done = run("run", DIGITS, "--trace", path, "--repeat", "1", "--json")
    assert done.exit_code == 0, done.output
    events = json.loads(path.read_text())["traceEvents"]
    net: Any = compile_graph(load_onnx(DIGITS))
    slices = [e for e in events if e["ph"] == "X" and e["cat"] == "kernel"]
    runs = [e for e in events if e["ph"] == "X" and e["cat"] == "run"]
    assert len(runs) == 3 and len(slices) == 3 * len(net.calls)
    assert json.loads(done.stdout)["trace"] == {"file": str(path), "events": len(slices)}
    assert [e["name"] for e in slices[: len(net.calls)]] == [" + ".join(n) for n in net.nodes]
    for before, after in pairwise(slices):
        assert before["ts"] >= 0 and before["ts"] + before["dur"] <= after["ts"]
    for e in runs:
        inside = [s for s in slices if e["ts"] <= s["ts"] < e["ts"] + e["dur"]]
        assert len(inside) == len(net.calls)
    for e, work in zip(slices, net.work):
        rate = work.flops / (e["dur"] * 1e-6) / 1e9
        assert np.isclose(e["args"]["gflops"], rate) and e["args"]["mb"] == work.bytes / 1e6
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"kernels"}


def test_open_networks_have_no_plan(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "open",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    path = tmp_path / "open.onnx"
    onnx.save(model, str(path))
    with pytest.raises(TilewrightError, match="fix its open sizes"):
        network_page(load_onnx(path, symbolic=True))
    fixed = report(tmp_path, path, "--shape", "x=3,4")
    assert len(fixed.data["graph"]["boxes"]) == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_precisions(dtype: str) -> None:
    page = network_page(load_onnx(DIGITS), dtype=dtype)
    assert ("precision", dtype) in page.facts and page.kernels


def test_a_network_with_its_records(tmp_path: Path) -> None:
    log = tmp_path / "tuned.db"
    done = run("tune", DIGITS, "--trials", "12", "--records", log, "--quiet")
    assert done.exit_code == 0, done.output
    page = report(tmp_path, DIGITS, "--records", log)
    tasks = extract_tasks(DIGITS)[0]
    tuning = page.data["tuning"]
    assert {t["task"] for t in tuning} <= {task.desc for task in tasks}
    assert sum(len(t["trials"]) for t in tuning) == len(list(read_records(log))) >= 12
    scores = [x["predicted"] for t in tuning for x in t["trials"]]
    assert any(s is not None for s in scores)
    assert any("ships with tilewright" in t["predictor"] for t in tuning)
    found = {t.task: t for t in records_page(log).tuning}
    assert len(found) == len(tuning)  # the same searches, by keys
    other = tmp_path / "other.json"
    other.write_text(encode(search.ansor((1e-3,), 8)) + "\n")
    assert report(tmp_path, DIGITS, "--records", other).data["tuning"] == []
