"""Calls of Python functions by name, through the runtime's `tw_call_packed`.

Its calling convention stands at the head of rt/packed.py: an array of {i64 code, i64 payload},
arrays as handles with DLPack's type codes.
"""

from __future__ import annotations

from ...base.dtype import DType, parse
from ...base.errors import CompileError
from ...loopir import expr as E
from . import convert
from .emitter import CALL_PACKED, Emitter
from .index import index
from .memory import element_pointer

_INT, _FLOAT, _ARRAY, _STRING, _HANDLE = range(5)
_UNWRITTEN = _INTERRUPTED = -2
_DLPACK = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_HANDLE_TYPE = "{ ptr, i32, i32, i32, i32, ptr, ptr }"


def call_packed(f: Emitter, e: E.Call) -> str:
    """A call by name; where it fails the function returns its status at once."""
    name = e.args[0]
    if not isinstance(name, E.StringImm):
        raise CompileError("call_packed needs the name of the function as its first argument")
    if f.mask is not None:
        raise CompileError(f"call of {name.value} under a condition that differs between lanes")
    count = len(e.args) - 1
    values = f.alloca(f"[{2 * count + 2} x i64], align 16")
    for i, arg in enumerate(e.args[1:]):
        code, payload = _payload(f, arg)
        _put(f, values, 2 * i, str(code))
        _put(f, values, 2 * i + 1, payload)
    _put(f, values, 2 * count, str(_UNWRITTEN))
    _put(f, values, 2 * count + 1, "0")
    f.module.declare(CALL_PACKED)
    text = f"call i32 @tw_call_packed(ptr {f.module.string(name.value)}, ptr {values}, i32 {count})"
    status = f.effect(text)
    f.clobber()
    result = f.op(f"getelementptr inbounds i64, ptr {values}, i64 {2 * count}")
    written = f.effect(f"load i64, ptr {result}, align 8")
    unwritten = f.op(f"icmp eq i64 {written}, {_UNWRITTEN}")
    lost = f.op(f"and i1 {unwritten}, {f.op(f'icmp eq i32 {status}, 0')}")
    status = f.op(f"select i1 {lost}, i32 {_INTERRUPTED}, i32 {status}")
    failed, fine = f.label("raised"), f.label("called")
    f.branch_if(f.op(f"icmp ne i32 {status}, 0"), failed, fine)
    f.block(failed)
    f.leave(status)
    f.block(fine)
    return _result(f, values, 2 * count + 1, parse(e.dtype))


def _put(f: Emitter, values: str, slot: int, payload: str) -> None:
    at = values if slot == 0 else f.op(f"getelementptr inbounds i64, ptr {values}, i64 {slot}")
    f.line(f"store i64 {payload}, ptr {at}, align 8")


def _payload(f: Emitter, arg: E.PrimExpr) -> tuple[int, str]:
    t = parse(arg.dtype)
    value = f.expr(arg)
    if t.lanes > 1:
        raise CompileError(f"call_packed takes scalars and arrays, not {t.text}")
    if isinstance(arg, E.StringImm):
        return _STRING, f.op(f"ptrtoint ptr {value} to i64")
    if t.is_handle:
        array = isinstance(arg, E.Call) and arg.op.name == "tir.tvm_stack_make_array"
        return _ARRAY if array else _HANDLE, f.op(f"ptrtoint ptr {value} to i64")
    if t.is_float:
        double = convert.cast(f, value, t, parse("float64"))
        return _FLOAT, f.op(f"bitcast double {double} to i64")
    return _INT, f.extend(value, t.text)


def _result(f: Emitter, values: str, slot: int, t: DType) -> str:
    at = f.op(f"getelementptr inbounds i64, ptr {values}, i64 {slot}")
    raw = f.effect(f"load i64, ptr {at}, align 8")
    if t.is_float:
        return convert.cast(f, f.op(f"bitcast i64 {raw} to double"), parse("float64"), t)
    if t.is_handle:
        return f.op(f"inttoptr i64 {raw} to ptr")
    return convert.cast(f, raw, parse("int64"), t)


def make_shape(f: Emitter, e: E.Call) -> str:
    """An array of int64 on the stack."""
    if not e.args:
        return "null"
    place = f.alloca(f"[{len(e.args)} x i64], align 8")
    for i, extent in enumerate(e.args):
        _put(f, place, i, index(f, extent))
    f.reads += 1
    return place


def make_array(f: Emitter, e: E.Call) -> str:
    """An array handle on the stack: (data, shape, strides, ndim, a value of the dtype, offset)."""
    data, shape, strides, ndim, sample, offset = e.args
    t = parse(sample.dtype)
    base = element_pointer(f, f.expr(data), t, index(f, offset))
    sizes = f.expr(shape)
    steps = f.expr(strides) if parse(strides.dtype).is_handle else "null"
    place = f.alloca(f"{_HANDLE_TYPE}, align 8")
    bits = 8 if t.is_bool else t.bits
    fields = [
        ("ptr", base),
        ("i32", f.expr(ndim)),
        ("i32", str(_DLPACK[t.code])),
        ("i32", str(bits)),
        ("i32", str(t.lanes)),
        ("ptr", sizes),
        ("ptr", steps),
    ]
    for i, (kind, value) in enumerate(fields):
        at = f.op(f"getelementptr inbounds {_HANDLE_TYPE}, ptr {place}, i32 0, i32 {i}")
        f.line(f"store {kind} {value}, ptr {at}")
    f.reads += 1
    return place
