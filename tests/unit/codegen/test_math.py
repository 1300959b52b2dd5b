"""Vector math functions: error bars on samples, special values, lanes, types, other targets."""

import math
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from benchmarks.mathjit import Compiled, compile_vector, numpy_type
from benchmarks.mathref import errors, reference
from benchmarks.ulp import special_values
from tilewright.base.errors import InternalError
from tilewright.codegen.llvm import math as vector_math

NAMES = vector_math.names()
UNARY = [n for n in NAMES if vector_math.arity(n) == 1]
EXACT = ["copysign", "nextafter", "ldexp"]
INF, NAN = math.inf, math.nan
# Units in the last place, float32; the full runs of benchmarks/ulp.py stand in docs/math.md.
BARS = {
    "exp": 1,
    "exp2": 1,
    "exp10": 1.1,
    "expm1": 2,
    "sigmoid": 2,
    "tanh": 3,
    "sinh": 2,
    "cosh": 2,
    "log": 1.5,
    "log2": 1.5,
    "log10": 1.6,
    "log1p": 2,
    "asinh": 2.5,
    "acosh": 2.5,
    "atanh": 2.5,
    "sin": 2,
    "cos": 2,
    "tan": 3.5,
    "asin": 2.5,
    "acos": 2,
    "atan": 2,
    "erf": 2,
    "sqrt": 0.5,
    "rsqrt": 1.5,
    "cbrt": 1,
    "pow": 4,
    "atan2": 2,
    "hypot": 1.5,
    "fmod": 0,
}


def with_lanes(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def padded(arguments: list[np.ndarray], lanes: int) -> list[np.ndarray]:
    """The arguments repeated to whole vectors."""
    size = -(-arguments[0].size // lanes) * lanes
    return [np.resize(a, size) for a in arguments]


def run(function: Compiled, *arguments: np.ndarray) -> np.ndarray:
    given = padded(list(arguments), function.lanes)
    out = np.full_like(given[0], 77)
    function(*given, out)
    return out[: arguments[0].size]


def scalars(
    name: str, *arguments: float, dtype: str = "float32", lanes: int = 4, fused: bool = True
) -> float:
    """One result, computed beside neighbours that are ordinary numbers."""
    kind = numpy_type(dtype)
    ordinary = np.full(lanes, 0.75, kind)
    given = []
    for a in arguments:
        lane = ordinary.copy()
        lane[1] = a
        given.append(lane)
    return float(run(compile_vector(name, with_lanes(dtype, lanes), fused=fused), *given)[1])


def samples(name: str, dtype: str, count: int) -> list[np.ndarray]:
    """Random bit patterns, moderate numbers, runs of neighbours at the functions' own boundaries,
    denormals; for two arguments also all pairs of special values."""
    kind = numpy_type(dtype)
    unsigned = np.dtype(f"u{kind.itemsize}")
    rng = np.random.default_rng(7)
    arity = vector_math.arity(name)
    if arity == 2:
        grid = special_values(dtype)
        pairs = np.meshgrid(grid, grid)
        bits = [rng.integers(0, 1 << 32, count, dtype=np.uint32).astype(unsigned) for _ in pairs]
        wild = (
            [b.view(kind) for b in bits] if kind.itemsize == 4 else [b.astype(kind) for b in bits]
        )
        mild = [rng.uniform(-9, 9, count).astype(kind) for _ in pairs]
        powers = [rng.uniform(0.1, 4, count).astype(kind), rng.uniform(-80, 80, count).astype(kind)]
        return [np.concatenate([p.ravel(), *rest]) for p, *rest in zip(pairs, wild, mild, powers)]
    edges = [0.5, 1, 2 / 3, 4 / 3, math.sqrt(0.5), math.pi / 4, math.pi / 2, math.pi, 88.7, 103.9]
    edges += [2.0**k for k in (-25, -14, -12, 17, 20, 24, 25, 26)]
    edges += [math.log(2) / 2, 3.92, 4.0, 9.01, 16.6, 17.3, 128.0, 126.0, 149.0, 38.5, 45.1]
    runs = []
    for edge in edges:
        start = int(np.array(edge, kind).view(unsigned))
        runs.append(np.arange(start - 500, start + 500).astype(unsigned).view(kind))
    near = np.concatenate(runs)
    top = np.iinfo(unsigned).max
    denormal = rng.integers(0, 1 << 23, 5000, dtype=np.uint32).astype(unsigned).view(kind)
    anything = rng.integers(0, top, count, dtype=unsigned, endpoint=True).view(kind)
    moderate = (rng.standard_normal(count) * 4).astype(kind)
    unit = rng.uniform(-1, 1, count).astype(kind)
    return [
        np.concatenate([special_values(dtype), near, -near, denormal, anything, moderate, unit])
    ]


FUSED = pytest.mark.parametrize("fused", [True, False])


@pytest.fixture(scope="module")
def wanted() -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """Float32 samples and their float64 references, made once a function."""
    made = {}
    for name in NAMES:
        given = samples(name, "float32", 300_000)
        with np.errstate(invalid="ignore"):
            made[name] = given, reference(name, *(a.astype(np.float64) for a in given))
    return made


@pytest.mark.parametrize(("lanes", "fused"), [(1, True), (4, True), (16, True), (4, False)])
@pytest.mark.parametrize("name", NAMES)
def test_float32_error(name: str, lanes: int, fused: bool, wanted: dict) -> None:
    given, reference_values = wanted[name]
    got = run(compile_vector(name, with_lanes("float32", lanes), fused=fused), *given)
    error = errors(got, reference_values, "float32")
    worst = int(error.argmax())
    at = [a[worst] for a in given]
    assert error[worst] <= BARS[name], (at, got[worst], reference_values[worst])


@FUSED
@pytest.mark.parametrize("name", [n for n in NAMES if n != "erf"])
def test_float64_error(name: str, fused: bool) -> None:
    given = [a[:: max(1, a.size // 60_000)] for a in samples(name, "float64", 60_000)]
    with np.errstate(invalid="ignore"):
        best = reference(name, *(a.astype(np.longdouble) for a in given))
    got = run(compile_vector(name, "float64x8", fused=fused), *given)
    error = errors(got, best, "float64")
    worst = int(error.argmax())
    assert error[worst] <= 4, ([a[worst] for a in given], got[worst], best[worst])


@FUSED
def test_float64_erf(fused: bool) -> None:
    x = np.concatenate([np.linspace(-6.5, 6.5, 20001), np.geomspace(1e-300, 1, 2000)])
    best = np.array([math.erf(v) for v in x])
    got = run(compile_vector("erf", "float64x8", fused=fused), x)
    assert np.max(np.abs(got - best) / np.spacing(np.abs(best) + 5e-324)) <= 3


@FUSED
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", UNARY)
def test_narrow_types_round_once(name: str, dtype: str, fused: bool) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(numpy_type(dtype))
    with np.errstate(invalid="ignore"):
        best = reference(name, x.astype(np.float64))
    got = run(compile_vector(name, with_lanes(dtype, 16), fused=fused), x)
    error = errors(got, best, dtype)
    worst = int(error.argmax())
    assert error[worst] <= 0.501, (x[worst], got[worst], best[worst])


@pytest.mark.parametrize("lanes", [2, 3, 5, 8, 32])
@pytest.mark.parametrize("name", ["exp", "log", "sin", "pow", "fmod", "erf"])
def test_any_number_of_lanes_agrees_bit_for_bit(name: str, lanes: int, wanted: dict) -> None:
    given = [a[:40_000] for a in wanted[name][0]]
    single = run(compile_vector(name, "float32"), *given)
    several = run(compile_vector(name, with_lanes("float32", lanes)), *given)
    np.testing.assert_array_equal(several, single)
    number = ~np.isnan(single)
    np.testing.assert_array_equal(np.signbit(several[number]), np.signbit(single[number]))


SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (89, INF), (-104, 0.0), (NAN, NAN)],
    "exp2": [(0, 1), (10, 1024), (-149, 2.0**-149), (128, INF), (-INF, 0.0), (INF, INF)],
    "exp10": [(0, 1), (39, INF), (INF, INF), (-INF, 0.0), (NAN, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (-INF, -1), (INF, INF), (1e-40, 1e-40), (NAN, NAN)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (-27, -3), (2.0**-144, 2.0**-48), (INF, INF), (NAN, NAN)],
    "sigmoid": [(0, 0.5), (INF, 1), (-INF, 0.0), (20, 1), (NAN, NAN)],
    "tanh": [(-0.0, -0.0), (INF, 1), (-INF, -1), (1e-40, 1e-40), (NAN, NAN)],
    "sinh": [(-0.0, -0.0), (INF, INF), (-INF, -INF), (90, INF), (NAN, NAN)],
    "cosh": [(0, 1), (INF, INF), (-INF, INF), (-90, INF), (NAN, NAN)],
    "log": [(0.0, -INF), (-0.0, -INF), (1, 0.0), (-1, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "log2": [(0.0, -INF), (8, 3), (2.0**-149, -149), (-1e-40, NAN), (INF, INF), (NAN, NAN)],
    "log10": [(0.0, -INF), (1, 0.0), (-1, NAN), (INF, INF), (NAN, NAN)],
    "log1p": [(-0.0, -0.0), (-1, -INF), (-1.5, NAN), (INF, INF), (1e-40, 1e-40), (NAN, NAN)],
    "asinh": [(-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "acosh": [(1, 0.0), (0.5, NAN), (-2, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "atanh": [(-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (INF, NAN), (NAN, NAN)],
    "sin": [(-0.0, -0.0), (INF, NAN), (-INF, NAN), (1e-40, 1e-40), (NAN, NAN)],
    "cos": [(0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tan": [(-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "asin": [(-0.0, -0.0), (1.0001, NAN), (-INF, NAN), (NAN, NAN)],
    "acos": [(1, 0.0), (1.0001, NAN), (INF, NAN), (NAN, NAN)],
    "atan": [(-0.0, -0.0), (NAN, NAN)],
    "erf": [(-0.0, -0.0), (INF, 1), (-INF, -1), (5, 1), (NAN, NAN)],
    "sqrt": [(-0.0, -0.0), (-1, NAN), (INF, INF), (NAN, NAN)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (4, 0.5), (-1, NAN), (INF, 0.0), (NAN, NAN)],
}
SPECIAL_PAIRS: dict[str, list[tuple[float, float, float]]] = {
    "pow": [
        (0.0, -3, INF),
        (-0.0, -3, -INF),
        (-0.0, -2, INF),
        (-0.0, 3, -0.0),
        (-0.0, 0.5, 0.0),
        (-1, INF, 1),
        (-1, -INF, 1),
        (1, NAN, 1),
        (NAN, 0, 1),
        (NAN, 1, NAN),
        (2, NAN, NAN),
        (-8, 1 / 3, NAN),
        (-2, 3, -8),
        (-2, 16777216, INF),
        (0.5, -INF, INF),
        (0.5, INF, 0.0),
        (2, -INF, 0.0),
        (-INF, 3, -INF),
        (-INF, -3, -0.0),
        (-INF, 0.5, INF),
        (INF, -1, 0.0),
        (2.0**-149, 1, 2.0**-149),
        (2, -149, 2.0**-149),
        (-1.5, 2.5, NAN),
    ],
    "atan2": [
        (0.0, 1, 0.0),
        (-0.0, 1, -0.0),
        (0.0, 0.0, 0.0),
        (-0.0, 0.0, -0.0),
        (0.0, -0.0, math.pi),
        (-0.0, -0.0, -math.pi),
        (-0.0, -1, -math.pi),
        (1, 0.0, math.pi / 2),
        (INF, INF, math.pi / 4),
        (INF, -INF, 3 * math.pi / 4),
        (-INF, 5, -math.pi / 2),
        (5, INF, 0.0),
        (5, -INF, math.pi),
        (NAN, 0.0, NAN),
        (0.0, NAN, NAN),
    ],
    "hypot": [(3, 4, 5), (INF, NAN, INF), (NAN, -INF, INF), (NAN, 1, NAN), (-0.0, 0.0, 0.0)],
    "fmod": [
        (5, 3, 2),
        (-5, 3, -2),
        (5, -3, 2),
        (-6, 3, -0.0),
        (5, INF, 5),
        (INF, 5, NAN),
        (5, 0, NAN),
        (0, 5, 0),
        (NAN, 1, NAN),
        (1, NAN, NAN),
        (3e38, 2.0**-149, 0.0),
    ],
}
CASES: list[tuple[Any, ...]] = [(name, *case) for name, table in SPECIAL.items() for case in table]
CASES += [(name, *case) for name, table in SPECIAL_PAIRS.items() for case in table]


@FUSED
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype: str, fused: bool) -> None:
    kind = numpy_type(dtype)
    tables: dict[str, list[Any]] = {**SPECIAL, **SPECIAL_PAIRS}
    assert set(tables) == set(NAMES)
    # What over- and underflows, and the smallest denormal, belong to float32.
    narrow = {89, 104, 149, 128, 39, 90, 2.0**-149, 20, 5, 16777216}
    for name, table in tables.items():
        rows = [r for r in table if dtype == "float32" or not narrow & {abs(v) for v in r[:-1]}]
        columns = [np.array(c, np.float64).astype(kind) for c in zip(*rows)]
        got = run(compile_vector(name, with_lanes(dtype, 4), fused=fused), *columns[:-1])
        best = columns[-1]
        close = np.isclose(got, best, rtol=2 * np.finfo(kind).eps, atol=0, equal_nan=True)
        signs = (np.signbit(got) == np.signbit(best)) | np.isnan(best)
        wrong = [(r, g) for r, g, ok in zip(rows, got, close & signs) if not ok]
        assert not wrong, (name, wrong)


@FUSED
def test_hard_cases_of_argument_reduction(fused: bool) -> None:
    # The double closest to a multiple of pi/2 (J.-M. Muller et al., Handbook of Floating-Point
    # Arithmetic, section 11.1), where C libraries err too; values from 400 digits.
    x = math.ldexp(6381956970095103, 797)
    hard = {"sin": 1.0, "cos": -4.687165924254627611e-19, "tan": -2133485385753703843.67}
    for name, best in hard.items():
        assert scalars(name, x, dtype="float64", fused=fused) == pytest.approx(
            best, rel=5e-16, abs=0
        )
    largest = float(np.finfo(np.float32).max)
    for name in ("sin", "cos", "tan"):
        assert scalars(name, largest, fused=fused) == pytest.approx(
            getattr(math, name)(largest), rel=2e-7, abs=0
        )


@FUSED
def test_fmod_of_the_widest_quotient(fused: bool) -> None:
    largest, smallest = np.finfo(np.float64).max, 5e-324 * 3
    for x, y in ((largest, smallest), (-largest, 1.7e-300)):
        assert scalars("fmod", x, y, dtype="float64", fused=fused) == math.fmod(x, y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nextafter_and_copysign(dtype: str) -> None:
    x, y = (g.ravel() for g in np.meshgrid(special_values(dtype), special_values(dtype)))
    with np.errstate(all="ignore"):
        # C99 returns y where both are equal, and so turns -0 into 0; NumPy's float16 does not.
        step = np.where(x == y, y, np.nextafter(x, y))
        best = {"nextafter": step, "copysign": np.copysign(x, y)}
    for name, values in best.items():
        got = run(compile_vector(name, with_lanes(dtype, 8)), x, y)
        number = ~np.isnan(values)
        np.testing.assert_array_equal(np.isnan(got), ~number)
        np.testing.assert_array_equal(
            got[number].view(f"u{got.itemsize}"), values[number].view(f"u{got.itemsize}")
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_ldexp_rounds_once(dtype: str) -> None:
    values = special_values(dtype)
    steps = [0, 1, -1, 7, -24, -130, -149, 150, 277, -1074, -1080, 2100, -(1 << 31), (1 << 31) - 1]
    x, n = (g.ravel() for g in np.meshgrid(values, np.array(steps, np.int32)))
    # In long double nothing here leaves the range, so that the only rounding is the last.
    with np.errstate(all="ignore"):
        best = np.ldexp(x.astype(np.longdouble), np.clip(n, -5000, 5000)).astype(x.dtype)
    got = run(compile_vector("ldexp", with_lanes(dtype, 8)), x, n)
    number = ~np.isnan(best)
    np.testing.assert_array_equal(np.isnan(got), ~number)
    np.testing.assert_array_equal(
        got[number].view(f"u{got.itemsize}"), best[number].view(f"u{got.itemsize}")
    )


def test_names_and_what_is_supported() -> None:
    assert vector_math.function_name("exp", "float32x16") == "@tw.exp.f32.v16"
    assert vector_math.function_name("pow", "bfloat16") == "@tw.pow.bf16.v1"
    assert vector_math.supported("exp", "float64")
    assert not vector_math.supported("exp", "int32")
    assert not vector_math.supported("floor", "float32")
    with pytest.raises(InternalError):
        vector_math.function_name("gamma", "float32")


def test_definitions_do_not_share_their_declares() -> None:
    _, first = vector_math.definition("exp", "float32x4")
    first.clear()
    assert vector_math.definition("exp", "float32x4")[1]


TARGETS = {
    "aarch64": ("aarch64-unknown-linux-gnu", "neoverse-n1", ""),
    "avx2": ("x86_64-unknown-linux-gnu", "haswell", ""),
    "avx512": ("x86_64-unknown-linux-gnu", "skylake-avx512", ""),
    "sse4": ("x86_64-unknown-linux-gnu", "x86-64-v2", ""),  # without fused multiply-adds
}


@pytest.mark.parametrize("cpu", sorted(TARGETS))
def test_code_calls_no_library(cpu: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple, name, features = TARGETS[cpu]
    machine = llvm.Target.from_triple(triple).create_target_machine(
        name, features, opt=2, reloc="pic", codemodel="small"
    )
    fused = cpu != "sse4"
    for dtype in ("float32x8", "float64x4", "float16x8", "bfloat16x8")[: 4 if fused else 2]:
        texts, declares = [], set()
        for function in [*NAMES, *EXACT]:
            text, needs = vector_math.definition(function, dtype, fused)
            texts.append(text.replace("define internal", "define"))
            declares |= needs
        module = llvm.parse_assembly("\n".join([*sorted(declares), *texts]))
        module.verify()
        assembly = machine.emit_assembly(module)
        called = re.findall(r"^\s*(?:bl|callq?|b|jmp)\s+([\w.@*%]+)", assembly, re.MULTILINE)
        outside = {c for c in called if not c.startswith((".L", "tw."))}
        assert not outside, (dtype, outside)
