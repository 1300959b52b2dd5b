"""Compute the polynomial coefficients of codegen/llvm/math_tables.py.

    python -m benchmarks.minimax [NAME ...] > src/tilewright/codegen/llvm/math_tables.py

Each kernel approximates g(u) by a polynomial that minimises the largest weighted error
|w(u) (g(u) - p(u))| (Remez exchange, E. Remez 1934, in mpmath). Coefficients are rounded to the
working precision one at a time, lowest first, and the rest is fitted again, so that a rounded
leading coefficient is made good by the ones behind it (the idea of Brisebarre and Chevillard,
"Efficient polynomial L-infinity approximations", ARITH 2007, in its simplest form).
Names select kernels to fit and print errors of (on stderr); without names all are written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

import mpmath
from mpmath import mp, mpf

mp.dps = 50
WIDTH = 100  # of lines
Real = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Kernel:
    """g on [low, high] with weight w; degrees of the polynomial for float32 and float64."""

    low: mpf
    high: mpf
    g: Real
    w: Real
    degree32: int
    degree64: int


def round_to(x: mpf, bits: int) -> mpf:
    """Nearest number of `bits` significant bits (24: float32, 53: float64)."""
    with mpmath.workprec(bits):
        return +x


def alternation(errors: list[mpf], need: int) -> list[int]:
    """Places of `need` extremes of alternating sign, the largest ones; fewer if there are fewer."""
    runs: list[int] = []
    for i, e in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > need:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return runs


def remez(basis: list[list[mpf]], target: list[mpf]) -> list[mpf]:
    """Coefficients c with max |target - sum c[k] basis[k]| least on the grid."""
    size, points = len(basis), len(target)
    step = mp.pi / (size + 1)
    nodes = [
        min(points - 1, max(0, int((1 - mp.cos(step * i)) / 2 * (points - 1))))
        for i in range(size + 1)
    ]
    nodes[0], nodes[-1] = 1, points - 2
    best: list[mpf] = []
    best_error = mpf("inf")
    for _ in range(25):
        matrix = mp.matrix(size + 1, size + 1)
        right = mp.matrix(size + 1, 1)
        for row, i in enumerate(nodes):
            for k in range(size):
                matrix[row, k] = basis[k][i]
            matrix[row, size] = (-1) ** row
            right[row] = target[i]
        try:
            solution = mp.lu_solve(matrix, right)
        except ZeroDivisionError:
            break
        coefficients = [solution[k] for k in range(size)]
        errors = [
            target[i] - mp.fdot((coefficients[k], basis[k][i]) for k in range(size))
            for i in range(points)
        ]
        worst = max(abs(e) for e in errors)
        if worst < best_error:
            best, best_error = coefficients, worst
        if worst <= abs(solution[size]) * mpf("1.005"):
            break
        found = alternation(errors, size + 1)
        if len(found) < size + 1 or found == nodes:
            break
        nodes = found
    return best


def fit(kernel: Kernel, degree: int, bits: int) -> tuple[list[mpf], mpf]:
    """Rounded coefficients, lowest first, and the largest weighted error they leave."""
    points = 24 * (degree + 2)
    middle, half = (kernel.low + kernel.high) / 2, (kernel.high - kernel.low) / 2
    grid = [middle - half * mp.cos(mp.pi * (i + mpf(1) / 2) / points) for i in range(points)]
    weight = [kernel.w(u) for u in grid]
    basis = [[w * u**k for u, w in zip(grid, weight)] for k in range(degree + 1)]
    target = [w * kernel.g(u) for u, w in zip(grid, weight)]
    done: list[mpf] = []
    rest: list[mpf] = []
    for k in range(degree + 1):
        # A weight of one sign keeps the alternation theorem valid on intervals around zero.
        signs = [mp.sign(b) for b in basis[k]]
        rows = [[b * s for b, s in zip(row, signs)] for row in basis[k:]]
        goal = [t * s for t, s in zip(target, signs)]
        fitted = remez(rows, goal)
        # Exchange may stall once a rounded coefficient has bent the target: keep what is better.
        if not rest or largest(rows, goal, fitted) < largest(rows, goal, rest):
            rest = fitted
        value = round_to(rest[0], bits)
        rest = rest[1:]
        done.append(value)
        target = [t - value * b for t, b in zip(target, basis[k])]
    return done, max(abs(t) for t in target)


def largest(basis: list[list[mpf]], target: list[mpf], coefficients: list[mpf]) -> mpf:
    """Largest error that the coefficients leave on the grid."""
    return max(
        abs(t - mp.fdot((c, row[i]) for c, row in zip(coefficients, basis)))
        for i, t in enumerate(target)
    )


def kernels() -> dict[str, Kernel]:
    """Every kernel, by the name that math_tables.COEFFICIENTS uses."""
    ln2, third, one = mp.log(2), mpf(1) / 3, mpf(1)
    quarter = mp.pi / 4 * mpf("1.01")
    half10 = mp.log10(2) / 2 * mpf("1.001")
    ratio = (3 - 2 * mp.sqrt(2)) * mpf("1.001")
    c1, c3 = 2 / ln2, 2 / (3 * ln2)

    def log2_tail(z: mpf) -> mpf:
        s = mp.sqrt(z)
        return (2 * mp.atanh(s) / ln2 / s - c1 - c3 * z) / z**2

    def log_erfc(x: mpf) -> mpf:
        return mp.log(mp.erfc(x)) / x

    def of_square(f: Real, lead: mpf | int, tail: int = 3) -> tuple[Real, Real]:
        """(f(x) - lead x) / x^tail in u = x^2, with the weight of the relative error of f."""

        def g(u: mpf) -> mpf:
            x = mp.sqrt(u)
            return (f(x) - lead * x) / x**tail

        def w(u: mpf) -> mpf:
            x = mp.sqrt(u)
            return x**tail / f(x)

        return g, w

    erf_edge = mpf(1)
    return {
        "exp": Kernel(
            -ln2 / 2 * mpf("1.001"),
            ln2 / 2 * mpf("1.001"),
            lambda r: (mp.expm1(r) - r) / r**2,
            lambda r: r**2 / mp.expm1(r),
            4,
            10,
        ),
        "exp2": Kernel(
            -one / 2, one / 2, lambda r: mp.expm1(r * ln2) / r, lambda r: r / mpf(2) ** r, 5, 11
        ),
        "exp10": Kernel(
            -half10,
            half10,
            lambda r: mp.expm1(r * mp.log(10)) / r,
            lambda r: r / mpf(10) ** r,
            5,
            11,
        ),
        "log": Kernel(
            -third,
            third,
            lambda r: (mp.log1p(r) - r + r**2 / 2) / r**3,
            lambda r: r**3 / mp.log1p(r),
            7,
            19,
        ),
        "log2": Kernel(
            -third,
            third,
            lambda r: mp.log1p(r) / ln2 / r - round_to(1 / ln2, 24),
            lambda r: r * ln2 / mp.log1p(r),
            9,
            0,
        ),
        "log2f64": Kernel(
            -third,
            third,
            lambda r: mp.log1p(r) / ln2 / r - round_to(1 / ln2, 53),
            lambda r: r * ln2 / mp.log1p(r),
            0,
            21,
        ),
        "sin": Kernel(mpf(0), quarter**2, *of_square(mp.sin, 1), 2, 6),
        "cos": Kernel(
            mpf(0),
            quarter**2,
            lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
            lambda z: z**2 / mp.cos(mp.sqrt(z)),
            2,
            6,
        ),
        "tan": Kernel(mpf(0), quarter**2, *of_square(mp.tan, 1), 6, 14),
        "asin": Kernel(mpf(0), one / 4, *of_square(mp.asin, 1), 4, 12),
        "atan": Kernel(mpf(0), one, *of_square(mp.atan, 1), 8, 20),
        "sinh": Kernel(mpf(0), one, *of_square(mp.sinh, 1), 3, 7),
        "erf": Kernel(mpf(0), erf_edge**2, *of_square(mp.erf, 1, 1), 6, 13),
        "erfc": Kernel(erf_edge, mpf("4"), log_erfc, lambda x: x * mp.erfc(x) / mp.erf(x), 6, 0),
        "erfcf64": Kernel(
            erf_edge, mpf("6"), log_erfc, lambda x: x * mp.erfc(x) / mp.erf(x), 0, 20
        ),
        "log2_slope": Kernel(
            mp.sqrt(2) / 2,
            mp.sqrt(2),
            lambda m: c1 * (m + 1) / (4 * m),
            lambda m: 4 * m / (c1 * (m + 1)),
            2,
            0,
        ),
        "log2_tail": Kernel(mpf(0), ratio**2, log2_tail, lambda z: z**2 / c1, 2, 7),
    }


def constants() -> dict[str, tuple[mpf, int]]:
    """Constants that are kept as sums of several working-precision numbers, with their number."""
    return {
        "ln2": (mp.log(2), 2),
        "log2e": (1 / mp.log(2), 2),
        "log10e": (1 / mp.log(10), 2),
        "log10_2": (mp.log10(2), 2),
        "pi": (mp.pi, 2),
        "half_pi": (mp.pi / 2, 3),
        "log2_c1": (2 / mp.log(2), 2),
        "log2_c3": (2 / (3 * mp.log(2)), 2),
    }


def parts(bits: int, value: mpf, count: int) -> list[mpf]:
    """Numbers of `bits` bits that sum up to the value."""
    out = []
    for _ in range(count):
        out.append(round_to(value, bits))
        value -= out[-1]
    return out


def numbers_text(kind: str, numbers: Sequence[mpf]) -> list[str]:
    """Lines of a tuple of numbers of a type, as many in each as have room."""
    text = ", ".join(repr(float(v)) for v in numbers)
    start = f'        "{kind}": ('
    if len(start) + len(text) + 2 <= WIDTH:
        return [f"{start}{text}),"]
    indent = " " * 12
    return [
        start,
        *wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent),
        "        ),",
    ]


def table_text() -> str:
    """The text of the tables module."""
    out = [
        '"""Polynomial coefficients, lowest power first; written by benchmarks/minimax.py."""',
        "",
        "from __future__ import annotations",
        "",
        "COEFFICIENTS: dict[str, dict[str, tuple[float, ...]]] = {",
    ]
    for name, kernel in kernels().items():
        out.append(f'    "{name}": {{')
        for kind, degree, bits in (
            ("f32", kernel.degree32, 24),
            ("f64", kernel.degree64, 53),
        ):
            if degree == 0:
                continue
            values, error = fit(kernel, degree, bits)
            print(f"{name} {kind}: 2^{float(mp.log(error, 2)):.2f}", file=sys.stderr)
            out += numbers_text(kind, values)
        out.append("    },")
    out += ["}  # fmt: skip", "", "PARTS: dict[str, dict[str, tuple[float, ...]]] = {"]
    for name, (value, count) in constants().items():
        out.append(f'    "{name}": {{')
        for kind, bits in (("f32", 24), ("f64", 53)):
            out += numbers_text(kind, parts(bits, value, count))
        out.append("    },")
    with mpmath.workdps(420):
        digits = f"{int(mp.floor(2 / mp.pi * mpf(2) ** 1280)):0320X}"
    out += [
        "}  # fmt: skip",
        "",
        "# The first 1280 bits of 2 / pi after the point.",
        "TWO_OVER_PI = int(",
    ]
    out += [f'    "{digits[i : i + 80]}"' for i in range(0, 320, 80)]
    out[-1] += ","
    out += ["    16,", ")", ""]
    return "\n".join(out)


def main() -> None:
    names = sys.argv[1:]
    if not names:
        sys.stdout.write(table_text())
        return
    for name in names:
        kernel = kernels()[name]
        for kind, degree, bits in (("f32", kernel.degree32, 24), ("f64", kernel.degree64, 53)):
            for n in (degree - 1, degree, degree + 1) if degree else ():
                print(name, kind, n, f"2^{float(mp.log(fit(kernel, n, bits)[1], 2)):.2f}")


if __name__ == "__main__":
    main()
