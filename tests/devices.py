"""Devices that a machine may lack: a test that needs one is skipped without it, saying why."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.rt.device import Device


def device(name: str) -> Device:
    """The first device of that kind; the test is skipped where there is none."""
    found = tw.device(name, 0)
    if not found.exist:
        pytest.skip(f"no {name} device: {found.why_missing()}")
    return found
