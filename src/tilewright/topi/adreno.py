"""`tvm.topi.adreno`: operators and default schedules for Qualcomm's GPUs."""

from ..base.face import face
from .names import target_names

_CONVOLUTIONS = (
    "conv2d_nchw_winograd conv2d_nchw_winograd_without_weight_transform conv2d_nchwc conv2d_nhwc "
    "conv2d_nhwc_winograd conv2d_nhwc_winograd_without_weight_transform conv2d_transpose_nchwc "
    "depthwise_conv2d_nchwc depthwise_conv2d_nhwc group_conv2d_nchwc"
)

__getattr__, __dir__ = face(
    __name__,
    target_names(
        "schedule_injective schedule_injective_from_existing schedule_reduce schedule_pool "
        "schedule_adaptive_pool=on_device_in_some_layout "
        + " ".join(f"schedule_{name}" for name in _CONVOLUTIONS.split()),
        {"topi.fours": _CONVOLUTIONS},
        device=True,
    ),
)
