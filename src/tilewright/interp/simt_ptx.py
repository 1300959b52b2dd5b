"""`ptx_mma` and `ptx_ldmatrix`: matrix operations of a warp on the registers of its lanes.

Which element of a matrix each lane holds in which register is as in the PTX ISA, "Warp-level Matrix
Instructions". A register has 32 bits, hence one, two or four elements.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from .simt_access import load, store
from .simt_calls import NO_LIMIT
from .simt_expr import Code, Fn
from .simt_mma import multiply, whole_warps
from .simt_state import Array, State

_WARP = 32
_NAMES = {
    "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp32": "float32",
    "fp64": "float64", "int8": "int8", "uint8": "uint8", "int32": "int32",
}  # fmt: skip


def _dtype(e: Any) -> str:
    name = str(e.value)
    return _NAMES.get(name, name)


def a_places(k: int, item: int) -> tuple[Array, Array]:
    """Row and column in the 16 x k matrix of each register element, (elements, 32)."""
    each = 4 // item
    i = np.arange(16 * k // _WARP)[:, None]
    lane = np.arange(_WARP)[None, :]
    register = i // each
    row = lane // 4 + 8 * (register % 2)
    column = (lane % 4) * each + i % each + 4 * each * (register // 2)
    return np.broadcast_arrays(row, column)[0], np.asarray(column)


def b_places(k: int, item: int) -> tuple[Array, Array]:
    """Row and column in the k x 8 matrix."""
    each = 4 // item
    i = np.arange(8 * k // _WARP)[:, None]
    lane = np.arange(_WARP)[None, :]
    row = (lane % 4) * each + i % each + 4 * each * (i // each)
    return np.asarray(row), np.broadcast_to(lane // 4, row.shape)


def c_places() -> tuple[Array, Array]:
    """Row and column in the 16 x 8 accumulator."""
    i = np.arange(4)[:, None]
    lane = np.arange(_WARP)[None, :]
    row, column = lane // 4 + 8 * (i // 2), (lane % 4) * 2 + i % 2
    return np.asarray(row), np.asarray(column)


class _Registers:
    """Elements of local memory from an index on, one matrix a warp."""

    def __init__(self, code: Any, data: Any, index: Any, dtype: str) -> None:
        self.pointer = code.pointer(data)
        self.index = code.value(index)
        self.dtype = dtype

    def at(self, st: State, count: int) -> Array:
        first = np.asarray(self.pointer.offset(st), np.int64) + self.index(st)
        return np.asarray(first + np.arange(count)[:, None])

    def get(self, st: State, places: tuple[Array, Array], shape: tuple[int, int]) -> Array:
        at = self.at(st, len(places[0]))
        v = load(st, st.memory[self.pointer.data], self.dtype, at, NO_LIMIT, None)
        out = np.zeros((st.lanes // _WARP, *shape), v.dtype)
        each = np.moveaxis(v.reshape(len(v), -1, _WARP), 0, 1)
        out[:, places[0], places[1]] = each
        return out

    def put(self, st: State, places: tuple[Array, Array], value: Array) -> None:
        each = value[:, places[0], places[1]]
        v = np.moveaxis(each, 1, 0).reshape(len(places[0]), -1)
        at = self.at(st, len(v))
        store(st, st.memory[self.pointer.data], self.dtype, at, v, NO_LIMIT, None)


def _mma(code: Any, e: E.Call) -> Fn:
    """(shape, layout of a, of b, type of a, b, c, then a, b, c with an index each, saturate)"""
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", str(getattr(e.args[0], "value", "")))
    if found is None or found.groups()[:2] != ("16", "8"):
        raise TilewrightError(f"simt knows ptx_mma of shapes m16n8k*, not {e.args[0]}")
    k = int(found.group(3))
    types = [_dtype(x) for x in e.args[3:6]]
    a, b, c = [_Registers(code, e.args[6 + 2 * n], e.args[7 + 2 * n], types[n]) for n in range(3)]
    item = parse(types[0]).numpy.itemsize
    if item > 4 or k * item % 16:
        raise TilewrightError(f"simt does not know ptx_mma of k = {k} on {types[0]}")
    of_a, of_b, of_c = a_places(k, item), b_places(k, item), c_places()

    def run(st: State) -> Any:
        whole_warps(st, "ptx_mma")
        x, y = a.get(st, of_a, (16, k)), b.get(st, of_b, (k, 8))
        z = c.get(st, of_c, (16, 8))
        c.put(st, of_c, multiply(x, y, z, types[2]))
        return np.int32(0)

    return run


def _ldmatrix(code: Any, e: E.Call) -> Fn:
    """(transposed, matrices, type, registers, offset, shared memory, offset)

    Lane r of the first 8 `matrices` lanes gives the address of row r % 8 of matrix r // 8.
    """
    flip, count = bool(getattr(e.args[0], "value", 0)), int(getattr(e.args[1], "value", 1))
    registers, shared = code.pointer(e.args[3]), code.pointer(e.args[5])
    to, from_ = code.value(e.args[4]), code.value(e.args[6])
    known = code.units.get(shared.data, ("float16",))[0]

    def run(st: State) -> Any:
        whole_warps(st, "ptx_ldmatrix")
        dtype = shared.dtype or known
        each = 4 // parse(dtype).numpy.itemsize  # elements a register
        row = np.asarray(shared.offset(st), np.int64) + from_(st)
        at = np.broadcast_to(row, (st.lanes,)) + np.arange(4 * each)[:, None]
        giving = np.broadcast_to(st.lane_in_warp < 8 * count, at.shape)
        v = load(st, st.memory[shared.data], dtype, at, NO_LIMIT, giving)
        tiles = np.moveaxis(v.reshape(4 * each, -1, _WARP), 0, 2)[:, : 8 * count]
        tiles = tiles.reshape(-1, count, 8, 4 * each)
        if flip:
            tiles = np.swapaxes(tiles, 2, 3)
        lane = np.arange(_WARP)
        parts = [tiles[:, n, lane // 4, (lane % 4) * each + i] for n in range(count)
                 for i in range(each)]  # fmt: skip
        out = np.stack([p.reshape(-1) for p in parts])
        first = np.asarray(registers.offset(st), np.int64) + to(st)
        place = first + np.arange(len(out))[:, None]
        m = st.memory[registers.data]
        store(st, m, registers.dtype or dtype, place, out, NO_LIMIT, None)
        return np.int32(0)

    return run


Code.calls.update({"tir.ptx_mma": _mma, "tir.ptx_ldmatrix": _ldmatrix})
