"""Tasks of networks of Relay, of which there are none: `autotvm.task.relay_integration`."""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError


def extract_from_program(*args: Any, **options: Any) -> Any:
    """There is no Relay. Raises TilewrightError where it is called at all, since there are no
    networks of Relay."""
    raise TilewrightError(
        "there are no networks of Relay: load an ONNX file and take its tasks with "
        "auto_scheduler.extract_tasks(graph, target), or make tasks of templates with "
        "autotvm.task.create"
    )


extract_from_multiple_program = extract_from_program
