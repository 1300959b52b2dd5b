"""Helpers of tests under the names that TVM's users know: `tvm.testing.assert_allclose`, ...

pytest is imported by the functions that need it only.
"""

from ..base.face import face
from .homes import HOMES

__getattr__, __dir__ = face(
    __name__,
    HOMES,
    modules="auto_scheduler autotvm plugin popen utils",
)
