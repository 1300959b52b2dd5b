"""tilewright: a tensor compiler in Python.

Say what to compute with `te`, how with a schedule, and get fast code: see docs/ and README.md.
Names resolve when first used (PEP 562), so that `import tilewright` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_MODULES = (
    "arith",
    "auto_scheduler",
    "autotvm",
    "contrib",
    "_ffi",
    "driver",
    "error",
    "graph",
    "interp",
    "instrument",
    "ir",
    "nd",
    "runtime",
    "support",
    "te",
    "testing",
    "tir",
    "topi",
    "transform",
)
_NAMES = {
    "build": "tilewright.driver.build_module",
    "lower": "tilewright.driver.lower",
    "create_schedule": "tilewright.schedule.api",
    "Target": "tilewright.target.target",
    "IRModule": "tilewright.loopir.stmt",
    "convert": "tilewright.loopir.expr",
    "const": "tilewright.loopir.expr",
    "register_func": "tilewright.rt.packed",
    "get_global_func": "tilewright.rt.packed",
    **dict.fromkeys(
        ("cpu", "cuda", "opencl", "rocm", "metal", "vulkan", "simt", "device", "Device"),
        "tilewright.rt.device",
    ),
    "register_simt": "tilewright.interp.simt",
    "SimtError": "tilewright.interp.simt",
    "DataType": "tilewright.runtime",
    "Object": "tilewright.runtime",
    "NDArray": "tilewright.rt.array",
    **dict.fromkeys(("TilewrightError", "ScheduleError", "CompileError"), "tilewright.base.errors"),
    "TVMError": "tilewright.error",
}

__all__ = [*_MODULES, *_NAMES, "__version__", "target"]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
    elif name in _MODULES or name == "target":
        value = import_module(f"tilewright.{name}")
    else:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
