"""A plugin of pytest for `python -m tilewright.as_tvm -m pytest`: TVM's own tests take `target` and
`dev` from `tvm.testing.plugin`, which the conftest.py of TVM's repository loads."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def pytest_configure(config: Any) -> None:
    """Load that plugin, unless a conftest.py has."""
    plugin = import_module("tvm.testing.plugin")
    if not config.pluginmanager.is_registered(plugin):
        config.pluginmanager.register(plugin, "tvm.testing.plugin")
