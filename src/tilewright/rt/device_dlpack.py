"""Arrays of CUDA devices to and from other libraries, without copies: DLPack's stream protocol.

The one who asks for memory says on which of its streams it will be used; the one who lends lets
that stream wait for its own. Numbers of streams: None, or 1, is the legacy default stream, 2 the
default stream of a thread, -1 asks for no waiting, any other is a `CUstream`.
https://data-apis.org/array-api/latest/API_specification/generated/array_api.array.__dlpack__.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.errors import LendError
from . import dlpack
from .device import Device

if TYPE_CHECKING:
    from .device_array import DeviceArray

_CUDA = 2


def lend(array: DeviceArray, stream: Any, versioned: bool) -> Any:
    """A capsule of a CUDA array for a taker that uses it on `stream`."""
    if array.device.device_type != _CUDA:
        raise LendError(
            f"an array on {array.device} cannot be lent through DLPack; x.numpy() copies it"
        )
    if array._readonly and not versioned:
        raise LendError("a read-only array needs DLPack 1.0 or a copy")
    runtime: Any = array._runtime
    runtime.lend_to(stream)
    return dlpack.make_capsule(
        array._address,
        array.shape,
        array.strides,
        array.dtype,
        array,
        array._readonly,
        versioned,
        array.__dlpack_device__(),
    )


def stream_number(where: Device) -> int:
    """The stream on which a library that lends memory of a CUDA device is to make it ready."""
    runtime: Any = where.runtime
    return int(runtime.stream_number())


def cuda_interface(array: DeviceArray) -> dict[str, Any]:
    """What `__cuda_array_interface__` gives."""
    if array.device.device_type != _CUDA or array.dtype == "bfloat16":
        raise AttributeError(f"an array of {array.dtype} on {array.device} has no such interface")
    item = array._numpy_type.itemsize
    steps = None if array._strides is None else tuple(s * item for s in array._strides)
    return {
        "shape": array.shape,
        "typestr": array._numpy_type.str,
        "data": (array._address if array.size else 0, array._readonly),
        "strides": steps,
        "stream": stream_number(array.device),
        "version": 3,
    }
