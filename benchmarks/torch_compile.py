"""torch.compile with this backend against its Inductor and eager PyTorch: ResNet-50 and BERT-base.

    python -m benchmarks.torch_compile [--json] [--rounds 5] [--runs 10] [--threads 2]
        [--network NAME ...] [--system NAME ...]

The systems run in processes of their own, one after the other in each round, so that none disturbs
another and a change of the machine's clock hits all. Weights are seeded. Takes torchvision and
transformers. Bar: no slower than Inductor; outputs within 1e-4 of the largest of PyTorch's.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

NETWORKS = ("resnet50", "bert")
SYSTEMS = ("eager", "inductor", "tilewright")
RATIO_BAR, ERROR_BAR = 1.0, 1e-4
SETTLE_S = 1.0


def make(network: str) -> tuple[Any, tuple[Any, ...]]:
    """A module and its arguments; one image, or 128 tokens."""
    import torch

    torch.manual_seed(0)
    if network == "resnet50":
        import torchvision

        return torchvision.models.resnet50().eval(), (torch.randn(1, 3, 224, 224),)
    from transformers import BertConfig, BertModel

    module = BertModel(BertConfig()).eval()
    return module, (torch.randint(0, 30000, (1, 128)),)


def _first(result: Any) -> Any:
    import torch

    return result if isinstance(result, torch.Tensor) else result[0]


def run(network: str, system: str, runs: int, threads: int) -> dict[str, Any]:
    """Seconds to the first result and of later calls, and the largest difference from eager over
    the largest output."""
    import torch

    torch.set_num_threads(threads)
    module, args = make(network)
    with torch.no_grad():
        wanted = _first(module(*args))
        compiled = module if system == "eager" else torch.compile(module, backend=_backend(system))
        start = time.perf_counter()
        found = _first(compiled(*args))
        first = time.perf_counter() - start
        error = float((found - wanted).abs().max() / wanted.abs().max())
        end = time.perf_counter() + SETTLE_S
        while time.perf_counter() < end:
            compiled(*args)
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            compiled(*args)
            times.append(time.perf_counter() - start)
    return {"first": first, "times": times, "error": error}


def _backend(system: str) -> Any:
    if system != "tilewright":
        return system
    from tilewright.graph.torch.backend import tilewright

    return tilewright


def measure(network: str, systems: list[str], rounds: int, given: list[str]) -> dict[str, Any]:
    """All systems in turns, each in a process of its own; medians over all calls."""
    found: dict[str, list[dict[str, Any]]] = {s: [] for s in systems}
    for _ in range(rounds):
        for system in systems:
            command = [sys.executable, "-m", "benchmarks.torch_compile", "--one", network, system]
            done = subprocess.run([*command, *given], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{network} by {system}: {done.stderr[-2000:]}")
            found[system].append(json.loads(done.stdout.splitlines()[-1]))
    return {
        system: {
            "ms": 1e3 * median(t for row in rows for t in row["times"]),
            "first_s": median(row["first"] for row in rows),
            "error": max(row["error"] for row in rows),
        }
        for system, rows in found.items()
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--system", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run(args.one[0], args.one[1], args.runs, args.threads)))
        return 0
    import torch

    given = ["--runs", str(args.runs), "--threads", str(args.threads)]
    rows = {n: measure(n, args.system, args.rounds, given) for n in args.network}
    facts = {
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "cpu": _cpu(),
        "threads": args.threads,
        "networks": rows,
    }
    if args.json:
        print(json.dumps(facts, indent=1))
    ok = True
    for network, systems in rows.items():
        for system, row in systems.items():
            if not args.json:
                said = f"{row['ms']:8.2f} ms, first call {row['first_s']:5.1f} s"
                print(f"{network:10} {system:10} {said}, error {row['error']:.1e}")
            ok = ok and row["error"] <= ERROR_BAR
        if {"inductor", "tilewright"} <= {*systems}:
            ok = ok and systems["inductor"]["ms"] >= RATIO_BAR * systems["tilewright"]["ms"]
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
