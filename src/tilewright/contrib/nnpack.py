"""`tvm.contrib.nnpack`: NNPACK is not called; its functions say what to use."""

from .libraries import refusal

_INSTEAD = "use topi.nn.conv2d and topi.nn.dense, or tvm.contrib.cblas"


def is_available() -> bool:
    """Whether NNPACK can be called: it cannot."""
    return False


fully_connected_inference = refusal("fully_connected_inference", "NNPACK", _INSTEAD)
convolution_inference = refusal("convolution_inference", "NNPACK", _INSTEAD)
convolution_inference_without_weight_transform = refusal(
    "convolution_inference_without_weight_transform", "NNPACK", _INSTEAD
)
convolution_inference_weight_transform = refusal(
    "convolution_inference_weight_transform", "NNPACK", _INSTEAD
)
