"""Long reductions of few results, cut in parts.

A reduction with fewer blocks than a GPU has multiprocessors leaves some idle for all of it. Parts
of it are reduced by blocks of their own; a second kernel, which has what follows too, puts their
results together, always in the same order.
"""

from __future__ import annotations

from typing import Any

from ....schedule.api import Schedule
from ....tensor.tensor import Tensor
from ..machine import known_extent, size_of_axes
from .machine import GpuMachine, fused

AT_ONCE = 4  # blocks for each multiprocessor, which wait for memory by turns
LEAST_LOADS = 4  # of a thread in a part: fewer pay for no result that is written and read again
LONG = 16  # loads of a thread, one after another, that take longer than a second kernel


def parts_of(operation: str, blocks: int, loads: int, machine: GpuMachine) -> int:
    """Into how many parts a reduction of so many blocks (0: not known), whose threads have so many
    loads each, is cut: 1 where blocks fill the GPU, or loads are few, unless that is decided
    otherwise."""
    is_worth = blocks < machine.filling and loads >= LONG
    return fitting_parts(operation, blocks, loads, is_worth, machine)


def fitting_parts(
    operation: str, blocks: int, loads: int, is_worth: bool, machine: GpuMachine
) -> int:
    """Into how many parts such a reduction is cut, if it `is_worth` it, unless that is decided
    otherwise."""
    most = loads // LEAST_LOADS
    if not blocks or most < 2 or blocks >= AT_ONCE * machine.filling:
        return 1
    fit = min(most, AT_ONCE * machine.filling // blocks)
    # a power of two, by which indices are cut at little cost: the next one where that is near
    best = 1 << (fit * 4 // 3).bit_length() - 1 if is_worth else 1
    near = (best, 1, best // 4, best // 2, 2 * best, 4 * best)
    (parts,) = machine.choose(operation, "parts", [(n,) for n in near if 0 < n <= loads // 2])
    return parts


def in_parts(s: Schedule, red: Tensor, parts: int, place: int, lanes: int, threads: int) -> Tensor:
    """What so many parts of a reduction are each, a tensor whose dimension at `place` is theirs,
    for `threads` that have vectors of so many lanes of it; `red` puts them together."""
    stage = s[red]
    known = None not in map(known_extent, stage.op.reduce_axis)
    steps = size_of_axes(stage.op.reduce_axis)
    k = fused(stage, list(stage.op.reduce_axis))
    if lanes > 1:
        k, _ = stage.split(k, factor=lanes)
        steps //= lanes
    length = -(-steps // parts)
    if known:
        part, _ = stage.split(k, factor=length + -length % threads)
    else:
        part, _ = stage.split(k, nparts=parts)
    return first(s.rfactor(red, part, place))


def first(tensors: Any) -> Tensor:
    """The first output of what may have several."""
    found: Tensor = tensors[0] if isinstance(tensors, list) else tensors
    return found
