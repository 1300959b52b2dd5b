"""Every operator by itself, on drawn sizes, against ONNX Runtime: where are the cliffs?

    python -m benchmarks.operators [--seed S] [--only TEXT;...] [--count N] [--rounds 6]
        [--seconds 0.015] [--threads 2] [--out FILE.json] [--json] [--list]

A case is a model of one node (operators_plain.py, operators_moves.py, operators_layers.py), with
types, sizes and attributes drawn by the seed, compiled by `tilewright.compile` and by ONNX Runtime
in one process. Both take turns; a time is the least of all turns, which other programs disturb
least, the median stands beside it. x is ONNX Runtime's time over ours. Results are compared, in
float32 within 1e-4 of the largest; where they differ, either may be wrong. A case is a cliff where
x is below 0.5, and ours takes 20 us or more. `--only` has parts of names, or families; `--count`
takes so many of the cases, drawn by the seed. With `--out` a table lies beside the file (.md).
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

import tilewright
from benchmarks import operators_layers, operators_moves, operators_plain, where
from benchmarks.operators_draw import Array, Case, Draws
from tilewright.cli.latency import turns
from tilewright.cli.peers import onnxruntime_call, onnxruntime_session
from tilewright.rt.busy import watched

Row = dict[str, Any]
CLIFF, SUBSTANTIAL_S = 0.5, 20e-6
ERRORS = {"float16": 5e-3, "float32": 1e-4, "float64": 1e-6}
FAMILIES = (*operators_plain.FAMILIES, *operators_moves.FAMILIES, *operators_layers.FAMILIES)


def cases_of(seed: int) -> list[Case]:
    """All cases of a seed. Each family draws by itself, so that one more case leaves others be."""
    found: dict[str, Case] = {}
    for k, family in enumerate(FAMILIES):
        found.update((c.name, c) for c in family(Draws(seed * 1000 + k)))
    return list(found.values())


def error(got: Sequence[Array], want: Sequence[Array], off: int) -> float:
    """The largest difference of floats over the largest one, over what is allowed; ValueError where
    shapes or types differ, or whole numbers do."""
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(f"{a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}")
        if not b.size:
            continue
        if b.dtype.kind != "f":
            far = np.abs(a.astype(np.float64) - b.astype(np.float64)).max()
            if far > off:
                raise ValueError(f"whole numbers differ by {far:g}")
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        fine = (x == y) | (np.isnan(x) & np.isnan(y))
        with np.errstate(invalid="ignore"):
            away = np.where(fine, 0.0, np.abs(x - y))
        scale = float(np.abs(y[np.isfinite(y)]).max(initial=0.0)) or 1.0
        worst = max(
            worst, float(np.nan_to_num(away, nan=np.inf).max()) / scale / ERRORS[str(b.dtype)]
        )
    return worst


def measure(case: Case, options: Any) -> Row:
    """One case."""
    row: Row = {"case": case.name, "family": case.family, "op": case.op}
    model, feeds = case.model()
    try:
        session = onnxruntime_session(model, options.threads)
        want = session.run(None, feeds)
    except Exception as why:  # what it does not have: its errors are of many classes
        return row | {"refused": _line(why)}
    try:
        start = time.perf_counter()
        net = tilewright.compile(model)
        got = list(net.run(feeds).values())
        row["compile_s"] = round(time.perf_counter() - start, 3)
        row["error"] = error(got, want, case.off)
        mine = net.prepare(feeds)
    except Exception as why:  # a fault, which belongs into the table
        return row | {"failed": _line(why)}
    row["as"] = type(net).__name__
    ours, theirs = turns(
        [mine, onnxruntime_call(session, feeds, want)], options.rounds, options.seconds
    )
    row |= {"ours_us": min(ours) * 1e6, "ort_us": min(theirs) * 1e6}
    row |= {"ours_median_us": median(ours) * 1e6, "ort_median_us": median(theirs) * 1e6}
    return row | {"x": min(theirs) / min(ours), "x_median": median(theirs) / median(ours)}


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"[:200]


def is_cliff(row: Row) -> bool:
    return "x" in row and row["x"] < CLIFF and row["ours_us"] >= SUBSTANTIAL_S * 1e6


def differs(row: Row) -> bool:
    return "failed" in row or row.get("error", 0) > 1


def summary(rows: Sequence[Row]) -> Row:
    timed = [r for r in rows if "x" in r]
    long = [r for r in timed if max(r["ours_us"], r["ort_us"]) >= SUBSTANTIAL_S * 1e6]
    result: Row = {"cases": len(rows), "timed": len(timed), "at_20us": len(long)}
    result |= {"refused_by_ort": sum("refused" in r for r in rows)}
    result |= {"cliffs": sum(map(is_cliff, rows)), "differ": sum(map(differs, rows))}
    if long:
        result |= {"geomean_at_20us": geometric_mean(r["x"] for r in long)}
        result |= {"below_1_at_20us": sum(r["x"] < 1 for r in long)}
        result |= {"worst_at_20us": min(r["x"] for r in long)}
    return result


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as Markdown: what is wrong, then the slowest first, at the end what is short."""
    yield "| case | ours, us | ORT, us | x | x of medians | |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"

    def order(r: Row) -> Any:
        short = max(r.get("ours_us", 0), r.get("ort_us", 0)) < SUBSTANTIAL_S * 1e6
        return not differs(r), "refused" in r, short, r.get("x", 0)

    for r in sorted(rows, key=order):
        said = r.get("failed") or (f"ONNX Runtime: {r['refused']}" if "refused" in r else "")
        if differs(r) and not said:
            said = f"results differ, {r['error']:.1f} of what is allowed"
        if is_cliff(r):
            said = f"cliff {said}"
        if r.get("as", "Executable") != "Executable":
            said = f"{said} {r['as']}".strip()
        figures = " | | | "
        if "x" in r:
            figures = f"{r['ours_us']:.1f} | {r['ort_us']:.1f} | {r['x']:.2f} | {r['x_median']:.2f}"
        yield f"| {r['case']} | {figures} | {said.replace('|', '/')} |"


def by_family(rows: Sequence[Row]) -> Iterator[str]:
    yield "| family | cases | geometric mean of x | least x | cliffs |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for family in dict.fromkeys(r["family"] for r in rows):
        mine = [r for r in rows if r["family"] == family and "x" in r]
        mine = [r for r in mine if max(r["ours_us"], r["ort_us"]) >= SUBSTANTIAL_S * 1e6]
        if mine:
            xs = [r["x"] for r in mine]
            figures = f"{geometric_mean(xs):.2f} | {min(xs):.2f} | {sum(map(is_cliff, mine))}"
            yield f"| {family} | {len(mine)} | {figures} |"


def _write(path: Path, result: Row) -> None:
    path.write_text(json.dumps(result, indent=1) + "\n")
    told = [
        f"{k}: {v:.2f}" if isinstance(v, float) else f"{k}: {v}"
        for k, v in result["summary"].items()
    ]
    head = [
        "# Single operators against ONNX Runtime",
        "",
        f"`{result['command']}`",
        "",
        ", ".join(told),
    ]
    rows = result["rows"]
    lines = [*head, "", *by_family(rows), "", *table(rows)]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts of names or families, between semicolons")
    parser.add_argument("--count", type=int, help="of the cases; all, if left out")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each")
    parser.add_argument("--seconds", type=float, default=0.015, help="of a turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="JSON, after each case; and a table beside it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--list", action="store_true", help="print the names of cases")
    options = parser.parse_args()
    parts = [p for p in options.only.split(";") if p]
    chosen = [
        c for c in cases_of(options.seed)
        if not parts or any(p in c.name or p == c.family for p in parts)
    ]  # fmt: skip
    if options.count is not None:
        order = np.random.default_rng(options.seed).permutation(len(chosen))
        chosen = [chosen[k] for k in sorted(order[: options.count])]
    if options.list:
        print("\n".join(f"{c.family:14} {c.name}" for c in chosen))
        return 0
    if not chosen:
        parser.error(f"no case's name has a part of {options.only!r}")
    command = f"python -m benchmarks.operators --seed {options.seed} --rounds {options.rounds}"
    command += f" --seconds {options.seconds}"
    command += "" if options.count is None else f" --count {options.count}"
    result: Row = {"command": command, "where": where.facts(), "rows": []}
    with watched():
        for case in chosen:
            row = measure(case, options)
            result["rows"].append(row)
            result["summary"] = summary(result["rows"])
            print(list(table([row]))[2], file=sys.stderr, flush=True)
            gc.collect()
            if options.out and len(result["rows"]) % 20 == 0:
                _write(options.out, result)
    if options.out:
        _write(options.out, result)
    print(
        json.dumps(result)
        if options.json
        else "\n".join([*by_family(result["rows"]), "", *table(result["rows"])])
    )
    print(json.dumps(result["summary"]), file=sys.stderr)
    return 1 if any(map(differs, result["rows"])) else 0


if __name__ == "__main__":
    sys.exit(main())
