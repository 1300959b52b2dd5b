"""Schedules of kernels with lengths that may be variables; see feature_cases.py."""

from __future__ import annotations

from typing import Any

from tests.unit.auto_scheduler.feature_cases import conv_tensors, matmul_tensors, tile, tile_all
from tilewright import te, tir


def on_threads(s: Any, stage: Any, tiles: list[list[Any]], wide: bool) -> Any:
    """Bind the three outer tiles of all axes to blocks, virtual threads and threads."""
    groups = [[t[k] for t in tiles] for k in range(len(tiles[0]))]
    s[stage].reorder(*[x for group in groups for x in group])
    fused = groups[0][-1]
    for group, tag in zip(groups, ("blockIdx", "vthread", "threadIdx")):
        if wide:
            for axis, d in zip(group, "yx"):
                name = tag if tag == "vthread" else f"{tag}.{d}"
                s[stage].bind(axis, te.thread_axis(name))
            fused = group[-1]
        else:
            fused = s[stage].fuse(*group)
            s[stage].bind(fused, te.thread_axis(tag if tag == "vthread" else f"{tag}.x"))
    return fused


def cooperate(s: Any, stage: Any, threads: Any, L: Any, name: str, extent: int) -> None:
    """Let all threads of a block fetch a part, some elements at a time."""
    fused = s[stage].fuse(*s[stage].op.axis)
    rest, lanes = s[stage].split(fused, factor=L(name, extent))
    s[stage].vectorize(lanes)
    _, thread = s[stage].split(rest, factor=threads)
    s[stage].bind(thread, te.thread_axis("threadIdx.x"))


def gpu_matmul(relu: bool = False, n: int = 16, m: int = 16, k: int = 8) -> Any:
    """SSSRRSRS, operands in shared memory."""

    def case(L: Any) -> Any:
        A, B, C, D = matmul_tensors(n, m, k, relu)
        s = te.create_schedule(D.op)
        stage = C if relu else s.cache_write(C, "local")
        if relu:
            s[C].set_scope("local")
        AS, BS = s.cache_read(A, "shared", [stage]), s.cache_read(B, "shared", [stage])
        stage = s[stage].op.output(0)
        axes = [("i", n), ("j", m)]
        tile_all(s, stage, L, axes, [("r", k)], "SSSRRSRS")
        tiles = []
        for axis, (name, extent) in zip(s[D].op.axis, axes):
            rest, inner = s[D].split(axis, factor=L(f"{name}0", extent) * L(f"{name}1", extent))
            rest, thread = s[D].split(rest, factor=L(f"{name}2", extent))
            block, virtual = s[D].split(rest, factor=L(f"{name}3", extent))
            tiles.append([block, virtual, thread, inner])
        s[stage].compute_at(s[D], on_threads(s, D, tiles, False))
        threads = L("i2", n) * L("j2", m)
        for copy, name in ((AS, "u"), (BS, "v")):
            s[copy].compute_at(s[stage], s[stage].leaf_iter_vars[6])
            cooperate(s, copy, threads, L, name, 4)
        return s, [A, B, D]

    return case


def gpu_conv(shape: Any) -> Any:
    """The padded input is fetched from a stage that is inlined."""

    def case(L: Any) -> Any:
        args, P, C, D, E, (oh, ow) = conv_tensors(shape)
        s = te.create_schedule(E.op)
        s[D].compute_inline()
        s[C].set_scope("local")
        PS, WS = s.cache_read(P, "shared", [C]), s.cache_read(args[1], "shared", [C])
        s[P].compute_inline()
        axes = [("n", 1), ("y", oh), ("x", ow), ("f", shape[4])]
        tile_all(s, C, L, axes, [("ry", shape[5]), ("rx", shape[5]), ("rc", shape[3])], "SSSRRSRS")
        tiles = []
        for axis, (name, extent) in zip(s[E].op.axis, axes):
            rest, inner = s[E].split(axis, factor=L(f"{name}0", extent) * L(f"{name}1", extent))
            rest, thread = s[E].split(rest, factor=L(f"{name}2", extent))
            block, virtual = s[E].split(rest, factor=L(f"{name}3", extent))
            tiles.append([block, virtual, thread, inner])
        s[C].compute_at(s[E], on_threads(s, E, tiles, False))
        threads: Any = 1
        for name, extent in axes:
            threads = L(f"{name}2", extent) * threads
        for copy, name in ((PS, "u"), (WS, "v")):
            s[copy].compute_at(s[C], s[C].leaf_iter_vars[14])
            cooperate(s, copy, threads, L, name, 4)
        return s, args

    return case


def gpu_plain(wide: bool) -> Any:
    """One element a thread, blocks and threads in one or two dimensions."""

    def case(L: Any) -> Any:
        n, m = 16, 24
        X = te.placeholder((n, m), name="X")
        Y = te.compute((m, n), lambda i, j: tir.exp(X[j, i]) + 1.0, name="Y")
        s = te.create_schedule(Y.op)
        if wide:
            tiles = [
                tile(s[Y], axis, L, name, extent, 2)
                for axis, name, extent in zip(s[Y].op.axis, "ij", (m, n))
            ]
            on_threads(s, Y, tiles, True)
        else:
            fused = s[Y].fuse(*s[Y].op.axis)
            block, thread = s[Y].split(fused, factor=L("t", n * m))
            s[Y].bind(block, te.thread_axis("blockIdx.x"))
            s[Y].bind(thread, te.thread_axis("threadIdx.x"))
        return s, [X, Y]

    return case
