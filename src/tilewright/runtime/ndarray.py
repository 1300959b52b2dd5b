"""`tvm.runtime.ndarray`: arrays and devices."""

from ..rt.array import NDArray as NDArray
from ..rt.array import array as array
from ..rt.array import empty as empty
from ..rt.array import from_dlpack as from_dlpack
from ..rt.device import Device as Device
from ..rt.device import cpu as cpu
from ..rt.device import cuda as cuda
from ..rt.device import device as device
from ..rt.device import opencl as opencl
