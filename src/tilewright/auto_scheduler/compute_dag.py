"""`auto_scheduler.compute_dag`: computations, and layouts as text."""

from __future__ import annotations

from ..tensor.relayout import get_shape_from_rewritten_layout as get_shape_from_rewritten_layout
from .dag import ComputeDAG as ComputeDAG
from .transform import LayoutRewriteOption as LayoutRewriteOption
