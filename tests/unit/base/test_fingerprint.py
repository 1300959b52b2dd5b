"""The name of a version of the compiler: by what the sources say."""

import os

from tilewright.base.fingerprint import compiler_fingerprint, hash_sources


def test_contents_and_names_count_and_dates_do_not(tmp_path):
    (tmp_path / "inner").mkdir()
    file = tmp_path / "inner" / "a.py"
    file.write_text("x = 1\n")
    first = hash_sources(str(tmp_path))
    os.utime(file, (1, 1))
    (tmp_path / "notes.txt").write_text("no source")
    assert hash_sources(str(tmp_path)) == first
    stat = file.stat()
    file.write_text("x = 2\n")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    second = hash_sources(str(tmp_path))
    assert second != first
    file.rename(tmp_path / "inner" / "b.py")
    assert hash_sources(str(tmp_path)) not in (first, second)


def test_it_is_the_same_each_time():
    assert compiler_fingerprint() == compiler_fingerprint.__wrapped__()
