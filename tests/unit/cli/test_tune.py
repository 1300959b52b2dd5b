"""`tilewright tune`: what it searches for, how it goes on, what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import helper, numpy_helper

from tilewright import auto_scheduler
from tilewright.auto_scheduler.lines import Record
from tilewright.auto_scheduler.record_file import Writer, read_records
from tilewright.cli.main import main

OPERATOR = """
from tilewright import te

def product(n, m, k):
    a = te.placeholder((n, k), name="a")
    b = te.placeholder((k, m), name="b")
    r = te.reduce_axis((0, k), "r")
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), "c")]

def pool(size, window):
    a = te.placeholder(size, name="a")
    r = te.reduce_axis((0, window[0]), "r")
    return [a, te.compute((size[0] // window[0],), lambda i: te.max(a[i * window[0] + r, 0], r))]
"""


PRINTS = """
from tilewright import te

print("at the top")

def twice(n):
    print("in the function")
    a = te.placeholder((n,), name="a")
    return [a, te.compute((n,), lambda i: a[i] * 2)]
"""


def call(*args: Any, command: str = "tune") -> Result:
    return CliRunner().invoke(main, [command, *map(str, args)])


@pytest.fixture
def operator(tmp_path: Path) -> Path:
    path = tmp_path / "op.py"
    path.write_text(OPERATOR)
    return path


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return made_network(tmp_path / "two.onnx", 10)


@pytest.fixture
def sibling(tmp_path: Path) -> Path:
    """Its first layer is that of `network`."""
    return made_network(tmp_path / "wide.onnx", 20)


def made_network(path: Path, classes: int) -> Path:
    rng = np.random.default_rng(3)
    weights = {"w1": rng.standard_normal((48, 32)), "w2": rng.standard_normal((classes, 48))}
    nodes = [
        helper.make_node("Gemm", ["x", "w1"], ["h"], transB=1, name="h"),
        helper.make_node("Relu", ["h"], ["r"], name="r"),
        helper.make_node("Gemm", ["r", "w2"], ["y"], transB=1, name="y"),
    ]
    infos = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (16, 32)), ("y", (16, classes)))
    ]
    constants = [numpy_helper.from_array(a.astype(np.float32), k) for k, a in weights.items()]
    graph = helper.make_graph(nodes, "two", infos[:1], infos[1:], constants)
    onnx.save(helper.make_model(graph, ir_version=8), path)
    return path


def refused(*args: Any, command: str = "tune") -> str:
    result = call(*args, command=command)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    return result.stderr


def test_an_operator_is_tuned_and_the_search_goes_on(operator: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    what = (f"{operator}:product", 16, 24, 32, "--records", file, "--quiet", "--json")
    first = call(*what, "--trials", 3)
    assert first.exit_code == 0, first.output
    report = json.loads(first.stdout)
    assert (report["measured"], report["known"]) == (3, 0) and first.stderr == ""
    (task,) = report["tasks"]
    assert json.loads(task["workload_key"]) == ["product", 16, 24, 32]
    assert task["best_s"] > 0 and task["gflops"] > 0 and task["default_s"] is None
    again = json.loads(call(*what, "--trials", 5).stdout)
    assert (again["measured"], again["known"]) == (2, 3)
    rows = [r.rows for r in read_records(file)]
    assert len(rows) == 5 == len(set(rows)), "nothing is measured twice"
    done = call(*what, "--trials", 5)
    assert json.loads(done.stdout)["measured"] == 0


def test_a_network_is_tuned_and_run_with_the_records(network: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    tuned = call(network, "--records", file, "--trials", 4, "--threads", 1)
    assert tuned.exit_code == 0, tuned.output
    assert f"tilewright run {network} --records {file}" in tuned.stdout
    assert "Estimated total latency" in tuned.stderr
    report = json.loads(call(network, "--records", file, "--trials", 4, "--json").stdout)
    assert report["known"] == 4 and len(report["tasks"]) == 2
    for task in report["tasks"]:
        assert 0 < task["best_s"] <= task["default_s"], "the default schedule is a candidate"
    assert report["best_s"] <= report["default_s"]
    run = call(network, "--records", file, "--repeat", 1, "--json", command="run")
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)["records"]
    assert found["file"] == str(file) and 0 <= found["tuned"] <= 2 == found["kernels"]


def test_run_counts_kernels_from_records(network: Path, tmp_path: Path) -> None:
    tasks, _ = auto_scheduler.extract_tasks(network)
    file = tmp_path / "a.json"
    inputs = []
    for task in tasks:
        policy = auto_scheduler.SketchPolicy(task, None, seed=1, verbose=0)
        state = policy.sample_initial_population(1)[0]
        inputs.append(auto_scheduler.MeasureInput(task, state))
    result = auto_scheduler.MeasureResult((1e-3,), 0, "", 0.1, 1.0)
    auto_scheduler.save_records(file, inputs, [result] * len(inputs))
    run = call(network, "--records", file, "--repeat", 1, command="run")
    assert run.exit_code == 0, run.output
    assert f"2 of 2 kernels have schedules from {file}" in run.stdout


def test_lists_of_numbers_are_arguments(operator: Path, tmp_path: Path) -> None:
    what = (f"{operator}:pool", "64,1", "4,", "--records", tmp_path / "a.db", "--trials", 1)
    assert "argument 1" in refused(*what)
    what = (f"{operator}:pool", "64,1", "4,1", "--records", tmp_path / "a.json", "--trials", 1)
    done = call(*what, "--quiet", "--json")
    assert done.exit_code == 0, done.output
    (task,) = json.loads(done.stdout)["tasks"]
    assert json.loads(task["workload_key"]) == ["pool", [64, 1], [4, 1]]


def test_several_networks_are_tuned_at_once(network: Path, sibling: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    what = [network, sibling, "--records", file, "--trials", 6, "--threads", 1, "--quiet"]
    goal = ["--objective", "geomean", "--reference", 1, "--reference", f"{sibling}=2"]
    tuned = call(*what, *goal, "--json")
    assert tuned.exit_code == 0, tuned.output
    report = json.loads(tuned.stdout)
    assert sorted(t["weight"] for t in report["tasks"]) == [1, 1, 2], "they share a layer"
    assert report["measured"] == 6 and report["objective"] == "geomean"
    gains = [row["speedup"] for row in report["networks"]]
    for row, reference in zip(report["networks"], (1, 2)):
        assert row["tasks"] == 2 and row["met"] is None
        assert row["speedup"] == pytest.approx(reference / row["best_s"])
    assert report["score"] == pytest.approx(-((gains[0] * gains[1]) ** 0.5))
    text = call(*what, *goal).stdout
    assert f"{sibling}: " in text and "as fast as the reference of 2 s" in text
    assert "geometric mean of speed-ups: " in text
    assert f"tilewright run {sibling} --records {file}" in text
    for model in (network, sibling):
        run = call(model, "--records", file, "--repeat", 1, "--json", command="run")
        assert json.loads(run.stdout)["records"]["tuned"] <= 2, run.output


def test_requirements_end_a_search(network: Path, sibling: Path, tmp_path: Path) -> None:
    what = [network, sibling, "--records", tmp_path / "a.db", "--trials", 24, "--threads", 1]
    goal = ["--objective", "requirement", "--requirement", 1]
    done = call(*what, *goal)
    assert done.exit_code == 0, done.output
    assert "stopped: every network is as fast as required" in done.stderr
    assert "ended early: every network is as fast as required" in done.stdout
    assert f"{network}: " in done.stdout and " of 1 s: met" in done.stdout
    report = json.loads(call(*what, *goal, "--json", "--quiet").stdout)
    assert report["measured"] == 0 and report["known"] == 12
    assert [row["met"] for row in report["networks"]] == [True, True]
    assert report["stopped"] and report["score"] == pytest.approx(2)


def test_help_names_the_units() -> None:
    text = " ".join(call("--help").output.split())
    for words in ("[sum|requirement|geomean|early-stopping]", "in seconds (0.005 is 5 ms)"):
        assert words in text


REQUIRED = ("two.onnx", "--objective", "requirement", "--requirement")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("op.py:prodct", 1), "has no function 'prodct' (did you mean product?); it has: product"),
        (("op.py:product", 1, 2), "does not take these arguments"),
        (("op.py:product", 16, 16, "x"), "argument 2 of the function is 'x'"),
        (("op.py:product", 16, 16, 0), "extent 0: there is nothing to compute"),
        (("op.py",), "has to be followed by the name of a function"),
        (("none.py:f",), "there is no file"),
        (("none.onnx",), "there is no file"),
        (("two.onnx", 3), "a network, which takes no arguments"),
        (("op.py:product", 16, 16, 16, "--shape", "x=1,2"), "are for networks"),
        (("two.onnx", "--shape", "x"), "expected NAME=VALUE"),
        (("two.onnx", "three.onnx"), "there is no file three.onnx; give MODEL.onnx"),
        (("two.onnx", "op.py:product"), "op.py:product is an operator, which is tuned in a"),
        (("two.onnx", "two.onnx"), "two.onnx is given twice"),
        (("two.onnx", "wide.onnx", "--shape", "z=1,2"), "has an input 'z'; two.onnx has x; wide"),
        (("two.onnx", "--objective", "geomean"), "geomean' needs a reference in seconds for each"),
        (("two.onnx", "--requirement", "1"), "'sum' has no requirement; that is of"),
        (
            (*REQUIRED, "5ms"),
            "expected SECONDS or two.onnx=SECONDS, where 5 ms are 0.005; got '5ms'",
        ),
        (
            (*REQUIRED, "a.onnx=1"),
            "--requirement: there is no network 'a.onnx'; there are two.onnx",
        ),
        ((*REQUIRED, "1", "--requirement", "2"), "seconds of every network is given twice"),
        ((*REQUIRED, "two.onnx=1", "--requirement", "two.onnx=2"), "two.onnx is given twice"),
        (
            (*REQUIRED, "-1"),
            "the requirement of two.onnx is in seconds, above 0 and finite, got -1",
        ),
        (
            (*REQUIRED[:3], "wide.onnx", "--requirement", "two.onnx=1"),
            "--requirement wide.onnx=0.005",
        ),
        (("two.onnx", "--objective", "early-stopping"), "stop_after=128, or --stop-after 128"),
        (("two.onnx", "--objective", "early-stopping", "--stop-after", 0), "at least 1, got 0"),
        (("two.onnx", "--threads", 0), "--threads is from 1"),
        (("two.onnx", "--trials", 0), "--trials is at least 1"),
        (("two.onnx", "--trials", 1), "not even one for each of 2 tasks"),
        (("two.onnx", "--target", "llvm -mcpu=sapphirerapid"), "sapphirerapid"),
        (("two.onnx", "--target", "c"), "there is no compiler for it"),
        (("two.onnx", "--target", "llvm -mtriple=aarch64-linux-gnu"), "cannot measure code for"),
        (("two.onnx", "--records", "none/a.db"), "cannot write"),
        (("two.onnx", "--records", "."), "it is a directory"),
    ],
)
def test_bad_input_is_refused(
    args: tuple[Any, ...],
    words: str,
    operator: Path,
    network: Path,
    sibling: Path,
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    more = [] if "--trials" in args else ["--trials", 2]
    more += [] if "--records" in args else ["--records", "a.db"]
    assert words in refused(*args, *more)
    assert not Path("a.db").exists() or not list(read_records("a.db"))


def test_a_target_without_a_device_is_refused(network: Path, monkeypatch: Any) -> None:
    from tilewright.rt.device import Device

    monkeypatch.setattr(Device, "exist", property(lambda self: False))
    text = refused(network, "--target", "cuda", "--trials", 4, "--records", "a.db")
    assert "does not exist here" in text


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(:\n", "line 1: SyntaxError"),
        ("import nothing_of_that_name as f\n", "line 1: ModuleNotFoundError"),
        ("f = 1\nraise SystemExit(3)\n", "line 2: SystemExit"),
        ("f = 3\n", "has no function 'f'; it has: none"),
        ("def f(n):\n    return n\n", "has to return a list of tensors"),
    ],
)
def test_a_bad_file_is_refused(source: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(source)
    assert words in refused(f"{path}:f", 4, "--trials", 2, "--records", tmp_path / "a.db")


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        ("g = 1\n", False),
        ("def g():\n    f = 1\n", False),
        ("class G:\n    def f(self): pass\n", False),
        ("import os.path\nprint(f)\n", False),
        ("[f for f in range(2)]\n", False),
        ("def f(): pass\n", True),
        ("async def f(): pass\n", True),
        ("class f: pass\n", True),
        ("import os as f\n", True),
        ("from os import path as f\n", True),
        ("from os.path import *\n", True),
        ("if True:\n    try:\n        f: int = 1\n    finally:\n        pass\n", True),
        ("for g, *f in [(1, 2)]: pass\n", True),
        ("with open(__file__) as f: pass\n", True),
        ("print(f := 1)\n", True),
        ("[f := k for k in range(2)]\n", True),
        ("def g():\n    global f\n    f = 1\n", True),
        ("def __getattr__(name): raise AttributeError(name)\n", True),
        ("# coding: latin-1\nf = 'h\xf6'\n", True),
    ],
)
def test_a_file_without_the_name_is_not_run(source: str, runs: bool, tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_bytes((source + "raise OSError('it runs')\n").encode("latin-1"))
    text = refused(f"{path}:f", 4, "--trials", 2, "--records", tmp_path / "a.db")
    assert ("it runs" in text) is runs
    assert runs or "has no function 'f'; it has: " in text


def test_what_a_program_prints_is_no_result(tmp_path: Path) -> None:
    path = tmp_path / "prints.py"
    path.write_text(PRINTS)
    arguments = ["--trials", 2, "--records", tmp_path / "a.db", "--json", "--quiet"]
    done = call(f"{path}:twice", 8, *arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["measured"] == 1  # there is one program alone
    again = call(f"{path}:twice", 8, *arguments)  # whose candidates come from the file
    assert json.loads(again.stdout)["known"] == 1
    assert "at the top\n" in done.stderr and "in the function\n" in done.stderr


def test_unreadable_records_are_refused(network: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    file.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    assert str(file) in refused(network, "--trials", 4, "--records", file)
    assert str(file) in refused(network, "--records", file, "--repeat", 1, command="run")
    model = tmp_path / "model.db"
    model.write_bytes(network.read_bytes())
    assert str(model) in refused(network, "--trials", 4, "--records", model)


def test_foreign_and_torn_records_are_left_out(network: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    head: tuple[Any, ...] = ('["other", 4]', "llvm", [2, 64, 64, 0, 0, 0, 0, 0], "", 0, [])
    with Writer(file) as writer:
        writer.add(Record(head, (("AN", 1, 0, 3),), (1e-3,), 0, 0.1, 1.0))
    file.write_text(file.read_text() + '{"i": [["half\n')
    tuned = call(network, "--trials", 2, "--records", file, "--json", "--quiet")
    assert tuned.exit_code == 0, tuned.output
    report = json.loads(tuned.stdout)
    assert (report["known"], report["measured"]) == (0, 2)
    assert tuned.stderr.count("left out 1 damaged record (line 2)") == 1


def test_a_killed_search_goes_on(operator: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    what = [f"{operator}:product", "48", "32", "64", "--records", str(file), "--quiet", "--json"]
    command = [sys.executable, "-m", "tilewright.cli.main", "tune", *what, "--trials", "500"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(1200):
            if file.exists() and file.read_text().count("\n") >= 2:
                break
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = len(list(read_records(file)))
    assert before >= 2
    done = call(*what, "--trials", before + 2)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["known"], report["measured"]) == (before, 2)
    rows = [r.rows for r in read_records(file)]
    assert len(rows) == before + 2 == len(set(rows))


def test_functions_of_one_name_in_two_files_are_two(operator: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "op.py"
    other.parent.mkdir()
    other.write_text(PRINTS.replace("twice", "product"))
    for file, args in ((other, (8,)), (operator, (4, 4, 4)), (other, (16,))):
        records = tmp_path / f"{len(args)}-{args[0]}.db"
        result = call(f"{file}:product", *args, "--trials", 1, "--records", records)
        assert result.exit_code == 0, result.output


def test_a_stopped_search_says_how_to_go_on(
    operator: Path, monkeypatch: Any, tmp_path: Path
) -> None:
    def stop(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.cli.tune.tune_tasks", stop)
    result = call(f"{operator}:product", 4, 4, 4, "--trials", 2, "--records", tmp_path / "a.db")
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr
