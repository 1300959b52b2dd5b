"""What `tilewright fleet status` prints: who is in a fleet, and what they do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from .show import narrow_table

_SECONDS = 1.0  # between looks
_RATE_SECONDS = 10.0  # that rates are means of


def once(fleet: Any) -> None:
    """The workers of a fleet just now."""
    from rich.console import Console

    Console(soft_wrap=True).print(*_lines(fleet.status(), fleet.dashboard()), sep="\n")


def watch(fleet: Any) -> None:
    """The same every second, with rates, until it is interrupted."""
    from rich.console import Group
    from rich.live import Live

    dashboard, seen = fleet.dashboard(), list[tuple[float, dict[str, int]]]()
    with Live(auto_refresh=False) as live:
        while True:
            rows, now = fleet.status(), time.monotonic()
            seen.append((now, {row["address"]: row["done"] for row in rows}))
            while now - seen[0][0] > _RATE_SECONDS and len(seen) > 2:
                seen.pop(0)
            begin, before = seen[0]
            passed = max(now - begin, 1e-9)
            rates = {r["address"]: (r["done"] - before.get(r["address"], 0)) / passed for r in rows}
            live.update(Group(*_lines(rows, dashboard, rates)), refresh=True)
            _pause()


def _pause() -> None:
    time.sleep(_SECONDS)


def _lines(
    rows: Sequence[Mapping[str, Any]], dashboard: str, rates: Mapping[str, float] | None = None
) -> list[Any]:
    """A table with a row a worker, sums of the devices, and where Dask's dashboard is."""
    lines: list[Any] = [_table(rows, rates)] if rows else [
        "no worker has joined yet: tilewright device --help"
    ]  # fmt: skip
    devices = [row for row in rows if row["role"] == "device"]
    if devices:
        busy = sum(row["running"] > 0 for row in devices)
        done, failed = (sum(row[name] for row in devices) for name in ("done", "failed"))
        text = f"{len(devices)} devices, {busy} busy; {done} candidates run, {failed} failed"
        if rates is not None:
            text += f"; {sum(rates[row['address']] for row in devices):.1f} a second"
        lines.append(text)
    if dashboard:
        lines.append(f"Dask's dashboard: {dashboard}")
    return lines


def _table(rows: Sequence[Mapping[str, Any]], rates: Mapping[str, float] | None) -> Any:
    table = narrow_table()
    for name in ("worker", "key", "host"):
        table.add_column(name, overflow="fold")
    for name in ("runs", "waits", "done", "failed", *(["a second"] if rates is not None else [])):
        table.add_column(name, justify="right")
    for row in rows:
        counts = [str(row[name]) for name in ("running", "waiting", "done", "failed")]
        if rates is not None:
            counts.append(f"{rates[row['address']]:.1f}")
        key = row["key"] or f"builds, {row['slots']} at a time"
        table.add_row(row["name"], key, row["host"], *counts)
    return table
