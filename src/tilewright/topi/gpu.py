"""`tvm.topi.gpu`: operators and default schedules for GPUs of any maker."""

from ..base.face import face
from .names import target_names

__getattr__, __dir__ = face(
    __name__,
    target_names(
        "schedule_conv2d_nhwc schedule_dense_large_batch schedule_dense_small_batch "
        "schedule_matmul_default",
        {
            "topi.by_target": (
                "conv2d_nhwc=conv2d_nhwc_float dense_large_batch=dense dense_small_batch=dense "
                "matmul_default"
            )
        },
        device=True,
    ),
)
