"""The store keeps what it was given, across processes and kills; damaged files are reported."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.base.errors import TilewrightError
from tilewright.measure.records import Store, append_line, read_lines
from tilewright.measure.result import MeasureErrorNo, Measurement


def test_a_store_gives_back_what_it_was_given(tmp_path: Path) -> None:
    good = Measurement((1.0, 1e-9), seconds=2.5, timestamp=3.0, early=True)
    bad = Measurement((), MeasureErrorNo.RUN_TIMEOUT, "läuft", 1.0, 4.0)
    with Store(tmp_path / "s.db") as store:
        store.add("t", "llvm", "a", good)
        store.add("t", "llvm", "b", bad)
        store.add("t", "cuda", "a", bad)
    with Store(tmp_path / "s.db") as store:
        assert store.find("t", "llvm") == [("a", good), ("b", bad)]
        assert store.find("u", "llvm") == []
        assert sorted(store.tasks()) == [("t", "cuda", 1), ("t", "llvm", 2)]


def test_a_killed_process_has_kept_what_it_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    code = f"""
import os, signal
from tilewright.measure.records import Store, append_line
from tilewright.measure.result import Measurement
store = Store({str(path)!r})
for i in range(5):
    store.add("t", "llvm", str(i), Measurement((float(i),)))
    append_line({str(tmp_path / "log")!r}, '{{"n": %d}}' % i)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code])
    assert done.returncode == -signal.SIGKILL
    with Store(path) as store:
        assert [c for c, _ in store.find("t", "llvm")] == list("01234")
    assert [value for _, value in read_lines(tmp_path / "log")] == [{"n": i} for i in range(5)]


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"not a database, but long enough to be read as one" * 40)
    with pytest.raises(TilewrightError, match=r"cannot use .*s\.db as a store"):
        Store(path)
    with pytest.raises(TilewrightError, match="as a store"):
        Store(tmp_path / "missing" / "s.db")


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    import sqlite3

    db = sqlite3.connect(tmp_path / "s.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(TilewrightError, match="version 99"):
        Store(tmp_path / "s.db")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    store.close()
    with pytest.raises(TilewrightError, match="closed"):
        store.find("t", "llvm")


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


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    """SQLite's own limit on a file stands for the disk."""
    with Store(tmp_path / "s.db") as store:
        store.add("t", "llvm", "a", Measurement((1.0,)))
        store._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(TilewrightError, match="no space left for"):
            store.add("t", "llvm", "b" * 100000, Measurement((1.0,)))
        assert [c for c, _ in store.find("t", "llvm")] == ["a"]


def test_a_line_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match="cannot write /dev/full"):
        append_line("/dev/full", "{}")


def test_reading_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match="cannot use"):
        Store(tmp_path / "s.db", create=False)
    assert os.listdir(tmp_path) == []


def test_all_measurements_are_read_in_order(tmp_path: Path) -> None:
    results = [Measurement((float(n + 1),), timestamp=1.0) for n in range(5)]
    with Store(tmp_path / "s.db") as store:
        for n, result in enumerate(results):
            store.add(f"t{n % 2}", "llvm", str(n), result)
    with Store(tmp_path / "s.db", create=False) as store:
        rows = [(n + 1, f"t{n % 2}", "llvm", str(n), results[n]) for n in range(5)]
        assert list(store.read()) == rows
        assert [c for _, _, _, c, _ in store.read("t1")] == ["1", "3"]


def test_damaged_text_costs_its_row_or_names_the_store(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        for n in range(3):
            store.add(f"task{n}", "llvm", f"candidate{n}", Measurement((float(n + 1),)))
    data = path.read_bytes()
    assert data.count(b"candidate1") == 1 and data.count(b"CREATE TABLE measurement")
    path.write_bytes(data.replace(b"candidate1", b"\xff\xfe\xfd" + b"idate1x"))
    with Store(path) as store:
        assert [row[3] for row in store.read()][::2] == ["candidate0", "candidate2"]
    path.write_bytes(data.replace(b"CREATE TABLE measurement", b"\xff\xfeEATE TABLE measurement"))
    with pytest.raises(TilewrightError, match="as a store"), Store(path) as store:
        list(store.read())
