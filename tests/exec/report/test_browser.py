"""Reports in a headless Chromium: each picture is drawn, answers the mouse and the keyboard, and
the page asks nothing of the network."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.exec.report.test_report import DIGITS
from tests.unit.report.test_search import ansor
from tilewright import te
from tilewright.auto_scheduler.lines import encode
from tilewright.graph.onnx.load import load_onnx
from tilewright.report import network_page, page_of, records_page, schedule_page

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None

NAMES = ("chromium", "chromium-browser", "google-chrome")
FOUND = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(
    sync_playwright is None or FOUND is None,
    reason="no browser: install Chromium and `pip install playwright`",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as p:
        launched = p.chromium.launch(executable_path=FOUND, args=["--no-sandbox"])
        yield launched
        launched.close()


class Opened:
    """A page that is open; `problems`: what the browser complained of."""

    def __init__(self, browser: Any, path: Path, **how: Any) -> None:
        self.page = browser.new_page(**how)
        self.problems: list[str] = []
        self.page.on("pageerror", lambda e: self.problems.append(str(e)))
        self.page.on("console", self._said)
        self.page.on("request", self._asked)
        self.page.goto(path.as_uri())
        self.page.wait_for_load_state("load")

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            self.problems.append(f"asks for {request.url}")

    def count(self, selector: str) -> int:
        return int(self.page.locator(selector).count())

    def close(self) -> None:
        assert self.problems == []
        assert self.count(".error") == 0
        self.page.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: Any) -> dict[str, Path]:
    """Pages of a network, a schedule for CPUs, one for GPUs, and records."""
    folder = tmp_path_factory.mktemp("pages")
    log = folder / "log.json"
    records = [ansor((1e-3 * (1 + (k - 9) ** 2),) * 2, k) for k in range(1, 31)]
    records += [ansor((), 99, error=7), ansor((2e-3,), 3, key="other")]
    log.write_text("".join(encode(r) + "\n" for r in records))
    made = {
        "network": network_page(load_onnx(DIGITS)),
        "schedule": schedule_page(matmul()),
        "gpu": schedule_page(gpu(), target="cuda -arch=sm_80"),
        "records": records_page(log),
    }
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page.html())
    frame = f"<!doctype html><title>notebook</title>{matmul()._repr_html_()}"
    (folder / "notebook.html").write_text(frame)
    return {name: folder / f"{name}.html" for name in (*made, "notebook")}


def matmul() -> Any:
    n = 32
    a, b = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[1], 8)
    s[c].vectorize(inner)
    s[c].parallel(c.op.axis[0])
    return s


def gpu() -> Any:
    a = te.placeholder((1024,), name="A")
    b = te.compute((1024,), lambda i: a[i] * 2.0 + 1.0, name="B")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], 64)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    return s


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("name", ["network", "schedule", "gpu", "records", "notebook"])
def test_pages_open_without_an_error(
    browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    size = {"width": width, "height": 800}
    opened = Opened(browser, pages[name], viewport=size, color_scheme=scheme)
    opened.page.wait_for_timeout(200)
    wide = opened.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width, "the page itself does not scroll sideways"
    if name != "notebook":
        ground = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
    opened.close()


def test_the_roofline_leads_to_kernels(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["network"])
    data = opened.page.evaluate("TW.data.roofline")
    drawn = [p for p in data["points"] if p["flops"] and p["bytes"]]
    dots = opened.page.locator("[data-widget=roofline] svg a")
    assert dots.count() == len(drawn) > 3
    dots.last.focus()
    opened.page.keyboard.press("Enter")
    wanted = dots.last.get_attribute("href") or dots.last.get_attribute("xlink:href")
    opened.page.wait_for_selector(f'.kernel[data-kernel="{str(wanted).rsplit("-", 1)[1]}"]')
    texts = opened.page.locator("[data-widget=roofline] svg text").all_text_contents()
    assert any("GFLOP/s" in t for t in texts) and any("GB/s" in t for t in texts)
    opened.close()


def test_the_graph_leads_to_kernels(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["network"])
    graph = opened.page.evaluate("TW.data.graph")
    assert opened.count(".graph .box") == len(graph["boxes"]) == 7
    assert opened.count(".graph .edge") == sum(len(b["reads"]) for b in graph["boxes"])
    opened.page.locator(".graph .box").nth(2).focus()
    opened.page.keyboard.press("Enter")
    kernel = graph["boxes"][2]["kernel"]
    opened.page.wait_for_selector(f'.kernel[data-kernel="{kernel}"]')
    opened.page.locator(".graph .box").nth(0).click()
    opened.page.wait_for_selector(f'.kernel[data-kernel="{graph["boxes"][0]["kernel"]}"]')
    width = opened.page.locator(".graph svg").get_attribute("width")
    opened.page.get_by_role("button", name="Larger").click()
    assert float(opened.page.locator(".graph svg").get_attribute("width")) > float(width)
    opened.page.get_by_role("button", name="To the largest share").click()
    opened.close()


def test_the_memory_plan_has_each_value(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["network"])
    held = opened.page.evaluate("TW.data.memory.held.length")
    assert opened.count('[data-widget=memory] svg g[aria-label="rect"] rect') == held > 2
    opened.close()


def test_kernels_are_chosen_and_their_tabs_answer_keys(
    browser: Any, pages: dict[str, Path]
) -> None:
    opened = Opened(browser, pages["network"])
    page = opened.page
    page.wait_for_selector(".kernel[data-kernel]")
    page.get_by_label("Kernel, slowest first").select_option("3")
    page.wait_for_selector('.kernel[data-kernel="3"]')
    assert opened.count(".tree details") >= 2
    page.get_by_role("tab", name="Loops").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Passes").get_attribute("aria-selected") == "true"
    assert opened.count("[data-view=passes] button") > 3
    page.keyboard.press("ArrowLeft")
    first = page.locator(".tree details").first
    first.locator("> summary").click()
    assert first.get_attribute("open") is None
    opened.close()


def test_passes_show_what_changed(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["schedule"])
    page = opened.page
    page.get_by_role("tab", name="Passes").click()
    page.get_by_role("button", name="vectorize_loops").click()
    assert opened.count(".code li.add") and opened.count(".code li.del")
    added = page.locator(".code li.add").all_text_contents()
    assert any("T.Broadcast" in text for text in added)
    short = opened.count(".code li")
    page.get_by_label("whole text").check()
    assert opened.count(".code li") >= short and opened.count(".code li.gap") == 0
    opened.close()


def longest(a: list[str], b: list[str]) -> int:
    """The length of the longest common subsequence."""
    best = [0] * (len(b) + 1)
    for x in a:
        row = [0]
        for j, y in enumerate(b):
            row.append(best[j] + 1 if x == y else max(best[j + 1], row[j]))
        best = row
    return best[-1]


def test_differences_are_the_shortest(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["schedule"])
    rng = random.Random(5)
    for _ in range(60):
        a, b = ([rng.choice("abcd") for _ in range(rng.randrange(12))] for _ in range(2))
        rows = opened.page.evaluate("([a, b]) => TW.difference(a, b)", [a, b])
        assert [text for kind, text in rows if kind != "add"] == a
        assert [text for kind, text in rows if kind != "del"] == b
        assert sum(kind == "" for kind, _ in rows) == longest(a, b)
    opened.close()


@pytest.mark.parametrize("name, last", [("schedule", "Assembly"), ("gpu", "CUDA C")])
def test_lines_are_linked(browser: Any, pages: dict[str, Path], name: str, last: str) -> None:
    opened = Opened(browser, pages[name])
    page = opened.page
    page.get_by_role("tab", name="Code, line to line").click()
    if last == "CUDA C":
        page.get_by_label("CUDA C", exact=True).check()
    page.wait_for_selector("li.linked")
    loops, other = (page.locator(f'[data-pane="{t}"]') for t in ("Loops", last))
    store = loops.locator("li", has_text="] = ").last
    store.click()
    place = store.get_attribute("data-place")
    linked = other.locator("li.linked")
    assert linked.count() > 0
    assert {linked.nth(k).get_attribute("data-place") for k in range(linked.count())} == {place}
    assert linked.count() == other.locator(f'li[data-place="{place}"]').count()
    assert linked.first.is_visible()
    page.keyboard.press("ArrowUp")
    chosen = loops.locator('li[aria-selected="true"]')
    assert chosen.count() == 1 and chosen.get_attribute("data-place") == str(int(place) - 1)
    box = loops.locator("[role=listbox]")
    assert box.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    opened.close()


def test_hot_lines_are_marked(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["schedule"])
    opened.page.get_by_role("tab", name="Code, line to line").click()
    hot = opened.page.locator('[data-pane="Loops"] li', has_text="A_1[").last
    assert "1.00" in str(hot.get_attribute("style"))
    assert "%" in hot.locator(".w").inner_text()
    opened.close()


def test_searches(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["records"])
    page = opened.page
    assert opened.count('[data-plot=curve] g[aria-label="dot"] circle') == 30
    assert opened.count('[data-plot=predicted] g[aria-label="dot"] circle') == 30
    assert "Rank correlation 0." in page.locator("#tuning").inner_text()
    assert "1 RUN_TIMEOUT" in page.locator("#tuning").inner_text()
    page.get_by_label("Task").select_option("1")
    assert opened.count('[data-plot=curve] g[aria-label="dot"] circle') == 1
    assert opened.count("[data-plot=predicted]") == 0
    opened.close()


def test_notebooks_show_the_same(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["notebook"])
    frame = opened.page.frame_locator("iframe")
    frame.locator(".tree details").first.wait_for()
    frame.get_by_role("tab", name="Passes").click()
    assert frame.locator("[data-view=passes] button").count() > 2
    opened.page.wait_for_timeout(600)
    height = opened.page.locator("iframe").evaluate("e => e.clientHeight")
    inner = opened.page.locator("iframe").evaluate(
        "e => e.contentDocument.documentElement.scrollHeight"
    )
    assert height >= 100 and inner > 0
    opened.close()


def test_a_page_without_measurements(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "plan.html"
    path.write_text(page_of(load_onnx(DIGITS)).html())
    opened = Opened(browser, path)
    assert opened.count(".graph .box") == 7 and opened.count(".graph [role=link]") == 0
    opened.close()
