"""Where Dynamo could not follow a program: said in the log, since no graph comes of such places."""

from __future__ import annotations

import logging
import sys
from threading import Lock
from typing import Any

_log = logging.getLogger("tilewright.torch")
_lock = Lock()
_said: list[Any] = []
"""The newest of Dynamo's reasons that have been said."""


def watch_breaks() -> None:
    """Have Dynamo call us after each function that it compiled, or could not. torch._dynamo.reset()
    ends that, so it is asked for again with each graph."""
    from torch._dynamo.callback import callback_handler

    with _lock:
        if _say_breaks not in callback_handler.end_callbacks:
            callback_handler.register_end_callback(_say_breaks)


def _say_breaks(_: Any) -> None:
    """Say where functions were cut into graphs, with Python between them, since the last call; and
    why one is left to Python as a whole, which is the exception that is on its way."""
    from torch._dynamo.exc import Unsupported
    from torch._dynamo.utils import graph_break_reasons

    with _lock:
        fresh: list[Any] = []
        for reason in reversed(list(graph_break_reasons)):
            if _said and reason is _said[0]:
                break
            fresh.insert(0, reason)
        _said[:] = fresh[-1:] or _said
    lines = [_line(r.reason, r.user_stack) for r in fresh]
    error = sys.exc_info()[1]
    if isinstance(error, Unsupported):
        lines.append(_line(error.msg, error.real_stack))
    for line in dict.fromkeys(lines):
        _log.warning("left to Python by Dynamo: %s", line)


def _line(reason: str, stack: Any) -> str:
    """The kind, where the program stands, and Dynamo's explanation."""
    text = [line.strip() for line in str(reason).splitlines() if line.strip()] or [""]
    where = f" ({stack[-1].filename}:{stack[-1].lineno})" if stack else ""
    why = next((t for t in text if t.startswith("Explanation:")), "")
    return f"{text[0]}{where}" + why.replace("Explanation:", ":", 1)


if "torch" in sys.modules:
    watch_breaks()
