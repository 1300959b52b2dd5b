"""What is asked of the first device (benchmarks/gpu_first.py), on the stub of the driver; the draws
of operators, and what networks' kernels are estimated to take."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from benchmarks import gpu_first, gpu_networks, gpu_whole
from benchmarks.gpu_code_operators import drawn_operators
from tests.stub_cuda import installed
from tilewright.graph.device import DeviceExecutable
from tilewright.report.sass import Static
from tilewright.rt.plan import Work


def test_the_driver_is_asked_in_every_type() -> None:
    with installed("sm_90"):
        part = gpu_first.driver(tw.cuda(0), True, Path())
        assert [part.row(n)["right"] for n in range(len(part.names))] == [True] * 5
        assert "sm_90" in part.about["about"]["target"]


def test_a_part_says_each_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of a case that fails too; and where the device answers no more, the part ends."""

    def row(n: int) -> dict[str, Any]:
        if n == 1:
            raise ValueError("it is wrong\nby far")
        return {"kernel": str(n), "right": True}

    monkeypatch.setitem(gpu_first._RUN, "right", lambda *_: gpu_first.Part(list("abcd"), row))
    given = Namespace(seconds=60.0, skip=0, small=True, records=tmp_path)
    answers = Namespace(runtime=Namespace(sync=lambda: None))
    assert gpu_first.part("right", answers, given) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [x["begin"] for x in said if "begin" in x] == [0, 1, 2, 3]
    assert said[4]["row"] == {"kernel": "b", "name": "b", "right": False, "why": "it is wrong"}

    def lost() -> None:
        raise tw.TilewrightError("CUDA_ERROR_ILLEGAL_ADDRESS")

    dead = Namespace(runtime=Namespace(sync=lost))
    assert gpu_first.part("right", dead, given) == 3
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [x["begin"] for x in said if "begin" in x] == [0, 1]


CHILD = """
import json, os, sys, time
say = lambda **x: print(json.dumps(x), flush=True)
skip = int(sys.argv[sys.argv.index("--skip") + 1])
say(about={"of": 6})
print("what a library says", flush=True)
for n in range(skip, 6):
    say(begin=n, name=f"case{n}")
    if n == 1:
        os._exit(139)
    if n == 3:
        time.sleep(60)
    say(row={"kernel": f"case{n}", "right": n != 4})
    if n == 4:
        sys.exit(3)
"""


def test_a_case_that_kills_or_hangs_costs_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    monkeypatch.setattr(gpu_first, "_CASE_S", 5.0)
    start = gpu_first._Process.__init__

    def begin(self: Any, command: list[str], limit: float, case_s: float, said: Any) -> None:
        start(self, [command[0], str(script), *command[3:]], limit, case_s, said)

    monkeypatch.setattr(gpu_first._Process, "__init__", begin)
    given = Namespace(records=tmp_path, small=True)
    rows: list[dict[str, Any]] = []
    end = time.perf_counter() + 100.0
    found = gpu_first._run_part("right", 100.0, end, given, rows.append)
    assert [r["kernel"] for r in rows] == [f"case{n}" for n in range(6)]
    assert [r["right"] for r in rows] == [True, False, True, False, False, True]
    assert "exit 139" in rows[1]["why"] and "in time" in rows[3]["why"]
    assert found == {"of": 6}
    assert "1: case1: exit 139" in gpu_first._progress("right", 1, rows[1])


def test_a_case_that_hangs_is_ended_when_all_time_is_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD.replace("n == 1", "n == -1"), encoding="utf-8")
    start = gpu_first._Process.__init__
    limits = []

    def begin(self: Any, command: list[str], limit: float, case_s: float, said: Any) -> None:
        limits.append(limit)
        start(self, [command[0], str(script), *command[3:]], limit, case_s, said)

    monkeypatch.setattr(gpu_first._Process, "__init__", begin)
    given = Namespace(records=tmp_path, small=True)
    rows: list[dict[str, Any]] = []
    end = time.perf_counter() + 4.0
    gpu_first._run_part("right", 10.0, end, given, rows.append)
    assert limits[0] <= 4.0 and rows[-1]["name"] == "case3" and "in time" in rows[-1]["why"]


@pytest.mark.parametrize("name", ["attention_float16", "deep_dense_16380_float16"])
def test_whole_networks_are_compared_with_their_own_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = next(w for w in gpu_whole.WHOLE if w.name == name)
    monkeypatch.setattr(gpu_whole, "RUNS", 3)
    with installed("sm_80") as stub:
        target = tw.Target.from_device(tw.cuda(0))
        row = case.check(target, True)
        assert row["right"] and row["runs"] == 3 and row["off"] < row["allowed"]
        assert not stub.violations
        plain, runs = DeviceExecutable.run, []

        def racing(self: Any, *args: Any) -> Any:
            found = plain(self, *args)
            runs.append(1)
            if len(runs) == 3:
                next(iter(found.values())).flat[5] *= np.float32(1 + 2**-20)
            return found

        monkeypatch.setattr(DeviceExecutable, "run", racing)
        with pytest.raises(ValueError, match=r"1 of .* elements of run 3 are not those of the fir"):
            case.check(target, True)


def test_a_part_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(gpu_first.time, "perf_counter", lambda: now[0])
    budget, seen = gpu_first.Budget(10.0), []
    for case in budget.each(range(10)):
        now[0] += 3.0
        seen.append(case)
    assert seen == [0, 1, 2]  # a fourth would take until 12


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        ({"rows": [{"type": "int8", "right": True}]}, 0, "driver: 1 of 1"),
        ({"rows": [{"type": "int8", "right": False}]}, 1, "wrong or refused: int8"),
        ({"rows": [{"name": "row_sum", "met": False}], "of": 8}, 1, "below their bars: row_sum"),
        ({"error": "exit 1: no context"}, 1, "driver: exit 1: no context"),
    ],
)
def test_what_is_said_and_kept(
    found: dict[str, Any],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (path,) = _run_with(found, tmp_path, monkeypatch, code, False)
    assert said in capsys.readouterr().out
    assert list(json.loads(path.read_text(encoding="utf-8"))["parts"]) == list(gpu_first.PARTS)


def _run_with(
    found: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch, code: int, as_json: bool
) -> list[Path]:
    def part(name: str, seconds: float, end: float, options: Any, said: Any) -> dict[str, Any]:
        for row in found.get("rows", ()):
            said(row)
        return {k: v for k, v in found.items() if k != "rows"}

    monkeypatch.setattr(gpu_first, "_run_part", part)
    with installed("sm_80"):
        given = Namespace(minutes=1.0, out=folder, records=folder, small=True, json=as_json)
        assert gpu_first.run(given) == code
    return list(folder.glob("gpu-first-*.json"))


def test_the_report_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"kernel": "a", "right": True}, {"kernel": "b", "rate": 2.0, "unit": "GB/s"}]
    (path,) = _run_with({"rows": rows, "of": 2}, tmp_path, monkeypatch, 0, True)
    said = capsys.readouterr()
    assert json.loads(said.out) == json.loads(path.read_text(encoding="utf-8"))
    assert "whole 1: a: right" in said.err and "speed 2: b: 2.0 GB/s" in said.err


def test_drawn_operators() -> None:
    first, again = (drawn_operators(20261130, 46) for _ in range(2))
    assert [c.name for c in first] == [c.name for c in again]
    families = Counter(c.name.split("_")[0].rstrip("0123456789") for c in first)
    assert len(families) >= 15 and any("nhwc" in c.name for c in first)
    assert any("tf32" in c.name for c in first)
    light = [c for c in first if c.name.startswith(("transpose_", "sum_rows", "chain", "softmax"))]
    for case in light[:4]:
        target = tw.Target("cuda -arch=sm_80")
        schedule, args = case.program(target, *case.small)
        inputs, out = case.inputs(args), tw.nd.empty([int(d) for d in args[-1].shape],
                                                     args[-1].dtype).numpy()  # fmt: skip
        tw.build(schedule, args, target, name="f").run_simt(*inputs, out)
        case.check(out, inputs)


def test_estimates() -> None:
    loop = Counter({"FFMA": 80, "IADD3": 20})
    s = Static("k", "sm_80", 256, 64, 0, 0, 0, 4, loop, loop, Counter())
    gpu = gpu_networks.GPUS["sm_80"]
    busy = gpu_networks.estimate(Work(10**9, 10**6), [("k", 108)], {"k": s}, gpu)
    assert busy["binds"] == "arithmetic" and busy["share"] == 80.0
    assert busy["us"] == pytest.approx(1e6 * (1e9 / (gpu.float32 * 0.8) + 2e-6))
    half = gpu_networks.estimate(Work(10**9, 10**6), [("k", 54)], {"k": s}, gpu)
    assert half["us"] - 2 == pytest.approx(2 * (busy["us"] - 2))
    moved = gpu_networks.estimate(Work(10, 10**9), [("p", 1), ("k", 540)],
                                  {"k": s, "p": replace(s, name="p", everything=Counter())},
                                  gpu)  # fmt: skip
    assert moved["binds"] == "memory" and moved["launches"] == 2
    assert moved["us"] == pytest.approx(1e6 * (1e9 / gpu.memory + 4e-6))
    alone = gpu_networks.estimate(Work(10, 10**6), [("k", 1)], {"k": replace(s, threads=1)}, gpu)
    assert alone["us"] > 1000, "one thread waits for the memory again and again"
    network = {"network": "n", "dtype": "float16", "arch": "sm_80", "gpu": gpu.name,
               "calls": 1, "kernels": 2,
               "warnings": [], "spilling": [], "us": 2 * moved["us"], "build_s": 1, "compile_s": 1,
               "rows": 2 * [{"nodes": ["conv", "relu"], **moved}]}  # fmt: skip
    refused = {"network": "m", "dtype": "float16", "error": "a constant is too large"}
    page = gpu_networks.page([network, refused])
    assert "| conv and 1 | 2 | " in page
    assert "m, float16: not built: a constant is too large" in page
