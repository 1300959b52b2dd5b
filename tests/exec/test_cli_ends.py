"""How the command ends: its statuses, output that cannot be written, tables of narrow terminals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tilewright.cli.main import main
from tilewright.cli.show import narrow_table
from tilewright.cli.show_tuning import record_summary, tuning

COMMAND = [sys.executable, "-W", "error", "-m", "tilewright"]
SLOW = "import sys, time\nprint('begun', file=sys.stderr, flush=True)\ntime.sleep(60)\nf = int\n"


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    """The file that `tune` reads says that it has begun, and takes a minute. The command is started
    as from a terminal: shells have what they start beside them ignore the signal, and children
    inherit that from tests."""
    (tmp_path / "slow.py").write_text(SLOW)
    arguments = ["tune", "slow.py:f", "--trials", "3", "--records", "r.db"]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "begun\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.strip() == "interrupted"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [("--help",), ("migrate", "."), ("tune", "--help")])
def test_a_full_disk_is_an_error(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
    assert done.returncode == 1
    assert done.stderr == "error: cannot write to standard output: No space left on device\n"


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    text = "".join(f"import tvm.name{k}.long_enough_to_fill_a_pipe\n" for k in range(4000))
    (tmp_path / "a.py").write_text(text)
    with subprocess.Popen(
        [*COMMAND, "migrate", "."], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (1, b"")


def test_programs_see_command_lines_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "op.py").write_text("import sys as f\nraise RuntimeError(repr(f.argv))\n")
    command = [*COMMAND, "tune", "op.py:f", "3", "--trials", "1", "--records", "r.db"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "['op.py', '3']" in done.stderr
    command = [*COMMAND, "inspect", "op.py", "a", "--", "--size", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "['op.py', 'a', '--size', '3']" in done.stderr


def test_arguments_of_what_is_no_program_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    done = CliRunner().invoke(main, ["inspect", str(tmp_path / "m.onnx"), "3"])
    assert isinstance(done.exception, SystemExit) and done.exit_code == 2
    assert "ARGS are a program's" in done.output


def test_help_lists_every_command_under_a_heading() -> None:
    named = [name for _, names in main.headings for name in names]
    assert sorted(named) == sorted(main.commands) and len({*named}) == len(named)
    text = CliRunner().invoke(main, ["--help"]).output
    assert "First steps:" in text and "tilewright doctor" in text
    assert "..." not in text.partition("Options:")[2]


REPORT: dict[str, Any] = {
    "tasks": [
        {
            "task": "conv2d_nchw_1x64x56x56_64x64x3x3 + add + relu", "weight": 3,
            "default_s": 1.234e-3, "best_s": 345.6e-6, "gflops": 123.4, "measurements": 12345,
        }
    ],
    "known": 0, "measured": 64, "seconds": 12.0, "records": "r.db", "stopped": None,
    "networks": [], "objective": "sum", "score": None, "default_s": 1.0, "best_s": 0.5,
}  # fmt: skip


def test_tables_fit_sixty_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    tuning(REPORT, ["tilewright run m.onnx --records r.db"])
    row = {
        "workload_key": '["matmul", 1024, 1024, 1024]', "target": "llvm -mcpu=skylake-avx512",
        "measurements": 12345, "errors": {"RUNTIME_DEVICE": 3}, "best_s": 1.5e-3, "noise": 0.012,
        "last_error": "", "by": {},
    }  # fmt: skip
    record_summary([row])
    text = capsys.readouterr().out
    assert all(len(line) <= 60 for line in text.splitlines())
    assert "task 0: conv2d_nchw_1x64x56x56_64x64x3x3 + add + relu\n" in text
    for whole in ("1.234 ms", "345.6 us", "3.57x", "123.4", "12345", "1.5 ms", "1.2%"):
        assert whole in text
    assert "…" not in text
    assert narrow_table().box is not None
