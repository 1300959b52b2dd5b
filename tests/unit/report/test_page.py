"""Pages as HTML."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.unit.report.html import Parsed
from tilewright.report.kernel import Code, Kernel
from tilewright.report.layout import place_boxes
from tilewright.report.page import (
    Box,
    Choice,
    Held,
    Memory,
    Page,
    Point,
    Roofline,
    Trial,
    Tuned,
    asset,
    packed,
    unpacked,
)

NASTY = "</script><script>alert(1)</script> & \"quotes\" 'n' <b> \u2028 é"


def full_page() -> Page:
    kernel = Kernel(NASTY, NASTY, codes=[Code("Loops", ["a", "b"], [1, 2], weights=[0.0, 1.0])])
    points = [
        Point(0, "k", NASTY, 2_000_000, 1000, 1e-3, 0.75, "compute", 0.5),
        Point(1, "l", "copy", 0, 4000, 2e-3, 0.25, "memory", 0.1),
    ]
    boxes = [Box(NASTY, "n0", 0, 1e-3, 0.75, ()), Box("b", "n1", 1, 2e-3, 0.25, (0,))]
    trials = [Trial(1e-3, noise=0.02), Trial(None, "RUN_TIMEOUT"), Trial(5e-4, predicted=1.0)]
    choices = [Choice("tile", [("8", 2, 5e-4), ("4", 1, None)])]
    return Page(
        NASTY,
        "subtitle",
        facts=[("target", NASTY)],
        warnings=["busy <machine>"],
        stages=[("C", "root", "global", "i, j")],
        roofline=Roofline(points, "measured", 1e11, [("memory", 1e10)]),
        graph=place_boxes(boxes, "the time"),
        memory=Memory([Held("v", 2048, 1024, 0, 1)], 4096, 2, "note"),
        tuning=[Tuned("task", "llvm", trials, choices, ["SP 1"], 3.0, "Scores.", 0.5, ["noisy"])],
        kernels=[kernel, Kernel("l")],
    )


def test_the_page_is_well_formed_and_escapes_everything() -> None:
    parsed = Parsed(full_page().html())
    assert parsed.errors == []
    assert "alert(1)" not in "".join(
        text for name, text in parsed.scripts.items() if not name.startswith(("blob", "data"))
    )
    assert len([t for t, _ in parsed.elements if t == "script"]) == 3 + 5  # data and the assets
    assert parsed.kernels[0]["name"] == NASTY and parsed.data["kernels"][0]["name"] == NASTY
    assert any(NASTY in text for text in parsed.text)


def test_a_page_loads_nothing() -> None:
    text = full_page().html()
    parsed = Parsed(text)
    for tag, attrs in parsed.elements:
        for name in ("src", "href", "action", "data", "poster"):
            assert not re.match(r"(?i)(https?:)?//", attrs.get(name) or ""), (tag, attrs)
        assert tag not in ("link", "img", "iframe", "object", "embed")
    policy = [a["content"] for t, a in parsed.elements if a.get("http-equiv")]
    assert policy[0] is not None and policy[0].startswith("default-src 'none'")
    assert "fetch(" not in asset("page.js") + asset("plots.js") + asset("code.js")


def test_each_picture_has_a_table_and_a_name() -> None:
    parsed = Parsed(full_page().html())
    assert parsed.tables["roofline"][1] == [
        "l", "copy", "2", "25.0%", "0", "0.004", "0.00", "0.0", "memory", "10%",
    ]  # fmt: skip
    assert parsed.tables["roofline"][2][7] == "2.0"
    assert parsed.tables["graph"][2] == ["1", "n1", "b", "2", "25.0%", "0"]
    assert parsed.tables["memory"][1] == ["v", "2.0", "1.0", "0", "1"]
    assert parsed.tables["tuning"][1] == ["task", "llvm", "3", "1", "0.5", "0.0%", "3"]
    assert parsed.tables["stages"][1] == ["C", "root", "global", "i, j"]
    ids = {str(a["id"]) for _, a in parsed.elements if a.get("id")}
    for tag, attrs in parsed.elements:
        if tag == "section":
            assert attrs["aria-labelledby"] in ids
        if tag == "a" and str(attrs.get("href")).startswith("#"):
            assert str(attrs["href"])[1:] in ids
    html = dict(parsed.elements[0][1])
    assert html["lang"] == "en"


def test_a_page_shows_only_what_it_has() -> None:
    parsed = Parsed(Page("empty").html())
    assert [t for t, _ in parsed.elements if t == "section"] == [] and parsed.errors == []
    assert len([t for t, _ in parsed.elements if t == "script"]) == 3  # no library of plots
    assert parsed.data["roofline"] is None and parsed.data["tuning"] == []


def test_what_is_packed_is_unpacked() -> None:
    data = {"text": NASTY * 100, "numbers": [1, 2.5, None]}
    assert unpacked(packed(data)) == data
    assert len(packed(data)) < len(NASTY) * 20


def test_numbers_that_json_has_not_are_refused() -> None:
    page = Page("p", roofline=Roofline([], "n", float("inf")))
    with pytest.raises(ValueError, match="JSON"):
        page.html()


@pytest.mark.parametrize("name", ["report.css", "d3.min.js", "plot.umd.min.js", "LICENSES.txt"])
def test_assets_are_there_and_can_stand_in_a_page(name: str) -> None:
    text = asset(name)
    assert text and "</script" not in text and "</style" not in text


def channel(value: int) -> float:
    share = value / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def luminance(color: str) -> float:
    """Relative luminance (WCAG 2.1)."""
    red, green, blue = (channel(int(color[k : k + 2], 16)) for k in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrasts_with_its_ground(scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", asset("report.css"), re.S)
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[scheme == "dark"]))
    texts = ("text", "soft", "accent")
    pairs = [(text, ground) for text in texts for ground in ("ground", "panel")]
    pairs += [(tag, "ground") for tag in ("parallel", "vector", "unroll", "thread", "memory")]
    pairs += [("warn-text", "warn"), *(("text", mark) for mark in ("add", "del", "mark"))]
    pairs += [("ground", "accent")]
    for text, ground in pairs:
        light, dark = sorted((luminance(colors[text]), luminance(colors[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


def test_wheels_take_every_asset_along() -> None:
    root = Path(__file__).resolve().parents[3]
    text = (root / "pyproject.toml").read_text()
    (patterns,) = re.findall(r"package-data\]\ntilewright = (\[.*?\])\n", text, re.S)
    folder = root / "src" / "tilewright"
    found = {path for pattern in ast.literal_eval(patterns) for path in folder.glob(pattern)}
    assets = [path for path in (folder / "report" / "assets").iterdir() if path.is_file()]
    assert len(assets) >= 9 and set(assets) <= found
    licenses = asset("LICENSES.txt")
    for name in (path.name for path in assets if path.name.endswith(".min.js")):
        assert f"{name}: " in licenses
    assert "report/assets/LICENSES.txt" in text.split("license-files")[1].split("\n")[0]
