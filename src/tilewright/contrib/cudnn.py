"""`tvm.contrib.cudnn`: cuDNN is not called; its functions say what to use."""

from .libraries import refusal

_INSTEAD = "use topi.nn.conv2d and topi.nn.softmax, which have schedules for cuda"


def exists() -> bool:
    """Whether cuDNN can be called: it cannot."""
    return False


conv_forward = refusal("conv_forward", "cuDNN", _INSTEAD)
conv_backward_data = refusal("conv_backward_data", "cuDNN", _INSTEAD)
conv_backward_filter = refusal("conv_backward_filter", "cuDNN", _INSTEAD)
softmax = refusal("softmax", "cuDNN", _INSTEAD)
log_softmax = refusal("log_softmax", "cuDNN", _INSTEAD)
