"""The enumerations of the driver's interface that the runtime uses, with the header's numbers."""

from __future__ import annotations

import enum

from tests.stub_cuda.limits import ARCHS


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_ILLEGAL_STATE = 401
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_MISALIGNED_ADDRESS = 716
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906
    CUDA_ERROR_CAPTURED_EVENT = 907
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908
    CUDA_ERROR_INVALID_CLUSTER_SIZE = 912


class CUstream(int):
    pass


CUdevice_attribute = enum.IntEnum(  # type: ignore[misc]
    "CUdevice_attribute", [f"CU_DEVICE_ATTRIBUTE_{n}" for n in ARCHS["sm_80"].attributes()]
)


class CUevent_flags(enum.IntEnum):
    CU_EVENT_DEFAULT = 0
    CU_EVENT_BLOCKING_SYNC = 1
    CU_EVENT_DISABLE_TIMING = 2


class CUstream_flags(enum.IntEnum):
    CU_STREAM_DEFAULT = 0
    CU_STREAM_NON_BLOCKING = 1


class CUfunction_attribute(enum.IntEnum):
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class CUstreamCaptureMode(enum.IntEnum):
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
    CU_STREAM_CAPTURE_MODE_RELAXED = 2


class CUtensorMapDataType(enum.IntEnum):
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0
    CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1
    CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2
    CU_TENSOR_MAP_DATA_TYPE_INT32 = 3
    CU_TENSOR_MAP_DATA_TYPE_UINT64 = 4
    CU_TENSOR_MAP_DATA_TYPE_INT64 = 5
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7
    CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9


class CUtensorMapInterleave(enum.IntEnum):
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0
    CU_TENSOR_MAP_INTERLEAVE_16B = 1
    CU_TENSOR_MAP_INTERLEAVE_32B = 2


class CUtensorMapSwizzle(enum.IntEnum):
    CU_TENSOR_MAP_SWIZZLE_NONE = 0
    CU_TENSOR_MAP_SWIZZLE_32B = 1
    CU_TENSOR_MAP_SWIZZLE_64B = 2
    CU_TENSOR_MAP_SWIZZLE_128B = 3


class CUtensorMapL2promotion(enum.IntEnum):
    CU_TENSOR_MAP_L2_PROMOTION_NONE = 0
    CU_TENSOR_MAP_L2_PROMOTION_L2_64B = 1
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3


class CUtensorMapFloatOOBfill(enum.IntEnum):
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA = 1


RESULTS = {
    "cuInit": 0, "cuDriverGetVersion": 1, "cuDeviceGetCount": 1, "cuDeviceGet": 1,
    "cuDeviceGetName": 1, "cuDeviceTotalMem": 1, "cuDeviceGetAttribute": 1,
    "cuDevicePrimaryCtxRetain": 1, "cuCtxSetCurrent": 0, "cuCtxSynchronize": 0, "cuMemAlloc": 1,
    "cuMemFree": 0, "cuMemGetInfo": 2, "cuMemHostAlloc": 1, "cuMemFreeHost": 0,
    "cuMemcpyHtoDAsync": 0, "cuMemcpyDtoHAsync": 0, "cuMemcpyDtoDAsync": 0, "cuMemcpyPeerAsync": 0,
    "cuStreamCreate": 1, "cuStreamDestroy": 0, "cuStreamSynchronize": 0, "cuStreamWaitEvent": 0,
    "cuStreamBeginCapture": 0, "cuStreamEndCapture": 1, "cuThreadExchangeStreamCaptureMode": 1,
    "cuEventCreate": 1, "cuEventDestroy": 0, "cuEventRecord": 0, "cuEventQuery": 0,
    "cuEventSynchronize": 0, "cuEventElapsedTime": 1, "cuModuleLoadData": 1, "cuModuleUnload": 0,
    "cuModuleGetFunction": 1, "cuFuncGetAttribute": 1, "cuFuncSetAttribute": 0,
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": 1, "cuLaunchKernel": 0, "cuGraphInstantiate": 1,
    "cuGraphDestroy": 0, "cuGraphUpload": 0, "cuGraphLaunch": 0, "cuGraphExecDestroy": 0,
    "cuGetErrorString": 1, "cuTensorMapEncodeTiled": 0, "cuTensorMapEncodeIm2col": 0,
    "cuGetProcAddress": 2,
}  # fmt: skip
"""How many results a function has behind its status."""
