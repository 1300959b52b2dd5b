"""`tilewright records`: what it shows, what it writes, what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tilewright.auto_scheduler.lines import Record, encode
from tilewright.auto_scheduler.record_file import Writer, read_records
from tilewright.cli.main import main

MATMUL, CONV = json.dumps(["matmul", 128, 64]), json.dumps(["conv2d", 1, 14])


def record(cost: float, key: str = MATMUL, when: float = 1.0, error: int = 0) -> Record:
    head: tuple[Any, ...] = (key, "llvm", [2, 64, 64, 0, 0, 0, 0, 0], "", 0, [])
    costs = (1e10,) if error else (cost, cost * 1.1, cost)
    message = "signal SIGSEGV\nand more" if error else ""
    return Record(head, (("SP", 2, 0, 64, (4, 2), 1), ("AN", 2, 0, 3)), costs, error, 0.5, when,
                  "v0.6", message)  # fmt: skip


def call(*args: Any) -> Result:
    return CliRunner().invoke(main, ["records", *map(str, args)])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with Writer(path) as writer:
        for r in (record(2e-3), record(1e-3, when=5.0), record(0, error=4), record(3e-3, CONV)):
            writer.add(r)
    return path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "b.json"
    path.write_text(encode(record(5e-4, when=2.0)) + "\n" + encode(record(2e-3)) + "\n")
    return path


def test_show_sums_up_each_task(store: Path, lines: Path) -> None:
    shown = call("show", store, lines, "--json")
    assert shown.exit_code == 0
    matmul, conv = json.loads(shown.stdout)["tasks"]
    assert matmul["workload_key"] == MATMUL and conv["measurements"] == 1
    assert matmul["measurements"] == 5 and matmul["errors"] == {"RUNTIME_DEVICE": 1}
    # of 2, 1, 0.5 and 2 ms of the same steps the median but for the first
    assert matmul["best_s"] == 1e-3 and matmul["noise"] == pytest.approx(0.1)
    text = call("show", store).stdout
    assert "RUNTIME_DEVICE" in text and "signal SIGSEGV" in text and "and more" not in text


def test_show_takes_some_of_the_workloads(store: Path) -> None:
    (only,) = json.loads(call("show", store, "--workload", "conv", "--json").stdout)["tasks"]
    assert only["workload_key"] == CONV
    assert call("show", store, "--workload", "nothing").stdout == "no records\n"
    assert call("best", store, "--workload", "nothing").stdout == "no records\n"


def test_best_shows_the_steps(store: Path) -> None:
    found = json.loads(call("best", store, "--json").stdout)["best"]
    assert [r["best_s"] for r in found] == [1e-3, 3e-3]
    assert found[0]["steps"] == [["SP", 2, 0, 64, [4, 2], 1], ["AN", 2, 0, 3]]
    text = call("best", store).stdout
    assert "1 ms (noise 10.0%)" in text and "SP 2 0 64 [4, 2] 1" in text


def test_export_and_import_keep_the_lines(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert call("export", store, "-o", out).exit_code == 0
    assert call("export", store).stdout == out.read_text()
    again = tmp_path / "again.db"
    assert "4 records" in call("import", out, "-o", again).stdout
    assert "0 records" in call("import", out, "-o", again).stdout
    assert [encode(r) for r in read_records(again)] == out.read_text().splitlines()


def test_merge_has_each_record_once_in_the_order_of_time(
    store: Path, lines: Path, tmp_path: Path
) -> None:
    for name in ("m.db", "m.json"):
        assert "5 records" in call("merge", store, lines, "-o", tmp_path / name).stdout
        found = list(read_records(tmp_path / name))
        assert [r.timestamp for r in found] == [1, 1, 1, 2, 5]


def test_distill_keeps_the_best_of_each_task(store: Path, lines: Path, tmp_path: Path) -> None:
    assert "2 records" in call("distill", store, lines, "-o", tmp_path / "d.db").stdout
    assert [r.costs[0] for r in read_records(tmp_path / "d.db")] == [1e-3, 3e-3]


def test_other_records_are_left_out_with_a_warning(lines: Path) -> None:
    with lines.open("a") as file:
        file.write('{"v": "v9.9"}\n{"tor')
    done = call("show", lines, "--json")
    assert json.loads(done.stdout)["tasks"][0]["measurements"] == 2
    assert "1 of version 'v9.9' (line 3)" in done.stderr
    assert "1 damaged record (line 4)" in done.stderr


def test_bad_calls_are_refused(store: Path, tmp_path: Path) -> None:
    assert call("show").exit_code == 2
    assert call("show", tmp_path / "nothing").exit_code == 2
    assert call("merge", store).exit_code == 2
    done = call("merge", store, "-o", store)
    assert done.exit_code == 2 and "is there already" in done.stderr
    assert len(list(read_records(store))) == 4
    done = call("distill", store, "-o", tmp_path / "no" / "such.db")
    assert done.exit_code == 2 and done.stderr.startswith("error: ")
    text = tmp_path / "text.db"
    text.write_text("nothing of the kind\n" * 100)
    done = call("show", text)
    assert done.exit_code == 2 and "cannot use" in done.stderr
    done = call("import", store, "-o", tmp_path / "x.json")
    assert done.exit_code == 2 and "give the name of a store" in done.stderr


@pytest.mark.parametrize("name", ["show", "best", "export", "import", "merge", "distill"])
def test_each_command_has_help(name: str) -> None:
    done = call(name, "--help")
    assert done.exit_code == 0 and "FILE..." in done.stdout
