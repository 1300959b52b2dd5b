"""The machine's FMA peak, measured: the yardstick for every rate that is reported.

Sixteen independent chains of full-width float32 FMAs a thread keep all pipes busy; the figure can
be trusted when it comes close to lanes x pipes x 2 x clock.
"""

from __future__ import annotations

import ctypes
import threading
import time
from functools import cache

from ..codegen.llvm import backend
from ..rt import native
from ..target.target import Target

CHAINS = 16
STEPS = 200_000


def _text(lanes: int) -> str:
    """A function that runs CHAINS chains for a given number of steps."""
    vector = f"<{lanes} x float>"
    lines = [f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})"]
    lines += ["define float @tw_peak(i64 %n, float %seed) {", "entry:"]
    lines.append(f"  %one = insertelement {vector} undef, float %seed, i32 0")
    lines.append(
        f"  %v = shufflevector {vector} %one, {vector} undef, <{lanes} x i32> zeroinitializer"
    )
    lines += ["  br label %loop", "loop:"]
    lines.append("  %i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    for k in range(CHAINS):
        lines.append(f"  %a{k} = phi {vector} [ %v, %entry ], [ %b{k}, %loop ]")
    for k in range(CHAINS):
        lines.append(
            f"  %b{k} = call {vector} @llvm.fma.v{lanes}f32("
            f"{vector} %a{k}, {vector} %v, {vector} %v)"
        )
    lines += ["  %next = add i64 %i, 1", "  %more = icmp ult i64 %next, %n"]
    lines += ["  br i1 %more, label %loop, label %done", "done:"]
    total = "%b0"
    for k in range(1, CHAINS):
        lines.append(f"  %s{k} = fadd {vector} {total}, %b{k}")
        total = f"%s{k}"
    lines.append(f"  %r = extractelement {vector} {total}, i32 0")
    lines += ["  ret float %r", "}"]
    return "\n".join(lines) + "\n"


@cache
def fma_peak(target: Target, threads: int = 1, attempts: int = 7) -> float:
    """float32 operations a second (an FMA is two) of `threads` cores, the best of some attempts."""
    lanes = max(4, target.vector_bytes // 4)
    library = native.load_object(backend.emit_object(_text(lanes), target), names=["tw_peak"])
    kind = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64, ctypes.c_float)
    function = kind(library.address("tw_peak"))
    function(1000, 0.5)
    best = float("inf")
    for _ in range(attempts):
        workers = [threading.Thread(target=function, args=(STEPS, 0.5)) for _ in range(threads)]
        start = time.perf_counter()
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        best = min(best, time.perf_counter() - start)
    return 2.0 * lanes * CHAINS * STEPS * threads / best
