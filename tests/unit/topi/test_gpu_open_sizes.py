"""Default schedules for CUDA where sizes are variables: what kernels compute for several values, in
simt, and that their code is that of sizes that are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.test_gpu_tiles import SUMS
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.interp.te_bound import te_eval_bound
from tilewright.report.sass import Static, arithmetic_share, compiled, tensor_instructions
from tilewright.rt.drivers import nvrtc

ROWS = (1, 2, 7, 16, 127, 128, 129, 197, 1000, 4099)
N, M = te.var("n"), te.var("m")
WHY = nvrtc.why_missing() or ("" if nvrtc.find_disassembler() else "no disassembler is installed")
_GRID = re.compile(r"launch\('\w+', \((.*?), (\w+), (\w+)\), \(\d")

Program = tuple[list[Any], Any]


def product(dtype: str, rows: Any, columns: Any, steps: Any, turned: bool, *batch: Any) -> Program:
    a = te.placeholder((*batch, rows, steps), dtype, "a")
    b = te.placeholder((*batch, *((columns, steps) if turned else (steps, columns))), dtype, "b")
    if batch:
        return [a, b], topi.nn.batch_matmul(a, b, None, SUMS[dtype], transpose_b=turned)
    return [a, b], (topi.nn.dense if turned else topi.nn.matmul)(a, b, out_dtype=SUMS[dtype])


def built(program: Program, arch: str = "sm_80") -> tuple[Any, str, str]:
    """The function, the text of its host part and the source of its kernels."""
    ins, out = program
    target = tw.Target(f"cuda -arch={arch}")
    f = tw.build(topi.default_schedule(out, target), [*ins, out], target, name="f")
    host: Any = f.entry_func
    return f, host.text, f.imported_modules[0].get_source()


def _along_x(host: str) -> bool:
    """Whether all blocks are along x: there may be more than 65,535."""
    found = _GRID.findall(host)
    return bool(found) and all(y == z == "1" for _, y, z in found)


def run(f: Any, program: Program, sizes: dict[Any, int]) -> Any:
    """The reports of simt; results are within bounds on the error."""
    ins, out = program
    rng = np.random.default_rng(1)

    def shape(t: Any) -> list[int]:
        return [sizes[d] if d in sizes else int(d) for d in t.shape]

    feeds = {t: rng.integers(-3, 4, shape(t)).astype(parse(t.dtype).numpy) for t in ins}
    result = np.full(shape(out), 77, parse(out.dtype).numpy)
    reports = f.run_simt(*feeds.values(), result).values()
    assert not any(r.findings for r in reports)
    ((value, limit),) = te_eval_bound(out, feeds)
    off = np.abs(result.astype(np.float64) - value)
    assert (off <= limit).all()
    return list(reports)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["float16", "int8", "float32"])
def test_products_of_any_number_of_rows(dtype: str, arch: str) -> None:
    program = product(dtype, N, 40, 48, True)
    f, host, source = built(program, arch)
    assert ("tw_mma" in source) == (dtype != "float32")
    assert _along_x(host)
    for rows in ROWS if arch == "sm_80" else (1, 129):
        (report,) = run(f, program, {N: rows})
        assert (report.async_copies > 0) == (arch != "sm_75")
        assert report.bank_conflicts <= 1.1


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("steps", [40, 37])
def test_products_of_any_number_of_matrices(turned: bool, steps: int) -> None:
    program = product("bfloat16", N, 17, steps, turned, M)
    f, _, source = built(program)
    assert "tw_mma" in source and "wmma" not in source
    for rows, count in ((1, 3), (70, 2)):
        assert run(f, program, {N: rows, M: count})[-1].async_copies > 0


@pytest.mark.parametrize("columns, steps", [(N, 40), (24, N), (N, N)])
def test_products_of_any_number_of_columns_and_steps(columns: Any, steps: Any) -> None:
    program = product("float16", N, columns, steps, True, 2)
    f, _, source = built(program)
    assert "mma" in source
    for size in (1, 7, 65):
        run(f, program, {N: size})


def ended(rows: Any) -> Program:
    """A product that is cast, with a bias and a residual."""
    (a, b), out = product("float16", rows, 64, 64, True)
    bias = te.placeholder((64,), "float16", "bias")
    residual = te.placeholder((rows, 64), "float16", "residual")
    out = topi.nn.relu(topi.add(topi.cast(out, "float16"), bias))
    return [a, b, bias, residual], topi.add(out, residual)


def test_what_follows_a_product_reads_and_writes_vectors() -> None:
    program = ended(N)
    f, _, source = built(program)
    main = source[: source.index(" f_kernel_1(")]
    assert main.count("tw_store_float16x8(T_add") == main.count("tw_load_float16x8(residual") > 0
    for rows in (1, 17, 130):
        run(f, program, {N: rows})


def _static(program: Program, arch: str) -> list[Static]:
    """The code of the kernels for compact arrays."""
    f, _, source = built(program, arch)
    found = compiled(f, arch)
    heads = {k.name: source.partition(f" {k.name}(")[2].partition(")")[0] for k in found}
    return [k for k in found if "stride" not in heads[k.name]]


@pytest.mark.skipif(bool(WHY), reason=WHY or "a disassembler is here")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    "dtype, columns, steps, turned, batch",
    [
        ("float16", 768, 768, True, ()),
        ("float16", 768, 768, False, ()),
        ("int8", 256, 512, True, ()),
        ("bfloat16", 64, 512, False, (12,)),
        ("float32", 768, 192, True, ()),  # of more steps those of known rows are cut in parts
    ],
)
def test_code_is_that_of_known_rows(
    dtype: str, columns: int, steps: int, turned: bool, batch: Sequence[int], arch: str
) -> None:
    """The same loop, the same accesses of 128 bits; eight registers of addresses more are a block
    of a multiprocessor. (Fewer are none of this test's: of one program releases of ptxas differ by
    two blocks.)"""
    (opened,), (known,) = (
        _static(product(dtype, rows, columns, steps, turned, *batch), arch) for rows in (N, 512)
    )
    assert opened.spills == opened.stack == 0 and opened.blocks >= known.blocks - 1
    assert tensor_instructions(opened) == tensor_instructions(known)
    assert opened.count("FFMA", loop=True) == known.count("FFMA", loop=True)
    assert opened.loop.total() <= 1.05 * known.loop.total()
    if known.loop.total():  # without one, the guards of copies and stores count
        assert arithmetic_share(opened) >= arithmetic_share(known) - 2
    for name in ("LDG", "STG", "LDGSTS"):
        for width in ("", "..128"):
            assert opened.count(name + width) == known.count(name + width)


def rows_of(make: Callable[..., Any], dtype: str, *shape: Any) -> Program:
    x = te.placeholder(shape, dtype, "x")
    return [x], make(x)


OF_ROWS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: topi.nn.softmax(x, -1),
    "log_softmax": lambda x: topi.nn.log_softmax(x, -1),
    "sum": lambda x: topi.sum(x, -1),
    "sum of all": topi.sum,
    "sum down": lambda x: topi.sum(x, 0),
    "argmax": lambda x: topi.argmax(x, -1),
    "relu": topi.nn.relu,
    "turned": lambda x: topi.transpose(x, [1, 0]),
}


@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.parametrize("dtype, length", [("float16", 64), ("float32", 97), ("float16", N)])
def test_rows_that_are_not_counted(name: str, dtype: str, length: Any) -> None:
    program = rows_of(OF_ROWS[name], dtype, N, length)
    f, host, source = built(program)
    assert _along_x(host)
    if length == 64:
        assert "tw_load_float16x8(x + " in source
    for rows in (1, 7, 65, 197):
        run(f, program, {N: rows})


def test_rows_of_unknown_length_are_shared_out_among_threads() -> None:
    """As attention over sequences of any length has them: no thread has a row alone."""
    _, host, source = built(rows_of(OF_ROWS["softmax"], "float16", 12, N, N))
    assert "(256, 1, 1)" in host and source.count("__global__") == 1


def test_a_block_has_several_short_rows() -> None:
    """Of any number of them: a warp that has none is left out."""
    _, host, _ = built(rows_of(OF_ROWS["softmax"], "float16", N, 64))
    assert "(n + 7) // 8" in host and "(32, 8, 1)" in host
    _, host, _ = built(rows_of(OF_ROWS["softmax"], "float16", 197, 64))
    assert "(25, 1, 1), (32, 8, 1)" in host


def test_a_sum_over_any_number_of_rows_is_cut_in_parts() -> None:
    f, host, _ = built(rows_of(OF_ROWS["sum down"], "float16", N, 768))
    assert "(48, 1, 1)" in host  # 3 blocks were all that there is
    for rows in (1, 15, 100):
        run(f, rows_of(OF_ROWS["sum down"], "float16", N, 768), {N: rows})
