"""`tvm.topi.arm_cpu`: operators and default schedules for ARM's CPUs."""

from ..base.face import face
from .names import INJECTIVE, target_names

__getattr__, __dir__ = face(
    __name__,
    target_names(
        f"{INJECTIVE} schedule_concatenate schedule_pool schedule_bitserial_conv2d_nchw "
        "schedule_bitserial_conv2d_nhwc schedule_bitserial_dense schedule_conv2d_NCHWc_int8 "
        "schedule_conv2d_nchw_int8 schedule_conv2d_nchw_spatial_pack schedule_conv2d_nchw_winograd "
        "schedule_conv2d_nhwc_spatial_pack schedule_conv2d_transpose_nchw "
        "schedule_depthwise_conv2d_nchw schedule_depthwise_conv2d_nhwc schedule_group_conv2d_nchw "
        "schedule_conv2d_NHWC_quantized_interleaved schedule_conv2d_NHWC_quantized_native",
        {
            "topi.by_target": (
                "bitserial_conv2d_nhwc bitserial_dense conv2d_NCHWc_int8 "
                "conv2d_nchw_int8=conv2d_nchw conv2d_nchw_spatial_pack=conv2d_nchw "
                "conv2d_nchw_winograd conv2d_nhwc_spatial_pack=conv2d_nhwc depthwise_conv2d_nchw "
                "compute_depthwise_conv2d_nhwc=depthwise_conv2d_nhwc group_conv2d_nchw "
                "compute_conv2d_NHWC_quantized_interleaved=conv2d_nhwc "
                "compute_conv2d_NHWC_quantized_native=conv2d_nhwc"
            ),
            "topi.nn.conv_transpose": "conv2d_transpose_nchw",
        },
        device=False,
    ),
)
