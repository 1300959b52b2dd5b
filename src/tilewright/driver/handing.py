"""How far apart two cores are: how long a word takes from one to the other and back.

Cores whose third cache is one take about 200 ns, cores of different chiplets or sockets about 600
(Zen 5). A virtual machine may be moved from the one to the other while it runs, and networks, whose
kernels read what the other core wrote, take 1.2 to 1.9 times as long then: figures of different
runs can only be compared beside this one.
"""

from __future__ import annotations

import ctypes
import time
from functools import cache
from statistics import median
from typing import Any

from ..base.cores import allowed_cores
from ..rt import native
from .on_cores import side_by_side

TURNS = 5_000
ATTEMPTS = 5

# waits until the word is 2 i + %mine, then adds 1, for each i
_CODE = """
define void @tw_turns(ptr %word, i64 %mine, i64 %turns) {
entry:
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %mine.now ]
  %twice = shl i64 %i, 1
  %awaited = add i64 %twice, %mine
  br label %look
look:
  %now = load atomic i64, ptr %word acquire, align 8
  %same = icmp eq i64 %now, %awaited
  br i1 %same, label %mine.now, label %look
mine.now:
  %following = add i64 %now, 1
  store atomic i64 %following, ptr %word release, align 8
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %turns
  br i1 %more, label %turn, label %done
done:
  ret void
}
"""


@cache
def _turns() -> tuple[Any, Any]:
    """The loaded code, which has to be kept, and its function."""
    library = native.load_object(native.compile_ir(_CODE), names=["tw_turns"])
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return library, kind(library.address("tw_turns"))


def round_trip() -> float | None:
    """Seconds that a word takes between the first two cores that the process may use, and back,
    the median of some attempts; None where there is one core, or the system does not let a thread
    choose its own."""
    if len(allowed_cores()) < 2:
        return None
    known = [t for t in (_one() for _ in range(ATTEMPTS)) if t is not None]
    return median(known) if known else None


def _one() -> float | None:
    _library, function = _turns()
    word = (ctypes.c_int64 * 16)()  # a line of its own somewhere in it
    address = (ctypes.addressof(word) + 63) // 64 * 64
    spans: list[float] = []

    def play(mine: int, apart: bool) -> None:
        if apart:  # on one core, each turn would last as long as the system lets it
            begin = time.perf_counter()
            function(address, mine, TURNS)
            spans.append((time.perf_counter() - begin) / TURNS)

    side_by_side(2, play)
    return max(spans) if spans else None
