"""Records: every step comes back, TVM's lines too; what cannot be read is named and left out."""

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.narrow import some
from tilewright.auto_scheduler.lines import Record, decode, encode, version_of
from tilewright.auto_scheduler.measure import MeasureInput, MeasureResult
from tilewright.auto_scheduler.record_file import Writer, read_records
from tilewright.auto_scheduler.records import (
    RecordedState,
    RecordedTask,
    RecordReader,
    RecordToFile,
    as_pair,
    as_record,
    distill_record_file,
    dump_record_to_string,
    load_best_record,
    load_record_from_string,
    load_records,
    save_records,
    workload_distance,
)
from tilewright.base.errors import TilewrightError
from tilewright.target.target import Target

# the form in which TVM 0.8 and later write a line
STEPS = [
    ["CHW", 3, "local"], ["SP", 3, 0, 128, [4, 1, 8], 1], ["SP", 3, 4, None, [2, None], 0],
    ["RE", 3, [0, 4, 1, 5]], ["FSP", 6, 0, 1, 2], ["FFSP", 6, 1, [1, 2], 0, 1], ["FU", 6, [0, 1]],
    ["AN", 6, 0, 3], ["PR", 3, 0, "auto_unroll_max_step$64"], ["SA", 3, 1, 16, 1],
    ["CA", 3, 6, 1], ["CI", 4], ["CR", 5], ["CHR", 0, "shared", [3, 4]], ["RF", 3, 2, 1],
]  # fmt: skip
KEY = json.dumps(["matmul_add", 128, 128, 128, "float32"])
TASK = [KEY, "llvm -keys=cpu -link-params=0 -mcpu=core-avx2", [8, 64, 64, 0, 0, 0, 0, 0], "", 1, []]
LINE = {
    "i": [TASK, [[], STEPS]],
    "r": [[0.000123, 0.000125], 0, 0.75, 1600000000],
    "v": "v0.6",
}
OLD_LINE = {  # as in logs of 2020
    "i": [['["0f3d5a"]', "llvm"], [[], [["SP", 2, 0, 64, [4], 1]]]],
    "r": [[0.5], 0, 1.5, 1600000001],
    "v": "v0.3",
}
PACKED = Record(
    (KEY, "llvm", [2, 64, 64, 0, 0, 0, 0, 0], "", 0, []),
    (("PK", 0, 2), ("AN", 2, 0, 3)),
    (1e10,),
    4,
    0.5,
    1.25,
    "tw1",
    "died with SIGSEGV: läuft nicht",
)


def record(cost: float, key: str = KEY, target: str = "llvm", error: int = 0) -> Record:
    return Record((key, target, [2, 64, 64, 0, 0, 0, 0, 0], "", 0, []),
                  (("AN", 2, 0, 3),), (1e10,) if error else (cost,), error, 0.5, 2.0)  # fmt: skip


def line(**changes: Any) -> str:
    return json.dumps({**LINE, **changes})


@pytest.mark.parametrize("data", [LINE, OLD_LINE, {**LINE, "r": [[1e10], 6, 15, 7.5]}])
def test_lines_survive_a_round_trip(data: dict[str, Any]) -> None:
    assert encode(decode(json.dumps(data))) == json.dumps(data)
    pair = load_record_from_string(json.dumps(data))
    again = json.loads(dump_record_to_string(*pair))
    assert again["i"] == data["i"]
    assert again["r"] == data["r"]


@pytest.mark.parametrize("name", ["r.json", "r.db"])
@pytest.mark.parametrize("data", [LINE, OLD_LINE])
def test_lines_survive_a_file_of_either_kind(
    tmp_path: Path, name: str, data: dict[str, Any]
) -> None:
    with Writer(tmp_path / name) as writer:
        writer.add(decode(json.dumps(data)))
    (found,) = read_records(tmp_path / name)
    assert encode(found) == json.dumps(data)


def test_our_own_steps_make_a_version_of_their_own(tmp_path: Path) -> None:
    assert version_of(PACKED.rows) == "tw1" and version_of(record(1.0).rows) == "v0.6"
    assert decode(encode(PACKED)) == PACKED
    with Writer(tmp_path / "r.db") as writer:
        writer.add(PACKED)
    assert list(read_records(tmp_path / "r.db")) == [PACKED]


def test_a_record_says_what_was_measured() -> None:
    item, result = load_record_from_string(json.dumps(LINE))
    assert item.task.workload_key == KEY
    assert item.task.target.kind.name == "llvm" and item.task.target.mcpu == "core-avx2"
    assert item.task.hardware_params.num_cores == 8
    assert item.task.layout_rewrite_option == 1
    assert item.state.rows[1] == ("SP", 3, 0, 128, (4, 1, 8), 1)
    assert result.costs == (0.000123, 0.000125) and result.cost == pytest.approx(0.000124)
    old, _ = load_record_from_string(json.dumps(OLD_LINE))
    assert old.task.hardware_params is None and old.task.layout_rewrite_option == 0


def test_a_failed_record_has_no_cost() -> None:
    item, result = load_record_from_string(line(r=[[1e10], 4, 1.0, 2.0]))
    assert result.costs == () and result.cost == float("inf") and not result.ok
    assert json.loads(dump_record_to_string(item, result))["r"] == [[1e10], 4, 1.0, 2.0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no record"),
        ("[]", "no version"),
        ("7", "no version"),
        ("{}", "no version"),
        (line(v="v9.9"), "version 'v9.9'"),
        (line(r=[[], 0, 1, 1]), "no costs"),
        (line(r=[["fast"], 0, 1, 1]), "no number"),
        (line(r=[[float("nan")], 0, 1, 1]), "no number"),
        (line(r=[[1.0], 9, 1, 1]), "error 9"),
        (line(r=[[1.0], 0, 1]), "no record of a measurement"),
        (line(i=[TASK, [[], [["XX", 1]]]]), "no step"),
        (line(i=[TASK, [[], [["SP", 1, 2, 3]]]]), "other parts"),
        (line(i=[TASK, [[], [["SP", 1, 2, 3, ["x"], 1]]]]), "other parts"),
        (line(i=[TASK, [[], [["AN", 1.5, 0, 3]]]]), "other parts"),
        (line(i=[[KEY], [[], []]]), "2 to 6 fields"),
        (line(i=[[KEY, "llvm", "many"], [[], []]]), "has to"),
        ('{"input": [], "config": {}, "version": 0.2}', "autotvm"),
    ],
)
def test_what_is_no_record_is_refused(text: str, why: str) -> None:
    with pytest.raises(TilewrightError, match=why):
        load_record_from_string(text)


def test_what_cannot_be_read_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    good = encode(record(0.5))
    foreign = encode(record(0.5, target="abacus -beads=7"))
    lines = [good, line(v="v9.9"), line(v="v9.9"), '{"i": 7, "v": "v0.6"}', foreign, good]
    path.write_text("\n".join(lines) + "\n# a remark\n\n")
    with pytest.warns(UserWarning, match="left out 4 records") as caught:
        assert len(list(load_records(path))) == 2
    text = str(caught[0].message)
    assert "2 of version 'v9.9' (line 2, 3)" in text and "1 that are none (line 4)" in text
    assert "target that is not known, 'abacus -beads=7'" in text


def test_half_a_line_is_left_out_and_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(encode(record(0.5)) + "\n" + encode(record(0.5))[:40])
    with Writer(path) as writer:
        writer.add(record(0.25))
    with pytest.warns(UserWarning, match="1 damaged record"):
        assert [r.costs for r in read_records(path)] == [(0.5,), (0.25,)]


def test_files_that_are_no_records(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match="no file"):
        list(load_records(tmp_path / "nowhere.db"))
    assert not (tmp_path / "nowhere.db").exists()
    (tmp_path / "x.db").write_bytes(b"nonsense " * 500)
    with pytest.raises(TilewrightError, match="cannot use"):
        list(load_records(tmp_path / "x.db"))
    with pytest.raises(TilewrightError, match="no directory"):
        RecordToFile(tmp_path / "a" / "b.db")


def test_lines_in_a_file_of_any_name_are_continued_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "tuning.log"
    path.write_text(encode(record(0.5)) + "\n")
    save_records(path, *zip(*[as_pair(record(0.25))]))
    assert [r.cost for _, r in load_records(path)] == [0.5, 0.25]
    assert path.read_text().count("\n") == 2


@pytest.mark.parametrize("name", ["r.json", "r.db"])
def test_the_best_record_is_found(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    other = json.dumps(["matmul_add", 64, 128, 128, "float32"])
    with Writer(path) as writer:
        for r in (record(0.5), record(0.3), record(0.4), record(0.01, error=4),
                  record(0.1, key=other), record(0.2, target="cuda"),
                  record(0.25, target="llvm -mcpu=core-avx2")):  # fmt: skip
            writer.add(r)
    assert some(load_best_record(path, KEY, "cuda")[1]).cost == 0.2
    given, result = load_best_record(path, KEY, Target("llvm"))
    assert some(result).cost == 0.25 and some(given).task.workload_key == KEY
    assert some(load_best_record(path)[1]).cost == 0.1
    assert load_best_record(path, '["no"]', "llvm") == (None, None)
    assert load_best_record(path, KEY, "opencl") == (None, None)
    near, result = load_best_record(path, KEY, "llvm", include_compatible=True)
    assert some(near).task.workload_key == other and some(result).cost == 0.1
    assert distill_record_file(path, tmp_path / "best.json") == 4
    # the first three are of the same steps: the median of the second and the third counts
    assert sorted(r.cost for _, r in load_records(tmp_path / "best.json")) == [0.1, 0.2, 0.25, 0.3]


def test_workloads_that_divide_are_compatible() -> None:
    def key(*args: Any) -> str:
        return json.dumps(args)

    assert workload_distance(key("f", 8, [4, 6]), key("f", 4, [4, 2])) == 6.0
    assert workload_distance(key("f", 8), key("f", 8)) == 1.0
    for other in (key("g", 8), key("f", 16), key("f", 3), key("f", 0), key("f", 8, 8), "nonsense"):
        assert workload_distance(key("f", 8), other) == float("inf")


def test_reading_some_of_the_records(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("".join(encode(record(float(n))) + "\n" for n in range(1, 6)))
    inputs, results = RecordReader(path).read_lines(max_lines=2, skip_lines=1)
    assert [r.cost for r in results] == [2.0, 3.0] and len(inputs) == 2
    assert len(RecordReader(path).read_lines()[1]) == 5
    assert len(list(RecordReader(path))) == 5
    path.write_text(json.dumps(OLD_LINE) + "\n")
    with pytest.warns(UserWarning, match="old format"):
        RecordReader(path).read_lines()


class Hardware:
    num_cores = 2
    vector_unit_bytes = cache_line_bytes = 64
    max_shared_memory_per_block = max_local_memory_per_block = 0
    max_threads_per_block = max_vthread_extent = warp_size = 0


class Task:
    workload_key = KEY
    target = Target("cuda -arch=sm_80", "llvm")
    hardware_params = Hardware()
    layout_rewrite_option = 2
    task_input_names = ()


def test_a_live_task_is_written_in_full() -> None:
    item = MeasureInput(Task(), RecordedState((("AN", 2, 0, 3),)))
    found = as_record(item, MeasureResult((0.5,), 0, "", 1.0, 2.0))
    assert found.task == (KEY, "cuda -arch=sm_80", [2, 64, 64, 0, 0, 0, 0, 0], "llvm", 2, [])
    task = RecordedTask(found.task)
    assert task.target == Task.target and task.target.host == Target("llvm")
    assert task.layout_rewrite_option == 2


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_records import record
from tilewright.auto_scheduler.record_file import Writer
with Writer(sys.argv[1]) as writer:
    for n in range(int(sys.argv[3]), int(sys.argv[3]) + 40):
        writer.add(record(float(n)))
"""


@pytest.mark.parametrize("name", ["r.json", "r.db"])
def test_several_processes_write_one_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", WRITER, str(path), here]
    writers = [subprocess.Popen([*command, str(1 + 100 * n)]) for n in range(3)]
    assert [w.wait(120) for w in writers] == [0, 0, 0]
    found = [r.cost for _, r in load_records(path)]
    assert sorted(found) == [float(1 + 100 * n + k) for n in range(3) for k in range(40)]
    for n in range(3):
        own = [c for c in found if c // 100 == n]
        assert own == sorted(own)


FULL = """
import resource, signal, sys
sys.path.insert(0, sys.argv[2])
from test_records import record
from tilewright.auto_scheduler.record_file import Writer
from tilewright.base.errors import TilewrightError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv[3])
writer = Writer(sys.argv[1])
writer.add(record(1.0))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
n = 1
try:
    while n < 10000:
        writer.add(record(n + 1.0))
        n += 1
except TilewrightError as error:
    print(n, error)
"""


@pytest.mark.parametrize(("name", "limit"), [("r.json", 5000), ("r.db", 150000)])
def test_a_full_disk_keeps_what_was_kept(tmp_path: Path, name: str, limit: int) -> None:
    """A limit on the size of files stands for the disk: a write stops in the middle of a record."""
    path = tmp_path / name
    command = [sys.executable, "-c", FULL, str(path), str(Path(__file__).parent), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    count, _, message = done.stdout.partition(" ")
    assert name in message and int(count) > 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [r.cost for _, r in load_records(path)] == [n + 1.0 for n in range(int(count))]


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from test_records import record
from tilewright.auto_scheduler.record_file import Writer
writer = Writer(sys.argv[1])
for n in range(10000):
    writer.add(record(n + 1.0))
    os.write(1, b"%d\\n" % n)
"""


@pytest.mark.parametrize("name", ["r.json", "r.db"])
def test_a_killed_search_has_kept_what_it_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    command = [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent)]
    search = subprocess.Popen(command, stdout=subprocess.PIPE)
    with search:
        assert search.stdout is not None
        for wanted in range(25):
            assert int(search.stdout.readline()) == wanted
        os.kill(search.pid, signal.SIGKILL)
        reported = 25 + len(search.stdout.read().splitlines())
    costs = [r.cost for _, r in load_records(path)]
    assert costs[:reported] == [n + 1.0 for n in range(reported)]
    assert len(costs) <= reported + 1


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A store in a folder that cannot be written."""
    folder = tmp_path / "locked"
    folder.mkdir()
    with Writer(folder / "r.db") as writer:
        writer.add(record(0.5))
    folder.chmod(0o500)
    yield folder / "r.db"
    folder.chmod(0o700)


def test_a_store_is_read_where_nothing_can_be_written(locked: Path) -> None:
    assert [r.cost for _, r in load_records(locked)] == [0.5]
