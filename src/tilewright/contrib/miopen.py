"""`tvm.contrib.miopen`: MIOpen is not called; its functions say what to use."""

from .libraries import refusal

_INSTEAD = "use topi.nn.conv2d and topi.nn.softmax; the devices are cuda and opencl"

conv2d_forward = refusal("conv2d_forward", "MIOpen", _INSTEAD)
softmax = refusal("softmax", "MIOpen", _INSTEAD)
log_softmax = refusal("log_softmax", "MIOpen", _INSTEAD)
