"""The answers of the process that reads users' code, asked in this process with harmless code."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.codegen.llvm import guard_probe
from tilewright.codegen.llvm.guard import Checked, check_code
from tilewright.target import Target

TWICE = "define float @twice(float %x) {\n %y = fadd float %x, %x\n ret float %y\n}\n"
HOST = Target("llvm")


def ask(text: str, target: Target = HOST) -> dict[str, Any]:
    machine = [target.triple, target.cpu, target.features, target.abi]
    return guard_probe.answer({"text": text, "machine": machine})


def test_functions_are_listed_with_their_types() -> None:
    code = (
        TWICE
        + "declare i32 @other(ptr, i64)\ndefine internal fastcc void @hidden() {\n ret void\n}\n"
    )
    found = ask(code)
    assert found["defined"] == {"twice": "float (float)", "hidden": "fastcc void ()"}
    assert found["declared"] == {"other": "i32 (ptr, i64)"}
    assert found["unknown"] is False
    assert HOST.triple in found["text"]


def test_numbered_conventions() -> None:
    found = ask(TWICE.replace("define", "define cc 999"))
    assert found["defined"]["twice"].replace(" ", "") == "cc999float(float)"


def test_text_is_moved_to_the_target() -> None:
    arm = Target("llvm -mtriple=aarch64-linux-gnu")
    found = ask('target triple = "x86_64-linux-gnu"\n' + TWICE, arm)
    assert 'target triple = "aarch64-linux-gnu"' in found["text"]
    assert "x86_64" not in found["text"]


def test_unknown_intrinsics_are_told_and_not_compiled() -> None:
    found = ask("declare float @llvm.nonsense(float)\n" + TWICE)
    assert found["unknown"] is True
    assert "llvm.nonsense" in found["declared"]


def test_what_is_no_code(tmp_path: Path) -> None:
    assert "expected top-level entity" in ask("nonsense")["error"]
    machine = [HOST.triple, HOST.cpu, HOST.features, ""]
    missing = guard_probe.answer({"bitcode": str(tmp_path / "none.bc"), "machine": machine})
    assert "No such file" in missing["error"]
    (tmp_path / "junk.bc").write_bytes(b"junk")
    junk = guard_probe.answer({"bitcode": str(tmp_path / "junk.bc"), "machine": machine})
    assert "bitcode" in junk["error"]


def test_the_process_answers_what_this_process_finds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = [HOST.triple, HOST.cpu, HOST.features, HOST.abi]
    request = json.dumps({"text": TWICE, "machine": machine})
    monkeypatch.setattr(sys, "stdin", io.StringIO(request))
    monkeypatch.setattr(sys, "argv", ["guard_probe.py", str(Path(__file__).parent)])
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert guard_probe.main() == 0
    printed = Checked(**json.loads(capsys.readouterr().out))
    assert printed == check_code({"text": TWICE}, HOST, "the code")
