"""Random integer expressions, before and after what the compiler makes of them.

`python -m tests.fuzz.arith --cases 10000 --seed 1` draws expressions over data (reads of memory)
and indices, of every integer type and at the extremes of each, lets the simplifier, Python's
operators and the lowering of divisions rewrite them, and evaluates both with unbounded integers
that wrap as SEMANTICS.md says. Bounds, residues and proofs are held against the same values. Half
of the expressions are drawn for machines of a few bits, where all values of their variables are
tried. A failing case prints its seed and a shrunk expression.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.fuzz.arith_exprs import Drawn, draw, points, text
from tests.fuzz.arith_values import Values, evaluate
from tests.fuzz.progress import Progress
from tilewright.arith import Analyzer, emit
from tilewright.arith.bound import unlimited
from tilewright.arith.forms import LIMITS
from tilewright.base.dtype import parse
from tilewright.loopir import expr as E
from tilewright.loopir import fold, op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.data import is_data
from tilewright.loopir.iter import Range
from tilewright.loopir.operators import binary, compare, logical_not
from tilewright.loopir.visit import CHILDREN
from tilewright.lowering.lower_division import lower_division

NARROW = {"int32": 4, "int64": 6, "int8": 3, "uint8": 3, "int16": 5, "uint32": 4, "uint64": 5}


@contextmanager
def narrow_types() -> Iterator[None]:
    """Types of a few bits, whose values can all be tried."""
    names = [f"{t}{x}" for t in NARROW for x in ("", "x2", "x4")]
    wide, limits = {n: parse(n).bits for n in names}, dict(LIMITS)

    def set_bits(bits: dict[str, int]) -> None:
        for n, b in bits.items():
            parse(n).bits = b
        fold._limits.cache_clear()
        emit.int_imm.cache_clear()

    set_bits({n: NARROW[n.split("x")[0]] for n in names})
    half, emit.HALF = emit.HALF, 2
    for t in LIMITS:
        LIMITS[t] = (-(1 << NARROW[t] - 1), (1 << NARROW[t] - 1) - 1)
    try:
        yield
    finally:
        set_bits(wide)
        emit.HALF = half
        LIMITS.update(limits)


class Failure(Exception):
    """A rewritten expression differs from what was written."""


def check(case: Drawn, e: Any, seed: int) -> None:
    """Raise Failure where an expression and what it is rewritten to differ."""
    rng = random.Random(seed)
    env = points(case, e, rng)
    analyzer = Analyzer()
    for v, (low, size) in case.ranges.items():
        analyzer.bind(v, Range.from_min_extent(E.const(low, v.dtype), E.const(size, v.dtype)))
    with ExitStack() as stack:
        for c in case.constraints:
            stack.enter_context(analyzer.enter_constraint(c))
        before = evaluate(e, env, depends=lambda x: is_data(analyzer.simplify(x)))
        for c in case.constraints:
            known = evaluate(c, env)
            holds = before.defined & known.defined & known.values.astype(bool)
            before = Values(before.values, holds)
        simple = analyzer.simplify(e)
        _same("simplify", before, env, e, simple)
        if is_data(simple) or not is_data(e):
            _facts(analyzer, e, before)
    _same("operators", before, env, e, rebuilt(e))
    if not case.constraints:
        _same("lower_division", before, env, e, divided(e))


def _same(what: str, before: Values, env: Any, old: Any, new: Any) -> None:
    if new is old:
        return
    if new.dtype != old.dtype:
        raise Failure(f"{what}: {text(new)} is a {new.dtype}")
    after = evaluate(new, env, indices="wide")
    wrong = before.defined & ~_equal(before, after)
    if is_data(old):  # what turns out not to depend on data is an index from then on
        wrong &= ~_equal(before, evaluate(new, env, indices="wrap"))
    if wrong.any():
        at = int(wrong.argmax())
        point = {getattr(k, "name", k): v[at] for k, v in env.items()}
        got = after.values[at] if after.defined[at] else "undefined"
        raise Failure(f"{what}: {text(new)} is {got}, not {before.values[at]}, at {point}")


def _equal(before: Values, after: Values) -> Any:
    return after.defined & (before.values == after.values).astype(bool)


def _facts(analyzer: Analyzer, e: Any, before: Values) -> None:
    """Bounds, residues and proofs hold for every value."""
    values = before.values[before.defined]
    if parse(e.dtype).is_bool:
        if analyzer.can_prove(e) and not values.all():
            raise Failure("can_prove: proved, but false")
        return
    bound, residue = analyzer.const_int_bound(e), analyzer.modular_set(e)
    low, high = unlimited(bound.min_value), unlimited(bound.max_value)
    for v in values:
        if not low <= v <= high:
            raise Failure(f"const_int_bound: {v} is not in {bound}")
        gap = v - residue.base
        if gap and (not residue.coeff or gap % residue.coeff):
            raise Failure(f"modular_set: {v} is not {residue}")


def rebuilt(e: Any) -> Any:
    """The expression as Python's operators and the builders of `tir` make it."""
    parts = [rebuilt(c) for c in CHILDREN[type(e)](e)]
    if isinstance(e, (E.And, E.Or)):
        return (op.all if isinstance(e, E.And) else op.any)(*parts)
    if isinstance(e, E.CmpOp):
        return compare(type(e), *parts)
    if isinstance(e, E.Not):
        return logical_not(*parts)
    if isinstance(e, E.BinaryOp):
        if type(e) in (E.Div, E.Mod, E.FloorDiv, E.FloorMod) and E.is_const(parts[1], 0):
            return type(e)(*parts)  # refused where a user writes it
        return binary(type(e), *parts)
    if isinstance(e, E.Cast):
        return E.cast(e.dtype, parts[0])
    if isinstance(e, E.Select):
        return E.Select(*parts)
    if isinstance(e, E.Call):
        builders: dict[str, Any] = {
            "tir.shift_left": lambda a, b: a << b,
            "tir.shift_right": lambda a, b: a >> b,
            "tir.bitwise_and": lambda a, b: a & b,
            "tir.bitwise_or": lambda a, b: a | b,
            "tir.bitwise_xor": lambda a, b: a ^ b,
            "tir.bitwise_not": lambda a: ~a,
        }
        build = builders.get(e.op.name)
        return E.Call(e.dtype, e.op, tuple(parts)) if build is None else build(*parts)
    return e


def divided(e: Any) -> Any:
    """The expression with its divisions lowered as for code generation."""
    out = decl_buffer((1,), e.dtype, "out")
    body: Any = lower_division(S.PrimFunc([], S.BufferStore(out, e, (E.const(0),)))).body
    return body.value


def shrunk(case: Drawn, e: Any, seed: int) -> Any:
    """A smaller expression that fails too."""
    for smaller in _smaller(e):
        try:
            check(case, smaller, seed)
        except Exception:
            return shrunk(case, smaller, seed)
    return e


def _smaller(e: Any) -> Iterator[Any]:
    below = CHILDREN[type(e)](e) if not isinstance(e, E.BufferLoad) else ()
    for c in below:
        if c.dtype == e.dtype:
            yield c
    if not isinstance(e, (E.Var, E.IntImm, E.BufferLoad)):
        yield from (E.const(v, e.dtype) for v in (0, 1))
    for i, c in enumerate(below):
        for smaller in _smaller(c):
            parts = [*below[:i], smaller, *below[i + 1 :]]
            yield _remade(e, parts)


def _remade(e: Any, parts: list[Any]) -> Any:
    if isinstance(e, E.Cast):
        return E.Cast(e.dtype, parts[0])
    if isinstance(e, E.Call):
        return E.Call(e.dtype, e.op, tuple(parts))
    if isinstance(e, E.Broadcast):
        return E.Broadcast(parts[0], e.lanes)
    return type(e)(*parts)


def one(seed: int, shrink: bool = True) -> str | None:
    """Run the case of a seed: a report, where it fails."""
    rng = random.Random(seed)
    with narrow_types() if seed % 2 else ExitStack():
        case = draw(rng, bool(seed % 2))
        try:
            check(case, case.expr, seed)
            return None
        except Exception as error:
            kind = type(error).__name__
            small = shrunk(case, case.expr, seed) if shrink else case.expr
            try:
                check(case, small, seed)
            except Exception as again:
                error = again
            known = {v.name: r for v, r in case.ranges.items()}
            limits = [text(c) for c in case.constraints]
            width = "a few bits" if seed % 2 else "full width"
            return f"seed {seed} ({width}): {kind} {error}\n  {text(small)}  {known} {limits}"


def run(
    cases: int, seed: int, stop: int = 5, shrink: bool = True, quiet: bool = True
) -> tuple[int, list[str]]:
    """How many cases were run, and the reports of those that failed (at most `stop`)."""
    failures: list[str] = []
    progress = Progress(cases, quiet)
    for i in range(cases):
        progress.tell(i, len(failures))
        report = one(seed * 1_000_003 + i, shrink)
        if report is not None:
            failures.append(report)
            if len(failures) >= stop:
                return i + 1, failures
    return cases, failures


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the simplifier.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--one", type=int, help="run the case of this seed alone")
    parser.add_argument("--mutants", action="store_true", help="check that mistakes are found")
    args = parser.parse_args()
    if args.mutants:
        from tests.fuzz.arith_mutants import survivors

        left = survivors(args.cases, args.seed or 1)
        print("survivors:", ", ".join(left) or "none")
        return bool(left)
    if args.one is not None:
        print(one(args.one) or "passes")
        return 0
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    start = time.perf_counter()
    done, failures = run(args.cases, seed, quiet=False)
    print("\n".join(failures))
    print(f"seed {seed}: {done} expressions, {len(failures)} failures, "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
