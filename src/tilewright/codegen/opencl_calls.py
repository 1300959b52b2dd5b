"""Calls that OpenCL writes its own way: barriers, sub-group shuffles, atomics."""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..base.errors import CompileError
from ..loopir import expr as E
from .c_family import ExprRule, bare
from .c_language import pointed_data

_ATOMICS = {f"tir.atomic_{op}": op for op in ("add", "sub", "min", "max", "and", "or", "xor")}
_ATOMICS.update({"tir.atomic_exch": "xchg", "tir.atomic_cas": "cmpxchg"})
_BASE = ("add", "sub", "xchg", "cmpxchg")
BARRIER = "barrier"


def _sync(p: Any, e: E.Call) -> str:
    """A barrier, with something behind it that PoCL's compiler has to leave there.

    PoCL 3.1 splits a kernel at its barriers. Where LLVM leaves nothing but a branch behind one (a
    condition asked before it once more), both its ways begin a part of their own, although they
    meet again: PoCL then stops the process with "Incoming edges to non-entry block!".
    """
    scope = getattr(e.args[0], "value", "")
    if scope in ("shared", "shared.dyn", "warp"):
        both = len(e.args) > 1  # orders accesses of the device's memory as well
        return f"{p.need(BARRIER)}(CLK_LOCAL_MEM_FENCE{' | CLK_GLOBAL_MEM_FENCE' if both else ''})"
    raise p.no_barrier(scope)


def _shuffle(p: Any, e: E.Call) -> str:
    _, value, lane, width = e.args[:4]
    if not getattr(p.target, "has_subgroups", False):
        raise CompileError(
            f"kernel {p.func.name} shuffles values between threads of a warp, but "
            f"{str(p.target)!r} has no sub-groups; reduce through shared memory instead "
            "(thread_warp_size of the target is 1 then)"
        )
    p.need("tw_shuffle")
    name = e.op.name
    own = "((int)get_sub_group_local_id())"
    by, size = p.atom(lane), p.atom(width)
    start = f"({own} & -{size})"
    place = f"({own} & ({size} - 1))"
    if name == "tir.tvm_warp_shuffle":
        source = f"{start} + {by}"
    elif name == "tir.tvm_warp_shuffle_up":
        source = f"{place} - {by} < 0 ? {own} : {own} - {by}"
    elif name == "tir.tvm_warp_shuffle_down":
        source = f"{place} + {by} >= {size} ? {own} : {own} + {by}"
    else:
        source = f"{own} ^ {by}"
    return str(p.lanewise(e, (value,), lambda x: f"tw_shuffle({bare(x)}, {source})"))


def _active(p: Any, e: E.Call) -> str:
    return "0xffffffffu"


def _atomic(p: Any, e: E.Call) -> str:
    pointer = p.expr(e.args[0])
    value = ", ".join(bare(p.expr(a)) for a in e.args[1:])
    t = parse(e.args[1].dtype)
    kind = _ATOMICS[e.op.name]
    data = pointed_data(e.args[0])
    space = "global" if data is None else p.space(p.scope_of.get(data, "global")).strip("_ ")
    if t.lanes > 1 or (t.is_float and kind != "add") or t.text not in _ATOMIC_TYPES:
        raise CompileError(f"OpenCL has no {e.op.name[4:]} on {t.text} (kernel {p.func.name})")
    if t.bits == 64:
        p.need("pragma cl_khr_int64_base_atomics")
        if kind not in _BASE:
            p.need("pragma cl_khr_int64_extended_atomics")
    if t.is_float:
        p.extension(t)
        part = p.need(f"tw_atomic_add {space} {t.text}").replace(" ", "_")
        return f"{part}({bare(pointer)}, {value})"
    name = f"atom_{kind}" if t.bits == 64 else f"atomic_{kind}"
    return f"{name}((volatile __{space} {p.type(t.text)}*){pointer}, {value})"


_ATOMIC_TYPES = ("int32", "uint32", "int64", "uint64", "float32", "float64")


OPENCL_CALLS: dict[str, ExprRule] = {
    "tir.tvm_storage_sync": _sync,
    **dict.fromkeys(
        (
            "tir.tvm_warp_shuffle",
            "tir.tvm_warp_shuffle_up",
            "tir.tvm_warp_shuffle_down",
            "tir.tvm_warp_shuffle_xor",
        ),
        _shuffle,
    ),
    "tir.tvm_warp_activemask": _active,
    **dict.fromkeys(_ATOMICS, _atomic),
}
