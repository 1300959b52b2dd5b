"""Calls and attributes that copy asynchronously: `cp.async`, its groups and waits.

Calls are `ptx_cp_async`, `ptx_commit_group` and `ptx_wait_group`; attributes around stores are
"async_scope", "async_commit_queue_scope" and "async_wait_queue_scope".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from .simt_access import load
from .simt_calls import NO_LIMIT
from .simt_copies import async_store, commit, copies, wait
from .simt_expr import Code, Fn
from .simt_memory import Memory
from .simt_report import MISALIGNED
from .simt_state import State
from .simt_stmt import KernelCode, Step

# -- calls


def _cp_async(code: Any, e: E.Call) -> Fn:
    """(to, offset, from, offset, bytes [, predicate]); where that is false zeros are written."""
    element = "" if e.dtype in ("handle", "") else parse(e.dtype).element
    to, from_ = code.pointer(e.args[0]), code.pointer(e.args[2])
    to_offset, from_offset, size = [code.value(e.args[n]) for n in (1, 3, 4)]
    predicate = code.value(e.args[5]) if len(e.args) > 5 else None

    def run(st: State) -> Any:
        target, source = st.memory[to.data], st.memory[from_.data]
        dtype = to.dtype or element
        if not dtype:
            dtype = code.units.get(to.data, ("uint8",))[0]
        count = int(np.max(size(st))) // parse(dtype).numpy.itemsize
        steps = np.arange(count, dtype=np.int64)[:, None]
        i = np.asarray(from_.offset(st), np.int64) + from_offset(st) + steps
        old = st.mask
        value: Any = np.zeros((count, st.lanes), parse(dtype).numpy)
        if predicate is None:
            value = load(st, source, dtype, i, NO_LIMIT, None)
        else:
            holds = np.broadcast_to(predicate(st) != 0, (st.lanes,))
            st.mask = holds if old is None else holds & old
            if st.mask.any():
                value = load(st, source, dtype, i, NO_LIMIT, None)
            st.mask = old
        j = np.asarray(to.offset(st), np.int64) + to_offset(st) + steps
        _aligned(st, source, i[0], count)
        _aligned(st, target, j[0], count)
        async_store(st, target, dtype, j, value, NO_LIMIT)
        return np.int32(0)

    return run


def _aligned(st: State, m: Memory, first: Any, count: int) -> None:
    """Report copies of `count` elements that do not start at a multiple of their size."""
    wrong = np.broadcast_to(first % count != 0, (st.lanes,))
    if st.mask is not None:
        wrong = wrong & st.mask
    if wrong.any():
        lane = int(np.flatnonzero(wrong)[0])
        number, index = int(st.number[lane]), int(np.broadcast_to(first, (st.lanes,))[lane])
        st.log.add(
            MISALIGNED,
            f"{st.geometry.thread(number)} copies {count} elements at {m.name}[{index}], "
            "which is no multiple of their number",
            st.site,
            m.name,
            index,
            (number,),
            None,
            int(wrong.sum()),
        )


def _commit(code: Any, e: E.Call) -> Fn:
    return lambda st: commit(st)


def _wait(code: Any, e: E.Call) -> Fn:
    most = code.value(e.args[0]) if e.args else lambda st: 0
    return lambda st: wait(st, most(st))


# -- attributes


def _number(e: Any) -> int:
    return int(e.value) if isinstance(e, E.IntImm) else 0


def _async_scope(code: Any, s: S.AttrStmt, steps: list[Step]) -> None:
    body = code.block(s.body)

    def run(st: State) -> None:
        old, st.in_async = st.in_async, True
        body(st)
        st.in_async = old

    steps.append(run)


def _commit_scope(code: Any, s: S.AttrStmt, steps: list[Step]) -> None:
    queue, body = _number(s.value), code.block(s.body)

    def run(st: State) -> None:
        under_way = copies(st)
        old, under_way.queue = under_way.queue, queue
        body(st)
        under_way.queue = old
        commit(st, queue)

    steps.append(run)


def _wait_scope(code: Any, s: S.AttrStmt, steps: list[Step]) -> S.Stmt:
    queue, inner = _number(s.value), s.body
    most: Fn = lambda st: 0  # noqa: E731
    if isinstance(inner, S.AttrStmt) and inner.attr_key == "async_wait_inflight_count":
        most, inner = code.value(inner.value), inner.body
    steps.append(lambda st: wait(st, most(st), queue))
    return inner


Code.calls.update(
    {
        "tir.ptx_cp_async": _cp_async,
        "tir.ptx_commit_group": _commit,
        "tir.ptx_wait_group": _wait,
    }
)
KernelCode.attributes.update(
    {
        "async_scope": _async_scope,
        "async_commit_queue_scope": _commit_scope,
        "async_wait_queue_scope": _wait_scope,
    }
)
