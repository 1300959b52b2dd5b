"""Programs run in a process of their own: for what may end the process, or counts its memory."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

_HEAD = """
import gc, threading
import numpy as np
import tilewright as tvm
from tilewright import te, tir
def rss():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4
def in_threads(count, work):
    errors, go = [], threading.Barrier(count)
    def run(k):
        try:
            go.wait()
            work(k)
        except BaseException as error:
            errors.append(error)
    workers = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    if errors:
        raise errors[0]
"""


def run_in_child(program: str, timeout: float = 300, **environment: str) -> str:
    """What the program prints. It has te, tir, tvm, np; `rss()`, the resident KB; and
    `in_threads(n, f)`, which runs f(0), ..., f(n - 1) at once."""
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + textwrap.dedent(program)],
        env={**os.environ, "TILEWRIGHT_CACHE": "0", **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-3000:]}"
    return done.stdout.strip()
