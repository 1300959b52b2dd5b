"""A table of what kernels are compiled to, without a GPU (tilewright/report/sass.py)."""

from __future__ import annotations

from tilewright.report.sass import Static

COLUMNS = (
    "kernel", "arch", "threads", "registers", "shared", "stack", "spills", "blocks", "occupancy",
    "LDG.128", "STG.128", "LDGSTS.128", "loop", "LDS.128", "LDS other", "LDSM", "FFMA", "HMMA",
)  # fmt: skip


def row(case: str, s: Static) -> list[str]:
    """A line of the table; from "loop" on, counts are those of the loop."""
    wide = s.count("LDS..128", loop=True)
    single = s.count("LDS", loop=True) - s.count("LDSM", loop=True) - wide
    numbers = [s.threads, s.registers, s.shared, s.stack, s.spills, s.blocks]
    whole = [s.count("LDG..128") - s.count("LDGSTS..128"), s.count("STG..128")]
    whole.append(s.count("LDGSTS..128"))
    loop = [s.loop.total(), wide, single, s.count("LDSM", True), s.count("FFMA", True)]
    texts = [*map(str, numbers), f"{s.occupancy:.0f} %", *map(str, [*whole, *loop])]
    return [case, s.arch, *texts, str(s.count("HMMA", True))]


def table(rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(r) + " |" for r in rows]
    return "\n".join(lines)
