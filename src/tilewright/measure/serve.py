"""The loop of a worker process: one answer to each message, until there are no more.

It knows nothing of what is asked, so that a process begins with what its own questions need.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ..base import config
from . import protocol
from .protocol import Message

_WATCH_SECONDS = 1.0


def _follow_parent(parent: int) -> None:
    """End with the search that started this worker, also in the middle of a candidate."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def serve(answer: Callable[[Message], Message]) -> int:
    """Answer what comes in until it ends, or this process's parent does; an exit status."""
    threading.Thread(target=_follow_parent, args=(os.getppid(),), daemon=True).start()
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)  # replies have a pipe of their own, that no print can disturb
    while (request := protocol.read(requests)) is not None:
        try:
            protocol.write(replies, answer(request))
        except BrokenPipeError:
            return 1
    return 0


def prepare(request: Message) -> Message:
    """Answer "set": as much memory as it says, and no compile cache, out of which thousands of
    candidates would push what is worth keeping."""
    config.set_option("cache", False)
    _limit_memory(int(request.get("memory", 0)))
    return {}


def _limit_memory(size: int) -> None:
    """Let this process fail before the machine runs out of memory, or else be the first to go.

    The limit is on data, not on addresses, of which drivers of devices reserve far more than the
    machine has.
    """
    if size > 0:
        import resource

        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (size, size))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
