"""Take the pictures of docs/pictures: screenshots of reports of real runs.

    python -m tools.make_pictures MODEL.onnx TUNED.onnx RECORDS

`MODEL.onnx`: the network of the pictures of networks; `RECORDS`: a file that `tilewright tune`
wrote for TUNED.onnx. Needs Chromium and playwright, and a quiet machine.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tilewright import te
from tilewright.graph.onnx.load import load_onnx
from tilewright.report import network_page, schedule_page

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SIZE = {"width": 1100, "height": 900}


def matmul(n: int = 512) -> tuple[Any, list[Any]]:
    """A product in tiles, with vectors, unrolled rows and threads."""
    a, b = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    io, jo, ii, ji = s[c].tile(i, j, 4, 16)
    s[c].reorder(io, jo, k, ii, ji)
    s[c].unroll(ii)
    s[c].vectorize(ji)
    s[c].parallel(io)
    return s, [a, b, c]


def gpu_matmul(n: int = 1024) -> tuple[Any, list[Any]]:
    """A product on a GPU: blocks of 64 x 64, tiles of both operands in shared memory."""
    a, b = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    shared = [s.cache_read(x, "shared", [c]) for x in (a, b)]
    local = s.cache_write(c, "local")
    y, x = s[c].op.axis
    by, y = s[c].split(y, 64)
    bx, x = s[c].split(x, 64)
    ty, y = s[c].split(y, 4)
    tx, x = s[c].split(x, 4)
    s[c].reorder(by, bx, ty, tx, y, x)
    for axis, name in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y")):
        s[c].bind(axis, te.thread_axis(name))
    s[c].bind(tx, te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[c], tx)
    outer, inner = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(outer, inner, *s[local].op.axis)
    for tile in shared:
        s[tile].compute_at(s[local], outer)
        one, tx = s[tile].split(s[tile].fuse(*s[tile].op.axis), 16)
        _, ty = s[tile].split(one, 16)
        s[tile].bind(tx, te.thread_axis((0, 16), "threadIdx.x"))
        s[tile].bind(ty, te.thread_axis((0, 16), "threadIdx.y"))
    return s, [a, b, c]


def main(model: str, tuned: str, records: str) -> None:
    """Write all pictures."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    pages = {
        "network": network_page(load_onnx(model)),
        "schedule": schedule_page(*matmul(), name="matmul"),
        "gpu": schedule_page(*gpu_matmul(), target="cuda -arch=sm_80", name="matmul"),
        "records": network_page(load_onnx(tuned), records=records),
    }
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as p:
        browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, page in pages.items():
            Path(folder, f"{name}.html").write_text(page.html(), encoding="utf-8")
        for name, (page_name, scheme, actions, selector) in SHOTS.items():
            tab = browser.new_page(viewport=SIZE, color_scheme=scheme)
            tab.goto(Path(folder, f"{page_name}.html").as_uri())
            tab.wait_for_timeout(500)
            for action in actions:
                tab.evaluate(action)
            tab.wait_for_timeout(500)
            path = PICTURES / f"{name}.png"
            tab.locator(selector).screenshot(path=str(path))
            Image.open(path).convert("RGB").quantize(96).save(path, optimize=True)
        browser.close()


def _tab(number: int) -> str:
    return f"document.querySelectorAll('[role=tab]')[{number}].click()"


SHOTS: dict[str, tuple[str, str, list[str], str]] = {
    "roofline": ("network", "light", [], "#roofline"),
    "network": ("network", "light", [], "#graph"),
    "memory": ("network", "dark", [], "#memory"),
    "loops": ("schedule", "light", [], "#kernels"),
    "passes": (
        "schedule",
        "light",
        [_tab(1), "document.querySelectorAll('[data-view=passes] button')[3].click()"],
        "#kernels",
    ),
    "code": ("schedule", "light", [_tab(2)], "#kernels"),
    "gpu": ("gpu", "dark", [_tab(2)], "#kernels"),
    "tuning": (
        "records",
        "light",
        ["document.querySelector('#tuning .scroll').remove()"],
        "#tuning",
    ),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
