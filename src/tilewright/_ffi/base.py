"""`tvm._ffi.base`: the error that everything derives from."""

from ..error import TVMError as TVMError
