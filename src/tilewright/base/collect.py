"""The garbage collector, held back while a program of ours makes much that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATED = 50_000
"""Objects made between two collections. Python's 700 have it look at kernels' trees, which hold no
cycles, again and again: a tenth of the time of a page."""


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Collect seldom in the body of the `with`, and pass over what was there before. Of the whole
    process: for commands, which are alone in theirs. What somebody else froze stays frozen."""
    before = gc.get_threshold()
    ours = gc.get_freeze_count() == 0  # there is one frozen generation: who thaws it thaws all
    if ours:
        gc.freeze()
    gc.set_threshold(_ALLOCATED, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if ours:
            gc.unfreeze()
