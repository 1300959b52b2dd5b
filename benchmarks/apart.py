"""Networks where two cores have one third cache, and where each has its own.

    python -m benchmarks.apart MODEL.onnx ... [--seconds 300] [--threads 2] [--tree FOLDER ...]
        [--systems ours onnxruntime ...] [--json]

A virtual machine may be moved from the one to the other while it runs, and what its cores write for
each other takes a third to a seventh of the speed then. Systems take turns, each in a process of
its own, a second at a time; a word is sent from core to core and back before and behind each turn
(driver/handing.py). A turn counts where both agree, as near or as apart: the round trips fall into
two groups, or into one, where the machine was not moved. `--tree`: the folder of another version of
tilewright, measured beside this one. A figure is the median of milliseconds; a ratio is that of
the turns.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.busy import LOADERS, System
from benchmarks.where import TWICE
from tilewright.driver.handing import round_trip

TURN_S = 0.3
ENOUGH = 6  # turns of each kind

Turn = tuple[float, float, list[float]]  # the round trips around it, milliseconds by system


def limit_of(trips: Sequence[float]) -> float:
    """Seconds between near and apart: infinite where all are of one kind."""
    # a few near ones take half of what the others take
    low, high = sorted(trips)[len(trips) // 4], max(trips)
    return math.sqrt(low * high) if high > TWICE * low else math.inf


def kinds_of(turns: Sequence[Turn], limit: float) -> dict[str, list[list[float]]]:
    """The milliseconds of the turns whose round trips agree, by kind."""
    found: dict[str, list[list[float]]] = {"near": [], "apart": []}
    for before, behind, times in turns:
        if (before > limit) == (behind > limit):
            found["apart" if before > limit else "near"].append(times)
    return found


def measure(models: Sequence[str], given: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each network and kind."""
    turns: dict[str, list[Turn]] = {m: [] for m in models}
    labels = [*given.systems, *given.tree]
    with ExitStack() as stack:
        systems: dict[str, list[System]] = {}
        for m in models:
            found = [System(sys.executable, s, m, given.threads) for s in given.systems]
            found += [System(sys.executable, "ours", m, given.threads, t) for t in given.tree]
            systems[m] = found
            for one in found:
                stack.callback(one.close)
        end = time.monotonic() + given.seconds
        while time.monotonic() < end:
            for m in models:
                before = round_trip()
                times = [one.measure(TURN_S) for one in systems[m]]
                behind = round_trip()
                if before is None or behind is None:
                    raise SystemExit("the threads of this process cannot choose their cores")
                turns[m].append((before, behind, times))
            known = [kinds_of(turns[m], _limit(turns)) for m in models]
            if all(len(of) >= ENOUGH for kinds in known for of in kinds.values()):
                break
    return [row for m in models for row in rows_of(m, turns[m], _limit(turns), labels)]


def _limit(turns: dict[str, list[Turn]]) -> float:
    return limit_of([trip for of in turns.values() for turn in of for trip in turn[:2]])


def rows_of(
    model: str, turns: Sequence[Turn], limit: float, labels: Sequence[str]
) -> list[dict[str, Any]]:
    """Of each kind that there was: milliseconds of each system, and what the others take for one of
    ours."""
    rows = []
    for kind, times in kinds_of(turns, limit).items():
        if times:
            ms = {label: median(t[k] for t in times) for k, label in enumerate(labels)}
            others = {label: median(t[k] / t[0] for t in times) for k, label in enumerate(labels)}
            rows.append({
                "network": Path(model).stem, "cores": kind, "turns": len(times), "ms": ms,
                "ratio": {k: v for k, v in others.items() if k != labels[0]},
            })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="+", help="ONNX networks whose inputs are images")
    parser.add_argument("--seconds", type=float, default=300.0, help="at most")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--systems", nargs="+", choices=LOADERS, default=["ours", "onnxruntime"])
    parser.add_argument("--tree", nargs="*", default=[], help="another version of tilewright")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    rows = measure(given.model, given)
    if given.json:
        print(json.dumps(rows))
        return
    for row in rows:
        ms = ", ".join(f"{label} {t:.2f} ms" for label, t in row["ms"].items())
        ratios = ", ".join(f"{label} {r:.2f}" for label, r in row["ratio"].items())
        print(f"{row['network']:20} {row['cores']:5} {row['turns']:3} turns: {ms}; {ratios}")


if __name__ == "__main__":
    main()
