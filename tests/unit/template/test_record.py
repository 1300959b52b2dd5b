"""Records: what is written is read, TVM's too; damaged lines are left out and named."""

import json
from pathlib import Path

import pytest

from tests.narrow import some
from tilewright import autotvm
from tilewright.autotvm.measure import MeasureErrorNo
from tilewright.autotvm.record import decode, encode, load_from_file, pick_best
from tilewright.base.errors import TilewrightError
from tilewright.target.target import Target
from tilewright.template.record import RecordedTask

# a line as TVM 0.8 writes it
TVM_LINE = (
    '{"input": ["llvm -keys=cpu -link-params=0", "tutorial/matmul", [512, 512, 512, "float32"], {}]'
    ', "config": {"index": 35, "code_hash": null, "entity": [["tile_y", "sp", [-1, 32]], '
    '["tile_x", "sp", [-1, 8]]]}, "result": [[0.0123], 0, 0.99, 1600000000.0], "version": 0.2, '
    '"tvm_version": "0.8.0"}'
)


def record(cost: float, size: int = 4, error: int = 0, args: tuple[object, ...] = (8,)) -> str:
    config = autotvm.ConfigEntity.from_json_dict(
        {"index": size, "code_hash": None, "entity": [["x", "sp", [-1, size]]]}
    )
    task = RecordedTask("t", args, {})
    inp = autotvm.MeasureInput(Target("llvm"), task, config)
    costs = (ValueError("bad"),) if error else (cost,)
    return encode(inp, autotvm.MeasureResult(costs, error, 1.0, 2.0))


def test_a_record_of_tvm_is_read() -> None:
    inp, result = some(decode(TVM_LINE))
    assert inp.task.workload == ("tutorial/matmul", 512, 512, 512, "float32")
    assert inp.config["tile_y"].size == [-1, 32] and inp.config.index == 35
    assert result == ((0.0123,), 0, 0.99, 1600000000.0)
    assert inp.target.kind.name == "llvm"


def test_records_come_back() -> None:
    inp, result = some(decode(record(0.5, args=(("TENSOR", (1, 2), "float32"), None, "x", 1.5))))
    assert inp.task.workload == ("t", ("TENSOR", (1, 2), "float32"), None, "x", 1.5)
    assert result.costs == (0.5,)
    whole = autotvm.MeasureResult((1, 2.5), MeasureErrorNo.NO_ERROR, 1, 2.0)
    assert str(some(decode(encode(inp, whole)))[1]) == str(whole)
    assert json.loads(encode(inp, result)) == json.loads(encode(*some(decode(encode(inp, result)))))
    assert some(decode(record(0, error=4)))[1][:2] == ((1e9,), 4)


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        "7",
        TVM_LINE.replace("0.2,", "0.1,"),
        TVM_LINE.replace("[[0.0123]", '[["fast"]'),
        TVM_LINE.replace("[[0.0123]", "[[]"),
        TVM_LINE.replace("[-1, 8]", '[-1, "8x"]'),
        TVM_LINE.replace('"llvm -keys=cpu -link-params=0"', '"abacus"'),
        TVM_LINE.replace('"input"', '"output"'),
        TVM_LINE[:-20],
    ],
)
def test_what_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(TilewrightError):
        decode(line)


def test_damaged_lines_cost_themselves(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join([record(1.0), TVM_LINE[:50], '{"version": 0.2}', record(2.0)]))
    with pytest.warns(UserWarning, match="left out") as caught:
        found = [result.costs for _, result in load_from_file(path)]
    assert found == [(1.0,), (2.0,)]
    assert sorted(str(w.message).split("(")[1] for w in caught) == ["line 2)", "line 3)"]


def test_the_best_of_each_task_is_picked(tmp_path: Path) -> None:
    source, out = tmp_path / "all", tmp_path / "best"
    lines = [record(3.0), record(1.0, 2), record(0.0, 8, error=4), record(2.0, args=(9,))]
    source.write_text("\n".join(lines) + "\n")
    pick_best(source, out)
    best = {i.task.workload: (r.costs, i.config["x"].size) for i, r in load_from_file(out)}
    assert best == {("t", 8): ((1.0,), [-1, 2]), ("t", 9): ((2.0,), [-1, 4])}


def test_history_gives_the_fastest_and_asks_around(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join([record(3.0), record(1.0, 2), record(2.0, 8)]))
    history = autotvm.apply_history_best(str(path))
    target = Target("llvm -mcpu=x86-64-v3")
    assert history.query(target, ("t", 8))["x"].size == [-1, 2]
    unknown = history.query(target, ("t", 99))
    assert unknown.is_fallback
    mine = autotvm.ConfigEntity(0, None, {})
    history.update(target, ("t", 99), mine)
    assert history.query(target, ("t", 99)) is mine
    other = autotvm.ApplyHistoryBest([path, path])
    with other, autotvm.ApplyHistoryBest([]) as inner:
        assert inner.query(target, ("t", 8))["x"].size == [-1, 2]
    with pytest.raises(TilewrightError, match="with Target"):
        history.query(None, ("t", 8))


def test_the_task_of_a_record_reads_as_the_task_itself() -> None:
    inp, result = some(decode(record(1.0)))
    assert str(inp.task) == "Task(func_name=t, args=(8,), kwargs={}, workload=('t', 8))"
    again, _ = some(decode(encode(inp, result)))
    assert str(again.task) == str(inp.task)


def test_the_kind_of_an_error_survives_both_protocols() -> None:
    inp, _ = some(decode(record(1.0)))
    failed = autotvm.MeasureResult((1.0,), MeasureErrorNo.RUN_TIMEOUT, 2.0, 3.0)
    for protocol in ("json", "pickle"):
        _, result = some(decode(encode(inp, failed, protocol), protocol))
        assert result.error_no == MeasureErrorNo.RUN_TIMEOUT
