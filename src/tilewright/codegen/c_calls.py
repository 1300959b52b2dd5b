"""Calls that all of C, CUDA and OpenCL write alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dtype import parse
from ..base.errors import CompileError, InternalError
from ..loopir import expr as E
from ..loopir.expr import const
from .c_expr import bits, bitwise_not, conditional
from .c_family import ExprRule, bare
from .c_memory import flat_index

_PYTHON = "Python functions run on the CPU only; call them around the kernels, or build for 'llvm'"
_LLVM = "it is for the target 'llvm'; use te's functions, or call_pure_extern of the device's name"
_OF_THE_HOST = {
    "tir.tvm_call_packed": _PYTHON,
    "tir.tvm_call_cpacked": _PYTHON,
    "tir.call_llvm_intrin": _LLVM,
    "tir.call_llvm_pure_intrin": _LLVM,
}


def call(p: Any, e: E.Call) -> str:
    """The value of a Call."""
    rule = p.call_table.get(e.op.name)
    if rule is not None:
        return str(rule(p, e))
    kind = p.target.kind.name
    if e.op.name in _OF_THE_HOST:
        what = getattr(e.args[0], "value", e.args[0]) if e.args else e.op.name
        raise CompileError(
            f"{e.op.name} ({what}) cannot run in {p.language} code (function {p.func.name}): "
            f"{_OF_THE_HOST[e.op.name]}"
        )
    raise CompileError(
        f"the {p.language} code generator has no code for {e.op.name} of type {e.dtype}; give it a "
        f'rule: register_intrin_lowering("{e.op.name}", target="{kind}", f=...)'
    )


def if_then_else(p: Any, e: E.Call) -> str:
    condition, a, b = e.args
    if parse(condition.dtype).lanes > 1:
        return str(p.expr(E.Select(condition, a, b)))
    return either(p, e, p.type(e.dtype), p.expr)


def either(p: Any, e: E.Call, kind: str, write: Callable[[Any], str]) -> str:
    """A choice by one condition, of a C type, of values as `write` writes them. Only the side that
    is taken is evaluated; statements it needs stay inside."""
    condition, a, b = e.args
    test = p.expr(condition)
    first, x = p.captured(a, write)
    second, y = p.captured(b, write)
    if not first and not second:
        return conditional(p, test, x, y, parse(e.dtype))
    name = p.names.fresh("v")
    p.line(f"{kind} {name};")
    with p.block(f"if ({bare(test)}) {{"):
        p.paste(first)
        p.line(f"{name} = {bare(x)};")
    p.lines[-1] = p.lines[-1][:-1] + "} else {"
    p.depth += 1
    p.paste(second)
    p.line(f"{name} = {bare(y)};")
    p.depth -= 1
    p.line("}")
    return str(name)


def extern(p: Any, e: E.Call) -> str:
    """A function of the target's library; a pure one of scalars is called for each lane."""
    name = e.args[0]
    if not isinstance(name, E.StringImm):
        raise CompileError("call_extern needs the name of the function as its first argument")
    pure = e.op.name == "tir.call_pure_extern"
    t = parse(e.dtype)
    args = e.args[1:]
    function = p.use(name.value)
    if t.lanes > 1 and pure and not p.takes_vectors(name.value, t):
        return str(p.lanewise(e, args, lambda *xs: f"{function}({', '.join(map(bare, xs))})"))
    return f"{function}({', '.join(bare(p.expr(a)) for a in args)})"


def likely(p: Any, e: E.Call) -> str:
    return str(p.expr(e.args[0]))


def place_of(e: E.Call) -> tuple[E.Var, str, Any]:
    """The memory, element type and element that `address_of(buffer[at])` or
    `tvm_access_ptr(type, data, offset, extent, mask)` points at; the latter's offset counts whole
    vectors."""
    if e.op.name == "tir.address_of":
        target = e.args[0]
        if not isinstance(target, E.BufferLoad):
            raise InternalError("address_of needs an element of a flat buffer")
        at = flat_index(target.buffer, target.indices)
        if isinstance(at, E.Ramp):
            at = at.base
        own = parse(target.buffer.dtype)
        return target.buffer.data, own.element, at * own.lanes
    sample, data, offset = e.args[:3]
    t = parse(sample.dtype)
    if not isinstance(data, E.Var):
        raise InternalError("tvm_access_ptr needs a data variable")
    return data, t.element, offset * t.lanes


def element_address(p: Any, data: E.Var, element: str, at: Any) -> str:
    """The address of element `at` in the memory of `data`."""
    text = p.pointer(data, element)
    offset = p.expr(at)
    return text if offset == "0" else f"({text} + {offset})"


def address(p: Any, e: E.Call) -> str:
    return element_address(p, *place_of(e))


def reinterpret(p: Any, e: E.Call) -> str:
    source, target = parse(e.args[0].dtype), parse(e.dtype)
    if source.text == target.text:
        return str(p.expr(e.args[0]))
    if source.is_handle or target.is_handle:
        return f"(({p.type(e.dtype)}){p.expr(e.args[0])})"
    return str(p.reinterpret(e.args[0], source, target))


def halves(p: Any, e: E.Call) -> str:
    lanes = p.lanes_of(e.args[0])
    half = len(lanes) // 2
    picked = lanes[half:] if e.op.name == "tir.vectorhigh" else lanes[:half]
    return picked[0] if len(picked) == 1 else str(p.make(e.dtype, picked))


def combine(p: Any, e: E.Call) -> str:
    return str(p.make(e.dtype, [x for a in e.args for x in p.lanes_of(a)]))


def isnan(p: Any, e: E.Call) -> str:
    t = parse(e.args[0].dtype)
    if t.lanes > 1 and p.native_vector(t):
        return str(p.expr(E.NE(e.args[0], e.args[0])))
    if t.lanes > 1:
        return str(p.lanewise(e, e.args, lambda x: p.compare("!=", x, x, t)))
    x = p.atom(e.args[0])
    return str(p.compare("!=", x, x, t))


def dp4a(p: Any, e: E.Call) -> str:
    """acc + the sum of the products of four 8-bit lanes, written out."""
    result = p.expr(e.args[2])
    kind = p.type(e.dtype)
    a, b = p.lanes_of(e.args[0]), p.lanes_of(e.args[1])
    terms = " + ".join(f"({kind}){x} * ({kind}){y}" for x, y in zip(a, b))
    return f"({result} + ({terms}))"


def isnull(p: Any, e: E.Call) -> str:
    return f"({p.expr(e.args[0])} == 0)"


def prefetch(p: Any, e: E.Call) -> str:
    return "0"


def large_uint(p: Any, e: E.Call) -> str:
    low, high = (int(a) for a in e.args)
    return str(p.expr(const((high << 32) | low, e.dtype)))


def ret(p: Any, e: E.Call) -> str:
    p.line("return;" if p.language != "C" else "return 0;")
    return "0"


def infinity(p: Any, e: E.Call) -> str:
    return str(p.expr(const(float("inf"), e.dtype)))


def add_bytes(p: Any, e: E.Call) -> str:
    """(pointer, bytes)"""
    return f"((void*)((char*){p.expr(e.args[0])} + {p.expr(e.args[1])}))"


def check_return(p: Any, e: E.Call) -> str:
    """(what is expected, what is returned otherwise, call)"""
    expected, other, nested = (p.expr(a) for a in e.args)
    if p.language != "C":
        raise CompileError(f"kernel {p.func.name}: tvm_check_return is for functions of the host")
    p.line(f"if ({nested} != {expected}) return {other};")
    return "0"


def nothing(p: Any, e: E.Call) -> str:
    """A mark for profilers that are not here."""
    return "0"


CALLS: dict[str, ExprRule] = {
    **dict.fromkeys(
        ("tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor", "tir.shift_left"), bits
    ),
    "tir.shift_right": bits,
    "tir.bitwise_not": bitwise_not,
    "tir.if_then_else": if_then_else,
    "tir.call_extern": extern,
    "tir.call_pure_extern": extern,
    "tir.likely": likely,
    "tir.tvm_thread_invariant": likely,
    "tir.handle_add_byte_offset": add_bytes,
    "tir.tvm_check_return": check_return,
    "tir.start_profile_intrinsic": nothing,
    "tir.end_profile_intrinsic": nothing,
    "tir.address_of": address,
    "tir.tvm_access_ptr": address,
    "tir.reinterpret": reinterpret,
    "tir.vectorlow": halves,
    "tir.vectorhigh": halves,
    "tir.vectorcombine": combine,
    "tir.isnan": isnan,
    "tir.dp4a": dp4a,
    "tir.isnullptr": isnull,
    "tir.prefetch": prefetch,
    "tir.large_uint_imm": large_uint,
    "tir.thread_return": ret,
    "tir.ret": ret,
    "tir.infinity": infinity,
}
