"""The compile cache: bytes by key, on disk, shared by all processes of a user.

An entry is one file, named by the SHA-256 of its key: a magic word, the checksum and length of key
and value, then both. Entries appear at once or not at all, so readers need no lock; one that was
cut short or changed is removed, counts as a miss, and is reported to the log. Above the size limit
the entries that were used least recently go.

Entries are run as machine code. So they are read and written only where nobody but the user can
have put them: folders and files are the user's own, and nobody else may write them. Ours are made
with modes 0700 and 0600; a folder that others may write stays unused, with one warning.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat as modes
import struct
import time
import warnings
from contextlib import suppress
from pathlib import Path

from ..base import config
from ..base.errors import TilewrightError
from .files import write_atomically

logger = logging.getLogger("tilewright.cache")

_MAGIC = b"TWCACHE1"
_HEAD = struct.Struct("<8s32sQQ")
_PRUNED_TO = 0.8
_STALE_SECONDS = 3600.0
_written: dict[Path, int] = {}
_refused: set[Path] = set()
_unwritable: set[Path] = set()


def is_on() -> bool:
    """Whether the cache is to be used (TILEWRIGHT_CACHE)."""
    return bool(config.get("cache"))


def get(key: str) -> bytes | None:
    """What was put under the key; None where there is nothing, or the cache is off."""
    if not is_on():
        return None
    path = _path(key)
    data = _read(path)
    if data is None:
        return None
    value = _unpack(data, key.encode())
    if value is None:
        logger.warning("cache entry %s is damaged (%d bytes): removed", path, len(data))
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        os.utime(path)
    return value


def put(key: str, value: bytes) -> None:
    """Keep bytes under a key. A disk that is full or read-only is logged once, and otherwise
    ignored."""
    if not is_on():
        return
    path = _path(key)
    name = key.encode()
    body = name + value
    head = _HEAD.pack(_MAGIC, hashlib.sha256(body).digest(), len(name), len(value))
    try:
        path.parent.parent.mkdir(0o700, parents=True, exist_ok=True)
        if not _is_trusted(path.parent.parent):
            return
        path.parent.mkdir(0o700, exist_ok=True)
        if not _is_trusted(path.parent):
            return
        write_atomically(path, head + body, 0o600)
    except (OSError, TilewrightError) as error:
        _not_written(path.parent.parent, error)
        return
    _prune_sometimes(path.parent.parent, len(head) + len(body))


def _not_written(folder: Path, error: Exception) -> None:
    """Say once what that means; the rest is for those who look for it."""
    if folder in _unwritable:
        logger.debug("cannot write an entry of the compile cache %s: %s", folder, error)
        return
    _unwritable.add(folder)
    why = error.strerror if isinstance(error, OSError) and error.strerror else error
    logger.warning(
        "the compile cache %s cannot be written (%s): results are right, but what is compiled is "
        "not kept. TILEWRIGHT_CACHE_DIR chooses another folder, TILEWRIGHT_CACHE=0 none",
        folder, why,
    )  # fmt: skip


def clear() -> None:
    """Remove every entry."""
    for path, _ in _entries(config.cache_dir()):
        with suppress(OSError):
            path.unlink()


def prune(limit_bytes: int) -> None:
    """Remove the least recently used entries until those left take at most `limit_bytes`."""
    _prune(config.cache_dir(), limit_bytes, limit_bytes)


def size_bytes() -> int:
    """Bytes that all entries take."""
    return sum(stat.st_size for _, stat in _entries(config.cache_dir()))


def _path(key: str) -> Path:
    digest = hashlib.sha256(key.encode()).hexdigest()
    return config.cache_dir() / digest[:2] / f"{digest[2:]}.twc"


def _read(path: Path) -> bytes | None:
    """What is in an entry's file; None where there is none that can be trusted."""
    try:
        with open(path, "rb", buffering=0) as file:
            trusted = _is_own(os.fstat(file.fileno()), path)
            if trusted and _is_trusted(path.parent.parent) and _is_trusted(path.parent):
                return file.read()
    except OSError:
        pass
    return None


def _is_trusted(folder: Path) -> bool:
    return _is_own(folder.stat(), folder)


def _is_own(stat: os.stat_result, path: Path) -> bool:
    """Whether the user owns a file or folder, and nobody else may write it; warns where not.

    Windows says neither in what `stat` gives; a user's own folder is closed to others there.
    """
    if not hasattr(os, "geteuid"):
        return True
    if stat.st_uid == os.geteuid() and not stat.st_mode & (modes.S_IWGRP | modes.S_IWOTH):
        return True
    folder = config.cache_dir()
    if folder not in _refused:
        _refused.add(folder)
        whose = "another user owns" if stat.st_uid != os.geteuid() else "other users may write"
        warnings.warn(
            f"the compile cache {folder} is not used, since {whose} {path}: make it your own "
            "(chown) and nobody else's to write (chmod -R go-w), or choose another folder with "
            "TILEWRIGHT_CACHE_DIR",
            RuntimeWarning,
            stacklevel=4,
        )
    return False


def _unpack(data: bytes, name: bytes) -> bytes | None:
    if len(data) < _HEAD.size:
        return None
    magic, digest, name_size, value_size = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if magic != _MAGIC or len(body) != name_size + value_size:
        return None
    if hashlib.sha256(body).digest() != digest or body[:name_size] != name:
        return None
    return body[name_size:]


def _entries(folder: Path) -> list[tuple[Path, os.stat_result]]:
    found = []
    for path in folder.glob("[0-9a-f][0-9a-f]/*.twc"):
        with suppress(OSError):
            found.append((path, path.stat()))
    return found


def _drop_leftovers(folder: Path) -> None:
    """Remove what processes that died while writing have left."""
    for path in folder.glob("[0-9a-f][0-9a-f]/.*.twc.*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()


def _prune_sometimes(folder: Path, added: int) -> None:
    """Look at the whole cache once a process has added a sixteenth of the limit, not each time."""
    limit = int(config.get("cache_limit_mb")) << 20
    if folder not in _written:
        _written[folder] = limit  # look at the first write of a process
    _written[folder] += added
    if _written[folder] * 16 >= limit:
        _written[folder] = 0
        _prune(folder, limit, int(limit * _PRUNED_TO))


def _prune(folder: Path, limit: int, goal: int) -> None:
    _drop_leftovers(folder)
    entries = _entries(folder)
    total = sum(stat.st_size for _, stat in entries)
    if total <= limit:
        return
    entries.sort(key=lambda entry: entry[1].st_mtime_ns)
    for path, stat in entries:
        if total <= goal:
            return
        with suppress(OSError):
            path.unlink()
        total -= stat.st_size
