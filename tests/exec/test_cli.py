"""The `tilewright` command in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from tilewright.cli import latency
from tilewright.cli.main import main

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


def tilewright(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command; standard output and error apart."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tilewright", *map(str, args)],
        capture_output=True, text=True, timeout=300, env={**os.environ, "NO_COLOR": "1", **env},
    )  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small classifier, an input and the output that belongs to it."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((6, 12)).astype(np.float32)
    x = rng.standard_normal((1, 6)).astype(np.float32)
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "small",
        [tensor("x", TensorProto.FLOAT, [1, 6])],
        [tensor("y", TensorProto.FLOAT, [1, 12]), tensor("m", TensorProto.FLOAT, [1, 12])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "small.onnx")
    np.save(folder / "x.npy", x)
    expected = np.maximum(x @ weight, 0)
    np.save(folder / "y.npy", expected)
    np.save(folder / "wrong.npy", expected + np.float32(1))
    (folder / "y.pb").write_bytes(numpy_helper.from_array(expected).SerializeToString())
    return folder


def test_json_report(data: Path) -> None:
    done = tilewright("run", data / "small.onnx", "--json", "--repeat", 7, "--threads", 1,
                      "--input", f"x={data / 'x.npy'}", "--check", data / "y.npy")  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["latency_ms"]["p90"] >= report["latency_ms"]["median"] > 0
    assert report["compile_s"] > 0
    assert report["check"]["ok"] is True
    assert 0 <= report["check"]["worst_error"] < 1e-5
    assert report["threads"] == 1
    assert report["peak_gflops"] > 1
    assert report["outputs"]["y"] == {"shape": [1, 12], "dtype": "float32"}
    assert "random_inputs" not in report
    best = report["top5"]
    expected = np.load(data / "y.npy")[0]
    assert len(best) == 5
    assert best[0]["class"] == int(expected.argmax())
    assert best[0]["score"] == pytest.approx(float(expected.max()), rel=1e-5)


def test_text_report_progress_and_note() -> None:
    done = tilewright("run", DIGITS, "--repeat", 2)
    assert done.returncode == 0, done.stderr
    assert "compiling: " in done.stderr
    assert "kernels" in done.stderr
    assert "compiling" not in done.stdout
    assert "note: input input (float32 1x1x8x8) is random data (seed 0)" in done.stdout
    for text in ("top 5", "compiled in ", "latency ", " median", " p90", "of the measured peak"):
        assert text in done.stdout


def test_random_data_is_seeded(data: Path) -> None:
    outputs = []
    for k in range(2):
        path = data / f"out{k}.npy"
        done = tilewright("run", data / "small.onnx", "--json", "--repeat", 1,
                          "--output", f"y={path}")  # fmt: skip
        assert json.loads(done.stdout)["random_inputs"] == ["x"]
        outputs.append(np.load(path))
    np.testing.assert_array_equal(*outputs)


def test_outputs_are_saved(data: Path) -> None:
    files = ["--output", f"y={data / 'a.npy'}", "--output", f"m={data / 'b.npy'}"]
    done = tilewright("run", data / "small.onnx", "--input", f"x={data / 'x.npy'}", *files)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(data / "a.npy"), np.load(data / "y.npy"), rtol=1e-5)
    np.testing.assert_array_equal(np.maximum(np.load(data / "b.npy"), 0), np.load(data / "a.npy"))


@pytest.mark.parametrize("name, ok", [("y.npy", True), ("y.pb", True), ("wrong.npy", False)])
def test_check(data: Path, name: str, ok: bool) -> None:
    arguments = ("run", data / "small.onnx", "--input", f"x={data / 'x.npy'}", "--repeat", 1,
                 "--check", data / name)  # fmt: skip
    text = tilewright(*arguments)
    assert text.returncode == (0 if ok else 1)
    assert f"check {'ok' if ok else 'WRONG'}: worst error " in text.stdout
    report = json.loads(tilewright(*arguments, "--json").stdout)
    assert report["check"]["ok"] is ok


def test_tolerance_of_check(data: Path) -> None:
    done = tilewright("run", data / "small.onnx", "--input", f"x={data / 'x.npy'}", "--repeat", 1,
                      "--check", data / "wrong.npy", "--rtol", 10)  # fmt: skip
    assert done.returncode == 0


def test_profile(data: Path) -> None:
    done = tilewright("run", data / "small.onnx", "--profile", "--json", "--repeat", 1)
    rows = json.loads(done.stdout)["profile"]
    keys = {"nodes", "ms", "share", "gflop", "mb", "gflops", "limit", "of_limit"}
    assert [set(row) for row in rows] == [keys] * len(rows)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    product = next(row for row in rows if row["gflop"] > 0)
    assert product["gflop"] * 1e9 == pytest.approx(2 * 6 * 12, rel=0.5)  # and ReLU's maximum
    assert product["mb"] * 1e6 >= 4 * (6 + 6 * 12 + 12)
    assert {row["limit"] for row in rows} <= {"compute", "memory"}


def test_a_saved_network_is_profiled_as_the_model(data: Path, tmp_path: Path) -> None:
    saved = tmp_path / "small.net"
    assert CliRunner().invoke(main, ["compile", f"{data / 'small.onnx'}", "-o", f"{saved}"])
    reports = []
    for path in (data / "small.onnx", saved):
        done = CliRunner().invoke(main, ["run", str(path), "--profile", "--json", "--repeat", "1"])
        assert done.exit_code == 0, done.output
        reports.append(json.loads(done.stdout.splitlines()[-1]))
    told = [[(r["nodes"], r["gflop"], r["mb"]) for r in report["profile"]] for report in reports]
    assert told[0] == told[1]
    assert reports[1]["gflops"] > 0


def test_latency_of_streams(data: Path) -> None:
    arguments = ["run", str(data / "small.onnx"), "--json", "--streams", "3", "--warm-up", "0"]
    report = json.loads(CliRunner().invoke(main, [*arguments, "--repeat", "5"]).stdout)
    ms = report["latency_ms"]
    assert ms["runs"] == 15 and report["streams"] == 3
    assert 0 < ms["least"] <= ms["median"] <= ms["p90"] <= ms["p99"]
    timed = json.loads(CliRunner().invoke(main, [*arguments, "--duration", "0.2"]).stdout)
    assert timed["latency_ms"]["runs"] > 15
    assert timed["runs_per_s"] == pytest.approx(timed["latency_ms"]["runs"] / 0.2, rel=0.5)


def test_a_caller_that_fails_ends_the_others() -> None:
    def fails() -> None:
        raise ValueError("out of luck")

    with pytest.raises(ValueError, match="out of luck"):
        latency.measure([fails, lambda: None], latency.Plan(3, 1, None, 2))


@pytest.mark.parametrize("peer", ["onnxruntime", "openvino"])
def test_compare(data: Path, peer: str) -> None:
    pytest.importorskip(peer)
    done = CliRunner().invoke(main, ["run", str(data / "small.onnx"), "--compare", peer])
    assert done.exit_code == 0, done.output
    for text in ("output y ok", "output m ok", "as fast", "p99"):
        assert text in done.output
    arguments = ["run", str(data / "small.onnx"), "--json", "--compare", peer, "--repeat", "7"]
    found = json.loads(CliRunner().invoke(main, arguments).stdout)["compare"]
    assert found["with"] == peer and found["ok"] is True
    assert {*found["outputs"]} == {"y", "m"}
    assert found["latency_ms"]["runs"] >= 7
    none = CliRunner().invoke(main, [*arguments, "--rtol", "0", "--dtype", "float16"])
    assert none.exit_code == 1
    assert json.loads(none.stdout.splitlines()[-1])["compare"]["ok"] is False


def test_what_cannot_be_compared(data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    saved = tmp_path / "small.net"
    CliRunner().invoke(main, ["compile", str(data / "small.onnx"), "-o", str(saved)])
    done = CliRunner().invoke(main, ["run", str(saved), "--compare", "onnxruntime"])
    assert done.exit_code == 2 and "a saved network; give the ONNX model" in done.output
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    arguments = ["run", str(data / "small.onnx"), "--compare", "onnxruntime"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2 and "pip install onnxruntime" in done.output


def test_a_busy_machine_is_noticed(data: Path) -> None:
    cores = range(os.cpu_count() or 1)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in cores]
    try:
        texts = [
            tilewright("run", data / "small.onnx", "--repeat", 99, *a) for a in ((), ("--json",))
        ]
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert "note: the machine is busy: other programs used" in texts[0].stdout
    assert json.loads(texts[1].stdout)["busy"].startswith("the machine is busy")


def test_threads_come_from_the_environment(data: Path) -> None:
    done = tilewright(
        "run", data / "small.onnx", "--json", "--repeat", 1, TILEWRIGHT_NUM_THREADS="1"
    )
    assert json.loads(done.stdout)["threads"] == 1


def test_doctor() -> None:
    done = tilewright("doctor")
    assert done.returncode == 0, done.stderr
    for text in ("tilewright", "python", "package numpy", "package llvmlite", "cpu features",
                 "FMA peak", "core to core",
                 "target llvm", "target cuda", "target opencl"):  # fmt: skip
        assert text in done.stdout
    facts = json.loads(tilewright("doctor", "--json").stdout)
    assert facts["targets"]["llvm"] == "works"
    for kind in ("cuda", "opencl"):
        assert facts["targets"][kind] == "works" or facts["targets"][kind].startswith("no: ")
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["cpu"]
    assert facts["cpu_features"]
    assert facts["threads"] >= 1
    assert facts["round_trip_ns"] is None or facts["round_trip_ns"] > 1


@pytest.mark.parametrize("command", [(), ("run",), ("doctor",)])
def test_help(command: tuple[str, ...]) -> None:
    done = tilewright(*command, "--help")
    assert done.returncode == 0
    assert "Usage:" in done.stdout
    if command == ("run",):
        for option in ("--target", "--input", "--check", "--repeat", "--threads", "--json",
                       "--output", "--shape", "--profile"):  # fmt: skip
            assert option in done.stdout


def test_version() -> None:
    assert tilewright("--version").stdout.startswith("tilewright, version ")


def test_commands_in_this_process(data: Path) -> None:
    """The same text without a process of its own."""
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 0
    assert "FMA peak" in done.stdout
    arguments = ["--repeat", "1", "--profile", "--check", str(data / "wrong.npy")]
    done = CliRunner().invoke(main, ["run", str(data / "small.onnx"), *arguments])
    assert done.exit_code == 1
    for text in ("check WRONG", "kernels, slowest first", "top 5", "random data"):
        assert text in done.stdout
    assert CliRunner().invoke(main, ["doctor", "--json"]).stdout.startswith("{")
