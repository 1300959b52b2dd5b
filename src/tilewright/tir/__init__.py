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
            "ptx_mma ptx_ldmatrix ptx_cp_async ptx_commit_group ptx_wait_group"
        ),
        "loopir.effects": "CallEffectKind",
        "loopir.buffer": "Buffer BufferRegion decl_buffer",
        "loopir.iter": "IterVar CommReducer Reduce ProducerLoad",
        "arith.index_map": "IndexMap",
        "tensor.trace": "trace",
        "tensor.reduce": "comm_reducer sum min max",
    },
    modules="analysis buffer expr ir_builder op stmt stmt_functor transform",
)
