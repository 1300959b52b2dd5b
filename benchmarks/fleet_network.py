"""Does a network that a fleet has tuned reach what this machine reaches by itself?

    python -m benchmarks.fleet_network MODEL.onnx --trials 400 --threads 1 --devices 2

Tunes the network twice with the same seed and as many trials: with the command's own measurer, and
through a fleet of so many device processes of this machine, each of which runs kernels on --threads
threads. Then both networks are timed in one process, in turns. Devices of one machine disturb each
other where they need more cores than it has.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.networks import image
from benchmarks.networks_systems import load_ours

ROUNDS = 40


def tuned(given: argparse.Namespace, records: Path, *more: str) -> float:
    """Seconds that a search took."""
    command = [
        sys.executable, "-m", "tilewright", "tune", given.model, "--trials", str(given.trials),
        "--records", str(records), "--threads", str(given.threads), "--seed", str(given.seed),
        "--quiet", *more,
    ]  # fmt: skip
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def compared(given: argparse.Namespace, records: dict[str, Path]) -> dict[str, Any]:
    """Milliseconds of each network, and the median of what the fleet's took over the other's."""
    data = {given.input: image(tuple(given.shape), 1)}
    calls, outputs = {}, {}
    for name, path in records.items():
        calls[name], run, _ = load_ours(given.model, data, given.threads, "float32", str(path))
        outputs[name] = np.concatenate([np.ravel(x) for x in run()])
    here, there = (outputs[n].astype(np.float64) for n in ("here", "fleet"))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS + 5):
        for name in sorted(calls, reverse=bool(turn % 2)):
            begin = time.perf_counter()
            for _ in range(3):
                calls[name]()
            if turn >= 5:
                times[name].append((time.perf_counter() - begin) / 3)
    ratios = [f / h for f, h in zip(times["fleet"], times["here"])]
    quarters = statistics.quantiles(ratios, n=4)
    return {
        **{f"{n} ms": round(1e3 * statistics.median(t), 3) for n, t in times.items()},
        "fleet over here": round(statistics.median(ratios), 4),
        "quartiles": [round(quarters[0], 4), round(quarters[2], 4)],
        "largest difference": float(np.abs(here - there).max() / np.abs(here).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--input", default="x0")
    parser.add_argument("--shape", type=int, nargs="+", default=[1, 3, 224, 224])
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        records = {name: Path(folder) / f"{name}.json" for name in ("here", "fleet")}
        seconds = {
            "here s": round(tuned(given, records["here"])),
            "fleet s": round(tuned(given, records["fleet"], "--fleet", f"local:{given.devices}")),
        }
        print(json.dumps({**vars(given), **seconds, **compared(given, records)}))


if __name__ == "__main__":
    main()
