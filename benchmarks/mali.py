"""Spatially packed convolution, its search, and whole networks on an OpenCL device.

    python -m benchmarks.mali [--schedules] [--grid] [--tuners] [--networks] [--cuda] [--all]
        [--profile] [--json [FILE]] [--report FILE]

Without a selection: schedules, grid and tuners. The device is the first that OpenCL has: a Mali, or
PoCL on the processor. The grid's measurements are kept in --store, from which the tuners are
compared: each configuration is measured once, and all tuners see the same. The exit status says
whether a bar was missed: errors (1e-3 in float32, 2e-2 in float16), a grid of 50 points, and tuners
whose median of the seeds is above that of random search at the largest of --trials (64, as in
benchmarks.tuners); smaller numbers are shown beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tilewright as tvm
from benchmarks import mali_layer, mali_networks
from benchmarks.mali_report import missed, report
from tilewright.rt.drivers import nvrtc

PARTS = ("schedules", "grid", "tuners", "networks", "cuda")
DEFAULT = ("schedules", "grid", "tuners")


def chosen_parts(args: argparse.Namespace) -> list[str]:
    found = [p for p in PARTS if args.all or getattr(args, p)]
    return found or list(DEFAULT)


def run_parts(parts: Sequence[str], args: argparse.Namespace) -> dict[str, Any]:
    """The results of the parts, by name."""
    device = tvm.opencl(0)
    results: dict[str, Any] = {}
    if device.exist:
        results["device"] = {
            "name": device.device_name,
            "target": str(mali_layer.fitted(device)),
        }
    with tempfile.TemporaryDirectory(prefix="tilewright-mali-") as folder:
        store = args.store or Path(folder) / "grid.db"
        nets = args.models or Path(tempfile.gettempdir()) / "tilewright-networks"
        work: dict[str, Callable[[], Any]] = {
            "schedules": lambda: [
                row for d in mali_layer.LANES for row in mali_layer.three_schedules(d, device)
            ],
            "grid": lambda: [mali_layer.grid_search(args.dtype, device, store, args.points)],
            "tuners": lambda: [
                mali_layer.compare_tuners(args.dtype, device, store, trials, args.seeds)
                for trials in args.trials
            ],
            "networks": lambda: [
                row
                for name in args.network
                for row in mali_networks.run_network(name, nets, mali_networks.CASES)
            ],
            "cuda": lambda: [
                row for name in args.network for row in mali_networks.compile_cuda(name, nets)
            ],
        }
        for part in parts:
            results[part] = work[part]()
    return results


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every part")
    for part in PARTS:
        parser.add_argument(f"--{part}", action="store_true")
    parser.add_argument("--dtype", choices=tuple(mali_layer.LANES), default="float32")
    parser.add_argument("--points", type=int, help="of the grid; default all")
    parser.add_argument("--trials", type=int, nargs="+", default=[32])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--store", type=Path, help="keep the grid's measurements in this file")
    parser.add_argument("--models", type=Path, help="folder of the networks' files")
    parser.add_argument(
        "--network", nargs="+", choices=mali_networks.NETWORKS, default=mali_networks.NETWORKS
    )
    parser.add_argument("--profile", action="store_true", help="time of each layer")
    parser.add_argument("--json", nargs="?", const="-", help="print JSON, or write it to a file")
    parser.add_argument("--report", type=Path, help="write the tables as Markdown")
    args = parser.parse_args(argv)
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run, show, judge."""
    args = parse_arguments(argv)
    parts = chosen_parts(args)
    device = tvm.opencl(0)
    if not device.exist and set(parts) != {"cuda"}:
        print(f"there is no OpenCL device: {device.why_missing()}", file=sys.stderr)
        return 2
    if "cuda" in parts and not nvrtc.find_compiler():
        print(f"CUDA source is not compiled: {nvrtc.why_missing()}", file=sys.stderr)
        parts.remove("cuda")
    results = run_parts(parts, args)
    text = report(results, args.profile)
    if args.report:
        args.report.write_text(text)
    results["missed"] = missed(results)
    if args.json == "-":
        print(json.dumps(results, indent=1))
    else:
        print(text)
    if args.json not in (None, "-"):
        Path(args.json).write_text(json.dumps(results, indent=1) + "\n")
    for line in results["missed"]:
        print(f"MISSED {line}", file=sys.stderr)
    return 1 if results["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
