"""Calls of NVIDIA's tensor cores and asynchronous copies, by TVM's names and arguments."""

from __future__ import annotations

from typing import Any

from .expr import Call, StringImm


def _texts(*values: Any) -> tuple[Any, ...]:
    return tuple(StringImm(v) if isinstance(v, str) else v for v in values)


def tvm_fill_fragment(fragment: Any, m: Any, n: Any, k: Any, index: Any, value: Any) -> Call:
    """Set all elements of tile `index` of a fragment array, of shape (m, n, k), to `value`."""
    return Call("handle", "tir.tvm_fill_fragment", (fragment, m, n, k, index, value))


def tvm_load_matrix_sync(
    fragment: Any, m: Any, n: Any, k: Any, index: Any, buffer_ptr: Any, stride: Any, layout: str
) -> Call:
    """Load tile `index` of a fragment array from memory with `stride` elements between rows
    ("row_major") or columns ("col_major")."""
    args = _texts(fragment, m, n, k, index, buffer_ptr, stride, layout)
    return Call("handle", "tir.tvm_load_matrix_sync", args)


def tvm_store_matrix_sync(
    fragment: Any, m: Any, n: Any, k: Any, index: Any, buffer_ptr: Any, stride: Any, layout: str
) -> Call:
    """Store tile `index` of an accumulator; see `tvm_load_matrix_sync`."""
    args = _texts(fragment, m, n, k, index, buffer_ptr, stride, layout)
    return Call("handle", "tir.tvm_store_matrix_sync", args)


def tvm_mma_sync(
    fragment_d: Any,
    index_d: Any,
    fragment_a: Any,
    index_a: Any,
    fragment_b: Any,
    index_b: Any,
    fragment_c: Any,
    index_c: Any,
) -> Call:
    """d = a * b + c on tiles of fragment arrays."""
    args = (fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c)
    return Call("handle", "tir.tvm_mma_sync", args)


def ptx_mma(dtype: str, shape: str, *args: Any) -> Call:
    """One mma instruction: shape ("m16n8k16"), layouts of a and b ("row", "col"), types of a, b and
    c ("fp16"), registers of a, b and the accumulator with an offset each, whether to saturate."""
    return Call(dtype, "tir.ptx_mma", _texts(shape, *args))


def ptx_ldmatrix(
    dtype: str,
    trans: Any,
    num: Any,
    type: str,
    local_ptr: Any,
    local_offset: Any,
    smem_ptr: Any,
    smem_offset: Any,
) -> Call:
    """Load `num` 8x8 matrices of 16-bit elements from shared memory into a warp's registers."""
    args = _texts(trans, num, type, local_ptr, local_offset, smem_ptr, smem_offset)
    return Call(dtype, "tir.ptx_ldmatrix", args)


def ptx_cp_async(
    dtype: str, shared_ptr: Any, shared_offset: Any, global_ptr: Any, global_offset: Any, bytes: Any
) -> Call:
    """Start to copy 4, 8 or 16 bytes from the device's memory to shared memory."""
    args = (shared_ptr, shared_offset, global_ptr, global_offset, bytes)
    return Call(dtype, "tir.ptx_cp_async", args)


def ptx_commit_group() -> Call:
    """Make the asynchronous copies that were started one group."""
    return Call("int32", "tir.ptx_commit_group", ())


def ptx_wait_group(num: Any) -> Call:
    """Wait until at most `num` groups of asynchronous copies are under way."""
    return Call("int32", "tir.ptx_wait_group", (num,))
