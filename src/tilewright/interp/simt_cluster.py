"""Clusters: blocks that follow each other along blockIdx.x and run at once, copy to each other's
shared memory and arrive at each other's barriers.

What a thread does to another block's memory, or blocks do to the device's, is in order with what
that block's threads have done where they have met (`ptx_cluster_sync`), or where a barrier in
shared memory says so (simt_barrier), which does not show others what threads have stored. A block
that ends gives up its memory: whoever has used another's meets all of them once more before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir.expr import const_int
from .simt_barrier import arrive, places, require_made, running_lanes, tell
from .simt_expr import Code, Fn
from .simt_report import ASYNC, BOUNDS, RACE_BLOCKS
from .simt_state import Array, State
from .simt_warp import require_whole, sync_block


def blocks_of(st: State, lanes: Array, rank: Any) -> Array:
    """The blocks of so many ranks in the clusters of lanes, which use them: a cluster has to meet
    yet where they are others than their own."""
    cluster = st.geometry.cluster
    which = np.broadcast_to(np.asarray(rank, np.int64), (st.lanes,))[lanes]
    none = (which < 0) | (which >= cluster)
    if none.any():
        text = f"uses block {int(which[none][0])} of a cluster of {cluster}"
        tell(st, BOUNDS, int(lanes[none][0]), text, int(none.sum()))
    own = st.block_in[lanes]
    found = np.asarray(own - own % cluster + which % cluster)
    others = lanes[own != found]
    if others.size:
        if st.far is None:
            st.far = np.full((2, st.blocks // cluster), -1, np.int64)
        st.far[:, st.block_in[others] // cluster] = [others, np.full_like(others, st.site)]
    return found


def require_met(st: State) -> None:
    """Report a kernel that ends though blocks may still use those that have ended."""
    if st.far is None:
        return
    late = np.flatnonzero(st.far[0] >= 0)
    if not late.size:
        return
    lane, site = st.far[:, late[0]].tolist()
    number = int(st.number[lane])
    text = (
        f"{st.geometry.thread(number)} uses another block of its cluster, which may have ended: "
        "ptx_cluster_sync behind it, before blocks end"
    )
    st.log.add(RACE_BLOCKS, text, site, "", None, (number,), None, len(late))


def require_landed(st: State) -> None:
    """Report blocks that end, and give up their memory, while copies to it are under way: none of
    their threads has waited for the phase that counts them."""
    b = st.barriers
    if b is None:
        return
    each = b.passed.reshape(st.blocks, -1, b.cluster, b.count).max(axis=1)
    block = np.arange(st.blocks)
    late = b.last >= each[block, block % b.cluster]
    for n in np.flatnonzero(late.any(axis=0)):
        at = int(np.flatnonzero(late[:, n])[0])
        text = f"ends while copies to its block are under way: wait for barrier {int(n)} before"
        tell(st, ASYNC, at * st.geometry.threads, text, int(late[:, n].sum()))


def _rank(code: Any, e: E.Call) -> Fn:
    def run(st: State) -> Any:
        return (st.block_in % st.geometry.cluster).astype(np.int32)

    return run


def _sync(code: Any, e: E.Call) -> Fn:
    """(whether memory need not be seen)"""
    relaxed = bool(e.args) and const_int(e.args[0]) != 0

    def run(st: State) -> Any:
        if st.quiet:
            return np.int32(0)
        cluster = st.geometry.cluster
        require_whole(st, st.block_in // cluster, st.blocks // cluster, "cluster")
        st.met = st.tick()
        if relaxed:  # what others do to a block's memory may come later yet
            return np.int32(0)
        sync_block(st)
        st.sync_cluster = (
            st.sync_block if st.mask is None else np.where(st.mask, st.sync_block, st.sync_cluster)
        )
        if st.barriers is not None:
            st.barriers.share(st, st.mask, cluster)
        if st.far is not None:
            st.far[:, st.block_in[running_lanes(st)] // cluster] = -1
        return np.int32(0)

    return run


def _arrive_at(code: Any, e: E.Call) -> Fn:
    """(barrier, block)"""
    barrier, rank = code.value(e.args[0]), code.value(e.args[1])

    def run(st: State) -> Any:
        lanes, _, number = places(st, barrier(st))
        there = blocks_of(st, lanes, rank(st))
        if lanes.size:
            require_made(st, lanes, there, number)
            arrive(st, lanes, there, number)
        return np.int32(0)

    return run


def _load(code: Any, e: E.Call) -> Fn:
    """(shared memory, block)"""
    source, rank = code.pointer(e.args[0]), code.value(e.args[1])
    t = parse(e.dtype)

    def run(st: State) -> Any:
        out = np.zeros((t.lanes, st.lanes), t.numpy)
        m, lanes = st.memory[source.data], running_lanes(st)
        there = blocks_of(st, lanes, rank(st))
        first = np.broadcast_to(np.asarray(source.offset(st), np.int64), (st.lanes,))[lanes]
        index = first[None, :] + np.arange(t.lanes)[:, None]
        outside = (index < 0) | (index >= m.size // t.numpy.itemsize)
        if outside.any():
            lane = int(lanes[outside.any(axis=0)][0])
            tell(st, BOUNDS, lane, f"reads beyond the end of {m.name} of another block")
        elif lanes.size:
            instance = m.instance[there * st.geometry.threads]
            at = index + instance * (m.step // t.numpy.itemsize)
            units, who = m.units(at, np.broadcast_to(lanes, at.shape), t.numpy.itemsize)
            m.shadow.read(st, m, units, who)
            m.traffic.loads += at.size
            out[:, lanes] = m.view(t.element)[at]
        return out if t.lanes > 1 else out[0]

    return run


Code.calls.update(
    {
        "tir.ptx_cluster_rank": _rank,
        "tir.ptx_cluster_sync": _sync,
        "tir.ptx_arrive_barrier_cluster": _arrive_at,
        "tir.ptx_cluster_load": _load,
    }
)
