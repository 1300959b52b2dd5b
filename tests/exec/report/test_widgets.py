"""What notebooks show of objects."""

from __future__ import annotations

import html
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

import tilewright as tvm
from tests.unit.report.html import Parsed
from tests.unit.report.test_search import ansor
from tilewright import autotvm, graph, te
from tilewright.auto_scheduler import RecordReader, TaskScheduler
from tilewright.auto_scheduler.lines import encode
from tilewright.auto_scheduler.slope import UNKNOWN_COST
from tilewright.base.errors import UsageError
from tilewright.report import page_of

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.onnx"


def matmul(n: int = 32) -> tuple[Any, list[Any]]:
    a, b = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[1], 8)
    s[c].vectorize(inner)
    return s, [a, b, c]


def inside(shown: Any) -> Parsed:
    """The page in the frame that a notebook gets."""
    text = shown._repr_html_()
    found = re.fullmatch(r'<iframe .* srcdoc="([^"]*)"></iframe>', text, re.S)
    assert found, text[:200]
    parsed = Parsed(html.unescape(found[1]))
    assert parsed.errors == []
    assert "header" not in [tag for tag, _ in parsed.elements]
    return parsed


def test_schedules() -> None:
    s, args = matmul()
    parsed = inside(s)
    assert parsed.tables["stages"][1][0] == "C"
    assert "j.inner vectorized" in parsed.tables["stages"][1][3]
    (kernel,) = parsed.kernels
    assert kernel["codes"] and kernel["tree"] and parsed.data["roofline"] is None
    assert len(str(s._repr_html_())) < 100_000  # no library of plots in each cell
    assert tvm.lower(s, args)["main"].name in kernel["name"]


def test_functions_and_modules_of_them() -> None:
    s, args = matmul()
    module = tvm.lower(s, args, name="product")
    assert [k["name"] for k in inside(module).kernels] == ["product"]
    (kernel,) = inside(module["product"]).kernels
    assert "def product(" in kernel["passes"][0]["text"]


def test_built_modules() -> None:
    s, args = matmul()
    (kernel,) = inside(tvm.build(s, args, name="product")).kernels
    titles = [c["title"] for c in kernel["codes"]]
    assert titles[0] == "Loops" and {"LLVM IR", "Assembly"} <= set(titles)


def test_gpu_modules_without_a_device() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    kernels = inside(tvm.build(s, [a, b], "opencl", name="more")).kernels
    assert any("__kernel" in c["text"] for k in kernels for c in k["codes"])
    (kernel,) = inside(s).kernels  # says CUDA, where nothing else was asked for
    assert kernel["codes"][1]["title"] == "CUDA C"


def test_networks() -> None:
    net = graph.load_onnx(DIGITS)
    planned = inside(net)
    compiled = inside(graph.compile(net))
    for parsed in (planned, compiled):
        boxes = parsed.data["graph"]["boxes"]
        assert len(boxes) == 7 and abs(sum(b["share"] for b in boxes) - 1) < 1e-6
    mine, theirs = (p.data["graph"]["boxes"] for p in (planned, compiled))
    assert [b["reads"] for b in mine] == [b["reads"] for b in theirs]
    assert planned.data["memory"]["size"] > 0


def test_networks_for_devices_without_one() -> None:
    parsed = inside(graph.compile(graph.load_onnx(DIGITS), "cuda -arch=sm_80"))
    boxes = parsed.data["graph"]["boxes"]
    assert len(boxes) >= 5 and any(b["reads"] for b in boxes)


def test_task_schedulers() -> None:
    tasks, weights = graph.extract_tasks(graph.load_onnx(DIGITS))
    search = TaskScheduler(tasks[:2], weights[:2])
    search.task_costs_history[0][:] = [UNKNOWN_COST, 2e-3, 1e-3]
    first, second = inside(search).data["tuning"]
    assert [t["seconds"] for t in first["trials"]] == [None, 2e-3, 1e-3]
    assert first["task"] == tasks[0].desc and second["trials"] == []


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(encode(ansor((1e-3,), 8)) + "\n")
    assert inside(RecordReader(str(path))).tables["tuning"][1][2] == "1"


@autotvm.template("tests/report_scale")
def scale(n: int) -> Any:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    cfg = autotvm.get_config()
    cfg.define_knob("vector", [1, 4, 8])
    _, inner = s[b].split(b.op.axis[0], cfg["vector"].val)
    s[b].vectorize(inner)
    return s, [a, b]


def test_tuners() -> None:
    task = autotvm.task.create("tests/report_scale", (1024,), "llvm")
    tuner = autotvm.tuner.GridSearchTuner(task)
    assert "has measured nothing yet" in "".join(inside(tuner).text)
    option = autotvm.measure_option(autotvm.LocalBuilder(), autotvm.LocalRunner(number=1, repeat=1))
    tuner.tune(3, option)
    parsed = inside(tuner)
    (found,) = parsed.data["tuning"]
    assert len(found["trials"]) == 3 == len(tuner.history)
    best = min(t["seconds"] for t in found["trials"])
    assert tuner.best_measure_pair is not None
    assert np.isclose(best, np.median(tuner.best_measure_pair[1].costs))
    assert {v[0] for v in found["choices"][0]["values"]} == {"1", "4", "8"}


def test_what_cannot_be_drawn_says_why() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = inside(s).kernels[0]
    assert "extent of threadIdx.x" in kernel["figures"]["no code"]
    with pytest.raises(UsageError, match="no picture of a list"):
        page_of([])


def test_show_writes_a_page(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    s, _ = matmul()
    path = tmp_path / "page.html"
    assert s.show(path) == path
    parsed = Parsed(path.read_text())
    assert parsed.errors == [] and "header" in [tag for tag, _ in parsed.elements]
    (point,) = parsed.data["roofline"]["points"]
    assert point["flops"] == 2 * 32**3 and point["seconds"] > 0
    opened: list[str] = []

    def fail_to_open(url: str) -> bool:
        opened.append(url)
        return False

    monkeypatch.setattr("webbrowser.open", fail_to_open)
    shown = s.show()
    assert opened == [shown.as_uri()] and str(shown) in capsys.readouterr().out
    shown.unlink()


def network_of(nodes: str) -> Any:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{nodes}')


def test_networks_with_open_sizes() -> None:
    net: Any = tvm.compile(
        network_of("net (float[batch, 8] x) => (float[batch, 8] y) {y = Relu(x)}")
    )
    assert type(net).__name__ == "OpenExecutable"
    parsed = inside(net)
    assert "as the sizes of a call need" in "".join(parsed.text)
    assert "coloured by its share of the calls" in "".join(parsed.text), "operations are not known"
    net.whole = None
    assert "is compiled for each shape when it is first called with it" in "".join(inside(net).text)


def test_networks_whose_shapes_are_data() -> None:
    text = "net (float[8] x) => (int64[1, n] y) {y = NonZero(x)}"
    net = tvm.compile(network_of(text))
    assert "compiled in parts while it runs" in "".join(inside(net).text)
