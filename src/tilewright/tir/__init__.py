"""The loop IR under the names that TVM's users know: `from tilewright import tir`.

Names only, resolved when first used (PEP 562); what they do stands in loopir/ and tensor/.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NODES = (
    "PrimExpr Var SizeVar IntImm FloatImm StringImm Cast Add Sub Mul Div Mod FloorDiv FloorMod Min "
    "Max EQ NE LT LE GT GE And Or Not Select BufferLoad Ramp Broadcast Shuffle Let Call const"
)
_STATEMENTS = (
    "Stmt LetStmt AttrStmt AssertStmt ForKind For While BufferStore Allocate SeqStmt IfThenElse "
    "Evaluate Prefetch PrimFunc"
)
_MATH = (
    "popcount clz q_multiply_shift if_then_else likely min_value max_value infinity reinterpret "
    "div indexdiv indexmod truncdiv truncmod floordiv floormod ceildiv shift_left shift_right "
    "bitwise_and bitwise_or bitwise_xor bitwise_not all any add subtract multiply"
)
_CALLS = (
    "call_intrin call_extern call_pure_extern call_packed call_cpacked call_llvm_intrin "
    "call_llvm_pure_intrin address_of tvm_access_ptr type_annotation tvm_stack_alloca tvm_tuple "
    "isnullptr ret tvm_storage_sync tvm_thread_allreduce tvm_warp_shuffle tvm_warp_shuffle_up "
    "tvm_warp_shuffle_down tvm_warp_activemask prefetch vectorlow vectorhigh vectorcombine dp4a "
    "fma"
)
_TENSOR_CORES = (
    "tvm_fill_fragment tvm_load_matrix_sync tvm_store_matrix_sync tvm_mma_sync ptx_mma "
    "ptx_ldmatrix ptx_cp_async ptx_commit_group ptx_wait_group"
)
_NAMES: dict[str, str] = {
    **dict.fromkeys(_NODES.split(), "loopir.expr"),
    **dict.fromkeys(_STATEMENTS.split(), "loopir.stmt"),
    **dict.fromkeys(_MATH.split(), "loopir.op"),
    **dict.fromkeys(_CALLS.split(), "loopir.calls"),
    **dict.fromkeys(_TENSOR_CORES.split(), "loopir.tensor_core_calls"),
    **dict.fromkeys(("CallEffectKind",), "loopir.effects"),
    "IndexMap": "arith.index_map",
    "stmt_seq": "loopir.stmt",
    "stmt_list": "loopir.stmt",
    "trace": "tensor.trace",
    **dict.fromkeys(("Buffer", "BufferRegion", "decl_buffer"), "loopir.buffer"),
    **dict.fromkeys(("IterVar", "CommReducer", "Reduce", "ProducerLoad"), "loopir.iter"),
    **dict.fromkeys(("comm_reducer", "sum", "min", "max"), "tensor.reduce"),
}
_SUBMODULES = (
    "analysis",
    "buffer",
    "expr",
    "ir_builder",
    "op",
    "stmt",
    "stmt_functor",
    "transform",
)


def _builders() -> tuple[str, ...]:
    """The functions of floats; their table says which there are."""
    return import_module("tilewright.loopir.elementary").BUILDERS  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    if name == "__all__":
        return [*_NAMES, *_builders(), *_SUBMODULES]
    home = _NAMES.get(name) or ("loopir.elementary" if name in _builders() else None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"tilewright.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
