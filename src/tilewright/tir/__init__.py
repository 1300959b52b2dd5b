"""The loop IR under the names that TVM's users know: `from tilewright import tir`.

Names only, resolved when first used; what they do stands in loopir/ and tensor/.
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "loopir.expr": (
            "PrimExpr Var SizeVar IntImm FloatImm StringImm Cast Add Sub Mul Div Mod FloorDiv "
            "FloorMod Min Max EQ NE LT LE GT GE And Or Not Select BufferLoad Ramp Broadcast "
            "Shuffle Let Call const"
        ),
        "loopir.stmt": (
            "Stmt LetStmt AttrStmt AssertStmt ForKind For While BufferStore Allocate SeqStmt "
            "IfThenElse Evaluate Prefetch PrimFunc stmt_seq stmt_list"
        ),
        "loopir.realize": "ProducerStore ProducerRealize BufferRealize DeclBuffer AllocateConst",
        "loopir.blocks": (
            "Block BlockRealize MatchBufferRegion StmtSRef BlockScope ScheduleState Schedule "
            "ScheduleError BlockDependenceInfo TensorIntrin"
        ),
        "loopir.construct": "convert",
        "loopir.op_exact": "*",
        "loopir.op_float": "*",
        "loopir.op": (
            "popcount clz q_multiply_shift if_then_else likely min_value max_value infinity "
            "reinterpret div indexdiv indexmod truncdiv truncmod floordiv floormod ceildiv "
            "shift_left shift_right bitwise_and bitwise_or bitwise_xor bitwise_not all any "
            "add subtract multiply"
        ),
        "loopir.calls": (
            "call_intrin call_extern call_pure_extern call_packed call_cpacked "
            "call_llvm_intrin call_llvm_pure_intrin address_of tvm_access_ptr type_annotation "
            "tvm_stack_alloca tvm_tuple isnullptr ret tvm_storage_sync tvm_thread_allreduce "
            "tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down tvm_warp_activemask "
            "prefetch vectorlow vectorhigh vectorcombine dp4a fma"
        ),
        "loopir.tensor_core_calls": (
            "tvm_fill_fragment tvm_load_matrix_sync tvm_store_matrix_sync tvm_mma_sync "
            "ptx_mma ptx_ldmatrix ptx_cp_async ptx_commit_group ptx_wait_group tvm_bmma_sync "
            "ptx_mma_sp mma_store mma_fill ptx_cp_async_barrier "
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
            "call_packed_lowered call_cpacked_lowered call_tir tvm_check_return "
            "tvm_stack_make_shape tvm_stack_make_array handle_add_byte_offset tvm_struct_get "
            "tvm_struct_set tvm_throw_last_error lookup_param assume undef "
            "TVMBackendAllocWorkspace TVMBackendFreeWorkspace start_profile_intrinsic "
            "end_profile_intrinsic vscale get_vscale_expr get_active_lane_mask "
            "q_multiply_shift_per_axis logaddexp anylist_getitem anylist_resetitem "
            "anylist_setitem_call_packed anylist_setitem_call_cpacked tvm_thread_invariant "
            "tvm_global_barrier_kinit large_uint_imm"
        ),
        "loopir.effects": "CallEffectKind",
        "loopir.expr_groups": "Any=any_size",
        "loopir.buffer": "Buffer BufferRegion decl_buffer",
        "loopir.iter": "IterVar CommReducer Reduce ProducerLoad",
        "arith.index_map": "IndexMap",
        "arith.data_layout": "Layout BijectiveLayout layout bijective_layout",
        "tensor.tensor": "DataProducer",
        "tensor.trace": "trace",
        "tensor.reduce": "comm_reducer sum min max",
    },
    modules=(
        "analysis block_scope buffer data_layout expr function generic ir_builder op schedule stmt "
        "stmt_functor transform"
    ),
)
