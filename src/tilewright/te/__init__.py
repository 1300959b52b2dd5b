"""Tensor expressions under the names that TVM's users know: `from tilewright import te`.

Names only, resolved when first used; what they do stands in tensor/, loopir/ and schedule/.
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "tensor.tensor": "Tensor TensorSlice",
        "tensor.op": (
            "Operation PlaceholderOp BaseComputeOp ComputeOp TensorComputeOp ScanOp ExternOp "
            "HybridOp"
        ),
        "tensor.compute": "placeholder compute",
        "tensor.axes": "var size_var const thread_axis reduce_axis tag_scope",
        "tensor.reduce": "comm_reducer sum prod min max any all",
        "tensor.scan": "scan",
        "tensor.extern": "extern extern_primfunc",
        "tensor.intrin": "decl_tensor_intrin TensorIntrin TensorIntrinCall",
        "tensor.gradient": "gradient",
        "tensor.trace": "trace",
        "tensor.specialize": "SpecializedCondition",
        "driver.prim_func": "create_prim_func create_relax_prim_func",
        "schedule.api": "create_schedule Schedule Stage AXIS_SEPARATOR",
        "loopir.runtime_calls": "logaddexp",
        "loopir.op_exact": "*",
        "loopir.op_float": "*",
        "loopir.op": (
            "min_value max_value if_then_else popcount clz likely ceildiv div indexdiv indexmod "
            "truncdiv truncmod floordiv floormod add subtract multiply"
        ),
    },
    modules="autodiff hybrid operation schedule tag tensor tensor_intrin",
)
