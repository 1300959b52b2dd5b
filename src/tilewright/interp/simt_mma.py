"""Matrix operations of warps on WMMA fragments: `tvm_load_matrix_sync`, `tvm_mma_sync`, ...

A fragment lies in memory of the warp, row-major, whatever its layout in registers: that is the
hardware's own. Products are summed in float64 (integers wrap) and rounded to the accumulator's
type; float32 operands count as tf32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from . import np_ops
from .simt_access import load, require_start, store
from .simt_calls import NO_LIMIT
from .simt_expr import Code, Fn
from .simt_report import DIVERGENT
from .simt_state import Array, State

_WARP = 32
_MATRIX = 32  # bytes that matrices of fragments are aligned to in memory
_ROW_LANES = 4  # that share a row of a tile
_WORD = 4  # bytes


def whole_warps(st: State, what: str) -> Array:
    """The warps that run, all their lanes together; reports others."""
    g = st.geometry
    if g.warp_size != _WARP or g.threads % _WARP:
        raise TilewrightError(
            f"simt: {what} needs blocks of whole warps of {_WARP} threads, not of {g.threads}"
        )
    warps, alone = whole_parts(st, _WARP)
    if alone is not None and not st.quiet:
        number = int(st.number[alone])
        st.log.add(
            DIVERGENT,
            f"{what} needs all lanes of the warp of {st.geometry.thread(number)}",
            st.site,
            "",
            None,
            (number,),
        )
    return warps


def whole_parts(st: State, size: int) -> tuple[Array, int | None]:
    """The parts of so many neighbouring lanes that run, all of theirs together; and the first lane
    that runs without all of its part."""
    parts = np.arange(st.lanes // size)
    if st.mask is None:
        return parts, None
    every = st.mask.reshape(-1, size).all(axis=1)
    alone = np.flatnonzero(st.mask & ~np.repeat(every, size))
    return parts[every], int(alone[0]) if alone.size else None


# -- fragments


def _sizes(e: E.Call, scope: str) -> tuple[int, int]:
    """Rows and columns of a fragment, from the (m, n, k) of a call and where it lives."""
    m, n, k = [int(x.value) for x in e.args[1:4] if isinstance(x, E.IntImm)]
    if scope.endswith("matrix_a"):
        return m, k
    return (k, n) if scope.endswith("matrix_b") else (m, n)


class _Fragment:
    """Fragment `index` of a memory: an array (warps, rows, columns) of those that run."""

    def __init__(self, code: Any, data: Any, index: Any) -> None:
        self.data = data
        self.index = code.value(index)
        self.dtype = (code.units.get(data) or ("float32",))[0]
        self.code = code

    def shape(self) -> tuple[int, int]:
        """Rows and columns, as the calls that fill, load or store the fragment say."""
        known: tuple[int, int] | None = self.code.fragments.get(self.data)
        if known is None:
            raise TilewrightError(
                f"simt: nothing fills, loads or stores the fragment {self.data.name}"
            )
        return known

    def span(self, st: State, size: int) -> slice:
        first = int(np.max(self.index(st))) * size
        return slice(first, first + size)

    def table(self, st: State) -> Array:
        m = st.memory[self.data]
        flat = m.view(self.dtype)
        return np.asarray(flat.reshape(-1, m.step // flat.itemsize))

    def get(self, st: State, warps: Array) -> Array:
        rows, columns = self.shape()
        span = self.span(st, rows * columns)
        self._check(st, warps, span)
        return self.table(st)[warps, span].reshape(-1, rows, columns)

    def put(self, st: State, warps: Array, value: Array, shape: tuple[int, int]) -> None:
        span = self.span(st, shape[0] * shape[1])
        self._bounds(st, span)
        table = self.table(st)
        table[warps, span] = value.reshape(len(value), span.stop - span.start)
        m = st.memory[self.data]
        m.shadow.set_written(self._units(m, warps, span))

    def _units(self, m: Any, warps: Array, span: slice) -> Array:
        columns = np.arange(span.start, span.stop)
        return np.asarray(warps[:, None] * (m.step // m.unit) + columns[None, :])

    def _bounds(self, st: State, span: slice) -> None:
        m = st.memory[self.data]
        size = m.size // parse(self.dtype).numpy.itemsize
        if span.stop > size:
            raise TilewrightError(
                f"simt: a fragment ends at element {span.stop} of {m.name}, which has {size}"
            )

    def _check(self, st: State, warps: Array, span: slice) -> None:
        self._bounds(st, span)
        m = st.memory[self.data]
        at = self._units(m, warps, span)
        nothing = m.shadow.writes[at] == 0
        if nothing.any():
            lanes = np.broadcast_to((warps * _WARP)[:, None], at.shape)
            m.unwritten(st, at, lanes, nothing)
            number = st.origin_of[st.site, m.name]
            st.log.tell(st.origins[number - 1])


def _fragment(code: Any, data: Any, index: Any) -> _Fragment:
    if not isinstance(data, E.Var):
        raise TilewrightError(f"simt: a fragment is named by its memory, not by {data}")
    return _Fragment(code, data, index)


def _sized(code: Any, e: E.Call) -> tuple[_Fragment, tuple[int, int]]:
    """The fragment that a call fills, loads or stores, and its size."""
    f = _fragment(code, e.args[0], e.args[4])
    shape = code.fragments[f.data] = _sizes(e, code.scopes.get(f.data, ""))
    return f, shape


def _fill(code: Any, e: E.Call) -> Fn:
    """(fragment, m, n, k, index, value)"""
    f, shape = _sized(code, e)
    value = code.value(e.args[5])

    def run(st: State) -> Any:
        warps = whole_warps(st, "tvm_fill_fragment")
        v = np.broadcast_to(value(st), (st.lanes,)).reshape(-1, _WARP)[warps, :1]
        f.put(st, warps, np.repeat(v, shape[0] * shape[1], axis=1), shape)
        return np.int32(0)

    return run


class _Tile:
    """The elements of a tile in memory, (elements / 32, lanes), and which of the fragment each is.

    Lanes take them as those of mma do (PTX ISA, "Matrix Fragments for mma.m16n8k16"): four lanes a
    row, neighbours that fill a word together, or two sums, and eight rows at a time.
    """

    def __init__(self, code: Any, e: E.Call, shape: tuple[int, int], f: _Fragment) -> None:
        self.pointer = code.pointer(e.args[5])
        self.stride = code.value(e.args[6])
        down = getattr(e.args[7], "value", "row_major") == "col_major"
        sums = code.scopes.get(f.data, "") == "wmma.accumulator"
        size = parse(f.dtype).nbytes
        columns = shape[0] if down else shape[1]  # side by side in memory
        run = 2 if sums else max(1, _WORD // size)
        run = min(run, columns // _ROW_LANES)
        lane = np.arange(_WARP)
        number = np.arange(shape[0] * shape[1] // _WARP)[:, None]
        parts = columns // (_ROW_LANES * run)
        part = number // run
        self.row = lane // _ROW_LANES + part // parts * (_WARP // _ROW_LANES)
        self.column = (lane % _ROW_LANES + part % parts * _ROW_LANES) * run + number % run
        self.order = self.column * shape[1] + self.row
        if not down:
            self.order = self.row * shape[1] + self.column

    def places(self, st: State) -> Any:
        """Indices in memory."""
        first = np.broadcast_to(np.asarray(self.pointer.offset(st), np.int64), (st.lanes,))
        step = np.broadcast_to(np.asarray(self.stride(st), np.int64), (st.lanes,))
        lane = st.lane_in_warp
        return first + self.row[:, lane] * step + self.column[:, lane]


def _load_matrix(code: Any, e: E.Call) -> Fn:
    """(fragment, m, n, k, index, address, stride, layout); the lanes share the reads."""
    f, shape = _sized(code, e)
    tile = _Tile(code, e, shape, f)
    pointer = tile.pointer

    def run(st: State) -> Any:
        warps = whole_warps(st, "tvm_load_matrix_sync")
        dtype = pointer.dtype or f.dtype
        m, at = st.memory[pointer.data], tile.places(st)
        if m.off:
            require_start(st, m, at[0], _MATRIX, False)
        v = load(st, m, dtype, at, NO_LIMIT, None)
        each = np.empty((st.lanes // _WARP, shape[0] * shape[1]), v.dtype)
        each[:, tile.order] = np.moveaxis(v.reshape(len(v), -1, _WARP), 0, 1)
        f.put(st, warps, each[warps], shape)
        return np.int32(0)

    return run


def _store_matrix(code: Any, e: E.Call) -> Fn:
    """(fragment, m, n, k, index, address, stride, layout)"""
    f, shape = _sized(code, e)
    tile = _Tile(code, e, shape, f)
    pointer = tile.pointer

    def run(st: State) -> Any:
        warps = whole_warps(st, "tvm_store_matrix_sync")
        values = f.get(st, warps)
        dtype = pointer.dtype or f.dtype
        each = np.zeros((st.lanes // _WARP, shape[0] * shape[1]), values.dtype)
        each[warps] = values.reshape(len(warps), -1)
        v = np.moveaxis(each[:, tile.order], 1, 0).reshape(-1, st.lanes)
        m, at = st.memory[pointer.data], tile.places(st)
        if m.off:
            require_start(st, m, at[0], _MATRIX, True)
        store(st, m, dtype, at, v, NO_LIMIT, None)
        return np.int32(0)

    return run


def _mma_sync(code: Any, e: E.Call) -> Fn:
    """d = a b + c: four pairs of (fragment, index)."""
    d, a, b, c = [_fragment(code, e.args[n], e.args[n + 1]) for n in (0, 2, 4, 6)]

    def run(st: State) -> Any:
        warps = whole_warps(st, "tvm_mma_sync")
        x, y, z = [f.get(st, warps) for f in (a, b, c)]
        d.put(st, warps, multiply(x, y, z, d.dtype), d.shape())
        return np.int32(0)

    return run


def multiply(a: Array, b: Array, c: Array, dtype: str) -> Array:
    """a b + c for stacks of matrices, as tensor cores do it."""
    if parse(dtype).is_integer:
        total = np.matmul(a.astype(np.int64), b.astype(np.int64)) + c.astype(np.int64)
        return np.asarray(total.astype(parse(dtype).numpy))
    x, y = [_tf32(v) if v.dtype == np.float32 else v for v in (a, b)]
    total = np.matmul(x.astype(np.float64), y.astype(np.float64)) + c.astype(np.float64)
    return np_ops.round_to(total, dtype)


def _tf32(x: Array) -> Array:
    """float32 with 10 bits of mantissa, to nearest."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x), rounded.view(np.float32), x)


Code.calls.update(
    {
        "tir.tvm_fill_fragment": _fill,
        "tir.tvm_load_matrix_sync": _load_matrix,
        "tir.tvm_store_matrix_sync": _store_matrix,
        "tir.tvm_mma_sync": _mma_sync,
    }
)
