"""Errors under the names that TVM's users know: `tvm.error.TVMError`, `tvm.TVMError`."""

from .base.errors import TilewrightError

TVMError = TilewrightError

__all__ = ["TVMError", "TilewrightError"]
