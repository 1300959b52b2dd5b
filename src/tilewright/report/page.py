"""A page: what it shows, and how it becomes one HTML file that needs no network."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from .kernel import Kernel

_SCRIPTS = ("page.js", "code.js")
_PLOTTING = ("d3.min.js", "plot.umd.min.js", "page.js", "plots.js", "code.js")


@dataclass(frozen=True)
class Point:
    """A kernel in the roofline. `flops`, `bytes`: its work; `seconds`: None where nothing was
    measured; `binds`: "compute" or "memory", `of_limit`: the share of that limit it reaches."""

    kernel: int
    name: str
    title: str
    flops: int
    bytes: int
    seconds: float | None = None
    share: float = 0.0
    binds: str = ""
    of_limit: float | None = None


@dataclass(frozen=True)
class Roofline:
    """`peak`: operations a second, `roofs`: names and bytes a second of memories, where measured;
    `note`: how."""

    points: Sequence[Point]
    note: str
    peak: float | None = None
    roofs: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Box:
    """One call of a kernel in the graph; `reads`: the steps whose results it reads."""

    label: str
    nodes: str
    kernel: int
    seconds: float | None
    share: float
    reads: Sequence[int]
    x: float = 0.0
    y: float = 0.0


@dataclass(frozen=True)
class NetworkGraph:
    """The calls of a network in their order; `measure`: what shares are shares of."""

    boxes: Sequence[Box]
    width: float
    height: float
    measure: str = "the time"

    def rows(self) -> list[tuple[str, ...]]:
        """The graph as a table."""
        return [
            (
                str(k), b.nodes, b.label, _ms(b.seconds), f"{b.share:.1%}",
                ", ".join(map(str, b.reads)) or "-",
            )
            for k, b in enumerate(self.boxes)
        ]  # fmt: skip


@dataclass(frozen=True)
class Held:
    """A value in the workspace: its bytes, where, and the first and last step it is needed in."""

    name: str
    bytes: int
    offset: int
    first: int
    last: int


@dataclass(frozen=True)
class Memory:
    """The plan of a workspace of `size` bytes over a number of steps."""

    held: Sequence[Held]
    size: int
    steps: int
    note: str

    def rows(self) -> list[tuple[str, ...]]:
        """The plan as a table."""
        return [
            (h.name, f"{h.bytes / 1024:.1f}", f"{h.offset / 1024:.1f}", str(h.first), str(h.last))
            for h in self.held
        ]


@dataclass(frozen=True)
class Trial:
    """One measurement of a search: seconds (None: it failed), the error's name, when it ended, the
    relative scatter of its repetitions, what the model predicts (higher is faster)."""

    seconds: float | None
    error: str = ""
    at: float = 0.0
    noise: float = 0.0
    predicted: float | None = None


@dataclass(frozen=True)
class Choice:
    """A decision of a search and what became of each value: value, how often, best seconds."""

    name: str
    values: Sequence[tuple[str, int, float | None]]


@dataclass(frozen=True)
class Tuned:
    """The search for one task. `best`: the steps of the best, as text; `predictor`: what made the
    predictions, or why there are none; `correlation`: of ranks, predicted with measured."""

    task: str
    target: str
    trials: Sequence[Trial]
    choices: Sequence[Choice]
    best: Sequence[str]
    seconds: float
    predictor: str
    correlation: float | None = None
    warnings: Sequence[str] = ()


@dataclass
class Page:
    """What one page shows; `widget`: alone, without head and foot, for notebooks."""

    title: str
    subtitle: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stages: list[tuple[str, ...]] = field(default_factory=list)
    roofline: Roofline | None = None
    graph: NetworkGraph | None = None
    memory: Memory | None = None
    tuning: list[Tuned] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    widget: bool = False

    def roofline_rows(self) -> list[tuple[str, ...]]:
        """The roofline as a table, slowest first."""
        points = () if self.roofline is None else self.roofline.points
        return [_point_row(p) for p in sorted(points, key=lambda p: -(p.seconds or 0.0))]

    def tuning_rows(self) -> list[tuple[str, ...]]:
        """The searches as a table."""
        rows: list[tuple[str, ...]] = []
        for t in self.tuning:
            good = [x for x in t.trials if x.seconds is not None]
            best = min(good, key=lambda x: x.seconds or 0.0, default=None)
            failed = str(len(t.trials) - len(good))
            noise = "-" if best is None else f"{best.noise:.1%}"
            cost = _ms(None if best is None else best.seconds)
            head = (t.task, t.target, str(len(t.trials)), failed)
            rows.append((*head, cost, noise, f"{t.seconds:.0f}"))
        return rows

    def html(self) -> str:
        """The page as one HTML file: text, styles, scripts and data."""
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup

        from .. import __version__

        env = Environment(
            loader=PackageLoader("tilewright.report", "assets"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        plots = self.roofline or self.graph or self.memory or self.tuning
        scripts = _PLOTTING if plots else _SCRIPTS
        return env.get_template("report.html.j2").render(
            page=self,
            version=__version__,
            sections=self._sections(),
            css=Markup(asset("report.css")),
            scripts=[Markup(asset(name)) for name in scripts],
            data=Markup(_json(self._data())),
            blobs=[packed(k.to_json()) for k in self.kernels],
        )

    def _sections(self) -> list[tuple[str, str]]:
        known = (
            ("facts", "At a glance", self.facts),
            ("stages", "Stages", self.stages),
            ("roofline", "Roofline", self.roofline),
            ("graph", "Network", self.graph),
            ("memory", "Memory", self.memory),
            ("tuning", "Tuning", self.tuning),
            ("kernels", "Kernels", self.kernels),
        )
        return [(name, text) for name, text, shown in known if shown]

    def _data(self) -> dict[str, Any]:
        """What scripts read; the kernels lie beside it, compressed one by one."""
        times = {p.kernel: p for p in (self.roofline.points if self.roofline else ())}
        kernels = []
        for k, kernel in enumerate(self.kernels):
            p = times.get(k)
            kernels.append(
                {
                    "name": kernel.name,
                    "title": kernel.title,
                    "seconds": p.seconds if p else None,
                    "share": p.share if p else None,
                }
            )
        return {
            "roofline": None if self.roofline is None else asdict(self.roofline),
            "graph": None if self.graph is None else asdict(self.graph),
            "memory": None if self.memory is None else asdict(self.memory),
            "tuning": [asdict(t) for t in self.tuning],
            "kernels": kernels,
        }


def _point_row(p: Point) -> tuple[str, ...]:
    rate = "-" if not p.seconds else f"{p.flops / p.seconds / 1e9:.1f}"
    intensity = "-" if not p.bytes else f"{p.flops / p.bytes:.2f}"
    limit = "-" if p.of_limit is None else f"{p.of_limit:.0%}"
    work = (f"{p.flops / 1e9:.4g}", f"{p.bytes / 1e6:.4g}", intensity)
    return (p.name, p.title, _ms(p.seconds), f"{p.share:.1%}", *work, rate, p.binds or "-", limit)


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.4g}"


def packed(data: Any) -> str:
    """JSON of `data`, compressed (zlib) and in base64; a page's script unpacks it when it is
    shown."""
    return base64.b64encode(zlib.compress(json.dumps(data).encode(), 9)).decode()


def unpacked(text: str) -> Any:
    """What `packed` was given."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def _json(data: Any) -> str:
    """JSON that may stand in a script element: without infinities, and no tag ends in it."""
    plain = json.dumps(data, allow_nan=False)
    return plain.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def asset(name: str) -> str:
    """The text of a file that pages are made of."""
    return (files("tilewright.report") / "assets" / name).read_text(encoding="utf-8")
