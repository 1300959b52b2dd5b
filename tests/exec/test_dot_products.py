"""Products of narrow numbers by instructions that add up neighbours, under default schedules."""

import re

import ml_dtypes
import numpy as np
import pytest

import tilewright as tvm
from tests.emulate import emulated
from tilewright import te, topi
from tilewright.target.capability import capabilities_of
from tilewright.target.dots import Dot
from tilewright.target.target import Target

HERE = Target("llvm")
RNG = np.random.default_rng(5)
TYPES = [
    ("bfloat16", "bfloat16", "float32"),
    ("uint8", "int8", "int32"),
    ("int8", "int8", "int32"),
    ("uint8", "uint8", "int32"),
    ("int8", "uint8", "int32"),
]
PAIRS = ("int16", "int16", "int32")
SHAPES = [(67, 83, 64), (64, 64, 70), (33, 7, 64), (130, 200, 2048), (67, 50, 65)]
# last groups that are not whole, few columns, few rows; with columns that lie along the reduction
ODD = [
    ((19, 53, 67), False), ((64, 3, 67), False), ((5, 2, 3), False), ((3, 40, 203), True),
    ((1, 37, 131), True), ((23, 17, 33), True), ((37, 1, 131), True),
]  # fmt: skip
INSTRUCTIONS = re.compile(r"\t(vpdp\w+|v?pmaddwd|vdpbf16ps|u?s?dot)\t")


def product(shape, a, b, out, across):
    m, n, k = shape
    x = te.placeholder((m, k), a, name="x")
    y = te.placeholder((n, k) if across else (k, n), b, name="y")
    r = te.reduce_axis((0, k), "r")

    def element(i, j):
        other = y[j, r] if across else y[r, j]
        return te.sum(x[i, r].astype(out) * other.astype(out), axis=r)

    return x, y, te.compute((m, n), element, name="z")


def numbers(shape, dtype):
    """All values of bytes; small whole numbers of bfloat16, whose sums float32 holds."""
    if dtype == "bfloat16":
        return RNG.integers(-8, 9, shape).astype(ml_dtypes.bfloat16)
    info = np.iinfo(dtype)
    found = RNG.integers(info.min, info.max + 1, shape).astype(dtype)
    ends = RNG.integers(0, 4, shape)  # of whose products sums of 16 bits saturate
    found[ends == 0], found[ends == 1] = info.min, info.max
    return found if info.bits == 8 else found % 1000


def code(shape, types, across, target):
    a, b, out = types
    x, y, z = product(shape, a, b, out, across)
    s = topi.default_schedule(z, target)
    return tvm.build(s, [x, y, z], target)


CASES = [("llvm", shape, False) for shape in SHAPES] + [("llvm", SHAPES[0], True)]
CASES += [("llvm -mcpu=haswell", SHAPES[0], True), ("llvm -mcpu=x86-64", SHAPES[0], False)]


@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize(("target", "shape", "across"), CASES)
def test_products_are_exact(target, shape, across, types):
    chosen = Target(target)
    if chosen.missing_on_host():
        pytest.skip(chosen.missing_on_host())
    m, n, k = shape
    a, b = numbers((m, k), types[0]), numbers((n, k) if across else (k, n), types[1])
    c = np.zeros((m, n), types[2])
    code(shape, types, across, chosen)(a, b, c)
    wanted = a.astype("float64") @ (b.T if across else b).astype("float64")
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize(
    ("cpu", "types", "instruction"),
    [
        ("znver4", TYPES[0], "vdpbf16ps"),
        ("znver4", TYPES[1], "vpdpbusd"),
        ("znver4", TYPES[2], "vpdpbusd"),
        ("znver4", TYPES[3], "vpdpbusd"),
        ("znver4", PAIRS, "vpdpwssd"),
        ("sapphirerapids", TYPES[1], "vpdpbusd"),
        ("znver4 -vector-width=256", TYPES[1], "vpdpbusd"),
        ("znver4 -vector-width=256", TYPES[0], "vdpbf16ps"),
        ("skylake-avx512", TYPES[1], "vpmaddwd"),
        ("alderlake", TYPES[1], "vpdpbusd"),
        ("alderlake", TYPES[2], "vpdpbusd"),
        ("haswell", TYPES[2], "vpmaddwd"),
        ("x86-64", TYPES[2], "pmaddwd"),
    ],
)
def test_the_instructions_are_those_of_the_target(cpu, types, instruction):
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    text = code((64, 64, 64), types, False, target).get_source("asm")
    assert f"\t{instruction}\t" in text.replace("{vex}\t", "\t")


def mnemonics(text):
    return set(INSTRUCTIONS.findall(text.replace("{vex}\t", "\t")))


@pytest.mark.parametrize(("shape", "across"), ODD)
@pytest.mark.parametrize("types", [*TYPES, PAIRS], ids="-".join)
def test_any_size_is_exact(types, shape, across):
    m, n, k = shape
    a, b = numbers((m, k), types[0]), numbers((n, k) if across else (k, n), types[1])
    c = np.zeros((m, n), types[2])
    code(shape, types, across, HERE)(a, b, c)
    wanted = a.astype("float64") @ (b.T if across else b).astype("float64")
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize(("shape", "across"), [x for x in ODD if min(x[0][1:]) > 2])
@pytest.mark.parametrize(
    ("target", "types", "instruction"),
    [
        ("x86_64-linux-gnu -mcpu=znver4", TYPES[0], "vdpbf16ps"),
        ("x86_64-linux-gnu -mcpu=znver4", TYPES[2], "vpdpbusd"),
        ("x86_64-linux-gnu -mcpu=haswell", TYPES[3], "vpmaddwd"),
        ("aarch64-linux-gnu -mcpu=cortex-a76", TYPES[1], "sdot"),
        ("aarch64-linux-gnu -mcpu=cortex-a76", TYPES[4], "udot"),
        ("aarch64-linux-gnu -mcpu=neoverse-v1", TYPES[4], "usdot"),
    ],
)
def test_any_size_takes_the_instructions(target, types, instruction, shape, across):
    chosen = Target(f"llvm -mtriple={target}")
    assert instruction in mnemonics(code(shape, types, across, chosen).get_source("asm"))


@pytest.mark.parametrize("types", [*TYPES, PAIRS], ids="-".join)
def test_rows_that_lie_across_are_copied(types):
    m, n, k = 37, 41, 66
    x, y = te.placeholder((k, m), types[0], name="x"), te.placeholder((k, n), types[1], name="y")
    r, wide = te.reduce_axis((0, k), "r"), types[2]
    z = te.compute((m, n), lambda i, j: te.sum(x[r, i].astype(wide) * y[r, j].astype(wide), axis=r))
    s = topi.default_schedule(z, HERE)
    a, b, c = numbers((k, m), types[0]), numbers((k, n), types[1]), np.zeros((m, n), types[2])
    built = tvm.build(s, [x, y, z], HERE)
    built(a, b, c)
    np.testing.assert_array_equal(c, a.T.astype("float64") @ b.astype("float64"))
    if HERE.capabilities.dots and types[0] != "bfloat16":
        assert mnemonics(built.get_source("asm"))


def test_capabilities_of_other_architectures():
    arm = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1").capabilities.dots
    assert [(d.row, d.column) for d in arm] == [
        ("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"),
    ]  # fmt: skip
    assert not capabilities_of("riscv64-linux-gnu", frozenset("v")).dots
    bytes_of_4 = Dot("uint8", "int8", "int32", 4, 16, "llvm.x86.avx512.vpdpbusd.512")
    assert bytes_of_4.takes("uint8", "int8", "int32")
    assert not bytes_of_4.takes("int8", "int8", "int32")
    assert not bytes_of_4.takes("uint8", "int8", "float32")


OTHERS = {
    "znver4": "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4",
    "skylake-avx512": "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512",
    "alderlake": "llvm -mtriple=x86_64-linux-gnu -mcpu=alderlake",
    "haswell": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell",
    "x86-64": "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64",
    "neoverse-v1": "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1",
    "cortex-a76": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76",
}


@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("cpu", list(OTHERS))
@pytest.mark.parametrize(
    ("shape", "across"), [((19, 53, 64), False), ((9, 21, 67), False), ((5, 6, 67), True)]
)
def test_products_for_other_machines_are_exact(cpu, types, shape, across):
    """All numbers of bytes, at the ends of which sums of 16 bits saturate."""
    target = Target(OTHERS[cpu])
    m, n, k = shape
    a, b = numbers((m, k), types[0]), numbers((n, k) if across else (k, n), types[1])
    if types[0] != "bfloat16":
        a[:3], b[:, ::2] = np.iinfo(types[0]).max, np.iinfo(types[1]).min
        b[:, ::3] = np.iinfo(types[1]).max
    c = np.zeros((m, n), types[2])
    emulated(code(shape, types, across, target))(a, b, c)
    wanted = a.astype("float64") @ (b.T if across else b).astype("float64")
    np.testing.assert_array_equal(c, wanted)
