"""Networks: import, passes, compilation, execution.

from tilewright import graph
net = graph.compile(graph.load_onnx("model.onnx"), target="llvm")
outputs = net.run({"input": images})
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "load_onnx": "onnx.load",
    "compile": "build",
    "extract_tasks": "tasks",
    "Executable": "executable",
    "Graph": "ir",
    "Node": "ir",
    "Value": "ir",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
