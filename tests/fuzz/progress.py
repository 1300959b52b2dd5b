"""How far a long run has come: on a terminal all the time, in a file now and then."""

from __future__ import annotations

import sys
import time

SECONDS = 30.0  # between lines in a file


class Progress:
    """Tells standard error how many of `total` cases are done, and how many failed."""

    def __init__(self, total: int, quiet: bool = False) -> None:
        self.total, self.quiet = total, quiet
        self.terminal = sys.stderr.isatty()
        self.start = self.told = time.perf_counter()

    def tell(self, done: int, failures: int) -> None:
        now = time.perf_counter()
        due = self.terminal or done >= self.total or now - self.told >= SECONDS
        if self.quiet or not due:
            return
        self.told = now
        rate = done / max(now - self.start, 1e-9)
        text = f"{done}/{self.total} cases, {failures} failures, {rate:.0f}/s"
        if self.terminal:
            print(f"\r{text}", end="\n" if done >= self.total else "", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
