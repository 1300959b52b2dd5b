"""`tilewright inspect`: the code of a program or a built artifact, stage by stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..base.errors import CompileError, TargetError, TilewrightError
from ..driver.build_device import accesses, build_device
from ..driver.build_module import build_lowered
from ..graph.build import distinct_groups, find_schedules, prepare
from ..graph.kernel import lower_named
from ..graph.onnx.load import load_onnx
from ..graph.tuned import title
from ..graph.work import work_of
from ..report.roofline import estimate, gpu_of, grids_of
from ..report.sass import compiled_source, figures
from ..rt.drivers import nvrtc
from ..rt.drivers.cuda_parts import compile_parts
from ..rt.load import load_module
from ..rt.module import Module
from ..rt.network_file import is_network
from ..rt.plan import Work, symbol_of
from ..target.target import Target
from . import show
from .choices import STAGES, SYNONYMS
from .data import shapes_of

_SOURCES = ("ll", "cuda", "opencl", "c", "host")  # of dumped stages and of modules
_TIMEOUT = 600
_LISTED = 12  # functions in a message: networks have hundreds


@dataclass
class Unit:
    """One function or module that was built: its texts by stage, in order."""

    name: str
    texts: dict[str, str] = field(default_factory=dict)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_accesses(self, found: Mapping[str, Mapping[str, float]]) -> None:
        """Add to each kernel's figures how it accesses memory."""
        for name, more in found.items():
            self.figures.setdefault(name, {}).update(more)


@dataclass(frozen=True)
class Options:
    """The command's options, see main.py."""

    what: str
    args: Sequence[str]
    stage: str | None
    function: str | None
    arch: str
    target: str
    dtype: str
    shapes: Sequence[str]
    records: str | None
    as_json: bool


def inspect(options: Options) -> int:
    """Run the command; the exit status."""
    options = replace(options, stage=SYNONYMS.get(options.stage or "", options.stage))
    path = Path(options.what)
    if not path.is_file():
        raise TilewrightError(
            f"there is no file {path}; give a model, a Python program or a built artifact"
        )
    if options.args and path.suffix != ".py":
        raise TilewrightError(f"ARGS are a program's; {path} takes none: {' '.join(options.args)}")
    units = _units(path, options)
    whose = str(path)
    if options.function is not None:
        units = _named(units, options.function, path)
        whose = f"{options.function} of {path}"
    has = [s for s in STAGES if any(s in u.texts for u in units)]
    if options.stage is not None and options.stage not in has:
        raise TilewrightError(
            f"{whose} has no code of stage {options.stage}; it has: {', '.join(has) or 'none'}"
        )
    if options.as_json:
        print(json.dumps([_plain(u, options.stage) for u in units]))
    else:
        show.inspection([_plain(u, options.stage) for u in units])
    return 0


def _named(units: Sequence[Unit], function: str, path: Path) -> list[Unit]:
    """The units of one function; TilewrightError, which says what there is, where there are none.
    Modules go by the names of all their functions."""
    found = [u for u in units if function in (u.name, *u.name.split(", "))]
    if found:
        return found
    names = list(dict.fromkeys(name for u in units for name in u.name.split(", ")))
    listed = ", ".join(names[:_LISTED]) or "none"
    more = f" and {len(names) - _LISTED} others" if len(names) > _LISTED else ""
    raise TilewrightError(f"{path} builds no function {function!r}; it has: {listed}{more}")


def _units(path: Path, options: Options) -> list[Unit]:
    if path.suffix == ".onnx":
        return _of_model(path, options)
    if is_network(path):
        raise TilewrightError(
            f"{path} is a saved network, which holds machine code alone; inspect the model that it "
            "was compiled from"
        )
    return _of_program(path, options) if path.suffix == ".py" else _of_artifact(path, options)


def _plain(unit: Unit, stage: str | None) -> dict[str, Any]:
    texts = {s: unit.texts[s] for s in STAGES if s in unit.texts and stage in (None, s)}
    return {"name": unit.name, "stages": texts, "figures": unit.figures}


def _of_model(path: Path, options: Options) -> list[Unit]:
    """The graph after all passes, its groups, and the kernels of those that differ."""
    target = Target(options.target)
    graph, groups = prepare(load_onnx(path, shapes_of(options.shapes)), target, options.dtype)
    distinct, which = distinct_groups(groups)
    lines = [f"{symbol_of(which[k])}  {title(group)}" for k, group in enumerate(groups)]
    whole = Unit(graph.name, {"graph": str(graph), "groups": "\n".join(lines)})
    if options.stage in whole.texts and options.function in (None, whole.name):
        return [whole]
    names = [symbol_of(k) for k in range(len(distinct))]
    tuned = find_schedules(distinct, target, options.records)
    units = [whole]
    for k in range(len(distinct)):
        if options.function not in (None, names[k]):
            units.append(Unit(names[k]))
            continue
        lowered = lower_named(distinct[k], target, names[k], tuned[k])
        device = "gpu" in target.keys
        built = build_device(lowered, target) if device else build_lowered(lowered, target)
        host = getattr(built[names[k]], "text", "") if device else ""
        for module in built.imported_modules or (built,):  # of devices, what the host launches
            unit = _of_module(module, options, host, work_of(distinct[k]) if device else None)
            units.append(Unit(names[k], unit.texts, unit.figures))
        if device and options.stage in (None, "asm"):
            units[-1].add_accesses(accesses(built))
    return units


def _of_program(path: Path, options: Options) -> list[Unit]:
    """Everything that a program builds: it runs in a process of its own, its stages are dumped."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        env = {**os.environ, "TILEWRIGHT_DUMP_DIR": folder}
        if options.stage in (None, "asm"):
            env["TILEWRIGHT_DUMP_ACCESSES"] = "1"
        command = [sys.executable, str(path), *options.args]
        try:
            done = subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=_TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            raise TilewrightError(f"{path} did not end within {_TIMEOUT} seconds") from None
        if done.returncode:
            raise TilewrightError(f"{path} failed:\n{done.stderr.strip()}")
        units = _read_dumps(Path(folder), options)
    if not units:
        raise TilewrightError(f"{path} ran, but built nothing")
    return units


def _read_dumps(folder: Path, options: Options) -> list[Unit]:
    """Functions in the order of their builds. A build dumps NNNN-NAME.passes/ (each pass), then
    NNNN-NAME.STAGE files."""
    units: list[Unit] = []
    current: dict[str, Unit] = {}
    for place in sorted(folder.iterdir(), key=lambda p: (p.stat().st_mtime_ns, p.name)):
        name, _, kind = place.name.split("-", 1)[1].rpartition(".")
        if kind == "passes":
            passes = sorted(place.iterdir())
            texts = {"tir": passes[0].read_text(), "lowered": passes[-1].read_text()}
            current[name] = Unit(name, texts)
            units.append(current[name])
            continue
        unit = current.get(name)
        if unit is None:
            unit = current[name] = Unit(name)
            units.append(unit)
        text = place.read_text()
        if kind == "tir":
            unit.texts["lowered"] = text
        elif kind in _SOURCES:
            unit.texts["source"] = text
            if kind == "cuda":
                _add_cuda(unit, text, options.arch, {})
        elif kind == "s":
            unit.texts["asm"] = text
        elif kind == "accesses":
            unit.add_accesses(json.loads(text))
    return units


def _of_artifact(path: Path, options: Options) -> list[Unit]:
    """The functions of a saved module and of the modules that it imports."""
    module = load_module(path)
    return [_of_module(m, options) for m in (module, *module.imported_modules)]


def _of_module(module: Module, options: Options, host: str = "", work: Work | None = None) -> Unit:
    unit = Unit(", ".join(module.function_names) or module.entry_name)
    formats = module.source_formats
    if "tir" in formats:
        unit.texts["lowered"] = module.get_source("tir")
    for kind in _SOURCES:
        if kind in formats:
            with suppress(CompileError):  # C has no form of LLVM's own instructions, which ll has
                unit.texts["source"] = module.get_source(kind)
    if "asm" in formats:
        unit.texts["asm"] = module.get_source("asm")
    if "cuda" in formats:
        arch = str(module.target.attrs.get("arch", "")) or options.arch
        code = module.device_code
        asked = {k.name: k.shared_bytes for k in code.kernels} if code is not None else {}
        _add_cuda(unit, unit.texts["source"], arch, asked, host, work)
    return unit


def _add_cuda(
    unit: Unit,
    source: str,
    arch: str,
    asked: Mapping[str, int],
    host: str = "",
    work: Work | None = None,
) -> None:
    """PTX or SASS, and what each kernel takes, where a compiler is there; of a function of known
    `work`, whose `host` code launches them, the least time. `asked`: dynamic shared memory."""
    try:
        made = compile_parts(source, arch)
    except (TargetError, CompileError) as error:
        unit.texts["asm"] = f"// {error}\n"
        return
    try:
        code = [nvrtc.commented(nvrtc.disassemble(image), log) for image, log in made]
        unit.texts["asm"] = "\n".join(code)
        kernels = [k for one in made for k in compiled_source(source, *one, arch, asked)]
    except TargetError:
        unit.texts["asm"] = nvrtc.compile_cuda(source, arch, "ptx")[0].decode()
        kernels = []
        usage = [use for one in made for use in nvrtc.resource_usage(*one).items()]
        for name, use in usage:
            unit.figures[name] = {
                "registers": use.registers,
                "shared_bytes": use.shared + asked.get(name, 0),
                "stack_bytes": use.stack,
                "spill_bytes": use.spill_stores + use.spill_loads,
            }
    unit.figures.update((s.name, figures(s)) for s in kernels)
    gpu, grids = gpu_of(arch), grids_of(host)
    if work is not None and gpu is not None and kernels and grids:
        found = estimate(work, grids, {s.name: s for s in kernels}, gpu)
        unit.figures[f"{unit.name} on {gpu.name}"] = {
            "us_at_least": round(found["us"], 2),
            "gflop": round(work.flops / 1e9, 4),
            "mb": round(work.bytes / 1e6, 3),
            "bound_by": found["binds"],
            "blocks": found["blocks"],
            "kernels": found["launches"],
        }
