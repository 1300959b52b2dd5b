"""Builders of calls that lowering makes in TVM, and that its users' own passes make: arrays and
structures of the runtime, workspaces, marks for profilers, vectors of unknown length.

Each makes a call of the operation of its name. What a code generator does not know is refused when
code is generated, by name: TVM's own forms of calls and errors (`call_packed_lowered`,
`tvm_throw_last_error`, `lookup_param`), for which code is made otherwise here.
"""

from __future__ import annotations

from typing import Any

from ..base.dtype import canonical, parse
from ..base.errors import UsageError
from .expr import Call, PrimExpr, StringImm, const, convert


def _args(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(StringImm(v) if isinstance(v, str) else v for v in values)


_PER_AXIS = "tir.q_multiply_shift_per_axis"


def call_packed_lowered(*args: Any, span: object = None) -> Call:
    """A call of a function of the runtime whose arguments lie in arrays already: name, values,
    types, first and last place."""
    return Call("int32", "tir.tvm_call_packed_lowered", _args(args))


def call_cpacked_lowered(*args: Any, span: object = None) -> Call:
    """As `call_packed_lowered`, bound by name when the code is linked."""
    return Call("int32", "tir.tvm_call_cpacked_lowered", _args(args))


tvm_call_packed_lowered = call_packed_lowered
tvm_call_cpacked_lowered = call_cpacked_lowered


def call_tir(global_var: Any, *args: Any) -> Call:
    """UsageError: functions of a module do not call each other here."""
    raise UsageError(
        f"call_tir of {global_var}: functions of a module do not call each other; "
        "put the statements of the one into the other, or use call_packed"
    )


def tvm_check_return(expected: int, return_unexpected: int, nested_call: PrimExpr) -> Call:
    """`nested_call`, whose value has to be `expected`; else the function ends with another. Raises
    OperandError where `expected` or `return_unexpected` is neither a number nor an expression."""
    args = (const(expected), const(return_unexpected), nested_call)
    return Call("int32", "tir.tvm_check_return", args)


def tvm_stack_make_shape(*args: Any) -> Call:
    """An array of extents in the present function's memory. Raises OperandError where an argument
    is neither a number nor an expression."""
    return Call("handle", "tir.tvm_stack_make_shape", args)


def tvm_stack_make_array(
    data: Any, shape: Any, strides: Any, ndim: Any, arr_dtype: Any, elem_offset: Any
) -> Call:
    """An array for a function of the runtime: memory, extents, strides, rank, a value of its type
    and the offset of its first element."""
    args = (data, shape, strides, ndim, arr_dtype, elem_offset)
    return Call("handle", "tir.tvm_stack_make_array", args)


def handle_add_byte_offset(handle: Any, offset: Any) -> Call:
    """A pointer so many bytes on. Raises OperandError where `handle` or `offset` is neither a
    number nor an expression."""
    return Call("handle", "tir.handle_add_byte_offset", (handle, offset))


def tvm_struct_get(arr: Any, index: Any, field: int, dtype: Any) -> Call:
    """Field `field` of record `index` of an array of records. Raises TilewrightError where `dtype`
    is no type such as 'float32', and OperandError where `field` is neither a number nor an
    expression."""
    return Call(canonical(dtype), "tir.tvm_struct_get", (arr, index, const(field)))


def tvm_struct_set(arr: Any, index: Any, field: int, value: Any) -> Call:
    """Set field `field` of record `index` of an array of records. Raises OperandError where `field`
    is neither a number nor an expression."""
    return Call("int32", "tir.tvm_struct_set", (arr, index, const(field), value))


def tvm_throw_last_error() -> Call:
    """Raise what the runtime noted last."""
    return Call("handle", "tir.tvm_throw_last_error", ())


def lookup_param(param_name: str, span: object = None) -> Call:
    """The parameter of a network of that name."""
    return Call("handle", "tir.lookup_param", (StringImm(param_name),))


def assume(cond: Any = None) -> Call:
    """What a pass may take for granted. Raises OperandError where `cond` is neither a number nor an
    expression."""
    return Call("bool", "tir.assume", (convert(cond),))


def undef() -> Call:
    """A value that nobody may depend on."""
    return Call("int32", "tir.undef", ())


def tvm_thread_invariant(cond: Any) -> Call:
    """A condition that is the same in all threads of a block. Raises OperandError where `cond` is
    neither a number nor an expression."""
    cond = convert(cond)
    return Call(cond.dtype, "tir.tvm_thread_invariant", (cond,))


def tvm_global_barrier_kinit() -> Call:
    """Make ready for barriers among all blocks."""
    return Call("int32", "tir.tvm_global_barrier_kinit", ())


def large_uint_imm(value: Any, low: Any, high: Any, span: object = None) -> PrimExpr:
    """The uint64 constant (or of the type `value`) of two halves of 32 bits. Raises TilewrightError
    where `value` is no type such as 'uint64'."""
    dtype = canonical(value)
    return const((int(high) << 32) + int(low), dtype)


def TVMBackendAllocWorkspace(
    device_type: Any, device_id: Any, nbytes: Any, dtype_code_hint: Any, dtype_bits_hint: Any
) -> Call:
    """Memory of a device for a short time. `nbytes`: bytes."""
    args = (device_type, device_id, nbytes, dtype_code_hint, dtype_bits_hint)
    return Call("handle", "tir.TVMBackendAllocWorkspace", args)


def TVMBackendFreeWorkspace(device_type: Any, device_id: Any, ptr: Any) -> Call:
    """Give back what TVMBackendAllocWorkspace gave. Raises OperandError where `device_id` or `ptr`
    is neither a number nor an expression."""
    return Call("int32", "tir.TVMBackendFreeWorkspace", (device_type, device_id, ptr))


def start_profile_intrinsic(id: int) -> Call:
    """Where a profiler begins to count region `id`. Raises OperandError where `id` is neither a
    number nor an expression."""
    return Call("handle", "tir.start_profile_intrinsic", (const(id),))


def end_profile_intrinsic(id: int) -> Call:
    """Where a profiler stops to count region `id`. Raises OperandError where `id` is neither a
    number nor an expression."""
    return Call("handle", "tir.end_profile_intrinsic", (const(id),))


def vscale() -> Call:
    """How many times 128 bits a vector register of unknown length has."""
    return Call("int32", "tir.vscale", ())


def get_vscale_expr(dtype: Any, min_size: int = 128) -> PrimExpr:
    """How many elements of a type a vector register of unknown length has. Raises TilewrightError
    where `dtype` is no type such as 'float32'."""
    found: PrimExpr = (min_size // parse(canonical(dtype)).bits) * vscale()
    return found


def get_active_lane_mask(dtype: Any, base: Any, limit: Any) -> Call:
    """Which lanes of a vector that begins at `base` are below `limit`. Raises OperandError where
    `base` or `limit` is neither a number nor an expression, and TilewrightError where `dtype` is no
    type such as 'float32'."""
    return Call(canonical(dtype), "tir.get_active_lane_mask", (base, limit))


def q_multiply_shift_per_axis(
    x: Any, y: Any, ls: Any, rs: Any, q: Any, is_lshift_required: Any, is_rshift_required: Any
) -> PrimExpr:
    """round((x << ls) * y * 2^-(q + rs)), halves upwards: int32 x times a fixed-point y of q
    fraction bits; the product is exact in 64 bits. Flags say whether `ls` and `rs` are other than
    0. Scales in fixed point: Jacob et al., Quantization and Training of Neural Networks for
    Efficient Integer-Arithmetic-Only Inference, CVPR 2018. Raises OperandError where `x` is neither
    a number nor an expression."""
    args = (x, y, ls, rs, q, is_lshift_required, is_rshift_required)
    return Call(parse("int32").with_lanes(parse(convert(x).dtype).lanes), _PER_AXIS, args)


def logaddexp(a: Any, b: Any) -> PrimExpr:
    """log(exp(a) + exp(b)), without overflow on the way; of floats. Raises OperandError where `a`
    or `b` is neither a number nor an expression, and TilewrightError where the divisor is the
    constant 0."""
    from .op import abs as magnitude
    from .op import exp, log1p
    from .op import max as greater

    a, b = convert(a), convert(b)
    found: PrimExpr = greater(a, b) + log1p(exp(-magnitude(a - b)))
    return found


def anylist_getitem(list_handle: Any, index: Any) -> Call:
    """An item of a list of the runtime. Raises OperandError where `index` or `list_handle` is
    neither a number nor an expression."""
    return Call("handle", "tir.anylist_getitem", (list_handle, index))


def anylist_resetitem(list_handle: Any, index: Any) -> Call:
    """Clear an item of a list of the runtime. Raises OperandError where `index` or `list_handle` is
    neither a number nor an expression."""
    return Call("int32", "tir.anylist_resetitem", (list_handle, index))


def anylist_setitem_call_packed(list_handle: Any, index: Any, func_name: str, *args: Any) -> Call:
    """Set an item of a list of the runtime to what a function gives."""
    given = (list_handle, index, StringImm(func_name), *args)
    return Call("int32", "tir.anylist_setitem_call_packed", given)


def anylist_setitem_call_cpacked(list_handle: Any, index: Any, func_name: str, *args: Any) -> Call:
    """As `anylist_setitem_call_packed`, bound by name when the code is linked."""
    given = (list_handle, index, StringImm(func_name), *args)
    return Call("int32", "tir.anylist_setitem_call_cpacked", given)
