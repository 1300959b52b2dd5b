"""`tvm.topi.rocm`: default schedules for AMD's GPUs."""

from ..base.face import face
from .names import target_names

__getattr__, __dir__ = face(__name__, target_names("schedule_lrn", {}, device=True))
