"""Calls that CUDA writes its own way: barriers, shuffles, atomics, bits."""

from __future__ import annotations

from typing import Any

from ..base.dtype import DType, parse
from ..base.errors import CompileError
from ..loopir import expr as E
from .c_family import ExprRule, bare
from .c_language import function_of

_SHUFFLES = {
    "tir.tvm_warp_shuffle": "__shfl_sync",
    "tir.tvm_warp_shuffle_up": "__shfl_up_sync",
    "tir.tvm_warp_shuffle_down": "__shfl_down_sync",
    "tir.tvm_warp_shuffle_xor": "__shfl_xor_sync",
}
_ATOMICS = {
    f"tir.atomic_{op}": f"atomic{op.capitalize()}"
    for op in ("add", "sub", "min", "max", "and", "or", "xor", "exch")
}
_ATOMICS["tir.atomic_cas"] = "atomicCAS"
_FLOATS = {"atomicAdd": ("float32", "float64"), "atomicExch": ("float32",)}


def _sync(p: Any, e: E.Call) -> str:
    scope = getattr(e.args[0], "value", "")
    if scope in ("shared", "shared.dyn"):
        return "__syncthreads()"
    if scope == "warp":
        return "__syncwarp()"
    raise p.no_barrier(scope)


def _shuffle(p: Any, e: E.Call) -> str:
    p.need("warp")
    mask, value, lane, width = e.args[:4]
    t = parse(e.dtype)
    others = [bare(p.expr(mask)), bare(p.expr(lane)), bare(p.expr(width))]

    def write(x: str) -> str:
        def call(v: str) -> str:
            return f"{_SHUFFLES[e.op.name]}({others[0]}, {v}, {others[1]}, {others[2]})"

        if t.element == "float16":
            return f"__ushort_as_half((unsigned short){call(f'(int)__half_as_ushort({bare(x)})')})"
        if t.bits < 32 and not t.is_float:
            return str(p.from_int(call(f"(int){x}"), t))
        return call(bare(x))

    return str(p.lanewise(e, (value,), write))


def _active(p: Any, e: E.Call) -> str:
    return "__activemask()"


def _atomic(p: Any, e: E.Call) -> str:
    pointer = p.expr(e.args[0])
    value = ", ".join(bare(p.expr(a)) for a in e.args[1:])
    t = parse(e.args[1].dtype)
    name = _ATOMICS[e.op.name]
    if t.text == "int64" and name not in ("atomicMin", "atomicMax", "atomicSub"):
        words = ", ".join(f"(unsigned long long)({bare(p.expr(a))})" for a in e.args[1:])
        return f"((long long){name}((unsigned long long*){pointer}, {words}))"
    wide = () if name == "atomicSub" else ("int64", "uint64")
    if t.lanes > 1 or t.text not in ("int32", "uint32", *wide, *_FLOATS.get(name, ())):
        raise CompileError(f"CUDA has no {e.op.name[4:]} on {t.text} (kernel {p.func.name})")
    return f"{name}({bare(pointer)}, {value})"


def _dp4a(p: Any, e: E.Call) -> str:
    a, b = e.args[:2]
    ta, tb = parse(a.dtype), parse(b.dtype)
    if ta.is_uint != tb.is_uint:
        return str(p.call_base("tir.dp4a", e))
    words = [_word(p, x, t) for x, t in ((a, ta), (b, tb))]
    return f"__dp4a({words[0]}, {words[1]}, {bare(p.expr(e.args[2]))})"


def _word(p: Any, e: Any, t: DType) -> str:
    """Four 8-bit lanes as the 32-bit integer of their bits."""
    target = "uint32" if t.is_uint else "int32"
    if isinstance(e, E.Call) and e.op.name == "tir.reinterpret" and e.args[0].dtype == target:
        return str(p.expr(e.args[0]))
    return f"{function_of(p.need(f'tw_bits {t.text} {target}'))}({bare(p.expr(e))})"


CUDA_CALLS: dict[str, ExprRule] = {
    "tir.tvm_storage_sync": _sync,
    **dict.fromkeys(_SHUFFLES, _shuffle),
    "tir.tvm_warp_activemask": _active,
    **dict.fromkeys(_ATOMICS, _atomic),
    "tir.dp4a": _dp4a,
}
