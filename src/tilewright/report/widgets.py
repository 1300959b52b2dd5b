"""Pictures of objects: what `_repr_html_` and `show` of schedules, programs, modules, networks and
searches give (base/pictured.py)."""

from __future__ import annotations

import html
import os
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..auto_scheduler.records import RecordReader
from ..auto_scheduler.slope import UNKNOWN_COST
from ..auto_scheduler.task_scheduler import TaskScheduler
from ..base.errors import TilewrightError, UsageError
from ..driver.lower import lower
from ..graph.device import DeviceExecutable
from ..graph.ir import Graph
from ..graph.open import OpenExecutable
from ..graph.staged import StagedExecutable
from ..loopir.module import IRModule
from ..loopir.stmt import PrimFunc
from ..rt.files import write_atomically
from ..rt.module import Module
from ..rt.network import Executable
from ..schedule.api import Schedule
from ..template.tuner import Tuner
from .executable import executable_page
from .kernel import Code, Kernel, Watched
from .network import network_page, plan_page
from .page import Page, Trial, Tuned
from .schedule import lowered_page, schedule_page, target_of
from .search import of_template, records_page, searches_page

HEIGHT = 520
"""Pixels of a picture in a notebook, until it says itself how high it is."""


def page_of(shown: Any, timed: bool = False) -> Page:
    """The page of an object; UsageError for those that have none. `timed`: run what can be run."""
    for kind, make in _PAGES:
        if isinstance(shown, kind):
            found: Page = make(shown, timed)
            return found
    raise UsageError(f"there is no picture of a {type(shown).__name__}")


def html_of(shown: Any) -> str:
    """HTML for a notebook: the page of an object in a frame of its own, whose styles and scripts do
    not meet those of the notebook. What cannot be drawn says why."""
    try:
        page = page_of(shown)
    except TilewrightError as error:
        page = Page(type(shown).__name__, warnings=[str(error)])
    page.widget = True
    grow = "this.style.height=(this.contentDocument.documentElement.scrollHeight+8)+'px'"
    return (
        f'<iframe title="{html.escape(page.title, quote=True)}" loading="lazy" '
        f'style="width:100%;height:{HEIGHT}px;border:0" onload="setTimeout(()=>{{{grow}}},400)" '
        f'srcdoc="{html.escape(page.html(), quote=True)}"></iframe>'
    )


def show(shown: Any, path: str | os.PathLike[str] | None = None) -> Path | None:
    """See `Shown.show`."""
    if path is None and _in_notebook():
        display: Callable[..., Any] = sys.modules["IPython.display"].display
        display(shown)
        return None
    text = page_of(shown, timed=True).html()
    if path is not None:
        write_atomically(path, text.encode())
        return Path(path)
    with tempfile.NamedTemporaryFile(
        "w", prefix="tilewright-", suffix=".html", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    if not webbrowser.open(Path(file.name).as_uri()):
        print(f"no browser to show it in; the page is {file.name}")
    return Path(file.name)


def _in_notebook() -> bool:
    """Whether this is a kernel of a notebook, which shows HTML (a terminal of IPython does not)."""
    shell = sys.modules.get("IPython.core.getipython")
    current = None if shell is None else shell.get_ipython()
    return current is not None and hasattr(current, "kernel") and "IPython.display" in sys.modules


# -- pages


def _schedule(sch: Schedule, timed: bool) -> Page:
    return schedule_page(sch, timed=timed)


def _function(func: PrimFunc, timed: bool) -> Page:
    return _program(IRModule({func.name: func}), timed)


def _program(module: IRModule, timed: bool) -> Page:
    watched = Watched()
    target = target_of(None)
    with watched.watching():
        lower(module)
    page = lowered_page(watched, target, timed=timed)
    page.title = ", ".join(module.functions) or "empty module"
    return page


def _module(module: Module, timed: bool) -> Page:
    page = Page(f"Module of {', '.join(module.function_names)}", f"Compiled for {module.target}")
    page.facts = [("target", str(module.target)), ("functions", ", ".join(module.function_names))]
    for one in (module, *module.imported_modules):
        codes = []
        for kind in sorted(one.source_formats, key=lambda kind: kind != "tir"):  # loops first
            text = one.get_source(kind)
            lines = text.rstrip("\n").split("\n")
            codes.append(Code(_NAMES.get(kind, kind), lines, [0] * len(lines)))
        name = ", ".join(one.function_names) or one.type_key
        page.kernels.append(Kernel(name, f"of {one.type_key}", codes=codes))
    return page


_NAMES = {
    "tir": "Loops", "ll": "LLVM IR", "asm": "Assembly", "c": "C", "cuda": "CUDA C",
    "opencl": "OpenCL C", "ptx": "PTX", "sass": "SASS", "host": "Host code",
}  # fmt: skip


def _graph(graph: Graph, timed: bool) -> Page:
    return network_page(graph) if timed else plan_page(graph)


def _executable(net: Executable | DeviceExecutable, timed: bool) -> Page:
    return executable_page(net)


def _open(net: OpenExecutable, timed: bool) -> Page:
    if net.whole is None:
        raise UsageError(
            f"{net.name} is compiled for each shape when it is first called with it; compile it "
            "with shapes={name: (1, 3, 224, 224)} to see one of them"
        )
    return executable_page(net.whole)


def _staged(net: StagedExecutable, timed: bool) -> Page:
    raise UsageError(
        f"{net.name} is compiled in parts while it runs, since shapes in it depend on data, so "
        "there is no plan to show"
    )


def _reader(reader: RecordReader, timed: bool) -> Page:
    return records_page(reader.filename)


def _tuner(tuner: Tuner, timed: bool) -> Page:
    if not tuner.history:
        raise UsageError("this tuner has measured nothing yet: call its method tune")
    rows = [of_template(*pair) for pair in tuner.history]
    key = (f"{tuner.task.name}{tuple(tuner.task.args)}", str(tuner.task.target))
    return searches_page(f"Tuning of {tuner.task.name}", {key: rows})


def _scheduler(search: TaskScheduler, timed: bool) -> Page:
    page = Page("Search over the tasks of a network")
    note = "Only the best of each unit of measurements is kept here; a file of records has all."
    for k, task in enumerate(search.tasks):
        costs = search.task_costs_history[k]
        trials = [Trial(c if c < UNKNOWN_COST else None, "no valid candidate") for c in costs]
        name = task.desc or task.workload_key
        page.tuning.append(Tuned(name, str(task.target), trials, (), (), 0.0, note))
    page.facts = [("tasks", str(len(search.tasks))), ("measurements", str(search.ct))]
    return page


_PAGES: tuple[tuple[Any, Callable[[Any, bool], Page]], ...] = (
    (Schedule, _schedule),
    (PrimFunc, _function),
    (IRModule, _program),
    (Module, _module),
    (Graph, _graph),
    ((Executable, DeviceExecutable), _executable),
    (OpenExecutable, _open),
    (StagedExecutable, _staged),
    (RecordReader, _reader),
    (Tuner, _tuner),
    (TaskScheduler, _scheduler),
)
