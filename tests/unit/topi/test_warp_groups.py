"""The default schedule of products on sm_90a: wgmma and TMA. Results in simt, what the compilers
make of it, and which products it is not for."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.narrow import some
from tests.unit.topi import launches
from tilewright import te, tir, topi
from tilewright.base.errors import CompileError, ScheduleError
from tilewright.rt.drivers import nvrtc
from tilewright.target.target import Target
from tilewright.topi.schedules.machine import likely_sizes
from tilewright.topi.tensor_intrin import WarpGroupTile

NUMPY = {"bfloat16": ml_dtypes.bfloat16}
HOPPER = "cuda -arch=sm_90a"


def product(
    size: tuple[int, int, int],
    dtype: str,
    flips: tuple[bool, bool],
    out: str = "",
    bias: bool = False,
) -> tuple[Any, list[Any]]:
    """A (m, n) product of k steps in its default schedule; with `out`, cut at 0 and cast to it."""
    m, n, k = size
    a = te.placeholder((k, m) if flips[0] else (m, k), dtype, "A")
    b = te.placeholder((n, k) if flips[1] else (k, n), dtype, "B")
    args = [a, b]
    c = topi.nn.matmul(a, b, out_dtype="float32", transpose_a=flips[0], transpose_b=flips[1])
    if bias:
        args.append(te.placeholder((n,), "float32", "bias"))
        c = topi.add(c, args[-1])
    if out:
        c = topi.cast(topi.nn.relu(c), out)
    with Target(HOPPER):
        s = topi.generic.schedule_dense(c)
    return s, [*args, c]


def run(s: Any, args: list[Any], target: str = HOPPER) -> tuple[list[Any], Any, Any, str]:
    """Inputs, the output, the report, and the source."""
    built = tw.build(s, args, target, name="product")
    shapes = [tuple(int(d) for d in t.shape) for t in args]
    rng = np.random.default_rng(0)
    inputs = [
        (rng.integers(-8, 9, shape) / 8).astype(NUMPY.get(t.dtype, t.dtype))
        for shape, t in zip(shapes, args[:-1])
    ]
    out = np.full(shapes[-1], np.nan, NUMPY.get(args[-1].dtype, args[-1].dtype))
    *others, report = built.run_simt(*inputs, out).values()  # those lay operands anew
    assert all(one.findings == [] for one in others)
    return inputs, out, report, built.imported_modules[0].get_source()


@pytest.mark.parametrize(
    ("n", "k", "dtype", "rows"),
    [
        (256, 128, "float16", (1, 64, 65, 513)),
        (136, 72, "bfloat16", (100,)),
        (96, 256, "int8", (7, 129)),
        (40, 101, "bfloat16", (4, 131)),  # operands are copied, rows of whole vectors
        (48, 17, "float16", (1, 16)),
    ],
)
def test_rows_that_are_known_when_it_runs(
    n: int, k: int, dtype: str, rows: tuple[int, ...]
) -> None:
    """As networks with open sizes have them, whose arrays are compact."""
    m: Any = te.var("m")
    a, b = te.placeholder((m, k), dtype, "A"), te.placeholder((n, k), dtype, "B")
    sums = "int32" if dtype == "int8" else "float32"
    c = topi.add(topi.nn.dense(a, b, None, sums), 1)
    with Target(HOPPER), likely_sizes({m: 512}):
        s = topi.generic.schedule_dense(c)
    compact = {t: tir.decl_buffer(t.shape, t.dtype, t.name) for t in (a, b, c)}
    built = tw.build(s, [a, b, c], HOPPER, binds=compact)
    assert "wgmma" in built.imported_modules[0].get_source()
    rng, kind = np.random.default_rng(1), NUMPY.get(dtype, np.dtype(dtype))
    y = rng.integers(-8, 9, (n, k)).astype(kind)
    for count in rows:
        x = rng.integers(-8, 9, (count, k)).astype(kind)
        out = np.zeros((count, n), sums)
        reports = built.run_simt(x, y, out).values()
        assert all(report.findings == [] for report in reports)
        np.testing.assert_array_equal(out, x.astype(np.float64) @ y.T.astype(np.float64) + 1)


def test_rows_that_are_not_known_are_those_of_an_operand_that_lies_along_the_steps() -> None:
    m: Any = te.var("m")
    with pytest.raises(ScheduleError, match="a row of A has m elements, which has to be known"):
        WarpGroupTile("float16", 64, 64, (m, 64, 64), (False, True))


def test_a_buffer_that_begins_later_is_refused() -> None:
    """A tensor map takes a place's row and column out of its offset: those of the buffer itself
    would be among them."""
    s, args = product((64, 64, 64), "float16", (False, True))
    later = tir.decl_buffer((64, 64), "float16", "A", elem_offset=tir.Var("first", "int32"))
    with pytest.raises(ScheduleError, match=r"reads A from the start .* without elem_offset"):
        tw.build(s, args, HOPPER, binds={args[0]: later})


@pytest.mark.parametrize("batch", [(3, 3), (1, 3), (3, 1)])
@pytest.mark.parametrize("flips", [(False, True), (True, False)])
def test_products_of_batches(batch: tuple[int, int], flips: tuple[bool, bool]) -> None:
    m, n, k = 136, 72, 40
    a = te.placeholder((batch[0], k, m) if flips[0] else (batch[0], m, k), "bfloat16", "A")
    b = te.placeholder((batch[1], n, k) if flips[1] else (batch[1], k, n), "bfloat16", "B")
    c = topi.nn.batch_matmul(a, b, None, "float32", *flips)
    with Target(HOPPER):
        s = topi.generic.schedule_batch_matmul(c)
    (x, y), found, report, source = run(s, [a, b, c])
    assert "cp.async.bulk.tensor.3d" in source and report.findings == []
    x, y = x.astype("float64"), y.astype("float64")
    left = np.swapaxes(x, 1, 2) if flips[0] else x
    want = left @ (np.swapaxes(y, 1, 2) if flips[1] else y)
    np.testing.assert_array_equal(found, want)


def wide(x: Any) -> Any:
    return x.astype("float32")


def expected(inputs: list[Any], flips: tuple[bool, bool], cut: bool) -> Any:
    a, b, *rest = (x.astype(np.float64) for x in inputs)
    c = (a.T if flips[0] else a) @ (b.T if flips[1] else b)
    c = c + rest[0] if rest else c
    return np.maximum(c, 0) if cut else c


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("size", "flips", "out", "bias"),
    [
        ((128, 128, 64), (False, True), "", False),
        ((1664, 1280, 40), (False, True), "", False),
        ((2048, 512, 24), (True, False), "", False),
        ((256, 128, 512), (False, False), "", False),
        ((197, 72, 1000), (False, False), "", False),
        ((197, 1000, 72), (False, True), "", True),
        ((200, 136, 72), (True, False), "", False),
        ((72, 200, 136), (True, True), "float16", False),
        ((65, 67, 8), (False, True), "bfloat16", True),
    ],
)
def test_products_of_any_size_are_right(
    dtype: str, size: tuple[int, int, int], flips: tuple[bool, bool], out: str, bias: bool
) -> None:
    inputs, found, report, source = run(*product(size, dtype, flips, out, bias))
    assert "wgmma.mma_async" in source and "cp.async.bulk.tensor.2d" in source
    assert report.findings == []
    want = expected(inputs, flips, bool(out)).astype(found.dtype)
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(("dtype", "kind"), [("float16", ""), ("bfloat16", ".BF16")])
def test_it_assembles_without_spills(dtype: str, kind: str) -> None:
    if nvrtc.why_missing():
        pytest.skip(nvrtc.why_missing())
    for flips in ((False, True), (True, False)):
        s, args = product((4096, 1032, 320), dtype, flips)
        source = tw.build(s, args, HOPPER).imported_modules[0].get_source()
        cubin, log = nvrtc.compile_cuda(source, "sm_90a", "cubin")
        assert "warning" not in log.lower() and "serialized" not in log
        (usage,) = nvrtc.resource_usage(cubin, log).values()
        assert (usage.stack, usage.spill_stores, usage.spill_loads) == (0, 0, 0)
        assert 64 < usage.registers <= 128
        if nvrtc.find_disassembler() is None:
            continue
        sass = nvrtc.disassemble(cubin)
        products = re.findall(r"HGMMA\.64x128x16\.F32(\S*) \S+ gdesc\[\w+\]\S*", sass)
        assert products and set(products) == {kind}
        assert ("tnspA" in sass) == flips[0] and ("tnspB" in sass) == (not flips[1])
        assert "UTMALDG.2D" in sass and not re.search(r"\b(LDL|STL)\b", sass)


def test_stages_are_under_way_and_a_block_fits() -> None:
    s, args = product((2048, 1024, 1024), "float16", (False, True))
    built = tw.build(s, args, HOPPER)
    (kernel,) = some(built.imported_modules[0].device_code).kernels
    assert kernel.access == ("w", "map", "map") and kernel.threads == (384, 1, 1)
    # four stages of both operands, and a stripe of sums
    assert kernel.shared_bytes == 4 * 32768 + (128 * 40 - 8) * 4 <= 227 * 1024
    assert built["default_function"].info.args[0].align == 16


@pytest.mark.parametrize(
    ("size", "tile", "blocks"),
    [
        ((4096, 4096, 4096), (128, 256), 132),
        ((2048, 1024, 1024), (128, 128), 128),
        ((2048, 512, 512), (64, 128), 128),  # in pairs, and each is read by one group
        ((512, 512, 512), (64, 64), 64),
        ((80, 8192, 8192), (64, 256), 128),  # each sum in two parts
        ((64, 1024, 8192), (64, 128), 64),  # eight blocks make a tile together
        ((1 << 16, 1 << 16, 1 << 16), (128, 256), 132),  # more elements than an int32 counts
    ],
)
def test_tiles_that_fill_the_device(
    size: tuple[int, int, int], tile: tuple[int, int], blocks: int
) -> None:
    s, args = product(size, "float16", (False, True))
    built: Any = tw.build(s, args, HOPPER)
    source = built.imported_modules[0].get_source()
    assert f"__launch_bounds__({tile[0] * 2 + 128})" in source
    assert f"wgmma.mma_async.sync.aligned.m64n{tile[1]}k16.f32.f16.f16" in source
    (first, *_) = launches.counted(built)
    assert first == (blocks, tile[0] * 2 + 128)


@pytest.mark.parametrize(
    ("size", "flips"),
    [
        ((63, 128, 64), (False, True)),  # fewer rows than a warp group's
        ((128, 63, 64), (False, True)),
        ((128, 128, 65), (False, True)),  # rows of 130 bytes are laid anew
        ((128, 129, 64), (False, False)),  # rows of B of 258 bytes
    ],
)
def test_products_of_any_size(size: tuple[int, int, int], flips: tuple[bool, bool]) -> None:
    inputs, found, report, source = run(*product(size, "float16", flips))
    assert "wgmma" in source and report.findings == []
    np.testing.assert_array_equal(found, expected(inputs, flips, False))


def test_other_products_have_the_other_schedules() -> None:
    inputs, found, report, source = run(*product((128, 128, 64), "float32", (False, True)))
    assert "wgmma" not in source and report.findings == []
    np.testing.assert_array_equal(found, expected(inputs, (False, True), False))


@pytest.mark.parametrize(
    ("term", "cut"),
    [
        (lambda x, y: (x * y).astype("float32"), False),
        (lambda x, y: y.astype("float32") * x.astype("float32"), False),
        (lambda x, y: te.max(x, tir.const(0, "float16")).astype("float32") * wide(y), True),
    ],
    ids=["rounded", "turned", "cut"],
)
@pytest.mark.parametrize("target", [HOPPER, "cuda -arch=sm_80"])
def test_products_that_are_written_otherwise(target: str, term: Any, cut: bool) -> None:
    a, b = te.placeholder((128, 64), "float16", "A"), te.placeholder((64, 64), "float16", "B")
    k = te.reduce_axis((0, 64), "k")
    c = te.compute((128, 64), lambda i, j: te.sum(term(a[i, k], b[j, k]), axis=k), name="C")
    with Target(target):
        s = topi.generic.schedule_dense(c)
    (x, y), found, report, source = run(s, [a, b, c], target)
    assert "wgmma" not in source and report.findings == []
    left = np.maximum(x, 0) if cut else x
    np.testing.assert_array_equal(found, expected([left, y], (False, True), False))


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"dtype": "float32"}, "operands are of float16, bfloat16, int8, not float32"),
        ({"rows": 96}, "a tile has 64, 128, 192 or 256 rows, not 96"),
        ({"columns": 96}, "columns are a multiple of 64, up to 256, not 96"),
        ({"columns": 260, "along": (True, True)}, "columns are a multiple of 8, up to 256"),
        ({"stages": 1}, "there are two stages or more"),
        ({"extents": (128, 128, 100)}, "a row of A has 200 bytes, no multiple of 16"),
        ({"extents": (128, 100, 64)}, "a row of B has 200 bytes, no multiple of 16"),
    ],
)
def test_tiles_that_there_are_not(how: dict[str, Any], text: str) -> None:
    given = {"dtype": "float16", "rows": 128, "columns": 128, "extents": (128, 128, 64), **how}
    with pytest.raises(ScheduleError, match=re.escape(text)):
        WarpGroupTile(**given)


def test_the_same_schedule_for_another_device_is_refused() -> None:
    s, args = product((128, 128, 64), "float16", (False, True))
    room = "-max_shared_memory_per_block=232448"
    for arch, what in (("sm_80", "sm_90"), ("sm_90", "sm_90a"), ("sm_100a", "sm_90a")):
        with pytest.raises(CompileError, match=f"for {arch}; build for 'cuda -arch={what}'"):
            tw.build(s, args, f"cuda -arch={arch} {room}")


@pytest.mark.parametrize("kind", ["float16", "int8"])
@pytest.mark.parametrize("rows", [49, 57, 64, 197, 384])
@pytest.mark.parametrize("columns", [40, 96, 272])
def test_sums_that_leave_narrow_are_read_in_one_turn(kind: str, rows: int, columns: int) -> None:
    a = te.placeholder((rows, 128), kind, name="a")
    b = te.placeholder((columns, 128), kind, name="b")
    sums = "int32" if kind == "int8" else "float32"
    y = topi.nn.relu(topi.nn.dense(a, b, out_dtype=sums))
    small = topi.cast(topi.right_shift(y, tw.tir.const(4, sums)) if kind == "int8" else y, kind)
    f = tw.build(topi.default_schedule(small, HOPPER), [a, b, small], HOPPER)
    rng = np.random.default_rng(rows)
    x, w = (rng.integers(-3, 4, [int(d) for d in t.shape]).astype(kind) for t in (a, b))
    out = np.zeros((rows, columns), kind)
    reports = f.run_simt(x, w, out).values()
    want = np.maximum(x.astype("int32") @ w.astype("int32").T, 0)
    np.testing.assert_array_equal(out, (want >> 4 if kind == "int8" else want).astype(kind))
    assert all(r.bank_conflicts in (None, 1.0) and not r.findings for r in reports)
