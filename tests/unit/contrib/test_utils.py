"""Temporary folders under TVM's name."""

import gc
import os
from pathlib import Path

from tilewright.contrib import utils


def test_a_temporary_folder_goes_with_its_object():
    folder = utils.tempdir()
    path = folder.path
    assert folder.temp_dir == path and os.path.isdir(path)
    Path(folder.relpath("a.txt")).write_text("a")
    Path(folder / "b.txt").write_text("b")
    assert sorted(folder.listdir()) == ["a.txt", "b.txt"]
    folder.remove()
    folder.remove()
    assert not os.path.exists(path)


def test_a_forgotten_folder_is_removed():
    path = utils.tempdir().path
    gc.collect()
    assert not os.path.exists(path)


def test_a_folder_for_a_block():
    with utils.tempdir() as folder:
        Path(folder / "x").touch()
        path = folder.path
    assert not os.path.exists(path)


def test_a_folder_of_the_caller_is_kept(tmp_path: Path):
    with utils.tempdir(tmp_path / "mine") as folder:
        Path(folder / "x").touch()
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["x"]
