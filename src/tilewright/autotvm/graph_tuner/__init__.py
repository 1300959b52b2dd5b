"""TVM's choice of layouts for networks, which has no counterpart: `autotvm.graph_tuner`."""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError


class DPTuner:
    """Networks choose layouts by themselves here. Raises TilewrightError where it is made at all,
    since there are no graphs of Relay."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise TilewrightError(
            f"{type(self).__name__} is for Relay's graphs: tilewright.compile chooses the layouts "
            "of a network by itself; graph.extract_tasks gives its tasks to be tuned"
        )


class PBQPTuner(DPTuner):
    """Networks choose layouts by themselves here. Raises TilewrightError where it is made at all,
    since there are no graphs of Relay."""


class BaseGraphTuner(DPTuner):
    """Networks choose layouts by themselves here. Raises TilewrightError where it is made at all,
    since there are no graphs of Relay."""
