"""`tvm.contrib.download`: files of the web, kept in a folder.

The only module that opens a connection, and only when called.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from ..base.errors import TilewrightError
from ..rt.files import write_atomically

DEFAULT_TIMEOUT = 60


def download(
    url: str,
    path: str | os.PathLike[str],
    overwrite: bool = False,
    size_compare: bool = False,
    retries: int = 3,
) -> None:
    """Fetch `url` into the file `path`, unless it is there (or `overwrite` says to do so anyway).

    size_compare: fetch again where the file's size differs from what the server says.
    TilewrightError after `retries` trials that failed; no half-written file is left.
    """
    if retries < 1:
        raise TilewrightError(f"download needs at least one try, got retries={retries}")
    target = Path(path)
    is_there = target.is_file() and not overwrite
    if is_there and (not size_compare or _size_of(url) in (None, target.stat().st_size)):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    problem: Exception | None = None
    for _ in range(retries):
        try:
            with urlopen(url, timeout=DEFAULT_TIMEOUT) as answer:
                write_atomically(os.fspath(target), answer.read())
            return
        except (URLError, OSError, ValueError) as error:
            problem = error
            if isinstance(error, ValueError):
                break
    raise TilewrightError(
        f"cannot download {url}: {problem}; fetch it by other means and put it at {target}"
    )


def _size_of(url: str) -> int | None:
    try:
        with urlopen(url, timeout=DEFAULT_TIMEOUT) as answer:
            said = answer.headers.get("Content-Length")
    except (URLError, OSError, ValueError):
        return None
    return int(said) if said else None


def download_testdata(
    url: str, relpath: str, module: str | list[str] | None = None, overwrite: bool = False
) -> str:
    """Fetch `url` into $TEST_DATA_ROOT_PATH (or ~/.tvm_test_data), below `module`, under the name
    `relpath`; the file's path. Raises TilewrightError where the file cannot be had."""
    folder = Path(os.environ.get("TEST_DATA_ROOT_PATH") or Path.home() / ".tvm_test_data")
    below = [module] if isinstance(module, str) else list(module or [])
    place = folder.joinpath(*below, relpath)
    download(url, place, overwrite=overwrite, size_compare=False)
    return str(place)
