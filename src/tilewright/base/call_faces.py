"""The builders of calls that both `tir` and `tvm.script.tir` hold, by the modules that define them:
one table for two faces."""

from __future__ import annotations

from collections.abc import Mapping

_CALLS: Mapping[str, str] = {
    "loopir.op_exact": "*",
    "loopir.op_float": "*",
    "loopir.op": (
        "popcount clz q_multiply_shift if_then_else likely min_value max_value infinity "
        "reinterpret div truncdiv truncmod floordiv floormod ceildiv shift_left shift_right "
        "bitwise_and bitwise_or bitwise_xor bitwise_not all any"
    ),
    "loopir.calls": (
        "call_intrin call_extern call_pure_extern call_packed call_cpacked call_llvm_intrin "
        "call_llvm_pure_intrin address_of tvm_access_ptr type_annotation tvm_stack_alloca "
        "tvm_tuple isnullptr ret tvm_storage_sync tvm_thread_allreduce tvm_warp_shuffle "
        "tvm_warp_shuffle_up tvm_warp_shuffle_down tvm_warp_activemask vectorlow vectorhigh "
        "vectorcombine dp4a fma"
    ),
    "loopir.tensor_core_calls": (
        "tvm_fill_fragment tvm_load_matrix_sync tvm_store_matrix_sync tvm_mma_sync ptx_mma "
        "ptx_ldmatrix ptx_cp_async ptx_commit_group ptx_wait_group tvm_bmma_sync ptx_mma_sp "
        "mma_store mma_fill ptx_cp_async_barrier make_filled_simdgroup_matrix simdgroup_load "
        "simdgroup_store simdgroup_multiply_accumulate"
    ),
    "loopir.hopper_calls": (
        "create_barriers ptx_init_barrier_thread_count ptx_arrive_barrier ptx_cluster_rank "
        "ptx_cluster_sync ptx_cluster_load persistent_turn "
        "ptx_bar_sync stream_steps stream_sums "
        "ptx_arrive_barrier_expect_tx ptx_wait_barrier ptx_fence_barrier_init "
        "ptx_fence_proxy_async tensor_map ptx_cp_async_bulk_tensor ptx_cp_async_bulk "
        "ptx_wgmma_descriptor ptx_wgmma_fence ptx_wgmma ptx_wgmma_rs "
        "ptx_wgmma_commit_group ptx_wgmma_wait_group"
    ),
    "loopir.runtime_calls": (
        "call_packed_lowered call_cpacked_lowered tvm_check_return tvm_stack_make_shape "
        "tvm_stack_make_array handle_add_byte_offset tvm_struct_get tvm_struct_set "
        "tvm_throw_last_error lookup_param assume undef TVMBackendAllocWorkspace "
        "TVMBackendFreeWorkspace start_profile_intrinsic end_profile_intrinsic vscale "
        "get_active_lane_mask q_multiply_shift_per_axis anylist_getitem anylist_resetitem "
        "anylist_setitem_call_packed anylist_setitem_call_cpacked tvm_thread_invariant "
        "large_uint_imm"
    ),
    "loopir.effects": "CallEffectKind",
    "base.tensor_map": "Pixels",
}


def calls(more: Mapping[str, str]) -> dict[str, str]:
    """The table as `face` takes it, with the names that one face alone has."""
    return {
        home: " ".join((_CALLS[home], more[home])) if home in _CALLS and home in more else names
        for home, names in {**more, **_CALLS}.items()
    }
