"""For tests that delete their names and look at what is left."""

import gc
import sys
from types import FrameType


def collect() -> None:
    """Let go of what the callers' deleted names stood for, and of cycles.

    CI's tool for coverage reads the `f_locals` of every frame now and then, and up to Python 3.12 a
    frame keeps what it gave: an object would live on by a name that is no longer there. Reading
    again refreshes it.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        _ = frame.f_locals
        frame = frame.f_back
    gc.collect()
