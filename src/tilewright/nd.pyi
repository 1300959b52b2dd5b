# Made by `python -m tools.make_stubs`.

from tilewright.rt.array import NDArray as NDArray
from tilewright.rt.array import array as array
from tilewright.rt.array import empty as empty
from tilewright.rt.array import from_dlpack as from_dlpack
from tilewright.rt.array import pinned_empty as pinned_empty
from tilewright.rt.device import Device as Device
from tilewright.rt.device import cpu as cpu
from tilewright.rt.device import cuda as cuda
from tilewright.rt.device import device as device
from tilewright.rt.device import metal as metal
from tilewright.rt.device import opencl as opencl
from tilewright.rt.device import rocm as rocm
from tilewright.rt.device import simt as simt
from tilewright.rt.device import vulkan as vulkan
