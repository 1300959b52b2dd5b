"""Errors of networks in 16 and 8 bits, ours and ONNX Runtime's, against float64.

    python -m benchmarks.precision [--network NAME ...] [--precision float16 bfloat16 int8]
        [--results FILE.json] [--json] [--target T] [--list]

Takes torch, torchvision, timm and transformers. Weights and inputs of each network of
precision_models.py are first rounded to the precision. What they give in float64 (PyTorch's) is the
reference; whoever computes in half has the file that PyTorch writes of the module in that type:

- `file`: ours and ONNX Runtime's results of that file.
- `option`: ours of the float32 file, compiled with `precision=`, beside ONNX Runtime's of the file
  in half. Outputs, which are float32, are rounded to half as those of the file; `unrounded` has the
  errors before that.

Errors are the largest, over the largest output, and the root of the mean square, over that of the
outputs. Where rounding the reference gives an infinity nothing is compared.
Bar: neither error is larger than ONNX Runtime's by more than what one rounding of the outputs makes
of the reference. ONNX Runtime's CPU provider computes next to nothing in bfloat16; where it refuses
a file that is said, and no bar is missed by finite results.

int8: networks quantised by ONNX Runtime's own tools, see precision_quantized.py for what is
compared. Bar: within one step of ONNX Runtime.

Results are added to the file as they come, with a table beside it (.md); what is in it is not
measured again. The exit status says whether a bar was missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import precision_quantized as quantized
from benchmarks import where
from benchmarks.architectures import export, leaves
from benchmarks.precision_models import models, settled

SEED = 7
PRECISIONS = ("float16", "bfloat16", "int8")
Row = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]
Outputs = Sequence[np.ndarray[Any, Any]]


def rounded(x: np.ndarray[Any, Any], precision: str) -> np.ndarray[Any, Any]:
    """Numbers of float64 as the nearest ones of a narrow type."""
    from tilewright.base.dtype import parse

    with np.errstate(over="ignore"):
        return x.astype(parse(precision).numpy).astype(np.float64)


def errors(found: Outputs, wanted: Outputs, precision: str) -> tuple[float, float]:
    """The largest error over the largest output, and the same of roots of mean squares; of the
    worst output each. ValueError where shapes differ."""
    if len(found) < len(wanted):
        raise ValueError(f"{len(found)} outputs, not {len(wanted)}")
    worst, spread = 0.0, 0.0
    for got, want in zip(found, wanted):
        if got.shape != want.shape:
            raise ValueError(f"shape {got.shape}, not {want.shape}")
        fits = np.isfinite(rounded(want, precision))
        got, want = got.astype(np.float64)[fits], want[fits]
        if not want.size or not want.any():
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(got - want)
        off[np.isnan(off)] = np.inf
        worst = max(worst, float(off.max() / np.abs(want).max()))
        spread = max(spread, float(np.sqrt(np.mean(off**2) / np.mean(want**2))))
    return worst, spread


class Network:
    """A module with rounded weights, as files of both types, and what it gives in float64."""

    def __init__(self, name: str, precision: str, folder: Path) -> None:
        import onnx
        import torch

        torch.manual_seed(SEED)
        torch.backends.mha.set_fastpath_enabled(False)  # which no operator of ONNX stands for
        narrow = getattr(torch, precision)
        module, inputs = models()[name]()
        settled(module.eval(), inputs)
        module.to(narrow)

        def inputs_in(dtype: Any) -> tuple[Any, ...]:
            return tuple(x.to(narrow).to(dtype) if x.is_floating_point() else x for x in inputs)

        # a batch norm that is part of weights would round these anew
        as_it_is = torch.onnx.TrainingMode.PRESERVE
        self.wide, self.half = folder / "wide.onnx", folder / "half.onnx"
        export(module.float(), inputs_in(torch.float32), self.wide, "old", [], training=as_it_is)
        # arrays of bfloat16 go into no session, those of float32 do
        kept = module.to(narrow) if precision == "float16" else _between(module.to(narrow))
        given = inputs_in(narrow if precision == "float16" else torch.float32)
        self.refused = ""
        try:
            export(kept, given, self.half, "old", [], training=as_it_is)
            onnx.checker.check_model(str(self.half), full_check=True)  # bfloat16 often is not
        except Exception as error:  # whatever an exporter raises
            self.refused = line(error)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = leaves(module.double()(*inputs_in(torch.float64)))
        self.wanted = [t.double().numpy() for t in found]
        names = [f"x{k}" for k in range(len(inputs))]
        self.given = {n: x.numpy() for n, x in zip(names, given)}
        self.given_wide = {n: x.numpy() for n, x in zip(names, inputs_in(torch.float32))}


def _between(module: Any) -> Any:
    """A module in bfloat16 that takes and gives float32."""
    import torch

    class Between(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: Any) -> Any:
            narrow = [x.bfloat16() if x.is_floating_point() else x for x in inputs]
            return tuple(
                t.float() if t.is_floating_point() else t for t in leaves(self.inner(*narrow))
            )

    return Between().eval()


def line(error: Exception) -> str:
    """An error in one line."""
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0]}"[:300]


def by_onnxruntime(path: Path, data: Arrays) -> list[np.ndarray[Any, Any]]:
    """Outputs of the CPU provider under its default options."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = {v.name for v in session.get_inputs()}
    outputs = session.run(None, {n: x for n, x in data.items() if n in names})
    return [np.asarray(x) for x in outputs]


def by_tilewright(
    path: Path, data: Arrays, target: str, precision: str = "float32"
) -> list[np.ndarray[Any, Any]]:
    """Ours."""
    import tilewright
    from tilewright.graph.onnx.load import input_names

    net = tilewright.compile(path, target, precision=precision)
    names = set(input_names(path))
    return list(net.run({n: x for n, x in data.items() if n in names}).values())


def measure(name: str, precision: str, target: str) -> list[Row]:
    """The rows of one network in 16 bits."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            net = Network(name, precision, Path(folder))
        except Exception as error:  # whatever an exporter raises
            return [{"network": name, "precision": precision, "how": "", "refused": line(error)}]
        noise = errors([rounded(x, precision) for x in net.wanted], net.wanted, precision)
        base: Row = {"network": name, "precision": precision, "noise": noise}
        try:
            if net.refused:
                raise ValueError(f"no file: {net.refused}")
            peer: Row = {"peer": errors(by_onnxruntime(net.half, net.given), net.wanted, precision)}
        except Exception as error:  # what ONNX Runtime has no kernel for
            peer = {"peer_refused": line(error)}
        rows = []
        for how in ("file", "option"):
            row = base | peer | {"how": how}
            start = time.process_time()
            try:
                if how == "option":
                    found = by_tilewright(net.wide, net.given_wide, target, precision)
                elif not net.refused:
                    found = by_tilewright(net.half, net.given, target)
                else:
                    continue
                if how == "option":
                    row["unrounded"] = errors(found, net.wanted, precision)
                    found = [rounded(x.astype(np.float64), precision) for x in found]
                row["ours"] = errors(found, net.wanted, precision)
            except Exception as error:  # a fault, which belongs into the table
                row["failed"] = line(error)
            rows.append(row | {"cpu_s": round(time.process_time() - start, 2)})
        return rows


def good(row: Row) -> bool:
    """Whether a row keeps to the bar."""
    if "failed" in row or "refused" in row:
        return "refused" in row  # PyTorch cannot write it
    if row["precision"] == "int8":
        return quantized.good(row)
    if "peer" not in row:
        return bool(np.isfinite(row["ours"]).all())
    pairs = zip(row["ours"], row["peer"], row["noise"])
    return all(mine <= theirs + noise for mine, theirs, noise in pairs)


def excess(row: Row) -> float:
    """By how many roundings of the outputs ours is farther away than ONNX Runtime."""
    if "failed" in row:
        return float("inf")
    if "peer" not in row or "refused" in row:
        return 0.0
    pairs = zip(row["ours"], row["peer"], row["noise"])
    return max((a - b) / max(n, 1e-9) if a != b else 0.0 for a, b, n in pairs)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as Markdown, the worst first."""
    for precision in PRECISIONS:
        mine = [r for r in rows if r["precision"] == precision]
        if not mine:
            continue
        yield f"## {precision}\n"
        yield f"{len(mine)} rows, {sum(map(good, mine))} as they should be\n"
        if precision == "int8":
            yield from quantized.table(mine)
            continue
        yield "| network | by | ours: max, RMS | unrounded | ONNX Runtime | one rounding | |"
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        for r in sorted(mine, key=excess, reverse=True):
            if "refused" in r:
                yield f"| {r['network']} | | not exported: {r['refused'][:160]} | | | | |"
                continue
            cells = [r["failed"] if "failed" in r else _pair(r["ours"])]
            cells.append(_pair(r["unrounded"]) if "unrounded" in r else "")
            cells.append(_pair(r["peer"]) if "peer" in r else r["peer_refused"])
            said = "" if good(r) else "**larger**"
            text = " | ".join(c.replace("|", "/")[:160] for c in cells)
            yield f"| {r['network']} | {r['how']} | {text} | {_pair(r['noise'])} | {said} |"
        yield ""


def _pair(figures: Sequence[float]) -> str:
    return ", ".join(f"{x:.1e}" for x in figures)


def arguments() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--network", nargs="+", metavar="NAME", help="all, if left out")
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--results", type=Path, help="JSON, to which rows are added")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--list", action="store_true", help="print the names of networks")
    return parser


def main() -> int:
    """Measure what is asked and not known yet."""
    parser = arguments()
    options = parser.parse_args()
    ways = {p: (quantized.NETWORKS if p == "int8" else models()) for p in options.precision}
    if options.list:
        print("\n".join(f"{p}: {name}" for p, names in ways.items() for name in names))
        return 0
    path = options.results
    rows = json.loads(path.read_text())["rows"] if path and path.exists() else []
    known = {(r["network"], r["precision"]) for r in rows}
    for precision, names in ways.items():
        for name in options.network or names:
            if name not in names and not any(name in other for other in ways.values()):
                parser.error(f"there is no network {name!r}; --list prints their names")
            if name not in names or (name, precision) in known:
                continue
            one = quantized.measure if precision == "int8" else measure
            new = one(name, precision, options.target)
            rows += new
            gc.collect()
            for row in new if not options.json else ():
                print("good " if good(row) else "WORSE", json.dumps(row), flush=True)
            if path:
                path.write_text(json.dumps({"where": where.facts(), "rows": rows}, indent=1) + "\n")
                path.with_suffix(".md").write_text("\n".join(table(rows)) + "\n")
    if options.json:
        print(json.dumps(rows))
    return 0 if all(map(good, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
