"""Stages that loops of the user's own compute, or a packed function."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import te, tir

FLIP = "tests.fuzz.flip"


@tvm.register_func(FLIP, override=True)
def _flip(source: Any, target: Any) -> None:
    target.copyfrom(np.ascontiguousarray(np.flip(source.numpy())))


def flip_arrays(source: Any, target: Any) -> None:
    """What FLIP does, for the oracle."""
    target[...] = np.flip(source)


def extern(m: Any) -> Any:
    """A tensor of the shape of `x`; on devices the rows are shared out among threads."""
    way, threads = m.param("way"), m.param("threads")
    if way == "packed":
        return te.extern(
            [m.x.shape], [m.x], lambda ins, outs: tir.call_packed(FLIP, ins[0], outs[0]),
            name=m.name, dtype=m.x.dtype,
        )  # fmt: skip
    shape = m.x.shape

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        rank = len(shape)
        rows_apart = way != "scatter" and (rank > 1 or way == "reverse")
        if threads and rows_apart:
            rows = te.thread_axis("blockIdx.x")
            ib.scope_attr(rows, "thread_extent", shape[0])
            _inner(ib, ins[0], outs[0], way, [rows.var])
        elif threads:
            ib.scope_attr(te.thread_axis("blockIdx.x"), "thread_extent", 1)
            _inner(ib, ins[0], outs[0], way, [])
        else:
            _inner(ib, ins[0], outs[0], way, [])
        return ib.get()

    return te.extern([shape], [m.x], body, name=m.name, dtype=m.x.dtype)


def _inner(ib: Any, x: Any, y: Any, way: str, known: list[Any]) -> None:
    """The loops over the indices that are not `known`, and what they do."""
    shape = x.shape
    indices = list(known)

    def loops(d: int) -> None:
        if d == len(shape):
            _element(ib, x, y, way, indices)
            return
        with ib.for_range(0, shape[d], name=f"e{d}") as i:
            indices.append(i)
            loops(d + 1)
            indices.pop()

    loops(len(known))


def _element(ib: Any, x: Any, y: Any, way: str, i: list[Any]) -> None:
    value = x.vload(i, x.dtype)
    if way == "reverse":
        ib.emit(y.vstore([n - 1 - k for k, n in zip(i, x.shape)], value))
    elif way == "scatter":  # half of the places are written twice, the last one stays
        ib.emit(y.vstore(i, value))
        with ib.if_scope(te.floormod(i[0], 2).equal(1)):
            ib.emit(y.vstore([te.floordiv(i[0], 2), *i[1:]], value))
    else:
        last = i[-1]
        with ib.if_scope(last > 0):
            before = y.vload([*i[:-1], last - 1], y.dtype)
            joined = tir.any(before, value) if x.dtype == "bool" else tir.max(before, value)
            ib.emit(y.vstore(i, joined))
        with ib.else_scope():
            ib.emit(y.vstore(i, value))
