"""`from tvm.script import tir as T`: what functions are written with."""

from typing import Any

from ...base.face import face
from ..dtypes import type_maker

_find, __dir__ = face(
    __name__,
    {
        "loopir.op_exact": "*",
        "loopir.op_float": "*",
        "loopir.op": (
            "popcount clz q_multiply_shift if_then_else likely min_value max_value infinity "
            "reinterpret truncdiv truncmod floordiv floormod ceildiv shift_left shift_right "
            "bitwise_and bitwise_or bitwise_xor bitwise_not min max div all any fabs=abs"
        ),
        "loopir.calls": (
            "call_intrin call_extern call_pure_extern call_packed call_cpacked "
            "tvm_call_packed=call_packed tvm_call_cpacked=call_cpacked call_llvm_intrin "
            "call_llvm_pure_intrin address_of tvm_access_ptr type_annotation tvm_stack_alloca "
            "tvm_tuple isnullptr ret tvm_storage_sync tvm_thread_allreduce tvm_warp_shuffle "
            "tvm_warp_shuffle_up tvm_warp_shuffle_down tvm_warp_activemask vectorlow vectorhigh "
            "vectorcombine dp4a fma"
        ),
        "loopir.tensor_core_calls": (
            "tvm_fill_fragment tvm_load_matrix_sync tvm_store_matrix_sync tvm_mma_sync ptx_mma "
            "ptx_ldmatrix ptx_cp_async ptx_commit_group ptx_wait_group tvm_bmma_sync ptx_mma_sp "
            "mma_store mma_fill ptx_cp_async_barrier "
            "make_filled_simdgroup_matrix simdgroup_load simdgroup_store "
            "simdgroup_multiply_accumulate"
        ),
        "loopir.hopper_calls": (
            "create_barriers ptx_init_barrier_thread_count ptx_arrive_barrier "
            "ptx_arrive_barrier_expect_tx ptx_wait_barrier ptx_fence_barrier_init "
            "ptx_fence_proxy_async tensor_map ptx_cp_async_bulk_tensor ptx_cp_async_bulk "
            "ptx_wgmma_descriptor ptx_wgmma_fence ptx_wgmma ptx_wgmma_commit_group "
            "ptx_wgmma_wait_group"
        ),
        "loopir.runtime_calls": (
            "call_packed_lowered call_cpacked_lowered tvm_call_packed_lowered "
            "tvm_call_cpacked_lowered tvm_check_return tvm_stack_make_shape tvm_stack_make_array "
            "handle_add_byte_offset tvm_struct_get tvm_struct_set tvm_throw_last_error "
            "lookup_param assume undef TVMBackendAllocWorkspace TVMBackendFreeWorkspace "
            "start_profile_intrinsic end_profile_intrinsic vscale get_active_lane_mask "
            "q_multiply_shift_per_axis anylist_getitem anylist_resetitem "
            "anylist_setitem_call_packed anylist_setitem_call_cpacked tvm_thread_invariant "
            "large_uint_imm"
        ),
        "loopir.effects": "CallEffectKind",
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
