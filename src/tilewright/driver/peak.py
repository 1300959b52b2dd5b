"""The machine's FMA peak, measured: the yardstick for every rate that is reported.

Twelve independent chains of full-width float32 FMAs a thread keep all pipes busy (two pipes of up
to six cycles), and fit, with their factor, into 16 registers; where there are no FMAs, fourteen of
a product and a sum do. The clock comes from a chain of
dependent additions, one a cycle: a peak close to lanes x pipes x 2 x clock, for a whole number of
pipes, is one that can be trusted.
"""

from __future__ import annotations

import ctypes
import time
from functools import cache
from typing import Any

from ..codegen.llvm import backend
from ..rt import native
from ..target.target import Target
from .on_cores import side_by_side

CHAINS, UNFUSED_CHAINS = 12, 14
# Some milliseconds: threads start within some ten microseconds of each other.
STEPS = 1_000_000
ADDITIONS = 64
ADDITION_STEPS = 100_000


def chains(target: Target) -> int:
    """How many run at a time."""
    return CHAINS if target.has_fma else UNFUSED_CHAINS


def _chains(lanes: int, count: int, fused: bool) -> str:
    """A function that runs so many chains for a given number of steps."""
    vector = f"<{lanes} x float>"
    lines = [f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})"]
    lines += ["define float @tw_peak(i64 %n, float %seed) {", "entry:"]
    lines.append(f"  %one = insertelement {vector} undef, float %seed, i32 0")
    lines.append(
        f"  %v = shufflevector {vector} %one, {vector} undef, <{lanes} x i32> zeroinitializer"
    )
    lines += ["  br label %loop", "loop:"]
    lines.append("  %i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    for k in range(count):
        lines.append(f"  %a{k} = phi {vector} [ %v, %entry ], [ %b{k}, %loop ]")
    for k in range(count):
        if fused:
            operands = f"{vector} %a{k}, {vector} %v, {vector} %v"
            lines.append(f"  %b{k} = call {vector} @llvm.fma.v{lanes}f32({operands})")
        else:  # a call of the intrinsic would be one of a function of the C library for each lane
            lines.append(f"  %p{k} = fmul {vector} %a{k}, %v")
            lines.append(f"  %b{k} = fadd {vector} %p{k}, %v")
    lines += ["  %next = add i64 %i, 1", "  %more = icmp ult i64 %next, %n"]
    lines += ["  br i1 %more, label %loop, label %done", "done:"]
    total = "%b0"
    for k in range(1, count):
        lines.append(f"  %s{k} = fadd {vector} {total}, %b{k}")
        total = f"%s{k}"
    lines.append(f"  %r = extractelement {vector} {total}, i32 0")
    lines += ["  ret float %r", "}"]
    return "\n".join(lines) + "\n"


def _additions() -> str:
    """A function of ADDITIONS dependent integer operations a step, which cannot be combined."""
    lines = ["define i64 @tw_clock(i64 %n, i64 %seed) {", "entry:", "  br label %loop", "loop:"]
    lines.append("  %i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    lines.append(f"  %x0 = phi i64 [ %seed, %entry ], [ %x{ADDITIONS}, %loop ]")
    for k in range(ADDITIONS):
        operation = "xor" if k % 2 else "add"
        lines.append(f"  %x{k + 1} = {operation} i64 %x{k}, %seed")
    lines += ["  %next = add i64 %i, 1", "  %more = icmp ult i64 %next, %n"]
    lines += ["  br i1 %more, label %loop, label %done", "done:"]
    lines += [f"  ret i64 %x{ADDITIONS}", "}"]
    return "\n".join(lines) + "\n"


@cache
def _chains_code(target: Target) -> tuple[Any, Any]:
    """The loaded code, which has to be kept, and its function."""
    text = _chains(max(4, target.vector_bytes // 4), chains(target), target.has_fma)
    library = native.load_object(backend.emit_object(text, target), names=["tw_peak"])
    kind = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64, ctypes.c_float)
    function = kind(library.address("tw_peak"))
    function(1000, 0.5)
    return library, function


def sample_peak(target: Target, threads: int = 1) -> float:
    """float32 operations a second (a product and a sum are two) of `threads` cores, measured once.

    The time runs from when all threads stand ready to when the last one is done. Each thread has a
    core of its own where the system lets it choose one: in some milliseconds no scheduler moves one
    of two that began on the same.
    """
    _library, function = _chains_code(target)
    spans: list[tuple[float, float]] = []

    def work(_k: int, _apart: bool) -> None:
        begin = time.perf_counter()
        function(STEPS, 0.5)
        spans.append((begin, time.perf_counter()))

    side_by_side(threads, work)
    seconds = max(end for _, end in spans) - min(begin for begin, _ in spans)
    return 2.0 * max(4, target.vector_bytes // 4) * chains(target) * STEPS * threads / seconds


@cache
def fma_peak(target: Target, threads: int = 1, attempts: int = 7) -> float:
    """float32 operations a second (as above) of `threads` cores, the best of some attempts."""
    return max(sample_peak(target, threads) for _ in range(attempts))


def clock(target: Target, attempts: int = 7) -> float:
    """Cycles a second of one core: the best of some attempts at a chain of dependent additions."""
    library = native.load_object(backend.emit_object(_additions(), target), names=["tw_clock"])
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    function = kind(library.address("tw_clock"))
    best = float("inf")
    for _ in range(attempts):
        begin = time.perf_counter()
        function(ADDITION_STEPS, 12345)
        best = min(best, time.perf_counter() - begin)
    return ADDITIONS * ADDITION_STEPS / best
