"""What networks are made of on CUDA, and how long each kernel would take at best, without a GPU.

    python -m benchmarks.gpu_networks DIR --network NAME ... [--dtype float32 float16]
        [--arch sm_80] [--out FILE.json]

Networks are those of networks_models.py in DIR. Each is built with default schedules and compiled
by NVRTC; warnings, spills and instructions are counted. The estimate of a kernel is a roofline of a
named GPU: what it reads and writes, once, at the memory's rate, or its operations at the rate of
the units that its machine code uses, times the share of those among the arithmetic of its hottest
loop and the share of the multiprocessors that its blocks fill; whichever takes longer, and a launch
for each kernel of the function. What is laid anew in between is not counted, so that estimates are
what the code could reach, and no prediction.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tilewright as tw
from benchmarks.networks_models import paths
from tilewright.base.errors import TilewrightError
from tilewright.graph.device import DeviceExecutable
from tilewright.report.roofline import GPUS, Gpu, estimate, gpu_of, grids_of
from tilewright.report.sass import compiled_module
from tilewright.rt.drivers.cuda_parts import compile_parts
from tilewright.rt.plan import symbol_of

Row = dict[str, Any]


def _gpu(arch: str) -> Gpu:
    found = gpu_of(arch)
    assert found is not None  # of the choices
    return found


def measure(path: Path, network: str, dtype: str, arch: str) -> Row:
    """A network's kernels, in the order of their calls."""
    start = time.perf_counter()
    net = tw.compile(path, f"cuda -arch={arch}", precision=dtype)
    assert isinstance(net, DeviceExecutable)
    module = net.module.imported_modules[0]
    built = time.perf_counter() - start
    source = module.get_source()
    made = compile_parts(source, arch)
    compiled = time.perf_counter() - start - built
    code = {s.name: s for s in compiled_module(module, made, arch)}
    rows = []
    for call, nodes, work in zip(net.calls, net.nodes, net.work):
        host: Any = net.module[symbol_of(call.kernel)]
        grids = grids_of(host.text)
        if grids:
            rows.append({"nodes": nodes, **estimate(work, grids, code, _gpu(arch))})
    return {
        "network": network, "dtype": dtype, "arch": arch, "gpu": _gpu(arch).name,
        "build_s": round(built, 1), "compile_s": round(compiled, 1),
        "warnings": [x for _, log in made for x in log.splitlines() if "warning" in x.lower()],
        "kernels": len(code), "calls": len(net.calls),
        "spilling": sorted(s.name for s in code.values() if s.spills or s.stack),
        "us": sum(r["us"] for r in rows), "rows": rows,
    }  # fmt: skip


def page(found: Sequence[Row]) -> str:
    """A table of networks, what failed, and a table of the kernels of each: those that take longest
    first, functions of one kernel in one row."""
    heads = ("network", "type", "GPU", "functions", "kernels", "warnings", "spilling", "on cores",
             "few blocks", "build", "NVRTC", "estimate")  # fmt: skip
    lines = [_row(heads), "|" + " --- |" * len(heads)]
    made = [n for n in found if "error" not in n]
    for n in made:
        most = _gpu(n["arch"]).processors
        few = sum(r["us"] for r in n["rows"] if r["blocks"] < most and r["binds"] != "memory")
        cores = sum(r["gflop"] for r in n["rows"] if r["tensor"])
        share = 100 * cores / max(sum(r["gflop"] for r in n["rows"]), 1e-9)
        lines.append(_row((
            n["network"], n["dtype"], n["gpu"], n["calls"], n["kernels"], len(n["warnings"]),
            len(n["spilling"]), f"{share:.0f} %", f"{100 * few / n['us']:.0f} %",
            f"{n['build_s']} s", f"{n['compile_s']} s", f"{n['us'] / 1e3:.2f} ms",
        )))  # fmt: skip
    about = (
        "On cores: share of operations in functions with tensor instructions. Few blocks: share of "
        "the time in functions bound by arithmetic that have fewer blocks than there are "
        "multiprocessors. Build, NVRTC: on a machine with other work."
    )
    lines += ["", about]
    for n in found:
        if "error" in n:
            lines += ["", f"{n['network']}, {n['dtype']}: not built: {n['error']}"]
    for n in made:
        lines += ["", f"## {n['network']}, {n['dtype']}, {n['gpu']}", "", *_kernels(n)]
    return "\n".join(lines) + "\n"


def _kernels(n: Row) -> list[str]:
    heads = ("first of the nodes", "times", "us each", "of all", "launches", "blocks", "registers",
             "spills", "cores", "share", "GFLOP", "MB", "binds")  # fmt: skip
    groups: dict[str, list[Row]] = {}
    for r in n["rows"]:
        groups.setdefault(r["kernel"], []).append(r)
    lines = [_row(heads), "|" + " --- |" * len(heads)]
    for rows in sorted(groups.values(), key=lambda g: -sum(r["us"] for r in g)):
        r, us = rows[0], sum(r["us"] for r in rows)
        named = r["nodes"][0] + (f" and {len(r['nodes']) - 1}" if len(r["nodes"]) > 1 else "")
        lines.append(_row((
            named, len(rows), f"{r['us']:.1f}", f"{100 * us / n['us']:.1f} %", r["launches"],
            r["blocks"], r["registers"], r["spills"] or "", "yes" if r["tensor"] else "",
            r["share"], f"{r['gflop']:.3f}", f"{r['mb']:.2f}", r["binds"],
        )))  # fmt: skip
    return lines


def _row(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_networks")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--network", nargs="+", required=True)
    parser.add_argument("--dtype", nargs="+", default=["float32", "float16"])
    parser.add_argument("--arch", default="sm_80", choices=[*GPUS, "sm_90a"])
    parser.add_argument("--out", type=Path, help="a JSON file that rows are added to; .md beside")
    options = parser.parse_args(argv)
    found: list[Row] = []
    if options.out and options.out.exists():
        found = json.loads(options.out.read_text(encoding="utf-8"))["networks"]
    for network in options.network:
        for dtype in options.dtype:
            key = (network, dtype, options.arch)
            if any((n["network"], n["dtype"], n["arch"]) == key for n in found):
                continue
            path, _ = paths(options.folder, network)
            try:
                n = measure(path, *key)
                text = f"{n['kernels']} kernels, {len(n['warnings'])} warnings, "
                text += f"{n['us'] / 1e3:.2f} ms"
            except TilewrightError as error:
                text = str(error).splitlines()[0]
                n = {"network": network, "dtype": dtype, "arch": options.arch, "error": text}
            found.append(n)
            print(f"{network} {dtype}: {text}", file=sys.stderr, flush=True)
            if options.out:
                data = json.dumps({"tilewright": tw.__version__, "networks": found}, indent=1)
                options.out.write_text(f"{data}\n", encoding="utf-8")
                options.out.with_suffix(".md").write_text(page(found), encoding="utf-8")
    if not options.out:
        print(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
