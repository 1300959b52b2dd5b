"""Figures (SVG) and tables of what benchmarks.paper measured, in the form of the paper's.

Speeds are shares of the best in each case. Bars of an operator are geometric means over its shapes;
curves are medians over seeds, of the best so far after so many measurements.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import exp, inf, log
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Points = list[tuple[float, float]]
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
           "#bcbd22", "#17becf")  # fmt: skip
WIDE, HIGH, LEFT, TOP, FOOT = 860, 340, 50, 56, 40
OWN = ("whole", "sketches")  # to be compared with the others' ends


def draw(file: Path, out: Path) -> list[Path]:
    """Write figures and `tables.md` into a folder; gives the files."""
    data = json.loads(file.read_text())
    rows: list[Row] = data["rows"]
    out.mkdir(parents=True, exist_ok=True)
    tables = [f"Measured {json.dumps(data['where'])} with {json.dumps(data['options'])}"]
    figures: dict[str, str] = {}
    for figure, batch in sorted({(r["figure"], r["batch"]) for r in rows if r["figure"] in (6, 8)}):
        mine = [r for r in rows if r["figure"] == figure and r["batch"] == batch]
        name, values = f"figure{figure}-batch{batch}", speeds(mine, "op")
        figures[name] = bars(f"Speed, share of the best; batch {batch}", values)
        tables.append(_table(name, values))
    if mine := [r for r in rows if r["figure"] == 9 and "tuned_ms" in r]:
        kinds = ("onnxruntime", "openvino", "ours", "tuned")
        nets = [{**r, "seconds": {k: r.get(f"{k}_ms") for k in kinds}} for r in mine]
        figures["figure9"] = bars("Speed, share of the best", values := speeds(nets, "network"))
        tables.append(_table("figure9", values))
    tables += [f"{r['network']}: {r['failed']}" for r in rows if r["figure"] == 9 and "failed" in r]
    if mine := [r for r in rows if r["figure"] == 7]:
        tables.append(_table("figure7, winners in turns", speeds(mine, "case")))
    for name, runs in _searches(rows).items():
        figures[name] = lines(f"Best so far, share of the best; {name}", curves_of(runs))
        tables.append(_matches(name, runs))
    written = [out / "tables.md"]
    written[0].write_text("\n\n".join(tables) + "\n")
    for name, text in figures.items():
        written.append(out / f"{name}.svg")
        written[-1].write_text(text)
    return written


def speeds(rows: Iterable[Row], key: str) -> dict[str, dict[str, float]]:
    """By group, speeds of each competitor: geometric means of the best's seconds over its own. One
    that lacks a case of a group is left out of the group."""
    shares: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        known = {n: s for n, s in row["seconds"].items() if s}
        if known:
            best = min(known.values())
            shares.setdefault(row[key], []).append({n: best / s for n, s in known.items()})
    return {
        group: {
            name: exp(sum(log(one[name]) for one in found) / len(found))
            for name in found[0]
            if all(name in one for one in found)
        }
        for group, found in shares.items()
    }


def _searches(rows: Iterable[Row]) -> dict[str, dict[str, list[Points]]]:
    """By figure, for each arm and seed the best seconds after so many measurements."""
    found: dict[str, dict[str, list[Points]]] = {}
    for row in rows:
        if row["figure"] == 7:
            for arm, run in row["runs"].items():
                if run["costs"]:
                    points = list(enumerate(run["costs"], 1))
                    found.setdefault("figure7", {}).setdefault(arm, []).append(best_so_far(points))
        elif row["figure"] == 10:
            arms = found.setdefault(f"figure10-{row['network']}", {})
            arms.setdefault(row["arm"], []).append(best_so_far(row["trace"]))
    return found


def best_so_far(points: Iterable[Sequence[Any]]) -> Points:
    """Running minima, from the first that is known."""
    best, found = inf, []
    for count, seconds in points:
        best = min(best, inf if seconds is None else seconds)
        if best < inf:
            found.append((float(count), best))
    return found


def curves_of(runs: Mapping[str, Sequence[Points]]) -> dict[str, Points]:
    """By arm the median over seeds, as shares of the best of all; from where all seeds know."""
    least = min((run[-1][1] for found in runs.values() for run in found if run), default=1.0)
    result: dict[str, Points] = {}
    for name, found in runs.items():
        if all(found):
            counts = sorted({c for run in found for c, _ in run})
            counts = [c for c in counts if c >= max(run[0][0] for run in found)]
            at = [[[s for c, s in run if c <= count][-1] for run in found] for count in counts]
            result[name] = [(c, least / statistics.median(s)) for c, s in zip(counts, at)]
    return result


def match(points: Points, goal: float) -> float | None:
    """Measurements until a search is as fast as `goal`."""
    return next((count for count, seconds in points if seconds <= goal), None)


def _matches(name: str, runs: Mapping[str, Sequence[Points]]) -> str:
    """A table: after how many measurements the own searches are where another one ends (seed by
    seed, the median; how many seeds never are)."""
    own = [n for n in OWN if n in runs]
    text = [f"{name}: end in ms (median), and measurements until another search is as fast\n"]
    text += ["| " + " | ".join(["search", "end", *own]) + " |", "| --- " * (2 + len(own)) + "|"]
    for other, found in runs.items():
        ends = [run[-1][1] * 1e3 for run in found if run]
        cells = [f"{statistics.median(ends):.4f}" if ends else "-"]
        for mine in own:
            both = [(a, b) for a, b in zip(runs[mine], found) if a and b]
            counts = [match(a, b[-1][1]) for a, b in both]
            never = counts.count(None)
            middle = statistics.median([inf if c is None else c for c in counts] or [inf])
            cells.append((f"{middle:.0f}" if middle < inf else "-") + f" (never {never})")
        text.append("| " + " | ".join([other, *cells]) + " |")
    return "\n".join(text)


def _table(name: str, values: Mapping[str, Mapping[str, float]]) -> str:
    series = list({n: None for row in values.values() for n in row})
    text = [f"{name}: shares of the best\n", "| | " + " | ".join(series) + " |"]
    text.append("| --- " * (1 + len(series)) + "|")
    for group, row in values.items():
        cells = (f"{row[n]:.2f}" if n in row else "" for n in series)
        text.append(f"| {group} | " + " | ".join(cells) + " |")
    return "\n".join(text)


def bars(title: str, values: Mapping[str, Mapping[str, float]]) -> str:
    """Groups of bars from 0 to 1 as SVG."""
    series = list({n: None for row in values.values() for n in row})
    room = (WIDE - LEFT) / max(len(values), 1)
    width = 0.85 * room / max(len(series), 1)
    parts = []
    for g, (group, row) in enumerate(values.items()):
        start = LEFT + g * room
        parts.append(_text(start + room / 2, HIGH - FOOT + 16, group, "middle"))
        for n, name in enumerate(series):
            tall = row.get(name, 0.0) * (HIGH - TOP - FOOT)
            parts.append(
                f'<rect x="{start + n * width:.1f}" y="{HIGH - FOOT - tall:.1f}" '
                f'width="{width:.1f}" height="{tall:.1f}" fill="{_colour(n)}"/>'
            )
    return _svg(title, series, parts)


def lines(title: str, curves: Mapping[str, Points]) -> str:
    """Curves from 0 to 1 over measurements as SVG."""
    most = max((c for points in curves.values() for c, _ in points), default=1.0)
    parts = [_text(WIDE - 4, HIGH - FOOT + 16, f"{most:.0f} measurements", "end")]
    for n, points in enumerate(curves.values()):
        places = " ".join(
            f"{LEFT + c / most * (WIDE - LEFT - 4):.1f},{HIGH - FOOT - y * (HIGH - TOP - FOOT):.1f}"
            for c, y in points
        )
        parts.append(
            f'<polyline points="{places}" fill="none" stroke="{_colour(n)}" stroke-width="2"/>'
        )
    return _svg(title, list(curves), parts)


def _colour(n: int) -> str:
    return COLOURS[n % len(COLOURS)]


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "#000") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'
    )


def _svg(title: str, series: Sequence[str], parts: Sequence[str]) -> str:
    """A frame with a title, a legend and lines at quarters."""
    frame = [_text(LEFT, 16, title)]
    for n, name in enumerate(series):
        frame.append(_text(LEFT + n * (WIDE - LEFT) / len(series), 36, name, fill=_colour(n)))
    for quarter in range(5):
        y = HIGH - FOOT - quarter / 4 * (HIGH - TOP - FOOT)
        frame.append(f'<path d="M{LEFT} {y:.1f}H{WIDE}" stroke="#ddd"/>')
        frame.append(_text(LEFT - 6, y + 4, f"{quarter / 4:.2f}", "end"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE}" height="{HIGH}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join(
        [head, '<rect width="100%" height="100%" fill="#fff"/>', *frame, *parts, "</svg>\n"]
    )
