"""`tvm.script.ir_builder`: programs built by Python itself."""

from ...base.face import face

__getattr__, __dir__ = face(__name__, {"script.builder": "IRBuilder"}, modules="ir tir")
