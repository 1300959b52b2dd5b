"""Scans whose steps run in one kernel: no step reads what threads wrote that it does not wait
for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.base.errors import ScheduleError

STEPS, WIDTH = 4, 12
ROWS = np.random.default_rng(4).integers(-3, 4, (STEPS, WIDTH)).astype("int32")

Read = Callable[[Any, Any, Any], Any]
OWN: Read = lambda s, t, i: s[t - 1, i] * 2  # noqa: E731
LEFT: Read = lambda s, t, i: te.if_then_else(i > 0, s[t - 1, i - 1], 1)  # noqa: E731
TURNED: Read = lambda s, t, i: s[t - 1, WIDTH - 1 - i]  # noqa: E731
FIRST: Read = lambda s, t, i: s[t - 1, 0] + s[t - 1, i]  # noqa: E731


def recurrence(read: Read) -> tuple[Any, ...]:
    a = te.placeholder((STEPS, WIDTH), "int32", name="A")
    state = te.placeholder((STEPS, WIDTH), "int32", name="state")
    first = te.compute((1, WIDTH), lambda _, i: a[0, i], name="first")
    step = te.compute((STEPS, WIDTH), lambda t, i: read(state, t, i) + a[t, i], name="step")
    return a, first, step, te.scan(first, step, state, inputs=[a], name="scan")


def expected(read: Read) -> Any:
    out = ROWS.copy()
    one = {
        OWN: lambda r: r * 2,
        LEFT: lambda r: np.concatenate([[1], r[:-1]]),
        TURNED: lambda r: r[::-1],
        FIRST: lambda r: r[0] + r,
    }[read]
    for t in range(1, STEPS):
        out[t] = one(out[t - 1]) + ROWS[t]
    return out


def check(s: Any, args: list[Any], read: Read) -> None:
    out = np.full_like(ROWS, -99)
    tvm.build(s, args, "cuda").run_simt(ROWS, out)
    np.testing.assert_array_equal(out, expected(read))


def bound(read: Read, env: bool, blocks: bool) -> tuple[Any, list[Any]]:
    a, first, step, scan = recurrence(read)
    s = te.create_schedule(scan.op)
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    if blocks and env:
        count = te.thread_axis((0, 3), "blockIdx.x")
        block, thread = count, te.thread_axis((0, 4), "threadIdx.x")
    elif env:
        thread = te.thread_axis((0, 4), "threadIdx.x")
    if env:
        s[scan].env_threads([block, thread] if blocks else [thread])
    for t in (first, step):
        outer, inner = s[t].split(t.op.axis[1], factor=4)
        s[t].bind(inner, thread)
        if blocks:
            s[t].bind(outer, block)
    return s, [a, scan]


@pytest.mark.parametrize("read", [OWN, LEFT, TURNED, FIRST], ids=["own", "left", "turned", "first"])
@pytest.mark.parametrize("env", [False, True], ids=["step by step", "one kernel"])
@pytest.mark.parametrize("blocks", [False, True], ids=["threads", "blocks"])
def test_reads_of_the_state(read: Read, env: bool, blocks: bool) -> None:
    s, args = bound(read, env, blocks)
    if env and blocks and read is not OWN:
        with pytest.raises(ScheduleError, match="other threads of blockIdx"):
            tvm.lower(s, args)
    else:
        check(s, args, read)


def two_states(both: bool) -> tuple[Any, list[Any]]:
    """u and v read each other; the steps of v are shared out among blocks, those of u are not."""
    a = te.placeholder((STEPS, WIDTH), "int32", name="A")
    u, v = (te.placeholder((STEPS, WIDTH), "int32", name=n) for n in "uv")
    starts = [te.compute((1, WIDTH), lambda _, i: a[0, i], name=f"{n}0") for n in "uv"]
    steps = [
        te.compute((STEPS, WIDTH), lambda t, i: v[t - 1, i] + a[t, i], name="u1"),
        te.compute((STEPS, WIDTH), lambda t, i: u[t - 1, i] - a[t, i], name="v1"),
    ]
    scan = te.scan(starts, steps, [u, v], inputs=[a], name="scan")
    s = te.create_schedule([t.op for t in scan])
    thread = te.thread_axis((0, 4), "threadIdx.x")
    s[scan[0].op].env_threads([thread])
    for k, t in enumerate([*starts, *steps]):
        outer, inner = s[t].split(t.op.axis[1], factor=4)
        s[t].bind(inner, thread)
        if k == 3 or (k == 2 and both):
            s[t].bind(outer, te.thread_axis("blockIdx.x"))
    return s, [a, *scan]


def test_states_that_read_each_other() -> None:
    s, args = two_states(False)
    with pytest.raises(ScheduleError, match="other threads of blockIdx"):
        tvm.lower(s, args)
    s, args = two_states(True)
    outs = [np.full_like(ROWS, -99) for _ in range(2)]
    tvm.build(s, args, "cuda").run_simt(ROWS, *outs)
    u, v = ROWS.copy(), ROWS.copy()
    for t in range(1, STEPS):
        u[t], v[t] = v[t - 1] + ROWS[t], u[t - 1] - ROWS[t]
    np.testing.assert_array_equal(outs[0], u)
    np.testing.assert_array_equal(outs[1], v)
