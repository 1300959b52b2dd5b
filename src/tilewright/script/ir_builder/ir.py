"""`tvm.script.ir_builder.ir`: modules."""

from ...base.face import face

__getattr__, __dir__ = face(
    __name__, {"script.builder": "ir_module", "script.entry": "module_attrs"}
)
