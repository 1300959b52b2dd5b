"""TVM's collection of tuned parameters, which has no counterpart: `autotvm.tophub`."""

from __future__ import annotations

from typing import Any

from ..base.errors import TilewrightError
from ..template.context import FallbackContext


def context(target: Any, extra_files: Any = None) -> Any:
    """A context with the records of `extra_files`; parameters of operators that nobody tuned are
    chosen by their schedules."""
    from ..template.context import ApplyHistoryBest

    del target
    return FallbackContext() if extra_files is None else ApplyHistoryBest(extra_files)


def download_package(tophub_location: str, package_name: str) -> None:
    """Nothing is downloaded. Raises TilewrightError where it is called at all, since there is
    nothing to download."""
    raise TilewrightError(
        f"there is no collection to download {package_name} from: the operators of topi choose "
        "their schedules for the target by themselves; tune with templates or the auto-scheduler"
    )


def check_backend(tophub_location: str, backend: str) -> bool:
    """Whether there are tuned parameters for a backend to be had: never."""
    return False
