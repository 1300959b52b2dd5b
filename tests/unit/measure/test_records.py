"""Lines of records: half a line costs itself, what cannot be written is said."""

import os
from pathlib import Path

import pytest

from tilewright.base.errors import TilewrightError
from tilewright.measure.records import append_line, read_lines


def test_half_a_line_costs_that_line_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append_line(path, '{"n": 0}')
    with path.open("ab") as file:
        file.write(b'{"n": 1, "tor')
    append_line(path, '{"n": 2}')
    with pytest.warns(UserWarning, match=r"left out 1 damaged record \(line 2\)"):
        assert [v for _, v in read_lines(path)] == [{"n": 0}, {"n": 2}]


def test_blank_lines_and_remarks_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n# a remark\n[1]\n")
    assert list(read_lines(path)) == [(3, [1])]


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match=r"cannot read .*nowhere"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(TilewrightError, match="cannot write"):
        append_line(tmp_path, "{}")
    assert os.listdir(tmp_path) == []


def test_a_line_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match="cannot write /dev/full"):
        append_line("/dev/full", "{}")


def test_a_file_without_a_line_of_json_is_no_file_of_records(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("\n# a comment\nhello\nworld\n")
    with pytest.raises(TilewrightError, match=r"notes is no file of records: none of its lines"):
        list(read_lines(path))
    path.write_text('hello\n{"n": 1}\n')  # something was there before, or is damaged
    with pytest.warns(UserWarning, match=r"left out 1 damaged record \(line 1\)"):
        assert list(read_lines(path)) == [(2, {"n": 1})]
    path.write_text('{"n": 1, "m"')
    with pytest.warns(UserWarning, match=r"left out 1 damaged record \(line 1\)"):
        assert list(read_lines(path)) == []
