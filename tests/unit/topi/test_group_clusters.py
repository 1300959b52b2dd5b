"""Default schedules of products on sm_90a whose blocks are clusters: results in simt, and what the
compilers make of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.exec.gpu.kit import answered
from tests.unit.topi.test_warp_groups import HOPPER
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.rt.drivers import nvrtc
from tilewright.target.target import Target
from tilewright.topi.schedules.decisions import Value


def clustered(
    size: tuple[int, ...], dtype: str, flips: tuple[bool, bool], answers: dict[str, Value]
) -> tuple[Any, list[Any]]:
    """A product of m, n, k, or a batch of them, by such a tile, cluster, and so on."""
    *lead, m, n, k = size
    a = te.placeholder((*lead, *((k, m) if flips[0] else (m, k))), dtype, "A")
    b = te.placeholder((*lead, *((n, k) if flips[1] else (k, n))), dtype, "B")
    sums = "int32" if dtype == "int8" else "float32"
    make = topi.nn.batch_matmul if lead else topi.nn.matmul
    c = make(a, b, None, sums, *flips)
    target = Target(HOPPER)
    with target:
        s, _ = answered(c, target, answers)
    return s, [a, b, c]


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(
    ("size", "dtype", "flips", "tile", "cluster"),
    [
        # the last block of a cluster has one row, or one column
        ((65, 64, 320), "float16", (False, True), (64, 64), (2, 1)),
        ((64, 65, 320), "float16", (False, True), (64, 64), (1, 2)),
        ((129, 72, 264), "bfloat16", (True, False), (64, 64), (1, 2)),
        ((257, 40, 200), "bfloat16", (True, True), (128, 32), (1, 2)),
        ((200, 512, 136), "float16", (False, False), (64, 128), (1, 4)),
        ((64, 232, 136), "float16", (False, True), (64, 64), (1, 4)),
        ((256, 256, 136), "float16", (False, True), (128, 256), (2, 1)),
        ((130, 120, 400), "int8", (False, True), (64, 64), (1, 2)),
        ((130, 32, 656), "int8", (False, True), (128, 32), (2, 1)),
        ((3, 72, 72, 200), "float16", (False, True), (64, 64), (2, 1)),
        ((2, 136, 128, 200), "bfloat16", (True, False), (128, 64), (1, 2)),
    ],
)
def test_products_of_clusters(
    size: tuple[int, ...],
    dtype: str,
    flips: tuple[bool, bool],
    tile: Value,
    cluster: Value,
    stages: int,
) -> None:
    answers = {"tile": tile, "cluster": cluster, "stages": (stages,)}
    s, args = clustered(size, dtype, flips, answers)
    built = tw.build(s, args, HOPPER, name="product")
    rng = np.random.default_rng(0)
    inputs = [
        rng.integers(-8, 9, tuple(map(int, t.shape))).astype(parse(t.dtype).numpy)
        for t in args[:-1]
    ]
    found = np.full(tuple(map(int, args[-1].shape)), -1, args[-1].dtype)
    assert all(r.findings == [] for r in built.run_simt(*inputs, found).values())
    source = built.imported_modules[0].get_source()
    assert f"__cluster_dims__({max(cluster)}, 1, 1)" in source and ".multicast::cluster" in source
    a, b = (x.astype(np.float64) for x in inputs)
    a = np.swapaxes(a, -1, -2) if flips[0] else a
    b = np.swapaxes(b, -1, -2) if flips[1] else b
    np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize("cluster", [(2, 1), (1, 2)])
def test_parts_of_a_reduction_by_clusters(cluster: Value) -> None:
    """Two kernels: parts, and their sums."""
    answers = {"tile": (64, 64), "parts": (2,), "cluster": cluster, "stages": (2,)}
    s, args = clustered((72, 72, 1000), "float16", (False, True), answers)
    built = tw.build(s, args, HOPPER, name="product")
    rng = np.random.default_rng(0)
    x, y = ((rng.integers(-8, 9, (n, 1000)) / 8).astype(np.float16) for n in (72, 72))
    out = np.full((72, 72), np.nan, np.float32)
    assert all(r.findings == [] for r in built.run_simt(x, y, out).values())
    np.testing.assert_array_equal(out, x.astype(np.float64) @ y.T.astype(np.float64))
    text = built.imported_modules[0].get_source()
    assert text.count("__cluster_dims__(2, 1, 1)") == 1


@pytest.mark.skipif(bool(nvrtc.why_missing()), reason=nvrtc.why_missing() or "NVRTC is here")
@pytest.mark.parametrize(
    ("tile", "cluster", "dtype"),
    [
        ((128, 256), (2, 1), "float16"),
        ((128, 256), (1, 2), "bfloat16"),
        ((256, 128), (4, 1), "float16"),
        ((128, 128), (1, 4), "float16"),
        ((256, 128), (1, 2), "int8"),
    ],
)
def test_they_assemble_without_spills(tile: Value, cluster: Value, dtype: str) -> None:
    answers = {"tile": tile, "cluster": cluster}
    s, args = clustered((4096, 4096, 4096), dtype, (False, True), answers)
    source = tw.build(s, args, HOPPER).imported_modules[0].get_source()
    cubin, log = nvrtc.compile_cuda(source, "sm_90a", "cubin")
    assert "warning" not in log.lower() and "serialized" not in log
    (usage,) = nvrtc.resource_usage(cubin, log).values()
    assert (usage.stack, usage.spill_stores, usage.spill_loads) == (0, 0, 0)
    if nvrtc.find_disassembler() is None:
        return
    sass = nvrtc.disassemble(cubin)
    assert re.search(r"UTMALDG\.2D\.MULTICAST", sass) and "UCGABAR" in sass
    assert not re.search(r"\b(LDL|STL)\b", sass)
