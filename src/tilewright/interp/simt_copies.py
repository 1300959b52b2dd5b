"""Asynchronous copies on their way from global to shared memory, and what waits for them.

What is copied may be used by the thread that copied it once it has waited for the copy's group, by
others after a barrier behind that. Elements on their way are negative in shadow memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from .simt_access import locate, put
from .simt_memory import Memory
from .simt_shadow import RaceShadow
from .simt_state import Array, State

ONE_QUEUE = -1


class Copies:
    """Copies on their way: where, whose, in which group; how many groups each lane has closed."""

    __slots__ = ("closed", "flying", "queue")

    def __init__(self) -> None:
        self.closed: dict[int, Array] = {}
        self.flying: dict[int, list[tuple[Memory, Array, Array, Array]]] = {}
        self.queue = ONE_QUEUE

    def groups(self, st: State, queue: int) -> Array:
        closed = self.closed.get(queue)
        if closed is None:
            closed = self.closed[queue] = np.zeros(st.lanes, np.int64)
        return closed


def copies(st: State) -> Copies:
    if st.copies is None:
        st.copies = Copies()
    found: Copies = st.copies
    return found


def async_store(st: State, m: Memory, dtype: str, index: Any, value: Any, limit: int) -> None:
    """Write elements by a copy that ends at some later time."""
    if not isinstance(m.shadow, RaceShadow) or m.scope != "shared":
        raise TilewrightError(f"simt: async copies go to shared memory, not to {m.name}")
    place = locate(st, m, dtype, index, limit, None, True)
    if not place.at.size:
        return
    at, lanes = put(st, m, dtype, place, value)
    m.shadow.writes[at] = -st.access(lanes)
    st.report.async_copies += place.at.size
    under_way = copies(st)
    group = under_way.groups(st, under_way.queue)[lanes]
    flying = under_way.flying.setdefault(under_way.queue, [])
    flying.append((m, at.reshape(-1), lanes.reshape(-1).copy(), group.reshape(-1)))


def commit(st: State, queue: int = ONE_QUEUE) -> None:
    """Close the group of each lane that runs."""
    closed = copies(st).groups(st, queue)
    closed += 1 if st.mask is None else st.mask.astype(np.int64)


def wait(st: State, most: Any, queue: int = ONE_QUEUE) -> None:
    """Wait until at most `most` groups of each lane that runs are on their way."""
    under_way = copies(st)
    closed = under_way.groups(st, queue)
    limit = np.broadcast_to(closed - np.asarray(most, np.int64), (st.lanes,))
    left = []
    for m, at, lanes, group in under_way.flying.get(queue, ()):
        done = group < limit[lanes]
        if st.mask is not None:
            done &= st.mask[lanes]
        ours = done & (m.shadow.writes[at] < 0)
        m.shadow.writes[at[ours]] = st.access(lanes[ours])
        if not done.all():
            left.append((m, at[~done], lanes[~done], group[~done]))
    under_way.flying[queue] = left
