"""`tvm.tir.op`: builders of operations."""

from types import ModuleType as _Module

from ..base.face import face as _face
from ..loopir import op as _op
from ..loopir import runtime_calls as _runtime_calls
from ..loopir import tensor_core_calls as _tensor_core_calls

_NOT_BUILDERS = ("max", "min", "annotations", "Any", "Binary", "Callable", "count")
"""What those modules use themselves; `max` and `min` are the reductions here."""

__getattr__, __dir__ = _face(
    __name__,
    {
        "tensor.reduce": "comm_reducer max min sum",
        "tensor.trace": "trace",
        **{
            f"loopir.{module.__name__.rpartition('.')[2]}": " ".join(
                name
                for name, value in vars(module).items()
                if name[0] != "_" and name not in _NOT_BUILDERS and type(value) is not _Module
            )
            for module in (_op, _runtime_calls, _tensor_core_calls)
        },
    },
)
