"""What attention in one kernel (attention_cores.py) takes: types, sizes, and the shared memory of a
block."""

from __future__ import annotations

from math import prod
from typing import Any

from ...base.dtype import parse
from ...target.target import Target
from ..schedules.gpu.machine import GpuMachine
from .warp_registers import OPERANDS, SUMS, TILE

ROWS, KEYS, WARP_ROWS = 64, 64, 16  # of a block's tile, and of a warp
_VECTOR = 16  # bytes of a copy
_WIDEST = 128  # elements of a key, and of a value: more have no room in registers
_LEAST_TILES = 2  # of a part of the keys
_JOINING = 4  # tiles that take as long as one more kernel: 2 us, at about 0.5 us a tile
_BLOCKS = 2  # at once on a processor
_BATCHES = 65535  # of a grid's second dimension


def takes(sizes: Any, dtype: str, target: Target | None) -> bool:
    """Whether attention of these sizes (see `attention.Sizes`) and that type is made so on a
    target."""
    if target is None or target.kind.name != "cuda" or dtype not in OPERANDS:
        return False
    able = target.capabilities
    known = able.async_copies and (dtype, SUMS) in able.matrix_products
    fits = 0 < max(sizes.size, sizes.last) <= _WIDEST and min(sizes.size, sizes.last) > 0
    rows = prod(sizes.rows)
    batches = 0 < prod(sizes.batch) <= _BATCHES
    if not (known and fits and rows > 0 and batches and sizes.keys > 0):
        return False
    return shared_bytes(sizes, dtype) <= target.max_shared_memory_per_block


def parts_of(sizes: Any, target: Target | None) -> int:
    """Into how many parts the keys are cut, each a block's: more than one where there are few
    blocks for all processors, and many keys of which each row sees all."""
    blocks = -(-prod(sizes.rows) // ROWS) * prod(sizes.batch)
    tiles: int = -(-sizes.keys // KEYS)
    enough = _BLOCKS * (GpuMachine.of(target).filling if target else 1)
    most = 1 if sizes.window is not None else min(tiles // _LEAST_TILES, enough // blocks)
    each = -(-tiles // max(1, most))
    return -(-tiles // each) if tiles - each >= _JOINING else 1


def pitch_of(tiles: int, dtype: str) -> int:
    """Elements from row to row of so many fragments: an odd number of 16 bytes."""
    return tiles * TILE + _VECTOR // parse(dtype).nbytes


def shared_bytes(sizes: Any, dtype: str) -> int:
    """Of a block: two tiles of keys and of values, of which one is the place of queries before;
    where there is one tile, queries beside it."""
    keys, values = (KEYS * pitch_of(-(-n // TILE), dtype) for n in (sizes.size, sizes.last))
    return (2 * keys + (2 if sizes.keys > KEYS else 1) * values) * parse(dtype).nbytes
