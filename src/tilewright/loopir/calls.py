"""Builders of calls: external functions, pointers, barriers, lanes of threads and vectors."""

from __future__ import annotations

from typing import Any

from ..base.dtype import canonical, parse
from ..base.errors import TilewrightError
from .buffer import Buffer
from .expr import BufferLoad, Call, IntImm, Op, PrimExpr, StringImm, cast, const, convert


def call_intrin(dtype: Any, func_name: Any, *args: Any, span: object = None) -> Call:
    """A call of the operation `func_name` (text such as "tir.exp", or an Op) giving `dtype`. Raises
    TilewrightError where func_name is not text, where `dtype` is no type such as 'float32', and
    OperandError where an argument is neither a number nor an expression."""
    if not isinstance(func_name, (str, Op)):
        raise TilewrightError(f"call_intrin takes the name of an operation, got {func_name!r}")
    return Call(canonical(dtype), func_name, args)


def _extern(op: str, dtype: Any, name: Any, args: tuple[Any, ...]) -> Call:
    if isinstance(name, StringImm):
        name = name.value
    if not isinstance(name, str):
        raise TilewrightError(f"{op} takes the name of a function, got {name!r}")
    pack = _make_array if "packed" in op else _whole
    values = [pack(a) if isinstance(a, Buffer) else a for a in args]
    return Call(_type(dtype, "int32"), f"tir.{op}", (StringImm(name), *values))


def _type(dtype: Any, nothing: str) -> str:
    """The type of a call's value; `nothing` for functions without one, which TVM writes as ""."""
    return nothing if dtype in ("", "void", None) else canonical(dtype)


def _whole(buffer: Buffer) -> PrimExpr:
    return buffer.access_ptr("rw")


def _make_array(buffer: Buffer) -> Call:
    """A buffer with its shape and strides, as a function of the runtime takes it."""
    shape = Call("handle", "tir.tvm_stack_make_shape", buffer.shape)
    steps = Call("handle", "tir.tvm_stack_make_shape", buffer.strides)
    strides = steps if buffer.strides else const(0)
    sample, rank = const(0, buffer.dtype), const(len(buffer.shape), "uint32")
    args = (buffer.data, shape, strides, rank, sample, buffer.elem_offset)
    return Call("handle", "tir.tvm_stack_make_array", args)


def call_extern(dtype: Any, func_name: str, *args: Any, span: object = None) -> Call:
    """A call of the function `func_name` of the target's library, which may do anything. Raises
    TilewrightError where `func_name` is not the name of a function."""
    return _extern("call_extern", dtype, func_name, args)


def call_pure_extern(dtype: Any, func_name: str, *args: Any, span: object = None) -> Call:
    """A call of a function of the target's library whose result depends on its arguments only.
    Raises TilewrightError where `func_name` is not the name of a function."""
    return _extern("call_pure_extern", dtype, func_name, args)


def call_packed(*args: Any, span: object = None) -> Call:
    """A call of a function registered with the runtime: name, then buffers and scalars.

    A buffer reaches the function as an array with its shape.
    """
    return _extern("tvm_call_packed", "int32", args[0] if args else None, args[1:])


def call_cpacked(*args: Any, span: object = None) -> Call:
    """As `call_packed`, bound by name when the code is linked."""
    return _extern("tvm_call_cpacked", "int32", args[0] if args else None, args[1:])


def _llvm(op: str, dtype: Any, name: Any, args: tuple[Any, ...]) -> Call:
    if isinstance(name, StringImm):
        name = name.value
    if not isinstance(name, str):
        raise TilewrightError(
            f'{op} takes the name of an intrinsic, such as "llvm.prefetch", got {name!r}; '
            "numbers of intrinsics change with every version of LLVM"
        )
    if args and isinstance(args[0], int):
        args = (const(args[0], "uint32"), *args[1:])
    if not args or not (isinstance(args[0], IntImm) and args[0].dtype == "uint32"):
        args = (const(0, "uint32"), *args)
    count = convert(args[0])
    if isinstance(count, IntImm) and count.value > len(args) - 1:
        raise TilewrightError(
            f"{op} of {name}: {count.value} argument types in its signature, "
            f"but {len(args) - 1} arguments"
        )
    return Call(_type(dtype, "handle"), f"tir.{op}", (StringImm(name), *args))


def call_llvm_intrin(dtype: Any, name: str, *args: Any, span: object = None) -> Call:
    """A call of an LLVM intrinsic by name, with effects.

    The first of `args` is, as in TVM, how many of the arguments overload it: `const(1, "uint32")`.
    Raises TilewrightError where `name` is not text, or the arguments are fewer than the types that
    the first of them counts. Whether LLVM knows the name shows when the code is made.
    """
    return _llvm("call_llvm_intrin", dtype, name, args)


def call_llvm_pure_intrin(dtype: Any, name: str, *args: Any, span: object = None) -> Call:
    """As `call_llvm_intrin`, for an intrinsic without effects. Raises TilewrightError where `name`
    is not text, or the arguments are fewer than the types that the first of them counts."""
    return _llvm("call_llvm_pure_intrin", dtype, name, args)


def address_of(obj: Any, span: object = None) -> Call:
    """A pointer to an element: a read of a buffer, or a buffer (its first element). Raises
    TilewrightError where `obj` is no element of a buffer, and OperandError where `obj` is neither a
    number nor an expression."""
    if isinstance(obj, Buffer):
        obj = BufferLoad(obj, [0] * len(obj.shape))
    if not isinstance(obj, BufferLoad):
        raise TilewrightError(f"address_of takes an element of a buffer, got {obj!r}")
    return Call("handle", "tir.address_of", (obj,))


def access_ptr(
    buffer: Buffer, access_mask: Any = "rw", offset: Any = 0, extent: Any = None
) -> PrimExpr:
    """A pointer to element `offset` of a buffer; see `Buffer.access_ptr`. Raises UsageError where
    access_mask is not made of 'r' and 'w', and OperandError where `access_mask`, `extent` or
    `offset` is neither a number nor an expression."""
    return buffer.access_ptr(access_mask, offset=offset, extent=extent)


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: Any) -> Call:
    """A pointer to element `offset` of `data` for `extent` elements of the type of `ptype`."""
    args = (ptype, data, offset, extent, rw_mask)
    return Call("handle", "tir.tvm_access_ptr", args)


def type_annotation(dtype: Any) -> PrimExpr:
    """A type as an argument: the first of `tvm_access_ptr`. Raises TilewrightError where `dtype` is
    no type such as 'float32'."""
    return const(0, canonical(dtype))


def tvm_stack_alloca(dtype_str: str, num: Any) -> Call:
    """Memory of the present function for `num` records of a kind ("shape", "array", ...)."""
    return Call("handle", "tir.tvm_stack_alloca", (StringImm(dtype_str), num))


def tvm_tuple(*value: Any) -> Call:
    """Several values as one argument. Raises OperandError where `value` is neither a number nor an
    expression."""
    return Call("handle", "tir.tvm_tuple", value)


def isnullptr(x: Any, span: object = None) -> Call:
    """Whether a pointer is null. Raises OperandError where `x` is neither a number nor an
    expression."""
    return Call("bool", "tir.isnullptr", (x,))


def ret(val: Any, span: object = None) -> Call:
    """End the function with a value. Raises OperandError where `val` is neither a number nor an
    expression."""
    val = convert(val)
    return Call(val.dtype, "tir.ret", (val,))


def storage_sync(storage_scope: str) -> Call:
    """Wait until all threads that share the scope ("shared", "warp", "global") have come here."""
    return Call("int32", "tir.tvm_storage_sync", (StringImm(storage_scope),))


tvm_storage_sync = storage_sync


def tvm_thread_allreduce(*freduce_args: Any) -> Call:
    """Reduction over threads: count, values, condition, results, thread variables. Raises
    OperandError where `freduce_args` is neither a number nor an expression."""
    return Call("handle", "tir.tvm_thread_allreduce", freduce_args)


def _shuffle(name: str, args: tuple[Any, ...]) -> Call:
    values = tuple(convert(a) for a in args)
    return Call(values[1].dtype, f"tir.{name}", values)


def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: Any, warp_size: Any) -> Call:
    """`value` of lane `warp_id` of each group of `width` lanes. Raises OperandError where an
    argument is neither a number nor an expression."""
    return _shuffle("tvm_warp_shuffle", (mask, value, warp_id, width, warp_size))


def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> Call:
    """`value` of the lane `offset` below, or the own one at the lower end. Raises OperandError
    where an argument is neither a number nor an expression."""
    return _shuffle("tvm_warp_shuffle_up", (mask, value, offset, width, warp_size))


def tvm_warp_shuffle_down(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> Call:
    """`value` of the lane `offset` above, or the own one at the upper end. Raises OperandError
    where an argument is neither a number nor an expression."""
    return _shuffle("tvm_warp_shuffle_down", (mask, value, offset, width, warp_size))


def tvm_warp_activemask() -> Call:
    """Which lanes of the warp run together now, one bit each."""
    return Call("uint32", "tir.tvm_warp_activemask", ())


def prefetch(address: Any, rw: Any = 0, locality: Any = 3, cache_type: Any = 1) -> Call:
    """Bring the memory at `address` near; arguments as of LLVM's `llvm.prefetch`.

    `rw`: 0 read, 1 write; `locality`: 0 (none) to 3 (keep); `cache_type`: 0 instructions, 1 data.
    Raises TilewrightError where `address` is no element of a buffer, and OperandError where
    `address`, `locality` or `rw` is neither a number nor an expression.
    """
    if isinstance(address, BufferLoad):
        address = address_of(address)
    return Call("int32", "tir.prefetch", (address, rw, locality, cache_type))


def fma(a: Any, b: Any, c: Any) -> Call:
    """a * b + c, rounded once. Raises OperandError where `a`, `b` or `c` is neither a number nor an
    expression."""
    x, y, z = convert(a), convert(b), convert(c)
    return Call(x.dtype, "tir.fma", (x, cast(x.dtype, y), cast(x.dtype, z)))


def vectorlow(dtype: Any, vec: Any) -> Call:
    """The lower half of a vector's lanes. Raises OperandError where `vec` is neither a number nor
    an expression, and TilewrightError where `dtype` is no type such as 'float32'."""
    return Call(canonical(dtype), "tir.vectorlow", (vec,))


def vectorhigh(dtype: Any, vec: Any) -> Call:
    """The upper half of a vector's lanes. Raises OperandError where `vec` is neither a number nor
    an expression, and TilewrightError where `dtype` is no type such as 'float32'."""
    return Call(canonical(dtype), "tir.vectorhigh", (vec,))


def vectorcombine(dtype: Any, vec1: Any, vec2: Any) -> Call:
    """One vector of the lanes of two. Raises OperandError where `vec1` or `vec2` is neither a
    number nor an expression, and TilewrightError where `dtype` is no type such as 'float32'."""
    return Call(canonical(dtype), "tir.vectorcombine", (vec1, vec2))


def dp4a(vec1: Any, vec2: Any, acc: Any = 0) -> Call:
    """acc + the sum of the products of four 8-bit lanes, as int32 (uint32 for unsigned). Raises
    OperandError where `acc`, `vec1` or `vec2` is neither a number nor an expression, and
    TilewrightError where `vec1` or `vec2` is no vector of four 8-bit integers, where `acc` is a
    vector of another length."""
    a, b = convert(vec1), convert(vec2)
    for v in (a, b):
        t = parse(v.dtype)
        if t.bits != 8 or t.lanes != 4:
            raise TilewrightError(f"dp4a takes vectors of four 8-bit integers, got {v.dtype}")
    unsigned = parse(a.dtype).is_uint and parse(b.dtype).is_uint
    result = "uint32" if unsigned else "int32"
    return Call(result, "tir.dp4a", (a, b, cast(result, acc)))
