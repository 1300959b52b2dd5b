"""`tvm.topi.hls`: default schedules under the names for high-level synthesis, for the target in
scope."""

from ..base.face import face
from .names import INJECTIVE, target_names

__getattr__, __dir__ = face(
    __name__,
    target_names(
        f"{INJECTIVE} schedule_adaptive_pool schedule_bitserial_conv2d_nchw "
        "schedule_bitserial_conv2d_nhwc schedule_conv2d_NCHWc schedule_conv2d_nchw "
        "schedule_conv2d_nhwc schedule_conv2d_transpose_nchw schedule_dense "
        "schedule_depthwise_conv2d_nchw schedule_depthwise_conv2d_nhwc schedule_pool "
        "schedule_reduce schedule_softmax",
        {},
        device=False,
    ),
)
