"""How far a search is, on standard error, once it has taken longer than a second."""

from __future__ import annotations

import sys
import time

_SILENT_SECONDS = 1.0
_TTY_SECONDS = 0.1
_LINE_SECONDS = 10.0


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line now and then.

    `total`: the number of steps; `label`: what stands before.
    """

    __slots__ = ("_begin", "_last", "_shown", "_width", "label", "total")

    def __init__(self, total: int, label: str) -> None:
        self.total = total
        self.label = label
        self._begin = time.monotonic()
        self._last = 0.0
        self._shown = False
        self._width = 0

    def update(self, done: int, text: str) -> None:
        """`done` steps are done; `text` says what came of them."""
        now = time.monotonic()
        tty = sys.stderr.isatty()
        wait = _TTY_SECONDS if tty else _LINE_SECONDS
        if now - self._begin < _SILENT_SECONDS or (self._shown and now - self._last < wait):
            return
        self._last, self._shown = now, True
        self._write(done, text, now, tty)

    def close(self, done: int, text: str) -> None:
        """The last state, if any was shown before."""
        if self._shown:
            tty = sys.stderr.isatty()
            self._write(done, text, time.monotonic(), tty)
            if tty:
                print(file=sys.stderr, flush=True)

    def _write(self, done: int, text: str, now: float, tty: bool) -> None:
        line = f"{self.label} {done}/{self.total} {text} {now - self._begin:.1f} s"
        if tty:
            self._width = max(self._width, len(line))
            print(f"\r{line:<{self._width}}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
