"""`tvm.arith._ffi_api`: functions that TVM's users reach there."""

from .bounds import domain_touched as DomainTouched
from .int_set import eval_set as EvalSet

__all__ = ["DomainTouched", "EvalSet"]
