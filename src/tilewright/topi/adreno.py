"""`tvm.topi.adreno`: default schedules for Qualcomm's GPUs."""

from ..base.face import face
from .names import target_names

__getattr__, __dir__ = face(
    __name__,
    target_names(
        "schedule_injective schedule_injective_from_existing schedule_reduce schedule_pool "
        "schedule_adaptive_pool=on_device_in_some_layout",
        {},
        device=True,
    ),
)
