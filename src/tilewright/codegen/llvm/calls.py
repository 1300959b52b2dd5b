"""Calls: operations of the IR by name, external functions, LLVM's intrinsics, Python functions."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...base.dtype import DType, parse
from ...base.errors import CompileError, InternalError
from ...loopir import expr as E
from ...loopir.op_table import TABLE
from . import convert, runtime
from . import math as vector_math
from .choice import if_then_else
from .emitter import Emitter
from .expr import shuffle
from .guard import resolve_intrinsic
from .index import index
from .memory import element_pointer, pointer
from .packed import call_packed, make_array, make_shape
from .slots import RESULT
from .types import float_text, suffix, vector

Handler = Callable[[Emitter, E.Call], str]

_PLAIN_NAME = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$]*")
_BITWISE = {
    "tir.shift_left": "shl",
    "tir.bitwise_and": "and",
    "tir.bitwise_or": "or",
    "tir.bitwise_xor": "xor",
}


def call(f: Emitter, e: E.Call) -> str:
    """The value of a Call."""
    handler = _CALLS.get(e.op.name)
    if handler is not None:
        return handler(f, e)
    if e.op.name.startswith("tir.") and vector_math.supported(e.op.name[4:], e.dtype):
        return _math(f, e)
    raise CompileError(
        f"the CPU code generator has no code for {e.op.name} of type {e.dtype}; give it a rule: "
        f'register_intrin_lowering("{e.op.name}", target="llvm", f=...)'
    )


def supported(name: str, dtype: str) -> bool:
    """Whether calls of an operation with results of this type need no lowering rule."""
    if name in _CALLS:
        return True
    return name.startswith("tir.") and vector_math.supported(name[4:], dtype)


def _math(f: Emitter, e: E.Call) -> str:
    name = f.module.math(e.op.name[4:], e.dtype)
    args = []
    for arg in e.args:
        kind, own = f.type(arg.dtype), _math_type(f, arg.dtype)
        value = f.expr(arg)
        args.append(f"{own} {value if kind == own else f.op(f'bitcast {kind} {value} to {own}')}")
    kind, own = f.type(e.dtype), _math_type(f, e.dtype)
    result = f.op(f"call {own} {name}({', '.join(args)})")
    return result if kind == own else f.op(f"bitcast {own} {result} to {kind}")


def _math_type(f: Emitter, dtype: str) -> str:
    """The type of a value for a math function: narrow floats have LLVM's own types there."""
    t = parse(dtype)
    if t.is_float and t.bits == 16:
        return vector("bfloat" if t.code == "bfloat" else "half", t.lanes)
    return f.type(dtype)


def _intrinsic(f: Emitter, e: E.Call) -> str:
    name, kind = e.op.row.llvm, f.type(e.dtype)
    if kind.endswith("i16") or "i16>" in kind:
        raise InternalError(f"{e.op.name} on {e.dtype} must be legalised before code generation")
    function = f"@llvm.{name}.{suffix(e.dtype)}"
    f.module.declare(f"declare {kind} {function}({', '.join([kind] * len(e.args))})")
    args = ", ".join(f"{kind} {f.expr(a)}" for a in e.args)
    return f.op(f"call {kind} {function}({args})")


def _bitwise(f: Emitter, e: E.Call) -> str:
    a, b = (f.expr(x) for x in e.args)
    return f.op(f"{_BITWISE[e.op.name]} {f.type(e.dtype)} {a}, {b}")


def _shift_right(f: Emitter, e: E.Call) -> str:
    a, b = (f.expr(x) for x in e.args)
    how = "lshr" if parse(e.dtype).is_uint else "ashr"
    return f.op(f"{how} {f.type(e.dtype)} {a}, {b}")


def _bitwise_not(f: Emitter, e: E.Call) -> str:
    t = parse(e.dtype)
    ones = f.splat("true" if t.is_bool else "-1", f.type(t.element), t.lanes)
    return f.op(f"xor {f.type(e.dtype)} {f.expr(e.args[0])}, {ones}")


def _count_bits(f: Emitter, e: E.Call) -> str:
    source, target = parse(e.args[0].dtype), parse(e.dtype)
    kind, x = f.type(source.text), f.expr(e.args[0])
    if e.op.name == "tir.clz":
        function, extra, types = f"@llvm.ctlz.{suffix(source.text)}", ", i1 false", f"{kind}, i1"
    else:
        function, extra, types = f"@llvm.ctpop.{suffix(source.text)}", "", kind
    f.module.declare(f"declare {kind} {function}({types})")
    result = f.op(f"call {kind} {function}({kind} {x}{extra})")
    if target.bits == source.bits:
        return result
    unsigned = parse(f"uint{source.bits}").with_lanes(source.lanes)
    return convert.cast(f, result, parse(unsigned), target)


def _isnan(f: Emitter, e: E.Call) -> str:
    kind, x = f.type(e.args[0].dtype), f.expr(e.args[0])
    zero = f.splat("0.0", f.type(parse(e.args[0].dtype).element), parse(e.dtype).lanes)
    return f.op(f"fcmp uno {kind} {x}, {zero}")


def _against_infinity(f: Emitter, e: E.Call) -> str:
    t = parse(e.args[0].dtype)
    kind, x = f.type(t.text), f.expr(e.args[0])
    f.module.declare_unary("llvm.fabs", t.element, t.lanes)
    size = f.op(f"call {kind} @llvm.fabs.{suffix(t.text)}({kind} {x})")
    limit = f.splat(float_text(float("inf"), t.element, f.native_half), f.type(t.element), t.lanes)
    return f.op(f"fcmp {'oeq' if e.op.name == 'tir.isinf' else 'one'} {kind} {size}, {limit}")


def _likely(f: Emitter, e: E.Call) -> str:
    return f.expr(e.args[0])


def _reinterpret(f: Emitter, e: E.Call) -> str:
    source, target = parse(e.args[0].dtype), parse(e.dtype)
    value = f.expr(e.args[0])
    if source.is_handle or target.is_handle:
        return convert.cast(f, value, source, target)
    a, b = f.type(source.text), f.type(target.text)
    return value if a == b else f.op(f"bitcast {a} {value} to {b}")


def _address_of(f: Emitter, e: E.Call) -> str:
    target = e.args[0]
    if not isinstance(target, E.BufferLoad) or len(target.indices) > 1:
        raise InternalError("address_of needs one element of a flat buffer")
    at = target.indices[0] if target.indices else E.const(0)
    if isinstance(at, E.Ramp):
        at = at.base
    return pointer(f, target.buffer, index(f, at))


def _access_ptr(f: Emitter, e: E.Call) -> str:
    pointee, data, offset = e.args[:3]
    return element_pointer(f, f.expr(data), parse(pointee.dtype), index(f, offset))


def _prefetch(f: Emitter, e: E.Call) -> str:
    address = f.expr(e.args[0])
    flags = ", ".join(f"i32 {int(a)}" for a in e.args[1:4])
    f.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    f.line(f"call void @llvm.prefetch.p0(ptr {address}, {flags})")
    return "0"


def _halves(f: Emitter, e: E.Call) -> str:
    t = parse(e.args[0].dtype)
    half = t.lanes // 2
    start = half if e.op.name == "tir.vectorhigh" else 0
    return shuffle(f, [(f.expr(e.args[0]), t)], range(start, start + half))


def _combine(f: Emitter, e: E.Call) -> str:
    parts = [(f.expr(a), parse(a.dtype)) for a in e.args]
    return shuffle(f, parts, range(sum(t.lanes for _, t in parts)))


def _dp4a(f: Emitter, e: E.Call) -> str:
    result = f.expr(e.args[2])
    vectors = []
    for a in e.args[:2]:
        how = "zext" if parse(a.dtype).is_uint else "sext"
        vectors.append(f.op(f"{how} <4 x i8> {f.expr(a)} to <4 x i32>"))
    product = f.op(f"mul <4 x i32> {vectors[0]}, {vectors[1]}")
    f.module.declare("declare i32 @llvm.vector.reduce.add.v4i32(<4 x i32>)")
    total = f.op(f"call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> {product})")
    return f.op(f"add i32 {total}, {result}")


def _isnull(f: Emitter, e: E.Call) -> str:
    return f.op(f"icmp eq ptr {f.expr(e.args[0])}, null")


def _ret(f: Emitter, e: E.Call) -> str:
    if f.in_parallel:
        raise CompileError("tir.ret inside a parallel loop")
    t = parse(e.dtype)
    wide = "float64" if t.is_float else "int64"
    value = f.expr(e.args[0])
    if e.dtype != wide:
        value = convert.cast(f, value, t, parse(wide))
    f.line(f"store {'double' if t.is_float else 'i64'} {value}, ptr {f.env[RESULT]}, align 8")
    f.leave("0")
    f.block(f.label("after"))
    f.clobber()
    return "0"


# -- external functions


def _extern(f: Emitter, e: E.Call) -> str:
    """A C function: each argument as its own type; vectors lane by lane where it is pure."""
    name = e.args[0]
    if not isinstance(name, E.StringImm):
        raise CompileError("call_extern needs the name of the function as its first argument")
    pure = e.op.name == "tir.call_pure_extern"
    t = parse(e.dtype)
    args = [(f.expr(a), parse(a.dtype)) for a in e.args[1:]]
    if pure and t.lanes > 1:
        return _by_lanes(f, name.value, t, args)
    if f.mask is not None and not pure:
        raise CompileError(f"call of {name.value} under a condition that differs between lanes")
    result = _call_c(f, name.value, t, args, pure)
    if not pure:
        f.clobber()
    return result


def _by_lanes(f: Emitter, name: str, t: DType, args: list[tuple[str, DType]]) -> str:
    kind, result = f.type(t.text), "poison"
    for lane in range(t.lanes):
        scalars = [
            (f.lane(v, f.type(a.text), lane) if a.lanes > 1 else v, parse(a.element))
            for v, a in args
        ]
        one = _call_c(f, name, parse(t.element), scalars, True)
        result = f.op(f"insertelement {kind} {result}, {f.type(t.element)} {one}, i64 {lane}")
    return result


def _call_c(f: Emitter, name: str, t: DType, args: list[tuple[str, DType]], pure: bool) -> str:
    for a in (t, *(a for _, a in args)):
        if a.is_float and a.bits == 16:
            raise CompileError(
                f"{name} is called with {a.text}; convert to float32 for C functions"
            )
    kind = f.type(t.text)
    texts = [f"{f.type(a.text)}{_extension(a)} {v}" for v, a in args]
    types = ", ".join(f"{f.type(a.text)}{_extension(a)}" for _, a in args)
    f.module.declare_c(name, f"{kind}{_extension(t)}", types, pure)
    text = f"call {kind} @{quoted(name)}({', '.join(texts)})"
    return f.op(text) if pure else f.effect(text)


def quoted(name: str) -> str:
    """A symbol's name as LLVM reads it; CompileError for one that no symbol can have."""
    if not name or "\0" in name:
        raise CompileError(f"a function cannot have the name {name!r}")
    if _PLAIN_NAME.fullmatch(name):
        return name
    codes = (f"\\{b:02X}" if not 32 <= b < 127 or b in (34, 92) else chr(b) for b in name.encode())
    return f'"{"".join(codes)}"'


def _extension(t: DType) -> str:
    if t.lanes > 1 or t.bits >= 32 or t.is_float or t.is_handle:
        return ""
    return " signext" if t.is_int else " zeroext"


def _llvm_intrinsic(f: Emitter, e: E.Call) -> str:
    """An LLVM intrinsic by name; whether the target has it is checked beforehand, since LLVM
    aborts."""
    name = e.args[0]
    if not isinstance(name, E.StringImm):
        raise CompileError("call_llvm_intrin needs the name of the intrinsic")
    args = [(f.expr(a), f.type(a.dtype)) for a in e.args[2:]]
    pure = e.op.name == "tir.call_llvm_pure_intrin"
    void = not pure and e.dtype == "handle"
    kind = "void" if void else f.type(e.dtype)
    full = resolve_intrinsic(name.value, kind, tuple(args), f.module.target)
    f.module.declare(f"declare {kind} @{full}({', '.join(k for _, k in args)})")
    text = f"call {kind} @{full}({', '.join(f'{k} {v}' for v, k in args)})"
    if pure:
        return f.op(text)
    if kind == "void" or _returns_nothing(full):
        f.line(text)
        result = "null" if void else "0"
    else:
        result = f.effect(text)
    f.clobber()
    return result


def _vscale(f: Emitter, e: E.Call) -> str:
    return _llvm(f, e.dtype, "llvm.vscale", ())


def _lane_mask(f: Emitter, e: E.Call) -> str:
    """(first, end): which lanes of numbers from the first on are below the end."""
    return _llvm(f, e.dtype, "llvm.get.active.lane.mask", e.args)


def _llvm(f: Emitter, dtype: str, name: str, args: tuple[E.PrimExpr, ...]) -> str:
    given = (E.StringImm(name), E.const(len(args)), *args)
    return _llvm_intrinsic(f, E.Call(dtype, "tir.call_llvm_pure_intrin", given))


def _returns_nothing(name: str) -> bool:
    return name.startswith(("llvm.prefetch", "llvm.assume", "llvm.donothing"))


_CALLS: dict[str, Handler] = {
    **{f"tir.{name}": _intrinsic for name, row in TABLE.items() if row.llvm},
    **dict.fromkeys(_BITWISE, _bitwise),
    "tir.shift_right": _shift_right,
    "tir.bitwise_not": _bitwise_not,
    "tir.popcount": _count_bits,
    "tir.clz": _count_bits,
    "tir.isnan": _isnan,
    "tir.isinf": _against_infinity,
    "tir.isfinite": _against_infinity,
    "tir.likely": _likely,
    "tir.if_then_else": if_then_else,
    "tir.reinterpret": _reinterpret,
    "tir.address_of": _address_of,
    "tir.tvm_access_ptr": _access_ptr,
    "tir.prefetch": _prefetch,
    "tir.vectorlow": _halves,
    "tir.vectorhigh": _halves,
    "tir.vectorcombine": _combine,
    "tir.dp4a": _dp4a,
    "tir.isnullptr": _isnull,
    "tir.ret": _ret,
    "tir.call_extern": _extern,
    "tir.call_pure_extern": _extern,
    "tir.call_llvm_intrin": _llvm_intrinsic,
    "tir.call_llvm_pure_intrin": _llvm_intrinsic,
    "tir.tvm_call_packed": call_packed,
    "tir.tvm_call_cpacked": call_packed,
    "tir.tvm_stack_make_array": make_array,
    "tir.tvm_stack_make_shape": make_shape,
    "tir.vscale": _vscale,
    "tir.get_active_lane_mask": _lane_mask,
    "tir.tvm_thread_invariant": _likely,
    "tir.handle_add_byte_offset": runtime.add_bytes,
    "tir.tvm_struct_get": runtime.get_field,
    "tir.tvm_struct_set": runtime.set_field,
    "tir.tvm_stack_alloca": runtime.on_stack,
    "tir.tvm_check_return": runtime.check_return,
    "tir.TVMBackendAllocWorkspace": runtime.take_workspace,
    "tir.TVMBackendFreeWorkspace": runtime.give_workspace,
    "tir.start_profile_intrinsic": runtime.nothing,
    "tir.end_profile_intrinsic": runtime.nothing,
}
