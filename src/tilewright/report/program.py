"""The page of a Python program: it runs in a process of its own, whose lowered functions are
watched."""

from __future__ import annotations

import os
import pickle
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from ..base.errors import TilewrightError
from ..rt.busy import Watch
from .kernel import Watched
from .machine import busy_notes
from .page import Page
from .schedule import lowered_page, target_of, was_timed

MOST = 40
"""Functions that a page shows, the last ones of a program that lowers more."""
_TIMEOUT = 600


def program_page(path: str | os.PathLike[str], args: Sequence[str] = ()) -> Page:
    """The page of all that a Python program lowers or builds when it is run with `args`.

    TilewrightError where it fails, takes over ten minutes, or lowers nothing.
    """
    file = Path(path)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        out = Path(folder, "page")
        command = [sys.executable, "-m", __name__, str(out), str(file), *args]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            raise TilewrightError(f"{file} did not end within {_TIMEOUT} seconds") from None
        if done.returncode or not out.exists():
            raise TilewrightError(f"{file} failed:\n{done.stderr.strip()}")
        page: Page = pickle.loads(out.read_bytes())
    if not page.kernels:
        raise TilewrightError(f"{file} ran, but lowered and built nothing")
    return page


def watched_run(file: str, args: Sequence[str]) -> Page:
    """Run a program as `python FILE ARGS` does, in this process; the page of what it lowers."""
    watch = Watch()
    watched = Watched()
    sys.argv = [file, *args]
    sys.path.insert(0, str(Path(file).resolve().parent))
    with watched.watching():
        try:
            runpy.run_path(file, run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
        except Exception as error:  # of the program: shown as Python shows it
            place = error.__traceback__
            while place is not None and place.tb_frame.f_code.co_filename != file:
                place = place.tb_next
            traceback.print_exception(error.with_traceback(place))
            sys.exit(1)
    total = watched.keep_last(MOST)
    page = lowered_page(watched, target_of(None))
    page.title = f"What {Path(file).name} builds"
    if total > MOST:
        page.warnings.append(f"It lowers {total} functions; these are the last {MOST}.")
    page.warnings += busy_notes(watch, page.roofline) if was_timed(page) else []
    return page


if __name__ == "__main__":
    target_file = Path(sys.argv[1])
    target_file.write_bytes(pickle.dumps(watched_run(sys.argv[2], sys.argv[3:])))
