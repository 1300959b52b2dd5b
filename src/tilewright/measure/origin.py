"""Where this process measures: what a store keeps beside each measurement."""

from __future__ import annotations

import functools
import getpass
import os
import socket

from .. import __version__
from ..base.errors import TilewrightError
from ..rt.device import Device
from ..target.host import host_cpu
from ..target.target import Target
from .result import Origin

_CPU = 1


def here(device: str = "") -> Origin:
    """What is measured by this process, on `device`."""
    return Origin(*_process(), device, __version__)


def here_for(target: Target) -> Origin:
    """The same on this machine's device for a target."""
    return here(_device(target.kind.device_type))


@functools.lru_cache(1)
def _process() -> tuple[str, str]:
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user without a name
        user = str(os.getuid()) if hasattr(os, "getuid") else ""
    return user, socket.gethostname()


@functools.lru_cache(8)
def _device(device_type: int) -> str:
    try:
        return host_cpu() if device_type == _CPU else Device(device_type).device_name or ""
    except TilewrightError:  # candidates are of a machine that is not here
        return ""
