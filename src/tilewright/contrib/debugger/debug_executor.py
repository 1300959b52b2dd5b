"""`tvm.contrib.debugger.debug_executor`: a GraphModule that says how long each kernel takes."""

from __future__ import annotations

from typing import Any

from ..graph_executor import GraphModule
from ..graph_executor import create as _create


class GraphModuleDebug(GraphModule):
    """A GraphModule with `profile`: the seconds of each kernel, by the names of its nodes. Raises
    UsageError where `module` is no network of tilewright.compile or load_network."""

    def profile(self, **input_dict: Any) -> list[tuple[str, float]]:
        """Median seconds of each kernel's calls, in order; `input_dict` sets inputs first. Raises
        UsageError where an argument is neither the name nor the number of an input."""
        self.set_input(**input_dict)
        found: list[tuple[str, float]] = self.module.profile(dict(zip(self._names, self._inputs)))
        return found


def create(
    graph_json_str: Any, libmod: Any, device: Any, dump_root: str | None = None
) -> GraphModuleDebug:
    """A GraphModuleDebug of a compiled network; see graph_executor.create. Nothing is written to
    `dump_root`: `tilewright layers` shows what TVM writes there. Raises UsageError where
    graph_json_str is JSON of Relay, where `libmod` is no network of tilewright.compile or
    load_network."""
    del dump_root
    return GraphModuleDebug(_create(graph_json_str, libmod, device).module)
