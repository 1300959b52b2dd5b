"""Calls of Hopper's instructions (sm_90): barriers that count bytes, copies of tiles by tensor maps
(TMA), products of warp groups (wgmma, sm_90a). See the PTX ISA under these names.

The order that these instructions need, for each stage of shared memory:

    create_barriers(n); one thread: ptx_init_barrier_thread_count(i, 1), ptx_fence_barrier_init();
    a barrier of the block
    one thread: ptx_arrive_barrier_expect_tx(i, bytes), ptx_cp_async_bulk_tensor(..., i)
    all: ptx_wait_barrier(i, parity), ptx_wgmma_fence(), ptx_wgmma(...), ptx_wgmma_commit_group(),
    ptx_wgmma_wait_group(most); a barrier of the block; the next copy to the stage

`sync_threads` puts no barriers for what these instructions access.

Blocks that follow each other along blockIdx.x may be a cluster, which a GPU runs at once:
AttrStmt CLUSTER has how many (on a schedule, the pragma "cluster_dims"). A copy may go to the
shared memory of several of them, and a thread arrive at the barriers of each. All threads of a
cluster meet (`ptx_cluster_sync`) before the first of these, when all barriers are made, and after
the last one, before a block ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..base.errors import TilewrightError
from ..base.tensor_map import SWIZZLES, Pixels
from .expr import Call, StringImm, Var, const_int, convert
from .visit import walk

TENSOR_MAP = "tir.tensor_map"
CLUSTER = "pragma_cluster_dims"
WGMMA, WGMMA_RS = "tir.ptx_wgmma", "tir.ptx_wgmma_rs"
DESCRIPTOR, WAIT_GROUP = "tir.ptx_wgmma_descriptor", "tir.ptx_wgmma_wait_group"
TURN, STEPS, SUMS = "tir.persistent_turn", "tir.stream_steps", "tir.stream_sums"
COPIES = {
    (False, False): "tir.ptx_cp_async_bulk_tensor",
    (False, True): "tir.ptx_cp_async_bulk_tensor_multicast",
    (True, False): "tir.ptx_cp_async_bulk_tensor_im2col",
    (True, True): "tir.ptx_cp_async_bulk_tensor_im2col_multicast",
}
"""Copies by tensor maps: whether in im2col mode, and to several blocks of a cluster."""
_MODES_OF = {name: modes for modes, name in COPIES.items()}
MOST_IN_CLUSTER = 8
"""Blocks that a cluster may have on every device that has clusters."""
MODES = {0: 0, 128: 1, 64: 2, 32: 3}
"""The swizzle mode of a matrix descriptor (bits 62 and 63) by its bytes."""


def create_barriers(barrier_count: Any) -> Call:
    """Have so many barriers in shared memory, named 0, 1, ... by the other calls. A kernel has one
    such call. Raises OperandError where `barrier_count` is neither a number nor an expression."""
    return Call("handle", "tir.create_barriers", (barrier_count,))


def ptx_init_barrier_thread_count(barrier_id: Any, thread_count: Any) -> Call:
    """Make a barrier whose phases end when so many threads have arrived, and all bytes; by one
    thread, before a barrier of the block."""
    args = (barrier_id, thread_count)
    return Call("handle", "tir.ptx_init_barrier_thread_count", args)


def persistent_turn() -> Call:
    """How many blocks a block has done the work of before (the pragma "persistent_blocks")."""
    return Call("int32", TURN, ())


def stream_steps(what: int) -> Call:
    """Of a block that has a part of all steps of all blocks of a kernel (stream-K): the first step
    of the present one (0), how many of it there are (1), and how many it has done before (2).
    Raises OperandError where `what` is neither a number nor an expression."""
    return Call("int32", STEPS, (what,))


def stream_sums(dtype: str, accumulator: Any, count: int, steps: int) -> Call:
    """Here the first `count` registers of an accumulator have the sums of this block's part, or of
    all `steps` of one that the pragma "persistent_blocks" has made of a kernel. Raises
    TilewrightError where `dtype` is no type such as 'float32'."""
    return Call(dtype, SUMS, (accumulator, count, steps))


def ptx_bar_sync(barrier_id: int, thread_count: int) -> Call:
    """Wait for so many threads of the block, all that come to a barrier of this number (1 to 15,
    beside that of all threads); accesses of memory are in order. Whole warps. Raises OperandError
    where an argument is neither a number nor an expression."""
    return Call("handle", "tir.ptx_bar_sync", (barrier_id, thread_count))


def ptx_fence_barrier_init() -> Call:
    """Let copies see the barriers that this thread has made."""
    return Call("handle", "tir.ptx_fence_barrier_init", ())


def ptx_fence_proxy_async() -> Call:
    """Let copies and products see what this thread has stored to shared memory."""
    return Call("handle", "tir.ptx_fence_proxy_async", ())


def ptx_arrive_barrier(barrier_id: Any, block: Any = None) -> Call:
    """Arrive at a barrier, or at that of a `block` of the cluster, by its rank, whose threads see
    by it that copies and products have ended, not what this thread has stored. Raises OperandError
    where `barrier_id` or `block` is neither a number nor an expression."""
    if block is None:
        return Call("handle", "tir.ptx_arrive_barrier", (barrier_id,))
    return Call("handle", "tir.ptx_arrive_barrier_cluster", (barrier_id, convert(block)))


def ptx_arrive_barrier_expect_tx(barrier_id: Any, byte_count: Any) -> Call:
    """Arrive at a barrier whose phase does not end before so many bytes more have been copied.
    Raises OperandError where `barrier_id` or `byte_count` is neither a number nor an expression."""
    return Call("handle", "tir.ptx_arrive_barrier_expect_tx", (barrier_id, byte_count))


def ptx_wait_barrier(barrier_id: Any, parity: Any = 0) -> Call:
    """Wait for the end of a barrier's phase of that parity: the first one has parity 0, the next
    one 1, and so on in turns. TVM's call waits for the first phase alone. Raises OperandError where
    `barrier_id` or `parity` is neither a number nor an expression."""
    return Call("handle", "tir.ptx_wait_barrier", (barrier_id, parity))


def ptx_cluster_rank() -> Call:
    """Which block of its cluster a block is: 0, 1, ... along blockIdx.x."""
    return Call("int32", "tir.ptx_cluster_rank", ())


def ptx_cluster_sync(relaxed: bool = False) -> Call:
    """Wait for all threads of the blocks of a cluster. `relaxed`: who waits sees the barriers that
    others have made and fenced (`ptx_fence_barrier_init`), but no other memory that they have
    written; a device need not wait for that then, which takes hundreds of clocks."""
    return Call("handle", "tir.ptx_cluster_sync", (int(relaxed),))


def ptx_cluster_load(dtype: str, shared_ptr: Any, block: Any) -> Call:
    """What a `block` of the cluster, by its rank, has at a place of its shared memory: numbers of
    32 bits, or vectors of two or four. Raises TilewrightError where `dtype` is no type such as
    'float32x4'."""
    return Call(dtype, "tir.ptx_cluster_load", (shared_ptr, convert(block)))


def tensor_map(
    pointer: Any,
    dims: Sequence[Any],
    strides: Sequence[Any],
    box: Sequence[int],
    swizzle: int = 0,
    pixels: Pixels | None = None,
) -> Call:
    """How copies see the array at `pointer` (an access pointer); see `base.tensor_map.TensorMap`.
    With `pixels` it is for copies in im2col mode, whose box is (channels, pixels).
    The host makes it when the kernel is launched, so it depends on the function's arguments only.
    Raises TilewrightError where swizzle is none of the widths, or dims, box and strides do not fit
    each other, or the pixels do not fit them.
    """
    if swizzle not in SWIZZLES:
        raise TilewrightError(f"tensor_map: a swizzle is of {SWIZZLES} bytes, not {swizzle}")
    rank = len(dims)
    if len(box) != (rank if pixels is None else 2) or len(strides) != rank - 1:
        raise TilewrightError(
            f"tensor_map: {rank} dims, {len(box)} of a box, {len(strides)} strides; there is "
            "a stride for each dimension but the innermost"
            + ("" if pixels is None else ", and a column has channels and pixels")
        )
    args = (pointer, swizzle, rank, *dims, *strides, *box)
    if pixels is None:
        return Call("handle", TENSOR_MAP, args)
    corners = (pixels.lower, pixels.upper, pixels.steps)
    if not 3 <= rank <= 5 or any(len(x) != rank - 2 for x in corners):
        raise TilewrightError(
            f"tensor_map: {rank} dims, of pixels {', '.join(str(len(x)) for x in corners)}; images "
            "have 3 to 5 dims, and their pixels corners and steps of two numbers less"
        )
    return Call("handle", TENSOR_MAP, (*args, *(n for x in corners for n in x)))


class Described:
    """The arrays that matrix descriptors name, as a function is read from its start on: products
    read them until they are waited for, wherever the last statement with their name stands."""

    def __init__(self) -> None:
        self.arrays: dict[Var, None] = {}

    def used(self, e: Any) -> Iterable[Var]:
        """Those that are in use until an expression, where it waits for products."""
        if type(e) is not Call or e.op.name not in (DESCRIPTOR, WAIT_GROUP):
            return ()
        if e.op.name == WAIT_GROUP:
            return tuple(self.arrays)
        self.arrays.update((x, None) for x in walk(e.args[0]) if isinstance(x, Var))
        return ()


class MapParts(NamedTuple):
    """The arguments of a `tensor_map`."""

    pointer: Any
    swizzle: int
    dims: tuple[Any, ...]
    strides: tuple[Any, ...]
    box: tuple[int, ...]
    pixels: Pixels | None = None


def map_parts(call: Call) -> MapParts:
    """A call of `tensor_map`, taken apart."""
    pointer, swizzle, rank, *rest = call.args
    n = const_int(rank) or 0
    dims, strides = tuple(rest[:n]), tuple(rest[n : 2 * n - 1])
    given = tuple(const_int(x) or 0 for x in rest[2 * n - 1 :])
    pixels = None
    if len(given) != n:  # of a box of two numbers three times the numbers of W, H, ... follow
        given, of = given[:2], given[2:]
        k = n - 2
        pixels = Pixels(of[:k], of[k : 2 * k], of[2 * k :])
    return MapParts(pointer, const_int(swizzle) or 0, dims, strides, given, pixels)


def ptx_cp_async_bulk_tensor(
    dtype: str,
    shared_ptr: Any,
    tensor_map: Any,
    coordinates: Sequence[Any],
    barrier_id: Any,
    blocks: Any = None,
    offsets: Sequence[Any] | None = None,
) -> Call:
    """Start to copy the box at `coordinates` (innermost first) of a tensor map to shared memory;
    its bytes are counted at the barrier. By one thread. `blocks`: a mask of those of the cluster
    whose shared memory it goes to, each at the same place, where each one's barrier counts.
    `offsets` (W, H[, D]), of a map with pixels: the pixels of a column from `coordinates`
    (C, W, H, ..., N) on, which lie within the bounding box, each of them read so many to the right
    and below, from 0 on (see `base.tensor_map.most_offset`). Raises TilewrightError where `dtype`
    is no type such as 'float32', and where there is not an offset for each coordinate but two."""
    args: tuple[Any, ...] = (shared_ptr, tensor_map, barrier_id)
    if blocks is not None:
        args = (*args, convert(blocks))
    if offsets is not None and not 1 <= len(offsets) == len(coordinates) - 2 <= 3:
        raise TilewrightError(
            f"ptx_cp_async_bulk_tensor: {len(offsets)} offsets and {len(coordinates)} coordinates; "
            "of 3 to 5 coordinates all but the first and the last have an offset"
        )
    name = COPIES[offsets is not None, blocks is not None]
    return Call(dtype, name, (*args, *coordinates, *(offsets or ())))


class CopyParts(NamedTuple):
    """The arguments of a `ptx_cp_async_bulk_tensor`; `offsets` is empty unless in im2col mode."""

    shared_ptr: Any
    tensor_map: Any
    barrier_id: Any
    blocks: Any
    coordinates: tuple[Any, ...]
    offsets: tuple[Any, ...]


def copy_parts(call: Call) -> CopyParts:
    """A call of `ptx_cp_async_bulk_tensor`, taken apart."""
    im2col, several = _MODES_OF[call.op.name]
    to, source, barrier, *places = call.args
    blocks = places.pop(0) if several else None
    rank = len(places) // 2 + 1 if im2col else len(places)
    return CopyParts(to, source, barrier, blocks, tuple(places[:rank]), tuple(places[rank:]))


def ptx_cp_async_bulk(
    dtype: str,
    shared_ptr: Any,
    shared_offset: Any,
    global_ptr: Any,
    global_offset: Any,
    bytes: Any,
    barrier_id: Any,
) -> Call:
    """Start to copy a multiple of 16 bytes from the device's memory to shared memory, both at
    multiples of 16; they are counted at the barrier. By one thread. Raises TilewrightError where
    `dtype` is no type such as 'float32'."""
    args = (shared_ptr, shared_offset, global_ptr, global_offset, bytes, barrier_id)
    return Call(dtype, "tir.ptx_cp_async_bulk", args)


def ptx_wgmma_descriptor(shared_ptr: Any, leading: int, stride: int, swizzle: int) -> Call:
    """The matrix descriptor of a tile in shared memory: its leading and stride byte offsets, and
    the bytes of its swizzle. See the PTX ISA, wgmma. Raises TilewrightError where swizzle is none
    of the widths, and OperandError where an argument is neither a number nor an expression."""
    if swizzle not in MODES:
        raise TilewrightError(f"a tile is swizzled by {tuple(MODES)} bytes, not {swizzle}")
    return Call("uint64", DESCRIPTOR, (shared_ptr, leading, stride, swizzle))


def ptx_wgmma_fence() -> Call:
    """Let the next product have the registers that this thread has used. See the PTX ISA, wgmma."""
    return Call("handle", "tir.ptx_wgmma_fence", ())


def ptx_wgmma(
    dtype: str,
    shape: str,
    A_dtype: str,
    accumulator: Any,
    c_index: Any,
    a_descriptor: Any,
    b_descriptor: Any,
    scale_d: Any,
    trans_a: bool = False,
    trans_b: bool = False,
) -> Call:
    """Start a product of a warp group: shape ("m64n128k16"), type of A and B ("fp16", "bf16"; or
    "int8", of shapes such as "m64n128k32"), the accumulator's registers with an offset, descriptors
    of A and B. Where `scale_d` is 0 the accumulator is cleared first. `trans_a`, `trans_b`: M (or
    N) runs along the rows of the tile in memory, not K. See the PTX ISA, wgmma. Raises OperandError
    where `scale_d` is neither a number nor an expression, and TilewrightError where `dtype` is no
    type such as 'float32'."""
    args = (
        StringImm(shape), StringImm(A_dtype), accumulator, c_index, a_descriptor, b_descriptor,
        convert(scale_d), int(trans_a), int(trans_b),
    )  # fmt: skip
    return Call(dtype, WGMMA, args)


def ptx_wgmma_rs(
    dtype: str,
    shape: str,
    A_dtype: str,
    accumulator: Any,
    c_index: Any,
    a_registers: Any,
    a_index: Any,
    b_descriptor: Any,
    scale_d: Any,
    trans_b: bool = False,
) -> Call:
    """As `ptx_wgmma`, but A is in registers ("fp16", "bf16"): eight elements of each thread, from
    an offset on, those of mma.m16n8k16 for the 16 rows of each warp. They are not accessed before
    the product is waited for. See the PTX ISA, wgmma, "Register Fragments". Raises OperandError
    where `scale_d` is neither a number nor an expression, and TilewrightError where `dtype` is no
    type such as 'float32'."""
    args = (
        StringImm(shape), StringImm(A_dtype), accumulator, c_index, a_registers, a_index,
        b_descriptor, convert(scale_d), int(trans_b),
    )  # fmt: skip
    return Call(dtype, WGMMA_RS, args)


def ptx_wgmma_commit_group() -> Call:
    """Make the products that were started one group. See the PTX ISA, wgmma."""
    return Call("handle", "tir.ptx_wgmma_commit_group", ())


def ptx_wgmma_wait_group(
    num: Any, accumulator: Any = None, count: Any = 0, after: Any = None
) -> Call:
    """Wait until at most `num` groups of products are under way. The first `count` registers of an
    accumulator that is given are not read before. `after`, with an accumulator: a float32, 0 or
    more, that is there before the wait begins: a device's compiler would put what makes it behind
    the wait, where it needs nothing of the products, and threads would do nothing until then. See
    the PTX ISA, wgmma. Raises OperandError where `after` is neither a number nor an expression."""
    later = () if after is None else (convert(after),)
    args = (num,) if accumulator is None else (num, accumulator, count, *later)
    return Call("handle", WAIT_GROUP, args)
