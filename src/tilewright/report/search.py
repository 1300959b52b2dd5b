"""The page of a search: its measurements in order, what it decided and what came of that."""

from __future__ import annotations

import json
import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..auto_scheduler.lines import Record, row_as_json
from ..auto_scheduler.record_file import holds_lines, read_records
from ..auto_scheduler.records import as_pair
from ..auto_scheduler.rows import Row
from ..base.errors import TilewrightError
from ..base.files import open_file
from ..measure.places import Url, place_of, shown
from ..measure.result import MeasureErrorNo
from ..template.record import MeasureInput, MeasureResult, load_from_file
from .page import Choice, Page, Trial, Tuned
from .predict import LEAST, cross_validated, rank_correlation

NOISY = 0.05
"""Scatter of repetitions, of the median measurement, from which on a page warns of it."""
_VALUES, _CHOICES, _STEPS = 12, 24, 200
_REGRESSION = (
    "Scores are those of a ridge regression on the search's decisions, each made without the fifth "
    "of the measurements that it is in; the model that guided the search is not part of its "
    "records."
)

Decisions = Mapping[str, str]


class Measured:
    """One measurement as this page takes it: decisions by name, costs in seconds (none after an
    error), the steps that repeat it as text, and those of the auto-scheduler as rows."""

    __slots__ = ("all_cost", "at", "costs", "decisions", "error", "rows", "steps")

    def __init__(
        self,
        decisions: Decisions,
        costs: Sequence[float],
        error: int,
        all_cost: float,
        at: float,
        steps: Sequence[str],
        rows: tuple[Row, ...] = (),
    ) -> None:
        self.decisions = decisions
        self.costs = () if error else tuple(costs)
        self.error = MeasureErrorNo(error).name if error else ""
        self.all_cost = all_cost
        self.at = at
        self.steps = steps
        self.rows = rows

    @property
    def seconds(self) -> float | None:
        """The median of the costs; None after an error."""
        return statistics.median(self.costs) if self.costs else None

    @property
    def noise(self) -> float:
        """Scatter of the costs: the standard deviation, of their mean."""
        if len(self.costs) < 2:
            return 0.0
        return statistics.stdev(self.costs) / (statistics.mean(self.costs) or 1.0)


def records_page(path: str | os.PathLike[str]) -> Page:
    """The page of records: of the auto-scheduler's (a file of SQLite or of lines of JSON, or a
    database's URL), or of a file of a tuner of templates. TilewrightError where there are none."""
    place = place_of(path)
    of_templates = isinstance(place, Path) and _is_autotvm(place)
    found = _of_templates(Path(place)) if of_templates else of_scheduler(read_records(place))
    name = shown(place)
    if not found:
        raise TilewrightError(f"{name} holds no records of measurements")
    return searches_page(f"Records of {name if isinstance(place, Url) else place.name}", found)


def searches_page(title: str, found: Mapping[tuple[str, str], Sequence[Measured]]) -> Page:
    """The page of measurements by task and target, those measured most first."""
    tuning = [tuned(task, target, rows) for (task, target), rows in found.items()]
    tuning.sort(key=lambda t: -len(t.trials))
    page = Page(title, tuning=tuning)
    total = sum(len(t.trials) for t in tuning)
    failed = sum(x.seconds is None for t in tuning for x in t.trials)
    page.facts = [
        ("tasks", str(len(tuning))),
        ("measurements", str(total)),
        ("failed", f"{failed} ({failed / total:.0%})" if total else "0"),
        ("time spent", f"{sum(t.seconds for t in tuning):.0f} s"),
    ]
    return page


def tuned(
    task: str,
    target: str,
    rows: Sequence[Measured],
    scores: Sequence[float | None] | None = None,
    model: str = "",
) -> Tuned:
    """What a page shows of the search for one task. `scores`: predictions of a model that `model`
    describes; where there are none, those of a regression on the decisions."""
    seconds = [m.seconds for m in rows]
    predicted, predictor = list(scores or ()), model
    if not any(score is not None for score in predicted):
        predicted = cross_validated([m.decisions for m in rows], seconds)
        predictor = _REGRESSION
    pairs = [(p, -s) for p, s in zip(predicted, seconds) if p is not None and s is not None]
    correlation = None
    if pairs:
        correlation = rank_correlation([p for p, _ in pairs], [s for _, s in pairs])
    else:
        predictor = f"Nothing is predicted from fewer than {LEAST} measurements."
    good = [(m, s) for m, s in zip(rows, seconds) if s is not None]
    best = min(good, key=lambda pair: pair[1])[0].steps if good else ()
    spent = sum(m.all_cost for m in rows)
    return Tuned(
        task,
        target,
        [Trial(s, m.error, m.at, m.noise, p) for m, s, p in zip(rows, seconds, predicted)],
        _choices(rows),
        list(best)[:_STEPS],
        spent,
        predictor,
        correlation,
        _warnings(good),
    )


def _warnings(good: Sequence[tuple[Measured, float]]) -> list[str]:
    noises = [m.noise for m, _ in good if len(m.costs) > 1]
    if not noises or statistics.median(noises) <= NOISY:
        return []
    typical = statistics.median(noises)
    return [
        f"Repetitions of one candidate scatter by {typical:.0%} (median of all): the machine was "
        "busy or its clock changed, and candidates closer than that cannot be told apart."
    ]


def _choices(rows: Sequence[Measured]) -> list[Choice]:
    """Each decision with its values, the best first; of those that took several values."""
    every: dict[str, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    for m in rows:
        for name, value in m.decisions.items():
            every[name][value].append(m.seconds)
    found = []
    for name, values in every.items():
        if len(values) < 2:
            continue
        ranked = []
        for value, costs in values.items():
            ran = [c for c in costs if c is not None]
            ranked.append((value, len(costs), min(ran) if ran else None))
        ranked.sort(key=lambda row: (row[2] is None, row[2] or 0.0))
        found.append(Choice(name, ranked[:_VALUES]))
    return found[:_CHOICES]


# -- the auto-scheduler's


def of_scheduler(records: Iterable[Record]) -> dict[tuple[str, str], list[Measured]]:
    """Measurements of the auto-scheduler by task and target."""
    found: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for record in records:
        result = as_pair(record)[1]
        steps = [" ".join(map(str, row_as_json(row))) for row in record.rows]
        found[record.workload_key, record.target].append(
            Measured(
                _decisions(record),
                result.costs,
                record.error_no,
                result.all_cost,
                result.timestamp,
                steps,
                record.rows,
            )
        )
    return found


def _decisions(record: Record) -> dict[str, str]:
    """Steps as decisions: kind and place are the name, what is decided the value."""
    found = {"kinds of steps": " ".join(str(row[0]) for row in record.rows)[:160]}
    for row in record.rows:
        kind, *parts = row
        if kind == "SP":
            stage, loop, extent, lengths = parts[:4]
            name, value = f"split of stage {stage}, loop {loop} ({extent})", _text(lengths)
        elif kind in ("PR", "AN"):
            what = "pragma on" if kind == "PR" else "annotation of"
            name, value = f"{what} stage {parts[0]}, loop {parts[1]}", _text(parts[2])
        elif kind in ("FSP", "FFSP", "CA", "CHR", "CHW"):
            name, value = f"{kind} of stage {parts[0]}", _text(parts[1:])
        else:
            continue
        count = sum(key == name or key.startswith(f"{name} #") for key in found)
        found[name if not count else f"{name} #{count + 1}"] = value
    return found


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " x ".join(_text(v) for v in value)
    return str(value)


# -- of templates


def _is_autotvm(file: Path) -> bool:
    """Whether the first line of a file is a record of autotvm."""
    if not file.is_file() or not holds_lines(file):
        return False
    with open_file(file) as stream:
        for line in stream:
            try:
                data = json.loads(line)
            except ValueError:
                continue
            return isinstance(data, dict) and "input" in data and "config" in data
    return False


def _of_templates(file: Path) -> dict[tuple[str, str], list[Measured]]:
    found: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for inp, result in load_from_file(file):
        key = (f"{inp.task.name}{_args(inp.task.args)}", str(inp.target))
        found[key].append(of_template(inp, result))
    return found


def of_template(inp: MeasureInput, result: MeasureResult) -> Measured:
    """A measurement of a template's configuration."""
    entities = inp.config.to_json_dict()["entity"]
    decisions = {str(name): _text(value) for name, _, value in entities}
    steps = [f"{name} = {value}" for name, value in decisions.items()]
    steps.append(f"index = {inp.config.index}")
    costs = () if result.error_no else [float(c) for c in result.costs]
    return Measured(
        decisions, costs, int(result.error_no), result.all_cost, result.timestamp, steps
    )


def _args(args: Any) -> str:
    text = ", ".join(map(str, args))
    return f"({text})"
