"""`tvm.contrib.mps`: Metal Performance Shaders is not called; its functions say what to use."""

from .libraries import refusal

_INSTEAD = "use topi; the devices are cuda and opencl"

matmul = refusal("matmul", "Metal Performance Shaders", _INSTEAD)
conv2d = refusal("conv2d", "Metal Performance Shaders", _INSTEAD)
