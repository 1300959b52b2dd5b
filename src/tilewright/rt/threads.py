"""Threads of parallel loops: how many a loop uses, and the pool that they belong to.

Compiled code calls `tw_parallel` (see `pool`), with the number of threads from the int32
`tw_num_threads`. `native` loads the pool with the first code that has a parallel loop; its threads
are made when a loop first wants them, and again in a forked child.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from ..base import config
from ..base.cores import cores
from ..base.errors import TilewrightError

_count = ctypes.c_int32(0)
_followers: dict[int, ctypes.c_int32] = {}  # by address
_resets: list[Callable[[], None]] = []


def num_threads() -> int:
    """Threads that a parallel loop uses."""
    if _count.value == 0:
        _set(_default())
    return _count.value


def set_num_threads(count: int) -> None:
    """Let parallel loops use `count` threads; 0 goes back to the default. Raises TilewrightError
    where count is no integer from 0 to the most threads."""
    if not isinstance(count, int) or not 0 <= count <= config.MAX_THREADS:
        raise TilewrightError(
            f"the number of threads cannot be {count!r}: it is an integer up to "
            f"{config.MAX_THREADS}, or 0 for the default"
        )
    _set(count or _default())  # at once: calls that start meanwhile read it


def _default() -> int:
    return int(config.get("num_threads")) or cores()


def _set(count: int) -> None:
    _count.value = count
    for follower in list(_followers.values()):
        follower.value = count


def follow(address: int) -> None:
    """Keep the int32 at `address`, which has to stay, equal to the number of threads."""
    follower = ctypes.c_int32.from_address(address)
    follower.value = num_threads()
    _followers[address] = follower


def unfollow(address: int) -> None:
    """Leave the int32 at `address` alone from now on."""
    _followers.pop(address, None)


def num_threads_address() -> int:
    """Address of the int32 from which compiled code reads the number of threads."""
    num_threads()
    return ctypes.addressof(_count)


def reset_after_fork(address: int) -> None:
    """Call a pool's `tw_reset`, now and in children that are forked: they have no threads."""
    reset = ctypes.CFUNCTYPE(None)(address)
    reset()
    _resets.append(reset)


def _after_fork() -> None:
    for reset in _resets:
        reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
