"""What an entry function reads from its slots: arguments and symbols (see rt/signature.py)."""

from __future__ import annotations

from ...base.dtype import parse
from ...base.errors import CompileError, InternalError
from ...loopir import expr as E
from ...loopir import stmt as S
from ...loopir.buffer import Buffer
from ...loopir.visit import nodes
from . import convert
from .emitter import Emitter

RESULT = E.Var("result", "handle")
"""The address where the function's result goes: the slot behind all others."""


def returns_value(func: S.PrimFunc) -> bool:
    """Whether a function has a `tir.ret`."""
    return any(isinstance(e, E.Call) and e.op.name == "tir.ret" for e in nodes(func.body))


def read_slots(f: Emitter, func: S.PrimFunc) -> list[E.Var]:
    """Give parameters and symbols their values; returns the symbols."""
    noalias = " noalias" if func.attrs.get("tir.noalias") else ""
    for i, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            _read_scalar(f, param, i)
            continue
        f.env[buffer.data] = _slot(f, "ptr", i)
        f.env[param] = f.env[buffer.data]
        f.align[buffer.data] = parse(buffer.dtype).nbytes
        f.module.pointer_notes[buffer.data] = noalias + _extent_note(buffer)
    symbols = symbols_of(func)
    for i, symbol in enumerate(symbols):
        value = _slot(f, "i64", len(func.params) + i)
        f.wide[symbol] = value
    if returns_value(func):
        number = len(func.params) + len(symbols)
        f.env[RESULT] = f.op(f"getelementptr inbounds i64, ptr %slots, i64 {number}")
    return symbols


def _read_scalar(f: Emitter, param: E.Var, slot: int) -> None:
    t = parse(param.dtype)
    if t.lanes != 1:
        raise CompileError(f"parameter {param.name} is a vector; pass an array")
    if t.is_handle:
        f.env[param] = _slot(f, "ptr", slot)
    elif t.is_float:
        f.env[param] = convert.cast(f, _slot(f, "double", slot), parse("float64"), t)
    elif t.is_bool:
        f.env[param] = f.op(f"icmp ne i64 {_slot(f, 'i64', slot)}, 0")
    elif t.is_int and t.bits >= 32:
        f.wide[param] = _slot(f, "i64", slot)
    else:
        f.env[param] = convert.cast(f, _slot(f, "i64", slot), parse("int64"), t)


def _slot(f: Emitter, kind: str, number: int) -> str:
    at = f.op(f"getelementptr inbounds i64, ptr %slots, i64 {number}") if number else "%slots"
    return f.effect(f"load {kind}, ptr {at}, align 8")


def _extent_note(buffer: Buffer) -> str:
    """What is known of an argument's memory: its alignment, and the bytes that may be read."""
    t = parse(buffer.dtype)
    size = t.nbytes * t.lanes
    note = f" align {t.nbytes}"
    if buffer.strides or not all(isinstance(d, E.IntImm) for d in buffer.shape):
        return note
    for extent in buffer.shape:
        size *= int(extent)
    return f"{note} dereferenceable({size})" if size > 0 else note


def innermost_strides(func: S.PrimFunc) -> list[E.Var]:
    """Variables that are the last stride of an argument."""
    found: dict[E.Var, None] = {}
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None or not buffer.strides:
            continue
        last = buffer.strides[-1]
        if isinstance(last, E.Var) and last not in func.params:
            found.setdefault(last)
    return list(found)


def symbols_of(func: S.PrimFunc) -> list[E.Var]:
    """Variables whose values come from arrays' shapes and strides, in the order of their slots:
    of first appearance over the parameters, of each its shape, then its strides."""
    found: dict[E.Var, None] = {}
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            for dim in (*buffer.shape, *buffer.strides):
                if isinstance(dim, E.Var) and dim not in func.params:
                    found.setdefault(dim)
    for dim in found:
        if not parse(dim.dtype).is_integer:
            raise InternalError(f"dimension {dim.name} has type {dim.dtype}")
    return list(found)
