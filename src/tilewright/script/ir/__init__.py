"""`from tvm.script import ir as I`: modules."""

from ...base.face import face

__getattr__, __dir__ = face(__name__, {"script.entry": "ir_module module_attrs"})
