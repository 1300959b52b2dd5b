"""Templates with knobs and the search for their best values: `from tilewright import autotvm`.

Names only, resolved when first used (PEP 562); what they do stands in template/ and measure/.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES: dict[str, str] = {
    "template": "task",
    **dict.fromkeys(("ConfigSpace", "ConfigEntity", "FallbackConfigEntity"), "space"),
    **dict.fromkeys(
        ("DispatchContext", "ApplyConfig", "ApplyFixedConfig", "ApplyHistoryBest")
        + ("FallbackContext", "get_config"),
        "context",
    ),
    **dict.fromkeys(("LocalBuilder", "LocalRunner", "measure_option"), "measure"),
    **dict.fromkeys(("register_topi_compute", "register_topi_schedule"), "topi_integration"),
    **dict.fromkeys(("MeasureInput", "MeasureResult"), "record"),
    "GLOBAL_SCOPE": "env",
}
_SUBMODULES = ("callback", "env", "measure", "record", "task", "tuner")

__all__ = [*_NAMES, "MeasureErrorNo", "apply_history_best", *_SUBMODULES]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    if name == "apply_history_best":
        value = __getattr__("ApplyHistoryBest")
    elif name == "MeasureErrorNo":
        value = import_module("tilewright.measure.result").MeasureErrorNo
    elif name in _NAMES:
        value = getattr(import_module(f"tilewright.template.{_NAMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
