"""`auto_scheduler.relay_integration`: tasks of networks, which come from ONNX or PyTorch here, and
operators whose inputs lie in the order of a schedule's tiles.
"""

from __future__ import annotations

from ..base.face import face
from ..driver.transform import PassContext
from ..tensor.relayout import remove_index_check as remove_index_check
from ..tensor.relayout import rewrite_compute_body as rewrite_compute_body
from ..tensor.relayout import rewrite_tensor_shape as rewrite_tensor_shape

__getattr__, __dir__ = face(__name__, {"graph.tasks": "extract_tasks"})

ENABLE = "relay.backend.use_auto_scheduler"


def is_auto_scheduler_enabled() -> bool:
    """What the present PassContext says of "relay.backend.use_auto_scheduler", else False. Nothing
    here asks: networks use what a search found wherever there are records."""
    return bool(PassContext.current().config.get(ENABLE, False))
