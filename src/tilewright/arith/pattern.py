"""`tvm.arith.pattern`: linear forms and limits in conditions."""

from .common import detect_common_subexpr as detect_common_subexpr
from .linear import detect_clip_bound as detect_clip_bound
from .linear import detect_linear_equation as detect_linear_equation

__all__ = ["detect_clip_bound", "detect_common_subexpr", "detect_linear_equation"]
