"""`tvm.testing.utils`: the helpers, where TVM defines them."""

from ..base.face import face
from .homes import HOMES

__getattr__, __dir__ = face(__name__, HOMES)
