"""`tvm.topi.mali`: operators and default schedules for ARM's GPUs."""

from ..base.face import face
from .names import target_names

__getattr__, __dir__ = face(
    __name__,
    target_names(
        "schedule_conv2d_nchw_spatial_pack schedule_conv2d_nchw_winograd "
        "schedule_conv2d_nhwc_spatial_pack schedule_dense schedule_depthwise_conv2d_nchw "
        "schedule_depthwise_conv2d_nhwc",
        {
            "topi.by_target": (
                "conv2d_nchw_spatial_pack=conv2d_nchw conv2d_nchw_winograd "
                "conv2d_nhwc_spatial_pack=conv2d_nhwc dense depthwise_conv2d_nchw "
                "depthwise_conv2d_nhwc"
            )
        },
        device=True,
    ),
)
