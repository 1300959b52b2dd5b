"""Which steps of a parallel loop are neighbours for threads: rows of an image, where it lies in
blocks of channels.

What one thread wrote is near for it, and far for one whose core has another third cache (chiplets,
sockets). A convolution reads all blocks of channels of the rows that it makes; were threads to
share blocks, half of all data and more would change sides at each stage. So threads have shares of
the rows of one image, of all blocks, in all stages alike (pragma parallel_rows, rt/pool), unless
the weights, which each of them reads, are more than twice the data, which each would read
otherwise. Of several images each thread has some, as it is. Winograd's input and product go by
places of tiles, whose parts would be a few lines each (product: 1.5 times as long so), and sums
over whole images by blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...base.dtype import parse
from ...loopir.iter import IterVar
from ...schedule.api import Stage
from ...tensor.tensor import Tensor
from .machine import Machine, bytes_of, size_of

WEIGHTS = 2  # times the bytes of the data: nobody writes weights, and many caches may have them
IMAGE = 5  # dimensions of (1, blocks of channels, rows.., columns, channels of a block), or more
LEAST_BYTES = 8 << 10  # of a block's rows: of a few lines each, the next ones are fetched ahead


def blocks_of_image(t: Tensor, machine: Machine) -> int:
    """Blocks of channels of one image that lies in them, and whose rows are worth sharing; 0 of any
    other tensor."""
    if len(t.shape) < IMAGE:
        return 0
    images, blocks, *rows, channels = map(size_of, t.shape)
    lanes, nbytes = machine.lanes(t.dtype), parse(t.dtype).nbytes
    far = prod(rows) * channels * nbytes >= LEAST_BYTES
    return blocks if images == 1 and 0 < channels <= 2 * lanes and far else 0


def share_rows(stage: Stage, axis: IterVar, loops: Sequence[int], machine: Machine) -> None:
    """Let threads share the rows of all blocks in a parallel loop over images, blocks and rows of
    these extents, where it makes one image in blocks."""
    _, _, *rows = loops
    if prod(rows) > 1 and blocks_of_image(stage.op.output(0), machine):
        stage.pragma(axis, "parallel_rows", prod(rows))


def data_outweighs(sums: Any, machine: Machine) -> bool:
    """Whether it is cheaper that each thread reads all weights, and data of its own rows, than
    weights of its own blocks, and all data, most of which others wrote."""
    data, weights = (bytes_of(t) for t in sums.input_tensors[:2])
    return weights <= max(WEIGHTS * data, machine.l2_bytes // 2)
