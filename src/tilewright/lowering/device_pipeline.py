"""The passes from a lowered function to host code and kernels, each with the reason for its place.

`run_device_pipeline` takes what `pipeline.run_pipeline` gives. What depends on the language of the
target (rules of intrinsics, types it lacks, division) comes after it, kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..base.deep import deep_call
from ..loopir.stmt import PrimFunc
from ..loopir.verify import Verified, verify
from ..target.target import Target
from .even_barriers import even_barriers
from .inject_async_copy import inject_async_copy
from .lower_thread_allreduce import lower_thread_allreduce
from .lower_warp_memory import lower_warp_memory
from .merge_shared import merge_shared
from .persistent_blocks import persistent_blocks
from .split_host_device import DeviceProgram, split_host_device
from .sync_threads import sync_threads
from .trim_fragments import trim_fragments
from .unify_threads import unify_threads
from .verify_memory import verify_memory

DevicePass = Callable[[PrimFunc, Target], PrimFunc]


def _plain(one: Callable[[PrimFunc], PrimFunc]) -> DevicePass:
    def run(func: PrimFunc, target: Target) -> PrimFunc:
        return one(func)

    run.__name__, run.__doc__ = one.__name__, one.__doc__
    return run


PASSES: tuple[DevicePass, ...] = (
    _plain(unify_threads),  # first: all that follow see which threads run
    _plain(verify_memory),  # before anything is added to the user's program
    _plain(merge_shared),  # before barriers, which sharing may need more of
    _plain(sync_threads),  # when every access stands where it will be
    _plain(persistent_blocks),  # barriers in what follows a parting of threads are some of them
    inject_async_copy,  # what barriers order may come late; allreduce brings barriers of its own
    lower_thread_allreduce,  # brings its own barriers: after those for the user's statements
    _plain(trim_fragments),  # places of fragments are constants after unrolling
    lower_warp_memory,  # reads of other lanes become shuffles
    even_barriers,  # last: no more barriers come
)


def run_device_pipeline(
    func: PrimFunc, target: Target, check: bool = False, dump: Path | None = None
) -> DeviceProgram:
    """The host part and the kernels of a lowered function, for a GPU target.

    `check`: verify the function after each pass. `dump`: a folder for its text after each pass.
    """
    verified = Verified()
    for number, one in enumerate(PASSES):
        func = deep_call(one, func, target)
        if check:
            verify(func, one.__name__, verified)
        if dump is not None:
            dump.mkdir(parents=True, exist_ok=True)
            (dump / f"{number:02}_{one.__name__}.txt").write_text(f"{func}\n", encoding="utf-8")
    program = deep_call(split_host_device, func)
    if check:
        for kernel in program.kernels.values():
            verify(kernel, "split_host_device", verified)
    return program
