"""What `tilewright inspect --function` says of functions that are not there, or lack a stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tilewright as tvm
from tilewright import te
from tilewright.cli.main import main

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
THERE = "digits.onnx builds no function {}; it has: digits, tw_kernel_0, tw_kernel_1,"
OF = "of " + str(DIGITS) + " has no code of stage"


def run(*args: Any) -> Any:
    return CliRunner().invoke(main, ["inspect", *map(str, args)])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--stage source --function nope", THERE.format("'nope'")),
        ("--stage graph --function nope", THERE.format("'nope'")),
        ("--function tw_kernel_99", THERE.format("'tw_kernel_99'")),
        ("--stage tir --function tw_kernel_1", f"tw_kernel_1 {OF} tir; it has: lowered, source, "),
        ("--stage graph --function tw_kernel_1", f"tw_kernel_1 {OF} graph; it has: lowered, "),
        ("--stage source --function digits", f"digits {OF} source; it has: graph, groups"),
    ],
)
def test_what_a_network_does_not_have(options: str, text: str) -> None:
    done = run(DIGITS, *options.split())
    assert done.exit_code == 2
    assert text in done.stderr and done.stderr.count("\n") == 1


def test_what_a_network_has() -> None:
    whole = run(DIGITS, "--stage", "groups", "--function", "digits")
    assert whole.exit_code == 0 and whole.stdout.startswith("==== digits: groups\n")
    one = run(DIGITS, "--stage", "source", "--function", "tw_kernel_1")
    assert one.exit_code == 0 and one.stdout.count("====") == 1


def test_functions_of_one_module(tmp_path: Path) -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    modules = tvm.lower(s, [a, b], name="f"), tvm.lower(s, [a, b], name="g")
    both = tvm.IRModule({k: v for m in modules for k, v in m.functions.items()})
    path = tmp_path / "both.tw"
    tvm.build(both, "llvm").export_library(str(path))
    assert run(path, "--function", "g", "--stage", "source").exit_code == 0
    done = run(path, "--function", "h")
    assert done.exit_code == 2 and "no function 'h'; it has: f, g\n" in done.stderr
