"""Tensor maps of CUDA devices: made by the driver once for each array and shape, then kept."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from threading import Lock
from typing import Any

from ...base.tensor_map import TensorMap
from .cuda_api import Api

_BYTES = 128
_ALIGN = 128  # of CUtensorMap from CUDA 13 on; 64 before
_SINCE = 12000  # the CUDA that brought tensor maps
_KEPT = 256
_TYPES = {
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "int32": "INT32",
    "uint64": "UINT64",
    "int64": "INT64",
    "float16": "FLOAT16",
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "bfloat16": "BFLOAT16",
    "int8": "UINT8",
    "int16": "UINT16",
}


_KIND: tuple[Any, ...] = (
    ctypes.c_int,  # CUresult
    ctypes.c_void_p,  # the map
    ctypes.c_int,  # CUtensorMapDataType
    ctypes.c_uint32,  # rank
    ctypes.c_void_p,  # the array
    *[ctypes.POINTER(ctypes.c_uint64)] * 2,  # dimensions, strides
)
_NUMBERS = ctypes.POINTER(ctypes.c_uint32)
_MODES = (ctypes.c_int,) * 4  # CUtensorMapInterleave, -Swizzle, -L2promotion, -FloatOOBfill
_ENCODE = {
    # box, steps within it
    "cuTensorMapEncodeTiled": ctypes.CFUNCTYPE(*_KIND, _NUMBERS, _NUMBERS, *_MODES),
    # corners, channels, pixels, steps
    "cuTensorMapEncodeIm2col": ctypes.CFUNCTYPE(
        *_KIND, *[ctypes.POINTER(ctypes.c_int)] * 2, *[ctypes.c_uint32] * 2, _NUMBERS, *_MODES
    ),
}


class CudaTensorMap:
    """The bytes of a CUtensorMap, which the driver writes and a launch copies from `address`."""

    __slots__ = ("_raw", "address")

    def __init__(self) -> None:
        self._raw = ctypes.create_string_buffer(_BYTES + _ALIGN)
        start = ctypes.addressof(self._raw)
        self.address = start + -start % _ALIGN


class TensorMaps:
    """The tensor maps of one device, of which those used last are kept."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: OrderedDict[tuple[int, TensorMap], CudaTensorMap] = OrderedDict()
        self._lock = Lock()
        self._functions: dict[str, Any] = {}

    def get(self, address: int, described: TensorMap) -> CudaTensorMap:
        """The map of the array at an address. It says nothing of what is there, so that another
        array that is given the same memory may have it."""
        key = (address, described)
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found
        made = self._encode(address, described)
        with self._lock:
            self._known[key] = made
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return made

    def _encode(self, address: int, described: TensorMap) -> CudaTensorMap:
        """The driver's function writes into memory of ours: cuda-bindings let it write into an
        object of Python's, which is aligned to 16 bytes where a map needs more."""
        pixels = described.pixels
        name = "cuTensorMapEncodeTiled" if pixels is None else "cuTensorMapEncodeIm2col"
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = _ENCODE[name](self._api.address(name, _SINCE))
        binding = self._api.binding
        swizzle = f"{described.swizzle}B" if described.swizzle else "NONE"
        kinds = binding.CUtensorMapDataType
        rank = len(described.dims)
        wide, narrow = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
        made = CudaTensorMap()
        shape: tuple[Any, ...]
        if pixels is None:
            shape = (narrow(*described.box), narrow(*[1] * rank))
        else:
            corner = ctypes.c_int * (rank - 2)
            steps = narrow(1, *pixels.steps, 1)
            shape = (corner(*pixels.lower), corner(*pixels.upper), *described.box, steps)
        status = function(
            made.address,
            int(getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[described.dtype]}")),
            rank,
            address,
            wide(*described.dims),
            wide(*described.strides),
            *shape,
            int(binding.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
            int(getattr(binding.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}")),
            int(binding.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
            int(binding.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        )
        if status:
            raise self._api.error(binding.CUresult(status), name)
        return made
