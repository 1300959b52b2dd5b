"""Which schedule each family of operations gets on a GPU."""

from __future__ import annotations

from ...nn.recurrent_step import STEP
from ..rules import Rules
from .channels_last import schedule_depthwise_nhwc
from .conv2d import (
    schedule_conv2d_nchw,
    schedule_conv2d_nhwc,
    schedule_conv_nchwc,
    schedule_conv_nd,
    schedule_depthwise_nchw,
    schedule_depthwise_nchwc,
)
from .injective import arrange
from .machine import GpuMachine
from .matmul import schedule_dense_packed, schedule_matmul
from .recurrent import schedule_step
from .reduce import schedule_pool, schedule_reduce
from .rows import schedule_rows

GPU_RULES: Rules[GpuMachine] = Rules(
    anchors={
        "conv_nchwc": schedule_conv_nchwc,
        "depthwise_nchwc": schedule_depthwise_nchwc,
        "conv2d_nchw": schedule_conv2d_nchw,
        "conv2d_nhwc": schedule_conv2d_nhwc,
        "group_conv2d_nhwc": schedule_conv2d_nhwc,
        "group_conv2d_nchw": schedule_conv2d_nchw,
        **{
            f"{groups}conv{layout}": schedule_conv_nd
            for groups in ("", "group_")
            for layout in ("1d_ncw", "1d_nwc", "3d_ncdhw", "3d_ndhwc")
        },
        "depthwise_conv2d_nchw": schedule_depthwise_nchw,
        "depthwise_conv2d_nhwc": schedule_depthwise_nhwc,
        "matmul": schedule_matmul,
        "batch_matmul": schedule_matmul,
        "dense_packed": schedule_dense_packed,
        "pool_max": schedule_pool,
        "pool_avg": schedule_pool,
        "global_pool_avg": schedule_reduce,
        "global_pool_max": schedule_reduce,
        "comm_reduce": schedule_reduce,
    },
    reduction=schedule_reduce,
    arrange=arrange,
    whole={"softmax_output": schedule_rows, STEP: schedule_step},
    padded=("conv", "group_conv", "depthwise", "pool"),
    ends_several=True,
)
