"""Pages of searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.auto_scheduler.lines import Record, encode
from tilewright.base.errors import TilewrightError
from tilewright.report.search import records_page


def ansor(costs: tuple[float, ...], tile: int, error: int = 0, key: str = "matmul") -> Record:
    rows = (("SP", 2, 0, 512, (tile, 4), 1), ("AN", 2, 3, 2), ("PR", 2, 0, "auto_unroll$16"))
    task = (json.dumps([key, 512]), "llvm")
    return Record(task, rows, costs if not error else (1e10,), error, 0.5, 100.0)


def autotvm(costs: list[float], tile: int, error: int = 0) -> dict[str, Any]:
    entity = [["tile_y", "sp", [-1, tile]], ["unroll", "ot", tile % 3]]
    return {
        "input": ["llvm", "mine/matmul", [512, 512], {}],
        "config": {"index": tile, "code_hash": None, "entity": entity},
        "result": [costs, error, 0.25, 1.0],
        "version": 0.2,
    }


def test_records_of_the_auto_scheduler(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    records = [ansor((2e-3, 2.2e-3, 1.8e-3), 8), ansor((), 16, error=7), ansor((1e-3,) * 3, 32)]
    records += [ansor((5e-3,), 4, key="other")]
    path.write_text("".join(encode(r) + "\n" for r in records))
    page = records_page(path)
    first, second = page.tuning
    assert first.task == '["matmul", 512]' and second.task == '["other", 512]'
    assert [t.seconds for t in first.trials] == [2e-3, None, 1e-3]
    assert [t.error for t in first.trials] == ["", "RUN_TIMEOUT", ""]
    assert abs(first.trials[0].noise - 0.1) < 1e-9 and first.trials[2].noise == 0
    (choice,) = first.choices
    assert choice.name == "split of stage 2, loop 0 (512)"
    assert list(choice.values) == [("32 x 4", 1, 1e-3), ("8 x 4", 1, 2e-3), ("16 x 4", 1, None)]
    assert first.best[0] == "SP 2 0 512 [32, 4] 1" and first.correlation is None
    assert "fewer than 20" in first.predictor
    assert ("failed", "1 (25%)") in page.facts and ("time spent", "2 s") in page.facts


def test_records_of_templates(tmp_path: Path) -> None:
    path = tmp_path / "tune.log"
    rows = [autotvm([1e-3 * (1 + (k - 8) ** 2)], k) for k in range(1, 30)]
    rows.append(autotvm([1e9], 40, error=4))
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    (found,) = records_page(path).tuning
    assert found.task == "mine/matmul(512, 512)" and len(found.trials) == 30
    assert found.trials[-1].error == "RUNTIME_DEVICE"
    assert found.best[:2] == ["tile_y = -1 x 8", "unroll = 2"]
    assert found.correlation is not None and found.correlation > 0.5
    assert "ridge regression" in found.predictor
    assert [c.name for c in found.choices] == ["tile_y", "unroll"]
    assert found.choices[0].values[0] == ("-1 x 8", 1, 1e-3)


def test_noise_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    quiet, noisy = ansor((1e-3, 1.01e-3), 8), ansor((1e-3, 1.5e-3), 8)
    path.write_text(encode(quiet) + "\n")
    assert records_page(path).tuning[0].warnings == []
    path.write_text(encode(noisy) + "\n")
    (warning,) = records_page(path).tuning[0].warnings
    assert "scatter by 28%" in warning


def test_files_without_records(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text("")
    with pytest.raises(TilewrightError, match="holds no records of measurements"):
        records_page(path)
    with pytest.raises(TilewrightError, match="there is no file"):
        records_page(tmp_path / "none.json")
