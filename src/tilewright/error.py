"""Errors under the names that TVM's users know: `tvm.error.TVMError`, `tvm.TVMError`."""

from .base.errors import DiagnosticError as DiagnosticError
from .base.errors import InternalError as InternalError
from .base.errors import RPCError as RPCError
from .base.errors import TilewrightError as TilewrightError

TVMError = TilewrightError


class OpError(TVMError):
    """Base of what is wrong with an operator of a network."""


class OpNotImplemented(OpError, NotImplementedError):
    """The operator is not supported."""


class OpAttributeRequired(OpError, AttributeError):
    """An attribute of the operator is missing."""


class OpAttributeInvalid(OpError, AttributeError):
    """An attribute of the operator has a value that it must not have."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """The value of an attribute is not supported."""


class OpNotInstalled(OpError, NotImplementedError):
    """Something that the operator needs is not installed."""


__all__ = [
    "DiagnosticError",
    "InternalError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
    "OpNotInstalled",
    "RPCError",
    "TVMError",
    "TilewrightError",
]
