"""A search that is killed loses no finished measurement and tears no record."""

from pathlib import Path

import pytest

from benchmarks.kill import report


@pytest.mark.parametrize("name", ["r.db", "r.json"])
def test_a_killed_search_resumes(tmp_path: Path, name: str) -> None:
    row = report(str(tmp_path / name), kills=2, longest=2.0, seed=1)
    assert row["ok"], row
    assert row["kept"] >= row["reported"] >= 2
