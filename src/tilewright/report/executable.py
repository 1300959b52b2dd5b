"""The page of a compiled network, from what it knows of itself: calls, nodes, work."""

from __future__ import annotations

from ..graph.device import DeviceExecutable
from ..rt.network import Executable
from ..rt.plan import Place, Work
from .cost import size_text, work_text
from .layout import place_boxes
from .page import Box, NetworkGraph, Page


def executable_page(net: Executable | DeviceExecutable) -> Page:
    """The calls of a compiled network as a graph, coloured by their share of the operations (the
    bytes of kernels without any are not counted; where operations are known at each call only, all
    calls are alike), and its facts. Nothing is run."""
    work = net.work if isinstance(net, Executable) else []
    page = Page(net.name, f"Compiled for {net.target}")
    page.graph = _graph(net, work)
    weights = sum(a.nbytes for a in net.constants)
    fixed = not isinstance(net, Executable) or net.sizes is None
    page.facts = [
        ("inputs", ", ".join(map(str, net.inputs))),
        ("outputs", ", ".join(map(str, net.outputs))),
        ("calls of kernels", f"{len(net.calls)}, of {net.distinct} kernels ({net.tuned} tuned)"),
        ("weights", size_text(weights)),
        ("workspace", size_text(net.workspace_bytes) if fixed else "as the sizes of a call need"),
    ]
    if work:
        page.facts.append(("operations", work_text(sum(w.flops for w in work))))
    return page


def _graph(net: Executable | DeviceExecutable, work: list[Work]) -> NetworkGraph:
    total = sum(w.flops for w in work)
    written: dict[Place, int] = {}
    boxes = []
    for k, call in enumerate(net.calls):
        *reads, output = call.args
        nodes = net.nodes[k]
        from_steps = sorted({written[p] for p in reads if p in written})
        share = work[k].flops / total if total else 1 / len(net.calls)
        label = nodes[-1] if len(nodes) == 1 else f"{nodes[0]} + {len(nodes) - 1}"
        boxes.append(Box(label, " + ".join(nodes), call.kernel, None, share, from_steps))
        written[output] = k
    return place_boxes(boxes, "the operations" if total else "the calls")
