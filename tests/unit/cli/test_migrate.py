"""`tilewright migrate`: what it finds in folders, how it says so, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tilewright.cli.main import main


def migrate(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["migrate", *map(str, arguments)])


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "same.py").write_text("import tvm\nfrom tvm import te\n")
    (tmp_path / "sub" / "net.py").write_text("from tvm import relay\n\nrelay.nn.dense(1)\n")
    (tmp_path / "sub" / "other.py").write_text("import numpy\n")
    for skipped in (".hidden", "venv"):
        (tmp_path / skipped).mkdir()
        (tmp_path / skipped / "a.py").write_text("from tvm import relax")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    return tmp_path


def test_what_is_absent_is_listed_with_places(code: Path) -> None:
    done = migrate(code)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert lines[0] == "ABSENT: 2 names"
    assert lines[1] == "  tvm.relay (1), tvm.relay.nn.dense (1)"
    assert f"      {code}/sub/net.py:3  tvm.relay.nn.dense" in lines
    assert "  tvm (1), tvm.te (1)" in lines
    assert "tvm is used in 2 of 3 files: 2 same, 2 absent" in lines


def test_notes_fit_narrow_terminals(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = migrate(code).output.splitlines()
    assert max(len(line) for line in lines if "net.py:" not in line) <= 60


def test_all_same_exits_with_zero(code: Path) -> None:
    done = migrate(code / "same.py", code / "same.py")
    assert (done.exit_code, "1 of 1 file:" in done.output) == (0, True)
    done = migrate(code / "sub" / "other.py")
    assert (done.exit_code, done.output) == (0, "tvm is used in 0 of 1 file: no names\n")


def test_json(code: Path) -> None:
    done = migrate(code, "--json")
    report = json.loads(done.output)
    assert done.exit_code == 1
    assert report["counts"] == {"absent": 2, "differs": 0, "unlisted": 0, "same": 2}
    row = report["names"][1]
    assert row["name"] == "tvm.relay.nn.dense" and row["places"] == [f"{code}/sub/net.py:3"]


def test_unreadable_files_are_said_and_count(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("import tvm\nprint 'x'\n")
    (tmp_path / "new.py").write_text("import tvm\n")
    done = migrate(tmp_path)
    assert done.exit_code == 1
    assert done.output.startswith(f"cannot be read: {tmp_path}/old.py:2: Missing parentheses")


def test_a_missing_place_is_a_mistake() -> None:
    done = migrate("/nowhere/at/all")
    assert done.exit_code == 2 and "there is no file or folder" in done.output
