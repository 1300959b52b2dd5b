"""`tilewright bench`: one table of networks and operators, ours and others'."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tilewright.cli import bench as bench_module
from tilewright.cli.bench import OPERATORS
from tilewright.cli.main import main
from tilewright.graph.compile_model import compile as compile_model

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


def bench(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["bench", "--seconds", "0.01", *map(str, arguments)])


def test_a_network_and_an_operator_stand_in_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done = bench(DIGITS, "layer-norm", "--with", "onnxruntime")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["what", "tilewright", "onnxruntime", "faster"]
    assert [line.split()[0] for line in lines[3:5]] == ["digits.onnx", "layer-norm"]
    assert all(len(line) <= 60 for line in lines[:5]) and lines[3].split()[-1].endswith("x")
    assert "as fast as the best of the others" in done.stdout


def test_json() -> None:
    done = bench("matmul-row", "--with", "onnxruntime", "--json", "--threads", 1)
    report = json.loads(done.stdout)
    (row,) = report["rows"]
    assert (report["threads"], report["peers"], row["ok"]) == (1, ["onnxruntime"], True)
    assert row["median_s"]["tilewright"] >= row["seconds"]["tilewright"] > 0
    ours, theirs = row["seconds"]["tilewright"], row["seconds"]["onnxruntime"]
    assert row["speedup"] == pytest.approx(theirs / ours)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_compute_what_their_names_say(name: str) -> None:
    import onnxruntime

    model, feeds = OPERATORS[name].model()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (want,) = session.run(None, feeds)
    (got,) = compile_model(model).run(feeds).values()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())


def test_outputs_that_differ_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"ok": False, "worst_error": 0.5, "rtol": 1e-3}
    monkeypatch.setattr(bench_module, "compare", lambda *_: wrong)
    done = bench("matmul-row", "--with", "onnxruntime")
    assert done.exit_code == 1 and "WRONG" in done.stdout
    assert "matmul-row: outputs differ, worst error 0.5 of the largest value" in done.stdout


def test_without_others_ours_are_still_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_module, "installed", lambda: [])
    done = bench("matmul-row")
    assert done.exit_code == 0 and "no other runtime ran: pip install" in done.stdout
    done = bench("matmul-row", "--with", "openvino")
    assert done.exit_code == 2 and "openvino is not installed" in done.output


def test_what_does_not_run_stands_in_its_row(tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"no model")
    done = bench(tmp_path / "no.onnx", "matmul-row", "--with", "onnxruntime")
    assert done.exit_code == 1 and "no.onnx: tilewright:" in done.stdout


def test_mistakes() -> None:
    for arguments, said in [
        (("matmul-rov",), "did you mean matmul-row?"),
        (("sum", "--seconds", "0"), "--seconds is above 0"),
    ]:
        done = bench(*arguments)
        assert done.exit_code == 2 and said in done.output
    assert bench("--list").output.split() == [*OPERATORS]
