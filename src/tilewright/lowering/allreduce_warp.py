"""Reductions by shuffles: lanes of a warp add up what the lanes above them hold.

The masks are constants, not the lanes that happen to be active: all lanes of a group are known to
come here, and a shuffle waits for the lanes in its mask, while those active at one moment may be
fewer after a branch.
"""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.calls import tvm_warp_shuffle, tvm_warp_shuffle_down
from ..loopir.expr import BufferLoad, const
from ..loopir.op import if_then_else
from .allreduce import Allreduce, barrier
from .block_threads import first_lane, lane_mask, mask_type


def reduce_in_warps(r: Allreduce, warp: int) -> S.Stmt:
    """A reduction of neighbouring threads by shuffles, and over several warps in two stages."""
    if r.extent > warp:
        return _two_stages(r, warp)
    mask: Any = lane_mask(r.group, r.extent, warp, r.groups)
    named = None if E.const_int(mask) is not None else E.Var("mask", mask_type(warp))
    lanes = mask if named is None else named
    start = first_lane(r.group, r.extent, warp, r.groups)
    body = S.seq(
        _fold(r, lanes, r.index, r.extent, warp),
        _broadcast(r, lanes, start, warp),
    )
    if named is not None:
        body = S.LetStmt(named, mask, body)
    return S.seq(r.store(r.inputs()), body)


def _two_stages(r: Allreduce, warp: int) -> S.Stmt:
    """Each warp reduces its values, then every warp reduces one value of each warp.

    All warps do the second stage alike, which spares the barrier that would bring the result of
    one warp to the others.
    """
    all_lanes = const((1 << warp) - 1, mask_type(warp))
    warps = r.extent // warp
    lane = r.index % warp
    staging = r.allocate("red_buf_staging", warps * r.groups)
    base = const(0) if r.groups == 1 else r.group * warps
    place = _plus(base, r.index // warp)
    keep = S.seq([S.BufferStore(b, v, (place,)) for b, v in zip(staging, r.results)])
    return S.seq(
        r.store(r.inputs()),
        _fold(r, all_lanes, lane, warp, warp),
        r.before(),
        S.IfThenElse(lane.equal(0), keep),
        barrier("shared"),
        r.store(_fetched(r, staging, base, lane, warps)),
        _fold(r, all_lanes, lane, _power_above(warps), warp),
        _broadcast(r, all_lanes, const(0), warp),
        barrier("shared") if r.repeated else None,
    )


def _fetched(r: Allreduce, staging: list[Buffer], base: Any, lane: Any, warps: int) -> list[Any]:
    """One value of each warp; lanes without one repeat others or take the identity."""
    if _power_above(warps) == warps:
        at = _plus(base, r.index % warps)
        return [BufferLoad(b, (at,)) for b in staging]
    values = [BufferLoad(b, (_plus(base, lane),)) for b in staging]
    pairs = zip(values, r.combiner.identity_element)
    return [if_then_else(lane < warps, v, i) for v, i in pairs]


def _fold(r: Allreduce, mask: Any, lane: Any, extent: int, warp: int) -> S.Stmt:
    """Halve the values until the first lane of each `extent` lanes has combined them all."""
    steps = []
    offset = _power_above(extent) // 2
    whole = _power_above(extent) == extent
    while offset >= 1:
        above = [E.Var(f"t{i}", v.dtype) for i, v in enumerate(r.values)]
        body = _update(r, above)
        if not whole:
            body = S.IfThenElse(lane + offset < extent, body)
        for var, own in zip(reversed(above), reversed(r.results)):
            got = tvm_warp_shuffle_down(mask, own, offset, warp, warp)
            body = S.LetStmt(var, got, body)
        steps.append(body)
        offset //= 2
    return S.seq(steps)


def _update(r: Allreduce, above: list[E.Var]) -> S.Stmt:
    """results = combine(results, above); all values are computed before one is stored."""
    values = r.combine(r.results, above)
    if len(values) == 1:
        return r.store(values)
    names = [E.Var(f"new{i}", v.dtype) for i, v in enumerate(values)]
    body = r.store(names)
    for name, value in zip(reversed(names), reversed(values)):
        body = S.LetStmt(name, value, body)
    return body


def _broadcast(r: Allreduce, mask: Any, lane: Any, warp: int) -> S.Stmt:
    """Every lane gets what one of them holds."""
    return r.store([tvm_warp_shuffle(mask, own, lane, warp, warp) for own in r.results])


def _plus(base: Any, index: Any) -> Any:
    return index if E.is_const(base, 0) else base + index


def _power_above(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << (n - 1).bit_length()
