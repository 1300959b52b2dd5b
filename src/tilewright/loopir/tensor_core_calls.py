"""Calls of NVIDIA's tensor cores and asynchronous copies, by TVM's names and arguments."""

from __future__ import annotations

import inspect
from typing import Any

from .expr import Call, StringImm


def _texts(*values: Any) -> tuple[Any, ...]:
    return tuple(StringImm(v) if isinstance(v, str) else v for v in values)


def tvm_fill_fragment(fragment: Any, m: Any, n: Any, k: Any, index: Any, value: Any) -> Call:
    """Set all elements of tile `index` of a fragment array, of shape (m, n, k), to `value`. Raises
    OperandError where an argument is neither a number nor an expression."""
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
    """d = a * b + c on tiles of fragment arrays. See the CUDA C++ Programming Guide, Warp Matrix
    Functions."""
    args = (fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c)
    return Call("handle", "tir.tvm_mma_sync", args)


def ptx_mma(
    dtype: str,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: str,
    B_dtype: str,
    C_dtype: str,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
    saturate: Any,
    operator: Any = None,
) -> Call:
    """One mma instruction: shape ("m16n8k16"), layouts of a and b ("row", "col"), types of a, b and
    c ("fp16"), registers of a, b and the accumulator with an offset each, whether to saturate; for
    bits the operator ("xor", "and"). See the PTX ISA, mma. Raises TilewrightError where `dtype` is
    no type such as 'float32'."""
    args = _texts(
        shape, A_layout, B_layout, A_dtype, B_dtype, C_dtype, multiplicand_a, a_index,
        multiplicand_b, b_index, accumulator, c_index, saturate,
    )  # fmt: skip
    return Call(dtype, "tir.ptx_mma", args if operator is None else (*args, *_texts(operator)))


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
    """Load `num` 8x8 matrices of 16-bit elements from shared memory into a warp's registers. See
    the PTX ISA, ldmatrix. Raises TilewrightError where `dtype` is no type such as 'float32'."""
    args = _texts(trans, num, type, local_ptr, local_offset, smem_ptr, smem_offset)
    return Call(dtype, "tir.ptx_ldmatrix", args)


def ptx_cp_async(
    dtype: str, shared_ptr: Any, shared_offset: Any, global_ptr: Any, global_offset: Any, bytes: Any
) -> Call:
    """Start to copy 4, 8 or 16 bytes from the device's memory to shared memory. Raises
    TilewrightError where `dtype` is no type such as 'float32'."""
    args = (shared_ptr, shared_offset, global_ptr, global_offset, bytes)
    return Call(dtype, "tir.ptx_cp_async", args)


def ptx_commit_group() -> Call:
    """Make the asynchronous copies that were started one group."""
    return Call("int32", "tir.ptx_commit_group", ())


def ptx_wait_group(num: Any) -> Call:
    """Wait until at most `num` groups of asynchronous copies are under way. Raises OperandError
    where `num` is neither a number nor an expression."""
    return Call("int32", "tir.ptx_wait_group", (num,))


def tvm_bmma_sync(
    fragment_d: Any,
    index_d: Any,
    fragment_a: Any,
    index_a: Any,
    fragment_b: Any,
    index_b: Any,
    fragment_c: Any,
    index_c: Any,
) -> Call:
    """d = popcount(a ^ b) + c on tiles of bits; no code generator of ours knows it. See the CUDA
    C++ Programming Guide, Warp Matrix Functions."""
    args = (fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c)
    return Call("handle", "tir.tvm_bmma_sync", args)


def _instruction(name: str, doc: str, arguments: str, dtype: str = "handle") -> Any:
    """A builder of a call of one instruction.

    Arguments are as in `d index col=8`; one named dtype, the first, is the type of the result.
    """
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parts = [part.partition("=") for part in arguments.split()]
    signature = inspect.Signature(
        [
            inspect.Parameter(n, keyword, default=int(value) if value else inspect.Parameter.empty)
            for n, _, value in parts
        ]
    )

    def build(*args: Any, **named: Any) -> Call:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        given = dict(bound.arguments)
        return Call(given.pop("dtype", dtype), f"tir.{name}", _texts(*given.values()))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{doc}; arguments as TVM's."
    build.__signature__ = signature  # type: ignore[attr-defined]
    return build


ptx_mma_sp = _instruction(
    "ptx_mma_sp", "One mma instruction whose first operand is sparse (PTX ISA, mma.sp)",
    "dtype shape A_layout B_layout A_dtype B_dtype C_dtype multiplicand_a a_index multiplicand_b "
    "b_index accumulator c_index metadata meta_index sparse_selector saturate",
)  # fmt: skip
mma_store = _instruction(
    "mma_store", "Store the result of mma instructions (PTX ISA, mma) from registers",
    "dtype m n dst_ptr src_ptr src_offset dst_stride",
)  # fmt: skip
mma_fill = _instruction(
    "mma_fill", "Clear the registers of an accumulator of mma instructions (PTX ISA, mma)",
    "dtype local_size local_ptr offset",
)  # fmt: skip
ptx_cp_async_barrier = _instruction(
    "ptx_cp_async_barrier", "Let a barrier wait for asynchronous copies", "barrier_id"
)
make_filled_simdgroup_matrix = _instruction(
    "make_filled_simdgroup_matrix", "Set a matrix of Metal's SIMD groups",
    "d index value col=8 row=8",
)  # fmt: skip
_MOVES = "d index ptr stride col=8 row=8 transpose_matrix=0"
simdgroup_load = _instruction("simdgroup_load", "Load a matrix of Metal's SIMD groups", _MOVES)
simdgroup_store = _instruction("simdgroup_store", "Store a matrix of Metal's SIMD groups", _MOVES)
simdgroup_multiply_accumulate = _instruction(
    "simdgroup_multiply_accumulate", "d = a * b + c on matrices of Metal's SIMD groups",
    "d index_d a index_a b index_b c index_c",
)  # fmt: skip
