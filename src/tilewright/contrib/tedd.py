"""`tvm.contrib.tedd`: schedules as pictures, in the language of Graphviz (DOT).

No package is needed to make the text; `show_svg` needs the program `dot` and a notebook.
"""

from __future__ import annotations

import html
import shutil
import subprocess
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..base.errors import UsageError
from ..loopir.iter import IterVar
from ..schedule.api import Schedule
from ..schedule.auto_inline import infer_bound
from ..schedule.relations import Split

_COLOURS = (
    "#FFFFFF", "#2980B9", "#FAD7A0", "#D35400", "#ABB2B9",
    "#D2B4DE", "#AED6F1", "#F5B7B1", "#A9DFBF",
)  # fmt: skip


def viz_schedule_tree(
    sch: Schedule,
    show_svg: bool = False,
    dot_file_path: str = "",
    output_dot_string: bool = False,
) -> str | None:
    """Stages as tables of their loops; arrows lead from a stage to the loop that it is computed in.

    dot_file_path: a file to write. output_dot_string: whether to return the text. Raises UsageError
    where `sch` is no schedule.
    """
    numbers = _numbered(sch)
    ranges = _ranges(sch)
    lines = ['"ROOT" [label=ROOT, shape=oval, margin=0];']
    for stage in sch.stages:
        rows = [f'<TR><TD BGCOLOR="lightgrey" COLSPAN="2" PORT="stage">{_title(stage)}</TD></TR>']
        for n, axis in enumerate(stage.leaf_iter_vars):
            attrs = stage.iter_var_attrs.get(axis)
            thread = getattr(attrs, "bind_thread", None)
            said = f" ({thread.var.name})" if thread is not None else ""
            rows.append(_row(n, axis, _kind(stage, axis), said, ranges))
        rows += [
            f'<TR><TD COLSPAN="2" PORT="O_{i}">{_text(stage.op.output(i))}</TD></TR>'
            for i in range(0 if stage.op is None else stage.op.num_outputs)
        ]
        lines.append(_table(numbers[id(stage)], rows))
        place = stage.attach_stage
        if place is not None and stage.attach_ivar is not None:
            at = f'"{numbers[id(place)]}":"{_port(stage.attach_ivar)}"'
        else:
            at = '"ROOT"'
        lines.append(f'"{numbers[id(stage)]}":stage -> {at};')
    return _deliver(_graph("Schedule", "BT", lines), show_svg, dot_file_path, output_dot_string)


def viz_itervar_relationship_graph(
    sch: Schedule,
    show_svg: bool = False,
    dot_file_path: str = "",
    output_dot_string: bool = False,
) -> str | None:
    """How the axes of each stage come from each other: splits, fusions, what they are bound to.

    Options as of `viz_schedule_tree`. Raises UsageError where `sch` is no schedule.
    """
    numbers, ranges = _numbered(sch), _ranges(sch)
    lines: list[str] = []
    for stage, name in zip(sch.stages, numbers.values()):
        lines.append(f'subgraph "cluster_{name}" {{ label="{stage.name}";')
        for n, axis in enumerate(stage.axes):
            rows = [_row(n, axis, _kind(stage, axis), "", ranges)]
            lines.append(_table(f"{name}_{_port(axis)}", rows))
        for n, relation in enumerate(stage.relations):
            kind = type(relation).__name__
            mine = f"{name}_{kind}_{n}"
            lines.append(f'"{mine}" [label="{kind}{_factor(relation)}", shape=box];')
            for parent in relation.parents:
                lines.append(f'"{name}_{_port(parent)}" -> "{mine}";')
            for child in relation.children:
                lines.append(f'"{mine}" -> "{name}_{_port(child)}";')
        lines.append("}")
    text = _graph("IterVar Relationship Graph", "TB", lines)
    return _deliver(text, show_svg, dot_file_path, output_dot_string)


def viz_dataflow_graph(
    sch: Schedule,
    show_svg: bool = False,
    dot_file_path: str = "",
    output_dot_string: bool = False,
) -> str | None:
    """Stages and the tensors that flow between them. Options as of `viz_schedule_tree`. Raises
    UsageError where `sch` is no schedule."""
    numbers, lines = _numbered(sch), []
    for stage, name in zip(sch.stages, numbers.values()):
        if stage.op is None:
            continue
        inputs = stage.op.input_tensors
        rows = [
            f'<TR><TD PORT="I_{i}">{html.escape(t.name)}</TD></TR>' for i, t in enumerate(inputs)
        ]
        rows.append(f'<TR><TD BGCOLOR="lightgrey" PORT="stage">{_title(stage)}</TD></TR>')
        lines.append(_table(name, rows))
        for i in range(stage.op.num_outputs):
            tensor = f"{name}_T{i}"
            lines.append(f'"{tensor}" [label="{_text(stage.op.output(i))}", shape=box];')
            lines.append(f'"{name}":stage -> "{tensor}";')
    for stage in sch.stages:
        for i, t in enumerate(stage.op.input_tensors if stage.op is not None else ()):
            if t.op in sch.stage_map:
                source = numbers[id(sch.stage_map[t.op])]
                lines.append(f'"{source}_T{t.value_index}" -> "{numbers[id(stage)]}":"I_{i}";')
    text = _graph("Dataflow Graph", "LR", lines)
    return _deliver(text, show_svg, dot_file_path, output_dot_string)


# -- parts


def _numbered(sch: Schedule) -> dict[int, str]:
    """A name of each stage that no other has."""
    if not isinstance(sch, Schedule):
        raise UsageError(f"Input is not a tvm.te.schedule.Schedule object: {type(sch).__name__}")
    return {id(stage): f"Stage_{n}" for n, stage in enumerate(sch.stages)}


def _ranges(sch: Schedule) -> dict[IterVar, Any]:
    return dict(infer_bound(sch.normalize()))


def _kind(stage: Any, axis: IterVar) -> int:
    attrs = stage.iter_var_attrs.get(axis)
    own = getattr(attrs, "iter_type", None)
    return int(axis.iter_type if own is None else own)


def _port(axis: IterVar) -> str:
    return f"{axis.var.name}_{id(axis)}"


def _title(stage: Any) -> str:
    scope = stage.scope or "global"
    return f"{html.escape(stage.name)}<br/>Scope: {html.escape(scope)}"


def _text(tensor: Any) -> str:
    shape = ", ".join(str(d) for d in tensor.shape)
    return html.escape(f"{tensor.name} [{shape}] {tensor.dtype}")


def _row(n: int, axis: IterVar, kind: int, said: str, ranges: dict[IterVar, Any]) -> str:
    known = ranges.get(axis, axis.dom)
    span = "range(N/A)" if known is None else f"range(min={known.min}, ext={known.extent})"
    label = f"{axis.var.name}({IterVar.KINDS[kind]}){said}"
    return (
        f'<TR><TD BGCOLOR="{_COLOURS[kind]}">{n}</TD><TD PORT="{_port(axis)}">'
        f"{html.escape(label)}<br/>{html.escape(span)}</TD></TR>"
    )


def _factor(relation: Any) -> str:
    if isinstance(relation, Split):
        return (
            f" factor={relation.factor}"
            if relation.nparts is None
            else (f" nparts={relation.nparts}")
        )
    return ""


def _table(name: str, rows: list[str]) -> str:
    head = '<<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="4">'
    return f'"{name}" [label={head}{"".join(rows)}</TABLE>>, shape=none, margin=0];'


def _graph(title: str, direction: str, lines: list[str]) -> str:
    body = "\n".join(f"  {line}" for line in [*lines, *_legend()])
    return f'digraph "{title}" {{\n  rankdir={direction};\n{body}\n}}\n'


def _legend() -> Iterator[str]:
    rows = [
        f'<TR><TD BGCOLOR="{colour}"></TD><TD BGCOLOR="white">{kind}</TD></TR>'
        for kind, colour in zip(IterVar.KINDS, _COLOURS)
    ]
    yield 'subgraph "cluster_legend" { label="Legend";'
    yield _table("legend", rows)
    yield "}"


def _deliver(text: str, show_svg: bool, path: str, output: bool) -> str | None:
    if path:
        Path(path).write_text(text, encoding="utf-8")
    if show_svg:
        _show(text)
    return text if output else None


def _show(text: str) -> None:
    program = shutil.which("dot")
    if find_spec("IPython") is None:
        program = None
    if program is None:
        raise UsageError(
            "show_svg needs Graphviz's program dot and a notebook (IPython); write the text by "
            "dot_file_path='schedule.dot' instead"
        )
    done = subprocess.run(
        [program, "-Tsvg"], input=text, capture_output=True, text=True, check=True
    )
    notebook: Any = import_module("IPython.display")
    notebook.display(notebook.SVG(done.stdout))
