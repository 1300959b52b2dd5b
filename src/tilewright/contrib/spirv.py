"""`tvm.contrib.spirv`: SPIRV-Tools is not called; its functions say what to use."""

from .libraries import refusal

_INSTEAD = "code for Vulkan is not made; the devices are cuda and opencl"

optimize = refusal("optimize", "SPIRV-Tools", _INSTEAD)
