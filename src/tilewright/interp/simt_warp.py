"""What threads do together: barriers, shuffles, votes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..loopir import expr as E
from .simt_expr import Code, Fn
from .simt_report import DIVERGENT, SHUFFLE
from .simt_state import CLOCK_SHIFT, Array, State

# -- barriers


def barrier(code: Code, e: E.Call) -> Fn:
    """`tvm_storage_sync` of "shared", "warp" or "global" (all blocks)."""
    scope = e.args[0].value if e.args and isinstance(e.args[0], E.StringImm) else "shared"
    if scope.startswith("shared"):
        return sync_block
    if scope == "warp":
        return sync_warp
    if scope == "global":
        return sync_grid
    raise TilewrightError(f'simt: a barrier is of "shared", "warp" or "global", not "{scope}"')


def sync_block(st: State) -> Any:
    """All threads of a block meet."""
    if st.quiet:
        return np.int32(0)
    now = st.tick()
    if st.mask is None:
        st.sync_block = st.sync_warp = st.floor = now
        st.warp_order = False
        st.report.barriers += st.blocks
        if st.barriers is not None:
            st.barriers.share(st, None)
        return np.int32(0)
    require_whole(st, st.block_in, st.blocks, "block")
    st.sync_block = np.where(st.mask, now, st.sync_block)
    st.sync_warp = np.where(st.mask, now, st.sync_warp)
    st.floor = int(st.sync_block.min())
    st.report.barriers += len(np.unique(st.block_in[st.mask]))
    if st.barriers is not None:
        st.barriers.share(st, st.mask)
    return np.int32(0)


def sync_warp(st: State) -> Any:
    """All threads of a warp meet."""
    if st.quiet:
        return np.int32(0)
    now = st.tick()
    st.warp_order = True
    if st.mask is None:
        st.sync_warp = now
        st.report.warp_barriers += st.blocks * st.geometry.warps
        return np.int32(0)
    require_whole(st, st.warp, st.blocks * st.geometry.warps, "warp")
    st.sync_warp = np.where(st.mask, now, st.sync_warp)
    st.report.warp_barriers += len(np.unique(st.warp[st.mask]))
    return np.int32(0)


def sync_grid(st: State) -> Any:
    """All threads of the grid meet; `run_kernel` has all blocks run together then."""
    if st.mask is not None:
        require_whole(st, np.zeros_like(st.lane), 1, "grid")
        st.mask, old = None, st.mask
        sync_block(st)
        st.mask = old
    else:
        sync_block(st)
    st.sync_grid = st.sync_cluster = st.clock << CLOCK_SHIFT
    return np.int32(0)


def require_whole(st: State, group: Array, count: int, what: str) -> None:
    """Report groups of which some threads run and some do not."""
    mask = st.mask
    if mask is None:
        return
    here = np.bincount(group[mask], minlength=count)
    split = (here > 0) & (here < np.bincount(group, minlength=count))
    if not split.any():
        return
    g = int(np.flatnonzero(split)[0])
    waits = int(st.number[np.flatnonzero((group == g) & mask)[0]])
    misses = int(st.number[np.flatnonzero((group == g) & ~mask)[0]])
    a, b = st.geometry.thread(waits), st.geometry.thread(misses)
    st.log.add(
        DIVERGENT,
        f"{a} waits for all of its {what}, but {b} does not come here",
        st.site,
        "",
        None,
        (waits, misses),
        None,
        int(split.sum()),
    )


# -- shuffles

Source = Callable[[State, Any, Any], tuple[Array, Array]]


def _indexed(st: State, lane: Any, width: Any) -> tuple[Array, Array]:
    own = st.lane_in_warp
    return own - own % width + lane % width, own


def _up(st: State, offset: Any, width: Any) -> tuple[Array, Array]:
    own = st.lane_in_warp
    from_ = own - offset
    return np.where(from_ >= own - own % width, from_, own), own


def _down(st: State, offset: Any, width: Any) -> tuple[Array, Array]:
    own = st.lane_in_warp
    from_ = own + offset
    return np.where(from_ < own - own % width + width, from_, own), own


def _xor(st: State, bits: Any, width: Any) -> tuple[Array, Array]:
    own = st.lane_in_warp
    from_ = own ^ bits
    return np.where(from_ < own - own % width + width, from_, own), own


def _found(code: Any, e: E.Call, source: Source) -> Fn:
    """For each lane, which of its warp it reads, which that is of all that run together, and
    whether there is none."""
    lane = code.value(e.args[2])
    width = code.value(e.args[3]) if len(e.args) > 3 else lambda st: st.geometry.warp_size

    def run(st: State) -> Any:
        where, own = source(st, np.asarray(lane(st), np.int64), np.asarray(width(st), np.int64))
        where = np.broadcast_to(where, (st.lanes,))
        outside = (st.thread_in - own + where) >= st.geometry.threads
        return where, st.lane - own + where, outside

    return run


def _taken(source: Source) -> Callable[[Any, E.Call], Fn]:
    """The lane, of all that run together, that each lane reads; its own if there is none."""

    def make(code: Any, e: E.Call) -> Fn:
        found = _found(code, e, source)

        def run(st: State) -> Any:
            _, from_, outside = found(st)
            return np.where(outside, st.lane, from_)

        return run

    return make


def _shuffle(source: Source) -> Callable[[Any, E.Call], Fn]:
    """A shuffle: (mask, value, lane or offset, width, warp size)."""

    def make(code: Any, e: E.Call) -> Fn:
        mask, value = (code.value(a) for a in e.args[:2])
        found = _found(code, e, source)
        key = id(e)
        code.keep.append(e)

        def run(st: State) -> Any:
            bits, v = mask(st), value(st)
            where, from_, outside = found(st)
            if outside.any():
                from_ = np.where(outside, st.lane, from_)
            if not st.quiet:
                st.report.shuffles += st.lanes if st.mask is None else int(st.mask.sum())
                _check_sources(st, key, where, from_, outside, bits)
            v = np.broadcast_to(v, v.shape[:-1] + (st.lanes,) if v.ndim else (st.lanes,))
            return v[..., from_]

        return run

    return make


def _check_sources(
    st: State, key: int, where: Array, from_: Array, outside: Array, bits: Any
) -> None:
    """Note lanes that read one that does not take part: their values are undefined."""
    named = (np.asarray(bits).astype(np.uint64) >> where.astype(np.uint64)) & np.uint64(1)
    bad = outside | (named == 0)
    if st.mask is not None:
        bad = (bad | ~st.mask[from_]) & st.mask
    if not bad.any():
        st.shuffle_taint.pop(key, None)
        return
    lane = int(np.flatnonzero(bad)[0])
    number, asked = int(st.number[lane]), int(where[lane])
    who = st.geometry.thread(number)
    finding = st.log.make(
        SHUFFLE,
        f"{who} reads lane {asked} of its warp, which does not take part",
        st.site,
        "",
        asked,
        (number,),
        None,
        int(bad.sum()),
    )
    st.shuffle_taint[key] = bad.astype(np.int16) * st.origin(finding, (st.site, "shuffle"))


# -- votes


def _ballot_bits(st: State, holds: Any) -> Array:
    """For each lane the bits of the lanes of its warp that run and for which a value holds."""
    votes = np.broadcast_to(np.asarray(holds, np.bool_), (st.lanes,))
    if st.mask is not None:
        votes = votes & st.mask
    each = votes.astype(np.uint64) << st.lane_in_warp.astype(np.uint64)
    starts = np.flatnonzero(st.lane_in_warp == 0)
    return np.asarray(np.bitwise_or.reduceat(each, starts)[st.warp])


def active_mask(code: Any, e: E.Call) -> Fn:
    return lambda st: _ballot_bits(st, True).astype(np.uint32)


def _vote(name: str) -> Callable[[Any, E.Call], Fn]:
    """`__ballot_sync`, `__any_sync`, `__all_sync` of (mask, value)."""

    def make(code: Any, e: E.Call) -> Fn:
        value = code.value(e.args[-1])

        def run(st: State) -> Any:
            votes = _ballot_bits(st, value(st) != 0)
            if name == "ballot":
                return votes.astype(np.uint32)
            if name == "any":
                return (votes != 0).astype(np.int32)
            return (votes == _ballot_bits(st, True)).astype(np.int32)

        return run

    return make


def _named(make: Callable[[Any, E.Call], Fn]) -> Callable[[Any, E.Call], Fn]:
    """For a function called by its name, which is the first argument."""
    return lambda code, e: make(code, E.Call(e.dtype, e.op, e.args[1:]))


_SOURCES: dict[str, Source] = {"": _indexed, "_up": _up, "_down": _down, "_xor": _xor}
Code.shuffle_sources = {f"tir.tvm_warp_shuffle{n}": _taken(s) for n, s in _SOURCES.items()}
Code.calls.update({f"tir.tvm_warp_shuffle{n}": _shuffle(s) for n, s in _SOURCES.items()})
Code.calls.update({f"extern __shfl{n}_sync": _named(_shuffle(s)) for n, s in _SOURCES.items()})
Code.calls.update({f"extern __{n}_sync": _named(_vote(n)) for n in ("ballot", "any", "all")})
Code.calls.update(
    {
        "tir.tvm_warp_activemask": active_mask,
        "tir.tvm_warp_ballot": _vote("ballot"),
        "extern __activemask": active_mask,
        "tir.tvm_storage_sync": barrier,
        "extern __syncthreads": lambda code, e: sync_block,
        "extern __syncwarp": lambda code, e: sync_warp,
    }
)
