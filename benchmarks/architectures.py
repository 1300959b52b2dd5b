"""Architectures as PyTorch's two exporters write them: imported, compiled, compared.

    python -m benchmarks.architectures [NAME ...] [--exporter old new] [--shapes fixed open]
        [--target T] [--results FILE.json] [--backend]
        [--draw N --seed S --without FILE.json ...]

Takes torch, torchvision, timm and transformers. Each network of architectures_models.py is
exported by `torch.onnx.export` (old: traced; new: by torch.export), with fixed shapes, or with open
ones: the batch, steps of text, and height and width where a network takes any. It is imported and
compiled with empty caches, and compared with PyTorch: with open shapes on two sets of inputs, by
one compilation. With `--backend` the module runs through torch.compile instead. With `--draw` the
networks are so many of those that timm, transformers and torchvision have, drawn by a seed
(architectures_drawn.py): what nobody looked at while working, and no file `--without` has.

Bar: all import, all within 1e-4 of the largest output, none takes more than 20 s to compile, of the
clock or, where others use the machine, of its processors' time in sum; through torch.compile
without Dynamo's and AOTAutograd's part, which any backend has. Where an exporter cannot write a
network, that is said, and counts for nothing. Results are added to the file as they come, with a
table beside it (.md); what is in it is not measured again.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import architectures_drawn
from benchmarks.architectures_models import ANY_IMAGE, MODELS

SEED = 7
ERROR_BAR, SECONDS_BAR = 1e-4, 20.0


def open_axes(name: str, inputs: tuple[Any, ...]) -> list[dict[int, str]]:
    """The dimensions of each input that are left open; those of one name are one."""
    found = []
    for x in inputs:
        axes = {0: "batch"}
        if x.ndim == 2 and not x.is_floating_point():
            axes[1] = f"steps{x.shape[1]}"
        if x.ndim == 4 and name in ANY_IMAGE:
            axes |= {2: "height", 3: "width"}
        found.append(axes)
    return found


def larger(x: Any, axes: dict[int, str]) -> Any:
    """An input with other extents where they are open."""
    import torch

    for axis, what in axes.items():
        more = x.shape[axis] if what == "batch" else x.shape[axis] // 2
        x = torch.cat([x, x.narrow(axis, 0, more)], axis)
    return x


def leaves(results: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [t for t in tree_leaves(results) if isinstance(t, torch.Tensor)]


def export(
    model: Any,
    inputs: tuple[Any, ...],
    path: Path,
    exporter: str,
    axes: list[dict[int, str]],
    **options: Any,
) -> None:
    """Write a module as a file; `options` of torch.onnx.export beside those that stand here."""
    import torch

    names = [f"x{k}" for k in range(len(inputs))]
    more = dict(options)
    if axes and exporter == "old":
        more["dynamic_axes"] = dict(zip(names, axes))
    elif axes:
        each = tuple(dict.fromkeys(a, torch.export.Dim.AUTO) for a in axes)
        kinds = [p.kind for p in inspect.signature(model.forward).parameters.values()]
        more["dynamic_shapes"] = (each,) if inspect.Parameter.VAR_POSITIONAL in kinds else each
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            inputs,
            str(path),
            input_names=names,
            dynamo=exporter == "new",
            opset_version=17 if exporter == "old" else 18,
            verbose=False,
            external_data=False,
            **more,
        )


def far(found: list[Any], wanted: list[Any]) -> float:
    """The largest difference over the largest output; ValueError where shapes differ."""
    if len(found) < len(wanted):
        raise ValueError(f"{len(found)} outputs, not {len(wanted)}")
    worst = 0.0
    for got, want in zip(found, wanted):
        if got.shape != want.shape:
            raise ValueError(f"shape {got.shape}, not {want.shape}")
        if want.size:
            away = np.abs(got.astype(np.float64) - want).max() / max(np.abs(want).max(), 1e-12)
            worst = float(away) if not away <= worst else worst  # NaN is the worst
    return worst


def measure(name: str, how: str, shapes: str, target: str) -> dict[str, Any]:
    """One network: `how` is an exporter, or "backend"."""
    import torch

    torch.manual_seed(SEED)
    row: dict[str, Any] = {"model": name, "by": how, "shapes": shapes}
    model, inputs = (MODELS.get(name) or (lambda: architectures_drawn.make(name)))()
    model.eval()
    axes = open_axes(name, inputs) if shapes == "open" else []
    sets = [inputs]
    if axes:
        sets.append(tuple(map(larger, inputs, axes)))
    try:
        with torch.no_grad():
            wanted = [[t.numpy() for t in leaves(model(*given))] for given in sets]
    except Exception as error:  # of a batch that a network does not take, say
        return row | {"refused": f"PyTorch: {_line(error)}"}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE_DIR"] = str(Path(folder, "cache"))
        if how == "backend":
            return row | _through_backend(model, sets, wanted, bool(axes))
        path = Path(folder, "model.onnx")
        try:
            export(model, inputs, path, how, axes)
        except Exception as error:  # whatever an exporter raises
            return row | {"refused": _line(error)}
        return row | _from_file(path, sets, wanted, target)


def processors_time() -> float:
    """Seconds of this process, and of those that helped it and have ended."""
    told = os.times()
    return told.user + told.system + told.children_user + told.children_system


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0]}"[:300]


def _from_file(path: Path, sets: Any, wanted: Any, target: str) -> dict[str, Any]:
    import tilewright
    from tilewright.graph.onnx.load import input_names

    row: dict[str, Any] = {}
    try:
        start, spent = time.perf_counter(), processors_time()
        net = tilewright.compile(path, target)
        row["compile_s"] = round(time.perf_counter() - start, 2)
        row["cpu_s"] = round(processors_time() - spent, 2)
        whole = getattr(net, "whole", net)
        row["once"] = whole is not None and type(whole).__name__ == "Executable"
        names, errors = input_names(path), []
        start = time.perf_counter()
        for given, want in zip(sets, wanted):
            arrays = {n: given[int(n[1:])].numpy() for n in names}
            errors.append(far(list(net.run(arrays).values()), want))
        row["run_s"] = round(time.perf_counter() - start, 2)
        row["error"] = max(errors, key=lambda e: (e != e, e))
    except Exception as error:  # a fault, which belongs into the table
        row["failed"] = _line(error)
    return row


def _through_backend(model: Any, sets: Any, wanted: Any, dynamic: bool) -> dict[str, Any]:
    import logging

    import torch

    from tilewright.graph.torch import backend
    from tilewright.graph.torch.backend import tilewright
    from tilewright.graph.torch.breaks import watch_breaks

    row: dict[str, Any] = {"left": []}
    ours = [0.0]

    class Timed(backend.Program):
        """What is ours of a compilation; the rest is Dynamo's and AOTAutograd's, by any backend."""

        def __init__(self, *args: Any) -> None:
            spent = processors_time()
            super().__init__(*args)
            ours[0] += processors_time() - spent

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            row["left"].append(record.getMessage()[:300])

    heard = Heard(logging.WARNING)
    log = logging.getLogger("tilewright.torch")
    log.addHandler(heard)
    torch._dynamo.reset()
    watch_breaks()
    try:
        compiled = torch.compile(model, backend=tilewright, dynamic=True if dynamic else None)
        errors = []
        with torch.no_grad(), mock.patch.object(backend, "Program", Timed):
            for given, want in zip(sets, wanted):
                start, spent = time.perf_counter(), processors_time()
                found = [t.numpy() for t in leaves(compiled(*given))]
                row.setdefault("compile_s", round(time.perf_counter() - start, 2))
                row.setdefault("cpu_s", round(processors_time() - spent, 2))
                row.setdefault("ours_cpu_s", round(ours[0], 2))
                errors.append(far(found, want))
        row["error"] = max(errors, key=lambda e: (e != e, e))
    except Exception as error:  # a fault, which belongs into the table
        row["failed"] = _line(error)
    finally:
        log.removeHandler(heard)
    return row


def good(row: dict[str, Any]) -> bool:
    """Whether a row keeps to the bar."""
    return "refused" in row or ("failed" not in row and row["error"] <= ERROR_BAR and quick(row))


def quick(row: dict[str, Any]) -> bool:
    """Whether it was compiled in time."""
    kept = [row[k] for k in ("compile_s", "cpu_s", "ours_cpu_s") if k in row]
    return min(kept, default=0.0) <= SECONDS_BAR


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The rows as Markdown."""
    made = [r for r in rows if "refused" not in r]
    yield f"{len(made)} networks, {sum(map(good, made))} as they should be\n"
    yield "| architecture | by | shapes | result | largest error | compile, s | CPU, s | ours |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for r in sorted(rows, key=lambda r: (r["model"], r["by"], r["shapes"])):
        said = "right" if r.get("error", 0.0) <= ERROR_BAR else "not right"
        said += "" if quick(r) else ", slow to compile"
        if "refused" in r:
            said = f"not exported: {r['refused']}"
        elif "failed" in r:
            said = f"failed: {r['failed']}"
        elif r.get("once") is False:
            said += ", by parts or shapes"
        elif r.get("left"):
            said += f"; {'; '.join(r['left'])}"
        figures = "| | |"
        if "error" in r:
            ours = r.get("ours_cpu_s", "")
            figures = f"{r['error']:.0e} | {r['compile_s']} | {r['cpu_s']} | {ours}"
        yield f"| {r['model']} | {r['by']} | {r['shapes']} | {said.replace('|', '/')} | {figures} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="all, if left out")
    for name, choices in (("--exporter", ("old", "new")), ("--shapes", ("fixed", "open"))):
        parser.add_argument(name, choices=choices, nargs="+", default=[])
    parser.add_argument("--backend", action="store_true")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="networks by chance")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--without", type=Path, nargs="+", default=[], metavar="FILE.json")
    options = parser.parse_args()
    path = options.results
    rows = json.loads(path.read_text()) if path and path.exists() else []
    known = {(r["model"], r["by"], r["shapes"]) for r in rows}
    names = options.names or list(MODELS)
    if options.draw:
        seen = {r["model"] for file in options.without for r in json.loads(file.read_text())}
        names = architectures_drawn.drawn(options.draw, options.seed, {*seen, *MODELS})
    ways = ["backend"] if options.backend else options.exporter or ["old", "new"]
    asked = [
        (name, how, shapes)
        for name in names
        for how in ways
        for shapes in options.shapes or ["fixed", "open"]
    ]
    for one in asked:
        if one in known:
            continue
        rows.append(measure(*one, options.target))
        gc.collect()
        print("good" if good(rows[-1]) else "BAD ", json.dumps(rows[-1]), flush=True)
        if path:
            path.write_text(json.dumps(rows, indent=1) + "\n")
            path.with_suffix(".md").write_text("\n".join(table(rows)) + "\n")
    return 0 if all(map(good, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
