"""Threads that begin together, each on a core of its own, for what is measured on several cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress

from ..base.cores import allowed_cores


def side_by_side(count: int, work: Callable[[int, bool], None]) -> None:
    """Run work(k, apart) for k below `count` on threads of their own, from when all stand ready,
    and wait for them. `apart`: whether each was given a core of its own; not where there are fewer
    cores, and where the system lets no thread choose."""
    cores = sorted(allowed_cores())
    may = len(cores) >= count and hasattr(os, "sched_setaffinity")
    start = threading.Barrier(count)
    placed: list[int] = []

    def run(k: int) -> None:
        if may:
            with suppress(OSError):  # a sandbox may forbid it
                os.sched_setaffinity(0, {cores[k]})  # of this thread alone
                placed.append(k)
        with suppress(threading.BrokenBarrierError):
            start.wait()
            work(k, len(placed) == count)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    try:
        for t in threads:
            t.start()
    except RuntimeError:  # the system has no room for another
        start.abort()
        raise
    finally:
        for t in threads:
            if t.ident is not None:  # it was started
                t.join()
