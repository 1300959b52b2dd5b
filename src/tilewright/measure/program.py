"""Candidates as data: what a search hands to a worker, and what the worker makes of it.

Where possible a candidate travels as its tensors and the trace of its schedule, so that lowering
too happens in the worker, where it may take too long or fail at no harm. What has no form as data
(a tensor intrinsic, users' rules and passes) is lowered before it travels, as loop IR; with users'
rules for a device as the text of its kernels.
"""

from __future__ import annotations

import tempfile
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base import config
from ..base.errors import TilewrightError
from ..driver.build_module import build, build_lowered
from ..driver.lower import lower
from ..driver.prepare import prepare
from ..driver.transform import user_passes
from ..loopir import serial as loop_serial
from ..loopir.intrin_rules import user_rules
from ..loopir.module import IRModule
from ..rt.export import add_runtime
from ..rt.load import load_module
from ..rt.module import Module
from ..schedule.api import Schedule, create_schedule
from ..schedule.trace import from_json, replay
from ..target.target import Target
from ..tensor import serial as tensor_serial
from ..tensor.tensor import Tensor
from .protocol import Message

NAME = "candidate"


class Unfit(TilewrightError):
    """A schedule does not fit the computation that it came with."""


def describe(sch: Schedule, args: Sequence[Any], target: Target) -> Message:
    """A schedule and its arguments as JSON data.

    TilewrightError (ScheduleError, CompileError) where it has to be lowered first and cannot be.
    """
    kinds = [target.kind.name, "default"]
    if not user_passes() and not user_rules(kinds):
        data = _as_trace(sch, args)
        if data is not None:
            return {**data, "target": target.export()}
    with target:
        module = lower(sch, args, name=NAME)
    data = tensors_as_data(args, _outputs(sch)) or {}
    # users' rules live in this process
    if target.kind.name == "llvm":
        module = IRModule({k: prepare(f, target) for k, f in module.functions.items()})
    elif user_rules(kinds):
        return {
            **data,
            "archive": as_archive(build_lowered(module, target)),
            "target": target.export(),
        }
    return {**data, "ir": loop_serial.save_json(module), "target": target.export()}


def as_archive(built: Module, runtime: bool = False) -> str:
    """A compiled candidate as text that `construct` takes: its archive, in base64. With the
    `runtime`, it runs where there is no LLVM."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.two"
        built.export_library(path)
        if runtime:
            add_runtime(path)
        return b64encode(path.read_bytes()).decode()


def _as_trace(sch: Schedule, args: Sequence[Any]) -> Message | None:
    """The candidate as tensors and a trace; None where some part of it is no data."""
    data = tensors_as_data(args, _outputs(sch))
    try:
        return None if data is None else {**data, "trace": sch.save_json()}
    except TilewrightError:
        return None


def _outputs(sch: Schedule) -> list[Tensor]:
    return [sch.by_id[i].origin_op.output(0) for i in sch.output_ids]


def tensors_as_data(args: Sequence[Any], outputs: Sequence[Tensor]) -> Message | None:
    """A computation: the tensors that are its arguments, and its results; None where a part of it
    is no data."""
    if not all(isinstance(a, Tensor) for a in args):
        return None
    try:
        text = tensor_serial.save_json([*args, *outputs])
    except TilewrightError:
        return None
    return {"tensors": text, "args": len(args)}


def construct(data: Mapping[str, Any]) -> Module:
    """The compiled candidate, of one function; Unfit, CompileError or TargetError where it is not
    to be had."""
    if "library" in data:  # built before
        return load_module(data["library"])
    target = Target(data["target"])
    if "archive" in data:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "candidate.two"
            path.write_bytes(b64decode(data["archive"]))
            return load_module(path)
    if "ir" in data:
        with target:
            return build_lowered(loop_serial.load_json(data["ir"]), target)
    args, sch = load_schedule(data)
    return build(sch, args, target, name=NAME)


def load_schedule(data: Mapping[str, Any]) -> tuple[list[Tensor], Schedule]:
    """Arguments and schedule of a candidate that travelled as a trace."""
    try:
        tensors = tensor_serial.load_json(data["tensors"])
        count = int(data["args"])
        sch = create_schedule([t.op for t in tensors[count:]])
        replay(sch, from_json(data["trace"]))
    except TilewrightError as error:
        raise Unfit(str(error)) from error
    return tensors[:count], sch


def options_as_data() -> dict[str, Any]:
    """The options that change code or its threads and are not at their default, for JSON."""
    options = config.options()
    return config.changed_as_data(o for o in options if o.code or o.name == "num_threads")
