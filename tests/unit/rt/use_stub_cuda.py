"""Run by test_cuda_binding.py in a process that finds the stub of the CUDA driver library."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np

from tilewright.base.errors import TilewrightError
from tilewright.base.tensor_map import Pixels, TensorMap
from tilewright.rt import array as nd
from tilewright.rt.device import cuda
from tilewright.rt.device_array import DeviceArray
from tilewright.rt.drivers.base import DeviceCode, KernelInfo
from tilewright.rt.drivers.cuda_kernel import CudaKernel


def refused(work) -> str:
    try:
        work()
    except TilewrightError as error:
        return str(error)
    raise AssertionError("no error")


def main() -> None:
    dev = cuda(0)
    assert dev.exist and not cuda(2).exist, dev.why_missing()
    assert (dev.device_name, dev.compute_version, dev.warp_size) == ("Stub 0", "9.0", 32)
    x = np.arange(10, dtype=np.float32)
    a, b = nd.array(x, dev), nd.empty((10,), "float32", dev)
    assert isinstance(a, DeviceArray) and isinstance(b, DeviceArray)
    runtime = dev.runtime
    info = KernelInfo(
        "scale",
        ("handle", "handle", "float32", "int32"),
        ("r", "w", "scalar", "scalar"),
        shared_bytes=50000,
    )
    kernel = runtime.load(DeviceCode("cuda", (info,), binary=b"cubin\0"))["scale"]
    assert isinstance(kernel, CudaKernel)
    args = (a.make_handle(), b.make_handle(), 2.5, 10)
    kernel.launch((1, 1, 1), (32, 1, 1), args, runtime.stream)
    assert np.array_equal(b.numpy(), x * 2.5)
    b[:] = 0
    kernel.bind((1, 1, 1), (32, 1, 1), args, runtime.stream)()
    assert np.array_equal(b.numpy(), x * 2.5)
    assert kernel.facts()["registers"] == 44 and kernel.active_blocks(256) == 8
    text = refused(lambda: kernel.launch((1, 1, 1), (2048, 1, 1), args, runtime.stream))
    assert "CUDA_ERROR_INVALID_VALUE (words)" in text
    whole = nd.empty((4, 8), "float32", dev)
    described = TensorMap("float32", (8, 4), (32,), (8, 2), 32)
    assert isinstance(whole, DeviceArray)
    mapped = runtime.tensor_map(whole.make_handle(), described)
    assert runtime.tensor_map(whole.make_handle(), described) is mapped
    inside = whole.make_handle() + 8
    text = refused(lambda: runtime.tensor_map(inside, described))
    assert "CUDA_ERROR_INVALID_VALUE" in text
    pixels = Pixels((-1, -2), (3, -4), (2, 5))
    images = TensorMap("float32", (4, 3, 2, 1), (16, 48, 96), (4, 300), 32, pixels)
    columns = runtime.tensor_map(whole.make_handle(), images)
    assert runtime.tensor_map(whole.make_handle(), images) is columns is not mapped
    text = refused(lambda: runtime.tensor_map(inside, images))
    assert "cuTensorMapEncodeIm2col: CUDA_ERROR_INVALID_VALUE" in text
    other = replace(info, params=("map", *info.params[1:]))
    seen = runtime.load(DeviceCode("cuda", (other,), binary=b"cubin\0"))["scale"]
    given = (mapped, whole.make_handle(), 2.5, 0)
    seen.launch((1, 7, 1), (32, 1, 1), given, runtime.stream)
    seen.bind((1, 7, 1), (32, 1, 1), given, runtime.stream)()
    side = dev.create_stream()
    start, end = side.record(timing=True), side.record(timing=True)
    assert end.done and end.seconds_since(start) == 1.5e-3
    repeat = runtime.capture(lambda stream: kernel.launch((1, 1, 1), (32, 1, 1), args, stream))
    assert repeat is not None
    repeat()
    assert np.array_equal(a.copyto(cuda(1)).numpy(), x)
    assert np.array_equal(a.copyto(dev).numpy(), x)
    host = nd.pinned_empty((10,), "float32", dev)
    host[:] = 4
    a.copyfrom(host, wait=False)
    assert (a.numpy() == 4).all()
    assert nd.from_dlpack(a)._address == a._address
    a.__dlpack__(stream=77)
    assert dev.available_global_memory == 7
    text = refused(lambda: nd.empty((1 << 29,), "uint8", dev))
    assert "has no memory for 536870912 bytes: 7 are free" in text
    text = refused(lambda: runtime.load(DeviceCode("cuda", (info,), binary=b"text")))
    assert "cannot load the kernels scale" in text
    del a, b, whole, columns, seen, host, side, start, end
    gc.collect()
    runtime.sync()
    runtime.trim()
    print("all calls accepted")


main()
