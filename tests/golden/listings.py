"""Functions that print as the listings of TVM's reduction tutorial, built by hand."""

from __future__ import annotations

from typing import Any

from tilewright.loopir import op
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.expr import BufferLoad, Var, const
from tilewright.loopir.iter import IterVar
from tilewright.loopir.module import IRModule
from tilewright.loopir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    seq,
)

ATTRS = {"global_symbol": "main", "tir.noalias": True, "from_legacy_te_schedule": True}


def loop(var: Var, extent: Any, body: Stmt, kind: int = ForKind.SERIAL, low: Any = 0) -> For:
    return For(var, low, extent, kind, body)


class RowSum:
    """The arguments of B[i] = sum over k of A[i, k], and their flattened views."""

    def __init__(self) -> None:
        self.n, self.m = Var("n"), Var("m")
        self.s0, self.s1, self.sb = Var("stride"), Var("stride"), Var("stride")
        n, m = self.n, self.m
        self.A = Buffer((n, m), name="A", strides=(self.s0, self.s1), buffer_type="auto_broadcast")
        self.B = Buffer((n,), name="B", strides=(self.sb,), buffer_type="auto_broadcast")
        self.A_flat = self.A.with_(shape=(self.s0 * n,), strides=())
        self.B_flat = self.B.with_(shape=(self.sb * n,), strides=())

    def read_a(self, i: Any, k: Any) -> BufferLoad:
        return BufferLoad(self.A_flat, [i * self.s0 + k * self.s1])

    def read_b(self, i: Any) -> BufferLoad:
        return BufferLoad(self.B_flat, [i * self.sb])

    def write_b(self, i: Any, value: Any) -> BufferStore:
        return BufferStore(self.B_flat, value, [i * self.sb])

    def update(self, i: Any, k: Any) -> BufferStore:
        return self.write_b(i, self.read_b(i) + self.read_a(i, k))

    def module(self, body: Stmt) -> IRModule:
        a, b = Var("A", "handle"), Var("B", "handle")
        return IRModule({"main": PrimFunc([a, b], body, None, {a: self.A, b: self.B}, ATTRS)})


def default() -> IRModule:
    p = RowSum()
    i, k = Var("i"), Var("k")
    body = seq(p.write_b(i, const(0.0)), loop(k, p.m, p.update(i, k)))
    return p.module(loop(i, p.n, body))


def split() -> IRModule:
    p = RowSum()
    io, ii, ko, ki = Var("i.outer"), Var("i.inner"), Var("k.outer"), Var("k.inner")
    i, k, c = io * 32 + ii, ko * 16 + ki, Var("cse_var_1")
    update = LetStmt(c, i, p.write_b(c, p.read_b(c) + p.read_a(c, k)))
    inner = loop(ko, (p.m + 15) // 16, loop(ki, 16, IfThenElse(op.likely(k < p.m), update)))
    body = seq(
        IfThenElse(op.likely(i < p.n), p.write_b(i, const(0.0))),
        IfThenElse(op.likely(i < p.n), inner),
    )
    return p.module(loop(io, (p.n + 31) // 32, loop(ii, 32, body)))


def threads() -> IRModule:
    p = RowSum()
    bx, tx = Var("blockIdx.x"), Var("threadIdx.x")
    ko, ki = Var("k.outer"), Var("k.inner")
    i, k = bx * 32 + tx, ko * 16 + ki
    inner = IfThenElse(op.likely(i < p.n), IfThenElse(op.likely(k < p.m), p.update(i, k)))
    body: Stmt = seq(
        IfThenElse(op.likely(i < p.n), p.write_b(i, const(0.0))),
        loop(ko, (p.m + 15) // 16, loop(ki, 16, inner)),
    )
    for var, extent in ((tx, const(32)), (bx, (p.n + 31) // 32)):
        axis = IterVar((0, extent), var, IterVar.ThreadIndex, var.name)
        body = AttrStmt(axis, "thread_extent", extent, body)
    return p.module(body)


def rfactor() -> IRModule:
    p = RowSum()
    ko, ki, i, ax0, kv = Var("k.outer"), Var("k.inner"), Var("i"), Var("ax0"), Var("k.inner.v")
    rf = Buffer((16 * p.n,), name="B.rf")
    k = ko * 16 + ki
    at = ki * p.n + i
    update = BufferStore(rf, BufferLoad(rf, [at]) + p.read_a(i, k), [at])
    first = seq(
        BufferStore(rf, const(0.0), [at]),
        loop(ko, (p.m + 15) // 16, IfThenElse(op.likely(k < p.m), update)),
    )
    second = seq(
        p.write_b(ax0, const(0.0)),
        loop(kv, 16, p.write_b(ax0, p.read_b(ax0) + BufferLoad(rf, [kv * p.n + ax0]))),
    )
    body = seq(loop(ki, 16, loop(i, p.n, first)), loop(ax0, p.n, second))
    return p.module(Allocate(rf, body))


def convolution() -> IRModule:
    n = Var("n")
    s0, s1 = Var("stride"), Var("stride")
    source = Buffer((n, n), name="Input", strides=(s0, s1), buffer_type="auto_broadcast")
    kernel = Buffer((3, 3), name="Filter")
    out = Buffer((n - 2, n - 2), name="Output")
    source_flat = source.with_(shape=(s0 * n,), strides=())
    kernel_flat, out_flat = kernel.with_(shape=(9,)), out.with_(shape=((n - 2) * (n - 2),))
    i, j, di, dj = Var("i"), Var("j"), Var("di"), Var("dj")
    at = [i * (n - 2) + j]
    product = BufferLoad(source_flat, [(i + di) * s0 + (j + dj) * s1]) * BufferLoad(
        kernel_flat, [di * 3 + dj]
    )
    update = BufferStore(out_flat, BufferLoad(out_flat, at) + product, at)
    body = seq(BufferStore(out_flat, const(0.0), at), loop(di, 3, loop(dj, 3, update)))
    handles = [Var(b.name, "handle") for b in (source, kernel, out)]
    buffers = dict(zip(handles, (source, kernel, out), strict=True))
    return IRModule(
        {"main": PrimFunc(handles, loop(i, n - 2, loop(j, n - 2, body)), None, buffers, ATTRS)}
    )


LISTINGS = {
    "default": default,
    "split": split,
    "bound to GPU threads": threads,
    "rfactor": rfactor,
    "convolution": convolution,
}
