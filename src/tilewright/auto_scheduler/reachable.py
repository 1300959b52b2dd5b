"""Whether candidates for a target can be measured on this machine, before a search begins."""

from __future__ import annotations

from typing import Any

from ..base.errors import TilewrightError
from ..driver.build_module import BACKENDS
from ..rt.device import device
from ..target.target import Target

_UNMEASURED = "auto_schedule(task) without trials chooses by the model alone"


def require_measurable(target: Target, runner: Any = None) -> None:
    """TilewrightError where functions for `target` cannot be built and timed here: it has no
    compiler or no device. `runner`: a LocalRunner, for the number of the device."""
    kind = target.kind.name
    if kind not in BACKENDS:
        raise TilewrightError(
            f"candidates for {target} cannot be measured here: there is no code generator for it; "
            f"{_UNMEASURED}"
        )
    timing = getattr(runner, "timing", None)
    dev = device(kind if kind != "llvm" else "cpu", int(getattr(timing, "device", 0)))
    if not dev.exist:
        raise TilewrightError(
            f"candidates for {target} cannot be measured here: {dev.why_missing()}; {_UNMEASURED}"
        )
