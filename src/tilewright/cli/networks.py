"""The networks of `tilewright tune`: their files, their tasks, and seconds given for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..auto_scheduler.task import SearchTask
from ..auto_scheduler.together import join_networks
from ..base.errors import UsageError
from ..graph.onnx.load import input_names, load_onnx
from ..graph.tasks import extract_tasks
from ..target.target import Target
from .data import shapes_of


def models_of(what: str, args: Sequence[str]) -> list[str]:
    """The networks' files, as they were written."""
    found = [what, *args]
    for place, text in enumerate(found):
        path = Path(text)
        if path.suffix == ".py":
            raise UsageError(f"{path} has to be followed by the name of a function: {path}:FUNC")
        if ".py:" in text:
            raise UsageError(f"{text} is an operator, which is tuned in a command of its own")
        if not path.is_file() and place and path.suffix != ".onnx":
            raise UsageError(
                f"{what} is a network, which takes no arguments, got {text}, and there is "
                f"no file {text}; the shape of an open input is given with --shape"
            )
        if not path.is_file():
            raise UsageError(
                f"there is no file {path}; give MODEL.onnx, or OP.py:FUNC and its numbers"
            )
        if text in found[:place]:
            raise UsageError(f"{text} is given twice; a network is named once")
    return found


def seconds_of(option: str, texts: Sequence[str], names: Sequence[str]) -> dict[str, float] | None:
    """Seconds of each network, given as SECONDS for all or MODEL=SECONDS; None if nothing is."""
    found: dict[str, float] = {}
    every: float | None = None
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise UsageError(
                f"{option}: expected SECONDS or {names[0]}=SECONDS, where 5 ms are 0.005; "
                f"got {text!r}"
            ) from None
        if equals and name not in names:
            raise UsageError(
                f"{option}: there is no network {name!r}; there are {', '.join(names)}"
            )
        if name in found or (not equals and every is not None):
            raise UsageError(f"{option}: {name or 'seconds of every network'} is given twice")
        if equals:
            found[name] = value
        else:
            every = value
    if every is not None:
        found = {name: found.get(name, every) for name in names}
    return found or None


def tasks_of(
    names: Sequence[str], target: Target, dtype: str, shape_texts: Sequence[str]
) -> tuple[list[SearchTask], Mapping[str, Sequence[float]]]:
    """The tasks of all networks, each once, and how often each appears in each network.

    `shape_texts`: NAME=SHAPE of open inputs; a network takes those that it has.
    """
    shapes = shapes_of(shape_texts)
    inputs = {name: input_names(name) for name in names} if shapes and len(names) > 1 else {}
    for key in shapes if inputs else ():
        if not any(key in has for has in inputs.values()):
            listed = "; ".join(f"{n} has {', '.join(has)}" for n, has in inputs.items())
            raise UsageError(f"--shape: no network has an input {key!r}; {listed}")
    found = {}
    for name in names:
        mine = {k: shape for k, shape in shapes.items() if k in inputs.get(name, shapes)}
        found[name] = extract_tasks(load_onnx(name, mine), target, dtype=dtype)
        if not found[name][0]:
            raise UsageError(f"{name} has no convolution, product or reduction: nothing to tune")
    return join_networks(found)
