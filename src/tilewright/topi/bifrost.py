"""`tvm.topi.bifrost`: operators and default schedules for ARM's GPUs."""

from ..base.face import face
from .names import target_names

__getattr__, __dir__ = face(
    __name__,
    target_names(
        "schedule_conv2d_nchw_spatial_pack schedule_conv2d_nchw_winograd "
        "schedule_dense schedule_depthwise_conv2d_nchw",
        {"topi.by_target": ("conv2d_nchw_spatial_pack=conv2d_nchw conv2d_nchw_winograd dense")},
        device=True,
    ),
)
