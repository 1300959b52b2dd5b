"""Temporary folders under TVM's name."""

import gc
import os
import tempfile
from pathlib import Path

import pytest

from tilewright.contrib import utils


def test_a_temporary_folder_goes_with_its_object():
    folder = utils.tempdir()
    path = folder.path
    assert folder.temp_dir == str(path) and path.is_dir()
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


def test_a_folder_at_a_place_is_new_and_removed(tmp_path: Path):
    with utils.tempdir(tmp_path / "mine") as folder:
        (folder / "x").touch()
    assert not (tmp_path / "mine").exists()
    with pytest.raises(FileExistsError):
        utils.tempdir(tmp_path)
    assert tmp_path.exists()


def test_folders_that_are_kept_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(utils.TempDirectory, "_kept_in", None)
    with utils.TempDirectory.set_keep_for_debug():
        first, second = utils.tempdir(), utils.tempdir()
    second.remove()
    assert int(second.path.name) == int(first.path.name) + 1 and second.path.is_dir()
    assert first.path.parent.parent == tmp_path / "tvm-debug-mode-tempdirs"


def test_all_are_removed_at_exit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(utils.TempDirectory, "TEMPDIRS", set())
    folder = utils.tempdir()
    utils.TempDirectory.remove_tempdirs()
    utils.TempDirectory.remove_tempdirs()
    assert not folder.path.exists()
    with pytest.raises(utils.DirectoryCreatedPastAtExit):
        utils.tempdir()
