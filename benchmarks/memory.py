"""How much memory networks take, from the model's file to the first result: the peak of a process.

    python -m benchmarks.memory [--models DIR] [--network resnet50 vgg16 bert_128] [--json]

Each system in a process of its own, which loads a network of networks_models.py and runs it twice;
the peak is VmHWM of /proc, in MiB, beside that of a process that has imported the packages only.
`ours` compiles, from the cache; `saved` loads what `Executable.save` wrote, with NumPy alone. Bar:
ours and saved at most ONNX Runtime's peak.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.networks_models import paths
from benchmarks.networks_systems import LOADERS

SYSTEMS = ("ours", "saved", "onnxruntime", "openvino")
NETWORKS = ("resnet50", "vgg16", "bert_128")
_PACKAGES = {
    "ours": ("tilewright.graph.build", "onnx"),
    "saved": ("tilewright.rt.network",),
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
}


def peak() -> float:
    """The most memory that this process has had resident, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def child(who: str, model: str, inputs: str, threads: int) -> dict[str, float]:
    """Load and run, in this process."""
    import importlib

    for package in _PACKAGES[who]:
        importlib.import_module(package)
    before = peak()
    with np.load(inputs) as file:
        data = dict(file)
    if who == "saved":
        import tilewright

        net = tilewright.load_network(model)
        call: Any = net.prepare(data)
    elif who == "ours":
        import tilewright
        from tilewright.rt.threads import set_num_threads

        set_num_threads(threads)
        call = tilewright.compile(model, shapes={n: x.shape for n, x in data.items()}).prepare(data)
    else:
        call = LOADERS[who](model, data, threads, "float32", None)[0]
    call()
    call()
    return {"packages": before, "peak": peak()}


def measure(name: str, folder: Path, threads: int) -> dict[str, Any]:
    """The peaks of all systems, for one network. The first compilation counts nowhere."""
    model, inputs = paths(folder, name)
    row: dict[str, Any] = {"network": name, "file_mib": model.stat().st_size / 2**20}
    saved = folder / f"{name}.net"
    _run(["-m", "tilewright", "compile", str(model), "-o", str(saved)], folder)
    for who in SYSTEMS:
        given = saved if who == "saved" else model
        command = ["-m", "benchmarks.memory", "--child", who, str(given), str(inputs)]
        row[who] = json.loads(_run([*command, "--threads", str(threads)], folder))
    return row


def _run(command: list[str], folder: Path) -> str:
    env = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(folder / "cache-memory")}
    done = subprocess.run(
        [sys.executable, *command], env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def main() -> int:
    """Print the table; the exit status says whether a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, help="where networks are made, and stay")
    parser.add_argument("--network", nargs="+", default=NETWORKS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=3, metavar=("WHO", "MODEL", "INPUTS"))
    args = parser.parse_args()
    if args.child:
        who, model, inputs = args.child
        print(json.dumps(child(who, model, inputs, args.threads)))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.models or Path(scratch)
        rows = [measure(name, folder, args.threads) for name in args.network]
    missed = False
    for row in rows:
        bar = row["onnxruntime"]["peak"]
        missed |= max(row["ours"]["peak"], row["saved"]["peak"]) > bar
        if not args.json:
            told = (
                f"{w} {row[w]['peak']:7.0f} (packages {row[w]['packages']:.0f})" for w in SYSTEMS
            )
            print(f"{row['network']:10} file {row['file_mib']:5.0f} MiB: {', '.join(told)}")
    if args.json:
        print(json.dumps(rows))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
