"""Programs as text and as decorated Python functions: `from tvm.script import tir as T`.

`@T.prim_func` reads the loop IR that tilewright prints, and what TVM prints for lowered functions;
`@I.ir_module` makes a module of a class; `from_source` reads texts.
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {"script.entry": "from_source parse=from_source ir_module"},
    modules="ir ir_builder parser tir",
)
