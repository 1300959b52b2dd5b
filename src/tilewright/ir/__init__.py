"""What all IRs share, under the names that TVM's users know: `from tilewright import ir`.

Names only, resolved when first used.
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "loopir.expr": "Node PrimExpr Op",
        "loopir.iter": "Range",
        "loopir.module": "IRModule GlobalVar",
        "loopir.stmt": "BaseFunc",
        "loopir.types": "PointerType PrimType Type",
        "loopir.attrs": (
            "Attrs DictAttrs make_node SourceName Span CallingConv TupleType FuncType"
        ),
        "ir.env_func": "EnvFunc",
        "loopir.sequences": "Array Map",
        "loopir.node": "Object",
        "loopir.effects": "register_op_attr",
        "loopir.intrin_rules": "register_intrin_lowering",
        "loopir.equal": "structural_equal assert_structural_equal",
        "loopir.hash": "structural_hash",
        "loopir.object_path": "get_first_structural_mismatch",
        "driver.saved": "save_json load_json",
    },
    modules="attrs base container expr function instrument module op transform type",
)
