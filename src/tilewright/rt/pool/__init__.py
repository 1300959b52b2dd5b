"""The threads behind parallel loops, as LLVM IR: compiled once a process, or into a shared library.

Compiled code calls

    i32 tw_parallel(ptr task, ptr context, i64 steps, i32 threads, i32 homes, ptr site)

which runs `task(context, begin, end, thread)` for ranges that cover 0..steps once, on the calling
thread (thread 0) and on workers (thread 1 and up, below `threads`; never one number twice at a
time), and returns 0 or the code that a task returned first; what was not begun then is left out.
`homes`: 0; 1 for steps that are dealt out in turn; 2 where a home begins with its last pieces; -n
where steps are blocks of n, and homes are shares of these: see *Places*.
`site` is the call's own double, 0 at first: nanoseconds of a step, which the pool measures and
decides by.

*Pieces.* Steps are cut into pieces of some ten microseconds, as many for each thread. Each thread
has a home, an even share of consecutive pieces, takes them one by one, then takes what is left of
the others'. So a quiet machine divides evenly, and a thread that is held up keeps the others from
one piece at most: a caller never waits for a worker that has not claimed a piece, and does all of
them if nobody comes.

*Places.* What a thread wrote is in the caches of its core. Cores of one processor may have third
caches of their own (chiplets, sockets): what the other side wrote comes from there at a third to a
fifth of the speed. Loops over blocks (of channels) and rows (of an image) that follow each other
read rows of all blocks; so homes are shares of the rows, of all blocks, where `homes` says how many
steps a block has: even shares of all steps, row by row. A home's pieces are some blocks each, and
within a piece a block's rows are run before those of the next, which has other weights.

*Waiting.* A worker without work, or a caller whose last pieces run elsewhere, looks again and again
for as long as a sleeping thread takes to wake up (measured, 20 to 50 microseconds), then sleeps,
which gives its core to others: to the very thread it waits for, where that lost its own. While it
sleeps, a worker may not use the core of its last caller, and once awake leaves its waker's, which
goes on there: Linux likes to wake a thread there, or where it was last, and then two threads take
turns on one core for as long as they sleep between loops, at less than half the speed, while
another core has nothing to do. Awake, a worker has the cores that it began with, or was given
since, so that what a task starts has them too. The mask of a caller is never touched.

*Small loops.* By the time that its steps took before, a loop is run by its caller alone unless it
takes longer than handing work to a thread that is awake (measured). Threads that sleep are woken
for a loop, or for a series of them, that takes longer than waking does.

*Several callers* have a slot each, up to 16 at once; one that finds none runs its loop alone. So
does one that finds as many callers in loops as it could have threads: they fill the cores, and to
share would only interrupt them. Loops inside of loops are calls like any other. No lock is held
while a task runs, and waiting cannot close a circle: a thread waits for pieces of a loop that is
younger than all pieces that it holds.

*Memory orders.* A slot's fields are written by its caller while no piece of it can be claimed, then
its claim words are stored (release). A claim is an acquiring compare-and-swap on a word, and all
writes after that store are swaps too, so each claim sees the fields. A word holds all that a claim
decides by (epoch: 40 bits, next: 12, end: 12). A loop ends when all its words are used up (next is
end), so the swap of a thread that slept since an older loop fails. `threads` is read (acquire)
between the word and the swap: were it a newer loop's, the word would be used up, and the swap fail.
What pieces wrote is published by the decrement of `left` (release), which the caller reads
(acquire). Sleeping needs sequential consistency twice: a worker says that it sleeps, then looks for
work, while a caller adds work, then looks who sleeps; a caller says that it waits, then looks at
`left`, while a worker decrements `left`, then looks who waits. A parker remembers one wake-up; one
too many makes a thread look once more. Figures (times, `site`) are relaxed: a lost one is no harm.
"""

from __future__ import annotations

import platform
from pathlib import Path
from string import Template

from ...base import config

SYMBOLS = ("tw_parallel", "tw_reset", "tw_pool_state")
STATE = ("waking_ns", "handing_ns", "workers", "asleep")
"""What `tw_pool_state` writes, doubles all."""

_PARTS = ("types", "waiting", "pieces", "workers", "loops")
_AFFINITY = """declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @getpid()
declare i32 @memcmp(ptr, ptr, i64)"""
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_MACHINES = {"AMD64": "x86_64", "arm64": "aarch64"}


def pool_ir(machine: str = "", system: str = "", own: bool = False) -> str:
    """The pool for a processor and a system, as `platform` names them (default: this process's).

    `own`: for a library that may use another pool, its functions are internal and have names of
    their own, `tw_own_parallel` and so on.
    """
    machine = machine or platform.machine()
    system = system or platform.system()
    is_darwin, is_linux = system == "Darwin", system == "Linux"
    declare, pause = _PAUSES.get(_MACHINES.get(machine, machine), ("", ""))
    folder = Path(__file__).parent
    places = is_linux and config.get("place_threads")
    parts = (*_PARTS, "cores" if places else "cores_unknown")
    text = "\n".join((folder / f"{part}.ll").read_text(encoding="utf-8") for part in parts)
    return Template(text).substitute(
        declare=declare,
        pause=pause,
        affinity=_AFFINITY if places else "",
        clock=6 if is_darwin else 1,  # CLOCK_MONOTONIC
        setmask=3 if is_darwin else 2,  # SIG_SETMASK
        linkage="internal" if own else "",
        prefix="tw_own" if own else "tw",
    )
