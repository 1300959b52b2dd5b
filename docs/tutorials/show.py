"""What the tutorials show beside text: loops without declarations, the hottest loop of the machine
code, and bar charts and curves as SVG, which notebooks and the site display.

A tutorial does `import show`: this file lies beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import tilewright as tvm

BLUE = "var(--md-primary-fg-color, #3f51b5)"
COLOURS = (BLUE, "#e67e22", "#2e9e5b", "#a33ea1")
WIDTH = 180
NOISE = ("T.func_attr", "T.match_buffer", "# ", "@", "class ", "def ")
DECLARATION = re.compile(r"\w+ = T\.(Buffer\(.*data=|match_buffer\(|int32\(\)|int64\(\))")


def loops(schedule: Any, args: Sequence[Any], name: str = "main") -> str:
    """The loops that a schedule makes, without signature and declarations; long lines are cut."""
    with tvm.transform.PassContext(config={"tir.disable_cse_tir": True}):
        lines = str(tvm.lower(schedule, list(args), name=name, simple_mode=True)).splitlines()
    body = [
        line.rstrip()
        for line in lines
        if line.strip()
        and not line.strip().startswith(NOISE)
        and not DECLARATION.match(re.sub(r"^(\w+, )+", "", line.strip()))
    ]
    indent = min(len(line) - len(line.lstrip()) for line in body)
    text = [re.sub(r"\b([A-Za-z]\w*?)_\d+\[", r"\1[", line[indent:]) for line in body]
    return "\n".join(line if len(line) <= WIDTH else line[: WIDTH - 4] + " ..." for line in text)


def hot_loop(asm: str, instruction: str = "v?fn?madd|v?mul|v?add|fmla|fmul|fadd") -> str:
    """The block of assembly that is a loop and does the most arithmetic: label to backward jump."""
    lines = asm.splitlines()
    labels = {line[:-1]: n for n, line in enumerate(lines) if line.endswith(":")}
    best, most = "", -1.0
    for end, line in enumerate(lines):
        parts = line.split()
        start = labels.get(parts[-1]) if len(parts) > 1 and parts[0][0] in "jb" else None
        if start is None or start > end:
            continue
        block = [text for text in lines[start : end + 1] if not text.strip().startswith(".p2")]
        inner = sum(text.endswith(":") for text in block) - 1
        work = len(re.findall(rf"^\s+(?:{instruction})", "\n".join(block), re.MULTILINE))
        if work - 1000 * inner > most:
            best, most = "\n".join(block), work - 1000 * inner
    return best


class Picture:
    """An SVG that notebooks and the site display; `description` is read to those who cannot see."""

    def __init__(self, width: int, height: int, description: str) -> None:
        self.root = ElementTree.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {width} {height}",
                "role": "img",
                "aria-label": description,
                "font-family": "inherit",
                "font-size": "13",
                "style": f"max-width:{width}px;width:100%;height:auto",
            },
        )
        self.description = description

    def add(self, tag: str, text: str = "", **attributes: Any) -> None:
        """An element; underscores of attributes' names stand for hyphens."""
        names = {key.replace("_", "-"): str(value) for key, value in attributes.items()}
        if tag == "text":
            names.setdefault("fill", "currentColor")
        ElementTree.SubElement(self.root, tag, names).text = text or None

    def _repr_svg_(self) -> str:
        return ElementTree.tostring(self.root, encoding="unicode")

    def __repr__(self) -> str:
        return self.description


def bars(
    title: str,
    values: Mapping[str, float],
    unit: str,
    limit: tuple[str, float] | None = None,
) -> Picture:
    """A bar for each value, with its number; limit: a line across all of them, as (name, value)."""
    left, width, row = 190, 720, 26
    top = max([*values.values(), limit[1] if limit else 0]) or 1.0
    scale = (width - left - 90) / top
    told = ", ".join(f"{name} {value:.3g}" for name, value in values.items())
    bound = f"; {limit[0]} {limit[1]:.3g}" if limit else ""
    height = 30 + row * len(values) + 22
    picture = Picture(width, height, f"{title} in {unit}: {told}{bound}")
    picture.add("text", f"{title}, {unit}", x=0, y=16, font_weight="bold")
    for n, (name, value) in enumerate(values.items()):
        y = 30 + n * row
        picture.add("text", name, x=left - 8, y=y + 15, text_anchor="end")
        picture.add(
            "rect", x=left, y=y + 2, width=f"{value * scale:.1f}", height=row - 8, fill=BLUE
        )
        picture.add("text", f"{value:.3g}", x=f"{left + value * scale + 6:.1f}", y=y + 15)
    if limit:
        x = f"{left + limit[1] * scale:.1f}"
        bottom = 30 + row * len(values)
        dash = {"stroke": "currentColor", "stroke_dasharray": "4 3"}
        picture.add("line", x1=x, x2=x, y1=26, y2=bottom, **dash)
        picture.add("text", f"{limit[0]}: {limit[1]:.3g}", x=x, y=bottom + 16, text_anchor="end")
    return picture


def curves(title: str, series: Mapping[str, Sequence[float]], across: str, unit: str) -> Picture:
    """A line for each series over 1, 2, 3, ..., with a legend; both axes are labelled."""
    width, height, left, right, bottom = 720, 300, 60, 160, 250
    top = max(max(values) for values in series.values()) or 1.0
    longest = max(len(values) for values in series.values())
    last = ", ".join(f"{name} ends at {values[-1]:.3g}" for name, values in series.items())
    picture = Picture(width, height, f"{title} in {unit} over {across}: {last}")
    picture.add("text", f"{title}, {unit}", x=0, y=16, font_weight="bold")
    step = (width - left - right) / max(longest - 1, 1)
    for part in range(5):
        y = bottom - (bottom - 36) * part / 4
        grid = {"stroke": "currentColor", "stroke_opacity": 0.2}
        picture.add("line", x1=left, x2=width - right, y1=y, y2=y, **grid)
        picture.add("text", f"{top * part / 4:.3g}", x=left - 6, y=y + 4, text_anchor="end")
    for n, (name, values) in enumerate(series.items()):
        points = [
            f"{left + k * step:.1f},{bottom - (bottom - 36) * value / top:.1f}"
            for k, value in enumerate(values)
        ]
        colour = COLOURS[n % len(COLOURS)]
        line = {"fill": "none", "stroke": colour, "stroke_width": 2}
        picture.add("polyline", points=" ".join(points), **line)
        y = 50 + 22 * n
        picture.add("rect", x=width - right + 14, y=y - 10, width=12, height=12, fill=colour)
        picture.add("text", name, x=width - right + 32, y=y)
    picture.add("text", f"{across}, 1 to {longest}", x=left, y=bottom + 24)
    return picture
