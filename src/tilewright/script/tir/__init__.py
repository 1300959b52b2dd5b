"""`from tvm.script import tir as T`: what functions are written with."""

from typing import Any

from ...base.call_faces import calls
from ...base.face import face
from ..dtypes import type_maker

_find, __dir__ = face(
    __name__,
    {
        **calls(
            {
                "loopir.op": "min max fabs=abs",
                "loopir.calls": "tvm_call_packed=call_packed tvm_call_cpacked=call_cpacked",
                "loopir.runtime_calls": "tvm_call_packed_lowered tvm_call_cpacked_lowered",
            }
        ),
        "loopir.expr": (
            "Var SizeVar IntImm FloatImm StringImm Cast Add Sub Mul Div Mod FloorDiv FloorMod Min "
            "Max EQ NE LT LE GT GE And Or Not Select BufferLoad Ramp Broadcast Shuffle Call "
            "broadcast=Broadcast ramp=Ramp"
        ),
        "loopir.iter": "IterVar CommReducer Reduce ProducerLoad",
        "script.buffers": "Buffer=BufferOf buffer buffer_decl=buffer",
        "script.dtypes": "cast handle=HANDLE void=VOID Ptr=POINTERS bool=BOOL boolean=BOOL",
        "script.entry": "prim_func macro",
        "script.meta": "meta_var",
        "script.refused": "block sblock axis init where reads writes block_attr realize",
        "script.statements": (
            "serial parallel vectorized unroll thread_binding grid While If Then Else Assert "
            "LetStmt Let let allocate allocate_const decl_buffer alloc_buffer attr env_thread "
            "launch_thread arg func_name func_attr func_ret match_buffer evaluate buffer_store "
            "prefetch iter_var comm_reducer Range=range_of"
        ),
        "script.values": "target index_map ptr buffer_var var",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _find(name)
    except AttributeError:
        made = type_maker(name)  # T.float32x3, and whatever type there is
        if made is None:
            raise
        return made
