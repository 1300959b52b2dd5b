"""`auto_scheduler.compute_dag`: computations, and layouts as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from ..base.errors import TilewrightError
from .dag import ComputeDAG as ComputeDAG
from .transform import LayoutRewriteOption as LayoutRewriteOption


def layout_parts(layout: str) -> list[tuple[int, str]]:
    """The parts of axes that a layout lists, as lengths and names: of "8i2j", (8, "i") and
    (2, "j"). TilewrightError for a text that is no such layout."""
    parts = [(int(n), name) for n, name in re.findall(r"(\d+)([A-Za-z_]+)", layout)]
    if "".join(f"{number}{name}" for number, name in parts) != layout:
        raise TilewrightError(f"a layout looks like '8i2j4i', got {layout!r}")
    return parts


def get_shape_from_rewritten_layout(rewritten_layout: str, axis_names: Sequence[str]) -> list[int]:
    """The lengths of axes whose parts a layout lists: of "8i2j4i" and ["i", "j"], [32, 2].

    TilewrightError for a text that is no such layout.
    """
    parts = layout_parts(rewritten_layout)
    return [prod(n for n, axis in parts if axis == name) for name in axis_names]
