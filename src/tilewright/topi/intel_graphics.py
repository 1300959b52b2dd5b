"""`tvm.topi.intel_graphics`: operators and default schedules for Intel's GPUs."""

from ..base.face import face
from .names import target_names

__getattr__, __dir__ = face(
    __name__,
    target_names(
        "schedule_conv2d_NCHWc schedule_conv2d_nchw schedule_depthwise_conv2d_nchw",
        {
            "topi.by_target": (
                "conv2d_NCHWc=conv2d_NCHWc_float conv2d_nchw=conv2d_nchw_stride "
                "depthwise_conv2d_nchw"
            )
        },
        device=True,
    ),
)
