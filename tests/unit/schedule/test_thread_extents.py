"""Axes bound to thread axes that say how many threads they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.base.errors import ScheduleError

TAGS = ("threadIdx.x", "blockIdx.x", "vthread")


def one_more() -> tuple[Any, ...]:
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    return n, a, te.compute((n,), lambda i: a[i] + 1.0, name="B")


def check(s: Any, a: Any, b: Any, tag: str) -> None:
    """On a CPU for virtual threads, else as a kernel."""
    x = np.arange(7, dtype="float32")
    out = np.zeros_like(x)
    f = tw.build(s, [a, b], "llvm" if tag == "vthread" else "cuda")
    (f if tag == "vthread" else f.run_simt)(x, out)
    np.testing.assert_array_equal(out, x + 1)


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("threads", [1, 4, "m"])
def test_a_loop_of_unknown_length_is_not_left_to_a_few_threads(tag: str, threads: Any) -> None:
    _, a, b = one_more()
    s = te.create_schedule(b.op)
    count = te.size_var("m") if threads == "m" else threads
    s[b].bind(b.op.axis[0], te.thread_axis(count, tag))
    told = rf"bind on stage B: axis i has extent n, and cannot prove that {tag} with extent "
    with pytest.raises(ScheduleError, match=rf"{told}{threads} has as many threads; split"):
        tw.lower(s, [a, b])


@pytest.mark.parametrize("tag", TAGS)
def test_what_the_error_says_helps(tag: str) -> None:
    _, a, b = one_more()
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=4)
    s[b].bind(inner, te.thread_axis(4, tag))
    if tag != "vthread":
        s[b].bind(outer, te.thread_axis("blockIdx.y"))
    check(s, a, b, tag)


@pytest.mark.parametrize("tag", ["blockIdx.x", "vthread"])
@pytest.mark.parametrize("more", [0, 2])
def test_as_many_threads_as_steps_or_more(tag: str, more: int) -> None:
    n, a, b = one_more()
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis(n + more, tag))
    check(s, a, b, tag)


def total(threads: int | None) -> tuple[Any, Any, Any]:
    """The sum of A, a part of n terms being left to each thread."""
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    b = te.compute((), lambda: te.sum(a[k], axis=k), name="B")
    s = te.create_schedule(b.op)
    if threads is None:
        _, inner = s[b].split(k, nparts=1)
    else:
        _, inner = s[b].split(k, factor=threads)
    part = s.rfactor(b, inner)
    axis = s[b].op.reduce_axis[0]
    s[part].compute_at(s[b], axis)
    s[b].bind(axis, te.thread_axis(threads or 1, "threadIdx.x"))
    return s, a, b


def test_parts_of_a_reduction_are_not_left_out() -> None:
    """One part a thread, of which there are as many as elements, but one thread."""
    s, a, b = total(None)
    with pytest.raises(ScheduleError, match=r"bind on stage B: axis k\.inner.* has extent n, and"):
        tw.lower(s, [a, b])


def test_parts_of_a_reduction_by_as_many_threads() -> None:
    s, a, b = total(4)
    x = np.arange(7, dtype="float32")
    out = np.zeros((), "float32")
    tw.build(s, [a, b], "cuda").run_simt(x, out)
    assert out == x.sum()
