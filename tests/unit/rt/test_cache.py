"""The compile cache on disk."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time

import pytest

from tilewright.base import config
from tilewright.rt import cache
from tilewright.rt.files import replacing, write_atomically


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with config.scoped(cache_dir=tmp_path / "cache", cache=True):
        cache._written.clear()
        yield tmp_path / "cache"


def entries(folder):
    return sorted(folder.glob("*/*.twc"))


def test_what_was_put_comes_back():
    assert cache.get("k") is None
    cache.put("k", b"value")
    cache.put("other", b"")
    assert (cache.get("k"), cache.get("other")) == (b"value", b"")
    cache.put("k", b"new")
    assert cache.get("k") == b"new"
    cache.clear()
    assert cache.get("k") is None


def test_off_means_off(folder):
    with config.scoped(cache=False):
        cache.put("k", b"value")
        assert not cache.is_on()
        assert cache.get("k") is None
    assert not folder.exists()


@pytest.mark.parametrize("where", ["cut", "empty", "head", "body", "key"])
def test_a_damaged_entry_is_a_miss_and_goes(folder, caplog, where):
    cache.put("k", b"value" * 100)
    (path,) = entries(folder)
    data = bytearray(path.read_bytes())
    if where == "cut":
        data = data[: len(data) // 2]
    elif where == "empty":
        data = bytearray()
    else:
        data[{"head": 3, "body": -1, "key": 56}[where]] ^= 1
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING, "tilewright.cache"):
        assert cache.get("k") is None
    assert "is damaged" in caplog.text
    assert not path.exists()
    cache.put("k", b"again")
    assert cache.get("k") == b"again"


def test_the_least_recently_used_entries_go_first(folder):
    for i in range(6):
        cache.put(f"k{i}", bytes(1000))
        (path,) = set(entries(folder)) - {cache._path(f"k{j}") for j in range(i)}
        os.utime(path, ns=(0, i * 10**9))
    cache.get("k0")
    size = cache.size_bytes() // 6
    cache.prune(3 * size)
    assert [i for i in range(6) if cache.get(f"k{i}") is not None] == [0, 4, 5]


def test_writing_prunes_when_the_limit_is_passed(folder):
    with config.scoped(cache_limit_mb=1):
        for i in range(30):
            cache.put(f"k{i}", bytes(100_000))
            assert cache.size_bytes() <= (1 << 20) + 200_000
        assert cache.get("k29") is not None


def test_leftovers_of_dead_writers_go(folder):
    cache.put("k", b"value")
    (path,) = entries(folder)
    old, fresh = (path.parent / f".{path.name}.{x}" for x in ("old", "fresh"))
    for leftover in (old, fresh):
        leftover.write_bytes(b"half")
    os.utime(old, (0, 0))
    cache.prune(1 << 20)
    assert (old.exists(), fresh.exists(), cache.get("k")) == (False, True, b"value")


def test_a_folder_that_cannot_be_written_is_reported_and_ignored(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with config.scoped(cache_dir=tmp_path / "file"), caplog.at_level(logging.WARNING):
        for k in range(3):
            cache.put(f"k{k}", b"value")
            assert cache.get(f"k{k}") is None
    (record,) = caplog.records
    assert "results are right" in record.message and "TILEWRIGHT_CACHE=0" in record.message
    assert record.message.count(str(tmp_path)) == 1


def test_processes_share_it(folder):
    code = (
        "import sys\nfrom tilewright.rt import cache\n"
        "for i in range(200):\n"
        "    cache.put(f'k{i % 7}', bytes([i % 7]) * 5000)\n"
        "    got = cache.get(f'k{i % 5}')\n"
        "    assert got is None or got == bytes([i % 5]) * 5000\n"
    )
    env = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(folder), "TILEWRIGHT_CACHE": "1"}
    workers = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for worker in workers:
        _, err = worker.communicate(timeout=60)
        assert (worker.returncode, err) == (0, b"")
    assert [cache.get(f"k{i}") for i in range(7)] == [bytes([i]) * 5000 for i in range(7)]


def test_use_makes_an_entry_young(folder):
    cache.put("k", b"v")
    (path,) = entries(folder)
    os.utime(path, (0, 0))
    cache.get("k")
    assert time.time() - path.stat().st_mtime < 1000


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "f"
    write_atomically(path, b"old")
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_bytes(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("what", ["folder", "inner", "file"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_is_not_used(folder, what, mode):
    cache._refused.clear()
    cache.put("k", b"value")
    (path,) = entries(folder)
    place = {"folder": folder, "inner": path.parent, "file": path}[what]
    place.chmod(place.stat().st_mode | mode)
    with pytest.warns(RuntimeWarning, match=r"is not used, since other users may write .*chmod"):
        assert cache.get("k") is None
    assert cache.get("k") is None  # said once
    cache.put("other", b"value")
    place.chmod(place.stat().st_mode & ~mode)
    assert cache.get("k") == b"value"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["folder", "inner", "file"])
def test_what_another_user_owns_is_not_used(folder, what):
    cache._refused.clear()
    cache.put("k", b"value")
    (path,) = entries(folder)
    os.chown({"folder": folder, "inner": path.parent, "file": path}[what], 54321, 54321)
    with pytest.warns(RuntimeWarning, match=r"another user owns .*TILEWRIGHT_CACHE_DIR"):
        assert cache.get("k") is None


def test_entries_are_the_users_alone_whatever_the_umask(folder):
    before = os.umask(0)
    try:
        cache.put("k", b"value")
    finally:
        os.umask(before)
    (path,) = entries(folder)
    assert [p.stat().st_mode & 0o777 for p in (folder, path.parent, path)] == [0o700, 0o700, 0o600]
    assert cache.get("k") == b"value"
