"""The loop IR under the names that TVM's users know: `from tilewright import tir`.

Names only, resolved when first used; what they do stands in loopir/ and tensor/.
"""

from ..base.call_faces import calls
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
        **calls(
            {
                "loopir.op": "indexdiv indexmod add subtract multiply",
                "loopir.calls": "prefetch",
                "loopir.runtime_calls": (
                    "call_tir get_vscale_expr logaddexp tvm_global_barrier_kinit"
                ),
            }
        ),
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
