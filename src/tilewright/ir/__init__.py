"""What all IRs share, under the names that TVM's users know: `from tilewright import ir`.

Names only, resolved when first used.
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "loopir.expr": "Node PrimExpr Op",
        "loopir.iter": "Range",
        "loopir.stmt": "IRModule GlobalVar BaseFunc",
        "loopir.types": "PointerType PrimType Type",
        "ir.container": "Array Map",
        "loopir.node": "Object",
        "loopir.effects": "register_op_attr",
        "loopir.intrin_rules": "register_intrin_lowering",
        "loopir.equal": "structural_equal assert_structural_equal",
        "loopir.hash": "structural_hash",
        "loopir.serial": "save_json load_json",
    },
    modules="container instrument module transform",
)
