"""`tvm._ffi.runtime_ctypes`: types and devices."""

from ..base.dtype import DataType as DataType
from ..rt.device import Device as Device
from ..rt.values import DataTypeCode as DataTypeCode
