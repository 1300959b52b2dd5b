"""Operations on memory of the runtime that users' own passes make: records, workspaces,
addresses."""

from __future__ import annotations

from ...base.aligned import ALIGNMENT
from ...base.dtype import parse
from ...base.errors import CompileError
from ...loopir import expr as E
from . import convert
from .emitter import Emitter
from .index import index
from .workspace import DECLARE_TAKE

_ARRAY = 48  # bytes of DLPack's DLTensor
_STACK = {"shape": 8, "arg_value": 8, "arg_tcode": 4, "array": _ARRAY}
# TVM's numbers of fields of an array: where they stand in it, and their types
_FIELDS = {
    1: (0, "handle"), 2: (24, "handle"), 3: (32, "handle"), 4: (16, "int32"), 5: (20, "uint8"),
    6: (21, "uint8"), 7: (22, "uint16"), 8: (40, "uint64"), 9: (12, "int32"), 10: (8, "int32"),
}  # fmt: skip
_ADDRESS, _VALUE = 0, 12


def add_bytes(f: Emitter, e: E.Call) -> str:
    """(pointer, bytes)"""
    return _at(f, f.expr(e.args[0]), index(f, e.args[1]))


def _at(f: Emitter, base: str, offset: str) -> str:
    return base if offset == "0" else f.op(f"getelementptr i8, ptr {base}, i64 {offset}")


def _field(f: Emitter, e: E.Call, value: str) -> tuple[str, str]:
    """The address of a field of (records, which of them, field), and its type; `value`: of what
    lies in an argument of eight bytes."""
    kind = E.const_int(e.args[2])
    place, dtype = (0, value) if kind == _VALUE else _FIELDS.get(kind or 0, (0, ""))
    if kind != _ADDRESS and not dtype:
        raise CompileError(f"{e.op.name[4:]}: there is no field {e.args[2]} of an array")
    size = 8 if kind == _VALUE else _ARRAY
    offset = index(f, E.convert(e.args[1]).astype("int64") * size + place)
    return _at(f, f.expr(e.args[0]), offset), dtype or "handle"


def get_field(f: Emitter, e: E.Call) -> str:
    """The value of a field, of the type that the call has."""
    address, dtype = _field(f, e, e.dtype)
    if E.const_int(e.args[2]) == _ADDRESS:
        return address
    found = f.effect(f"load {f.type(dtype)}, ptr {address}, align 1")
    return found if dtype == e.dtype else convert.cast(f, found, parse(dtype), parse(e.dtype))


def set_field(f: Emitter, e: E.Call) -> str:
    """(records, which of them, field, value)"""
    value = e.args[3]
    address, dtype = _field(f, e, value.dtype)
    if E.const_int(e.args[2]) == _ADDRESS:
        raise CompileError("tvm_struct_set: the address of an array is not to be set")
    text = f.expr(value)
    if dtype != value.dtype:
        text = convert.cast(f, text, parse(value.dtype), parse(dtype))
    f.line(f"store {f.type(dtype)} {text}, ptr {address}, align 1")
    f.clobber()
    return "0"


def on_stack(f: Emitter, e: E.Call) -> str:
    """(kind of records, how many): memory of the function that is called."""
    kind, count = e.args[0], E.const_int(e.args[1])
    size = _STACK.get(kind.value) if isinstance(kind, E.StringImm) else None
    if size is None or count is None or count < 1:
        raise CompileError(f"tvm_stack_alloca of {count} {kind}: it knows {', '.join(_STACK)}")
    return f.alloca(f"[{size * count} x i8], align 16")


def take_workspace(f: Emitter, e: E.Call) -> str:
    """(type of the device, which, bytes, and what for): memory of the machine, aligned."""
    wanted = E.convert(e.args[2]).astype("int64")
    whole = index(f, E.FloorDiv(wanted + (ALIGNMENT - 1), E.const(ALIGNMENT, "int64")) * ALIGNMENT)
    f.module.declare(DECLARE_TAKE)
    return f.effect(f"call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {whole})")


def give_workspace(f: Emitter, e: E.Call) -> str:
    """(type of the device, which, memory)"""
    f.free(f.expr(e.args[2]))
    f.clobber()
    return "0"


def check_return(f: Emitter, e: E.Call) -> str:
    """(what is expected, what is returned otherwise, call): the function ends with an error where
    the call gives something else."""
    expected, _, nested = e.args
    found = f.expr(nested)
    same = f.op(f"icmp eq {f.type(nested.dtype)} {found}, {f.expr(expected.astype(nested.dtype))}")
    failed, fine = f.label("unexpected"), f.label("expected")
    f.branch_if(same, fine, failed)
    f.block(failed)
    f.leave(str(f.module.message(f"a call returned something else than {expected}: {nested}") + 1))
    f.block(fine)
    return found


def nothing(f: Emitter, e: E.Call) -> str:
    """A mark for profilers that are not here."""
    return "null"
