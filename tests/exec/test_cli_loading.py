"""What commands load: help, versions and mistakes need nothing of the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli import choices, peers
from tilewright.cli.main import main
from tilewright.driver import c_library

HEAVY = ("graph", "lowering", "driver", "target", "tensor", "topi")


def loaded(*args: str) -> set[str]:
    """The packages of tilewright that a command loads in a process of its own."""
    command = [sys.executable, "-X", "importtime", "-m", "tilewright", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    names = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    assert "click" in names
    return {name.split(".")[1] for name in names if name.startswith("tilewright.")}


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("--version",),
        ("--nope",),
        ("nope",),
        ("run", "nope.onnx"),
        ("compile", "--help"),
        ("inspect", ".", "--stage", "nope"),
        ("records", "show", "--help"),
        ("fleet", "--help"),
        ("device", "--nope"),
    ],
)
def test_words_without_the_compiler(args: tuple[str, ...]) -> None:
    assert not loaded(*args).intersection(HEAVY)


def test_migrate_needs_no_compiler(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import tvm\ntvm.build\n")
    assert not loaded("migrate", str(tmp_path)).intersection(HEAVY)


def test_a_command_loads_its_own(tmp_path: Path) -> None:
    """So that the tests above see what they look for."""
    (tmp_path / "m.onnx").touch()
    assert {"graph", "driver"} <= loaded("run", str(tmp_path / "m.onnx"))


def test_words_of_options_are_those_of_the_commands() -> None:
    assert c_library.THREADS == choices.LIBRARY_THREADS
    assert tuple(peers.PEERS) == choices.PEER_NAMES


def test_completion_of_the_shell() -> None:
    def complete(words: str, count: int) -> list[str]:
        about = {"_TILEWRIGHT_COMPLETE": "bash_complete", "COMP_WORDS": words}
        code = "from tilewright.cli.main import main; main(prog_name='tilewright')"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=100,
            env={**os.environ, **about, "COMP_CWORD": str(count)},
        )  # fmt: skip
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert complete("tilewright re", 1) == ["report", "records"]
    assert complete("tilewright records ex", 2) == ["export"]
    assert "llvm" not in complete("tilewright compile --threads ", 3)
    assert complete("tilewright compile --threads ", 3) == [*c_library.THREADS]
    assert {*main.commands} == {*complete("tilewright ", 1)}
