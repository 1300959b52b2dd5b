"""The operators of Ansor's benchmark: ours, tuned and untuned, beside the best libraries.

    python -m benchmarks.ops [--set suite|layers|odd|small] [--seed S] [--trials N] [--batch B]
        [--cases SUBSTRING,...] [--draw N] [--json] [--peers-only] [--records FILE] [--out FILE]
        [--mcpu haswell|x86-64-v2]

`suite`: Ansor's operators; `layers`: layers of networks; `odd`: shapes drawn by the seed.

Every competitor runs in a process of its own, on two threads, and all take turns in every round;
a case's time is the median over all rounds. The limit of a case is what the machine allows:
max(FLOP / FMA peak, bytes / copy bandwidth for so many bytes), measured in the same rounds. A round
in which a virtual machine's cores were moved nearer or apart is taken again (benchmarks/apart.py).
`--mcpu`: ours for an older CPU, the peak of its instructions, and those libraries that can be held
to them (a way far beyond the peak was not held: OpenVINO's constant products).
docs/benchmarks-ops.md says what is compared. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import where
from benchmarks.ops_channel import Competitor, Failure
from benchmarks.ops_suite import Case, cases_of
from benchmarks.where import moved
from tilewright.driver.handing import round_trip
from tilewright.rt.busy import watched

Row = dict[str, Any]
# Seconds of each repetition: by group, and the way within it.
Times = dict[str, dict[str, list[float]]]
PEERS = ("onnxruntime", "torch", "torch_last", "openvino")
OURS = ("default", "untuned", "tuned")
# What holds libraries to the instructions of an older CPU; ONNX Runtime asks the processor alone.
HELD = {
    "haswell": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "x86-64-v2": {
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    },
}
NOT_HELD = ("onnxruntime",)
# Times the peak rate, that leaving out products with padding does not explain.
BEYOND = 1.4
SETS = ("suite", "layers", "odd", "small")
USED = ("set", "seed", "draw", "trials", "batch", "rounds", "seconds", "threads", "mcpu")
# Between turns: the pools of threads of other libraries stop to spin.
PAUSE_S = 0.1
CLIP = 2.0
SUBSTANTIAL_S = 50e-6


class Comparison:
    """All competitors' processes, and the rounds in which they take turns."""

    def __init__(self, options: Any, folder: Path) -> None:
        self.options = options
        self.reference = folder / "reference.npy"
        self.records = Path(options.records) if options.records else folder / "records.db"
        threads = str(options.threads)
        more = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        more |= HELD.get(options.mcpu, {})
        self.target = ["--target", f"llvm -mcpu={options.mcpu}" if options.mcpu else "llvm"]
        self.machine = Competitor("machine", [*_module("machine", threads), *self.target], {})
        self.competitors = {
            name: Competitor(name, [*_module("peers", threads), name], more)
            for name in PEERS
            if not (options.mcpu and name in NOT_HELD)
        }
        if not options.peers_only:
            command = [*_module("ours", threads), "--records", str(self.records), *self.target]
            command += ["--algorithm-error", str(options.algorithm_error)]
            self.competitors["ours"] = Competitor("ours", command, {})

    def close(self) -> None:
        for one in (self.machine, *self.competitors.values()):
            one.close()

    def tune(self, case: Case) -> float:
        """Search for a case's best schedule in a process that ends with it; seconds taken."""
        o = self.options
        command = [sys.executable, *_module("ours", str(o.threads)), "--records"]
        command += [str(self.records), "--tune", case.name, "--trials", str(o.trials)]
        command += ["--batch", str(o.batch), "--set", o.set, *self.target]
        command += ["--algorithm-error", str(o.algorithm_error)]
        start = time.perf_counter()
        done = subprocess.run(command, stdout=sys.stderr.fileno())
        if done.returncode:
            raise Failure(f"tuning ended with {done.returncode}")
        return time.perf_counter() - start

    def row(self, case: Case) -> Row:
        """One row of the table."""
        o = self.options
        row: Row = {"case": case.name, "op": case.op, "batch": o.batch, "flop": case.flop}
        row |= {"bytes": case.bytes, "constants": list(case.constants), "failed": {}}
        if o.trials and not o.peers_only:
            try:
                row["tuning_s"] = self.tune(case)
            except Failure as why:
                row["failed"]["tuning"] = str(why)
        np.save(self.reference, case.reference(*case.inputs()))
        turns = self._load(case, row)
        times, peaks, copies = self._rounds(case, row, turns)
        for one in self.competitors.values():
            with contextlib.suppress(Failure):
                one.ask("drop")
        if o.mcpu:
            _drop_unheld(row, times, max(peaks))
        row |= {"peak_flop_per_s": max(peaks), "copy_bytes_per_s": max(copies)}
        row["limit_s"] = max(case.flop / max(peaks), case.bytes / max(copies))
        return _finish(row, times)

    def _rounds(
        self, case: Case, row: Row, turns: list[tuple[str, str]]
    ) -> tuple[Times, list[float], list[float]]:
        """Seconds by group and way, FMA peaks, copy bandwidths; who fails takes no more turns.

        Of rounds in which the cores moved, as many as were asked for are taken again; `round_trips`
        has nanoseconds before and behind each one that counts, `moved` how many did not.
        """
        copies, torn = [], 0
        rounds: list[Times] = []
        trips: list[list[int]] = []
        peaks: list[float] = []
        while len(rounds) < self.options.rounds:
            time.sleep(PAUSE_S)
            before = round_trip()
            peaks.append(self.machine.ask("peak")["flop_per_s"])
            copied = self.machine.ask("copy", bytes=case.bytes, seconds=0.0)
            copies += [copied["bytes"] / t for t in copied["times"]]
            # whoever came first comes last in the next round
            found = self._round(row, turns[len(rounds) :] + turns[: len(rounds)])
            behind = round_trip()
            if before is not None and behind is not None:
                if moved(before, behind) and torn < self.options.rounds:
                    torn += 1
                    continue
                trips.append([round(before * 1e9), round(behind * 1e9)])
            rounds.append(found)
        row |= {"round_trips": trips, "moved": torn}
        times: Times = {group: {} for _, group in turns if group not in row["failed"]}
        for group, ways in times.items():
            for found in rounds:
                for way, spent in found[group].items():
                    ways.setdefault(way, []).extend(spent)
        return times, peaks, copies

    def _round(self, row: Row, turns: list[tuple[str, str]]) -> Times:
        """One turn of each group that has not failed yet."""
        found: Times = {}
        for name, group in turns:
            if group in row["failed"]:
                continue
            time.sleep(PAUSE_S)
            try:
                got = self.competitors[name].ask("time", group=group, seconds=self.options.seconds)
                found[group] = got["times"]
            except Failure as why:
                row["failed"][group] = str(why)
        return found

    def _load(self, case: Case, row: Row) -> list[tuple[str, str]]:
        """Prepare the case everywhere; who takes turns, as (process, group)."""
        turns: list[tuple[str, str]] = []
        row |= {"ways": {}, "errors": {}, "tried_s": {}}
        for name, one in self.competitors.items():
            o = self.options
            try:
                told = one.ask(
                    "load", case=case.name, batch=o.batch, set=o.set,
                    reference=str(self.reference),
                )  # fmt: skip
            except Failure as why:
                row["failed"][name] = str(why)
                continue
            for key in ("errors", "tried_s", "failed"):
                row[key] |= told[key]
            turns += [(name, group) for group in told["groups"]]
        return turns


def _module(name: str, threads: str) -> list[str]:
    return ["-m", f"benchmarks.ops_{name}", "--threads", threads]


def _drop_unheld(row: Row, times: Times, peak: float) -> None:
    """Leave out the ways of libraries that used other instructions than those of the CPU."""
    beyond = row["flop"] / (BEYOND * peak)
    for group in [g for g in times if g in PEERS]:
        for way in [w for w, spent in times[group].items() if median(spent) < beyond]:
            row["failed"][way] = "was not held to the CPU's instructions"
            del times[group][way]
        if not times[group]:
            del times[group]


def _finish(row: Row, times: Times) -> Row:
    """The medians of each group's best way, the best peer, and how ours compare with it."""
    middle: dict[str, float] = {}
    for group, ways in times.items():
        middles = {way: float(median(spent)) for way, spent in ways.items()}
        row["ways"][group] = best = min(middles, key=middles.__getitem__)
        middle[group] = middles[best]
    row["peers_s"] = {name: middle[name] for name in PEERS if name in middle}
    row["fastest_s"] = {group: min(map(min, ways.values())) for group, ways in times.items()}
    if row["peers_s"]:
        row["best_peer"] = min(row["peers_s"], key=row["peers_s"].__getitem__)
        row["best_peer_s"] = row["peers_s"][row["best_peer"]]
    for kind in OURS:
        row[f"{kind}_s"] = middle.get(kind)
        if kind in middle and "best_peer_s" in row:
            row[f"{kind}_ratio"] = row["best_peer_s"] / middle[kind]
    return row


def summary(rows: list[Row]) -> dict[str, float]:
    """Geometric means of best peer's time / ours, each clipped at CLIP, and the smallest ratio; of
    how many cases, and how many have none of ours, though a peer has a time."""
    found: dict[str, float] = {}
    rivalled = sum("best_peer_s" in r for r in rows)
    for kind in OURS:
        found[f"{kind}_cases"] = cases = sum(f"{kind}_ratio" in r for r in rows)
        found[f"{kind}_without"] = rivalled - cases
        for which, least in (("all", 0.0), ("50us", SUBSTANTIAL_S)):
            ratios = [
                r[f"{kind}_ratio"]
                for r in rows
                if f"{kind}_ratio" in r and r["best_peer_s"] >= least
            ]
            if ratios:
                clipped = [log(min(CLIP, ratio)) for ratio in ratios]
                found[f"{kind}_geomean_{which}"] = exp(sum(clipped) / len(clipped))
                found[f"{kind}_worst_{which}"] = min(ratios)
    return found


HEAD = f"{'GFLOP/s':32}{'limit':>7}" + "".join(
    f"{name:>{width}}" for name, width in (
        ("ORT", 7), ("torch", 7), ("t.last", 7), ("OpenVINO", 9), ("default", 9), ("x best", 7),
        ("untuned", 9), ("x best", 7), ("tuned", 7), ("x best", 7), ("best us", 10),
    )
)  # fmt: skip


def line(row: Row) -> str:
    """A row as text: rates in GFLOP/s, ratios to the best peer, and the best peer."""

    def rate(seconds: float | None) -> str:
        return "-" if seconds is None else f"{row['flop'] / seconds / 1e9:.1f}"

    text = f"{row['case']:32}{rate(row['limit_s']):>7}"
    for name, width in zip(PEERS, (7, 7, 7, 9)):
        text += f"{rate(row['peers_s'].get(name)):>{width}}"
    for kind, width in zip(OURS, (9, 9, 7)):
        ratio = row.get(f"{kind}_ratio")
        text += f"{rate(row[f'{kind}_s']):>{width}}{'' if ratio is None else f'{ratio:.2f}':>7}"
    if "best_peer" in row:
        text += f"{row['best_peer_s'] * 1e6:10.1f}  {row['ways'][row['best_peer']]}"
    for what, why in row["failed"].items():
        text += f"\n    {what}: {why.strip().splitlines()[-1] if why.strip() else 'failed'}"
    return text


def select(found: list[Case], wanted: str) -> list[Case]:
    """The cases whose names contain the text, else those with any of its parts between commas.

    Names have commas themselves; semicolons divide a text that means several of those.
    """
    if not wanted:
        return found
    parts = [p for p in wanted.split(";" if ";" in wanted else ",") if p]
    whole = [c for c in found if wanted in c.name]
    return whole or [c for c in found if any(p in c.name for p in parts)]


def arguments() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200, help="measurements a case; 0: untuned")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--cases", default="", help="substrings of names, e.g. GMM,NRM")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--peers-only", action="store_true")
    parser.add_argument("--records", help="where measurements are kept and looked for")
    parser.add_argument("--out", help="write the JSON object to this file too, after every case")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.25, help="of a turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--algorithm-error",
        type=float,
        default=1e-4,
        help="what algorithms other than the one written may add to the error, over the largest "
        "output (0: there are none)",
    )
    parser.add_argument("--mcpu", choices=HELD, help="an older CPU, that all are held to")
    parser.add_argument("--set", choices=SETS, default="suite")
    parser.add_argument("--seed", type=int, default=0, help="of --set odd and --draw")
    parser.add_argument("--draw", type=int, help="so many of the cases, taken by the seed")
    return parser


def main() -> int:
    parser = arguments()
    options = parser.parse_args()
    if options.set == "odd":
        options.set = f"odd:{options.seed}"
    chosen = select(cases_of(options.set, options.batch), options.cases)
    if not chosen:
        parser.error(f"no case's name contains {options.cases!r}")
    if options.draw is not None:
        if not 1 <= options.draw <= len(chosen):
            parser.error(f"--draw takes 1 to {len(chosen)} cases of these, not {options.draw}")
        chosen = random.Random(options.seed).sample(chosen, options.draw)
    rows: list[Row] = []
    with watched(), tempfile.TemporaryDirectory(prefix="tilewright-ops-") as folder:
        comparison = Comparison(options, Path(folder))
        try:
            print(HEAD, file=sys.stderr)
            for case in chosen:
                rows.append(comparison.row(case))
                print(line(rows[-1]), file=sys.stderr, flush=True)
                if options.out:
                    _write(options, rows)
        finally:
            comparison.close()
    if options.json:
        print(json.dumps(_result(options, rows)))
    else:
        print("\n".join([HEAD, *map(line, rows), "", *_means(rows)]))
    return 0


def _result(options: Any, rows: list[Row]) -> dict[str, Any]:
    used = {k: getattr(options, k) for k in USED}
    return {"rows": rows, "summary": summary(rows), "options": used, "where": where.facts()}


def _write(options: Any, rows: list[Row]) -> None:
    """Whole or not at all, so that a run which is cut short leaves what it has."""
    path = Path(options.out)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(_result(options, rows), indent=1) + "\n")
    os.replace(part, path)


def _means(rows: list[Row]) -> list[str]:
    return [f"{name:24} {value:.3f}" for name, value in summary(rows).items()]


if __name__ == "__main__":
    sys.exit(main())
