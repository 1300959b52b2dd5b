"""A slice of the arithmetic fuzzer under a fresh seed, and a mistake that it must find."""

from __future__ import annotations

import random

from tests.fuzz.arith import run
from tests.fuzz.arith_mutants import minima_need_not_fit


def test_fresh_expressions() -> None:
    seed = random.SystemRandom().randrange(10**6)
    _, failures = run(400, seed)
    assert not failures, f"python -m tests.fuzz.arith --seed {seed}\n" + "\n".join(failures)


def test_a_mistake_is_found() -> None:
    with minima_need_not_fit():
        assert run(3000, 1, 1, shrink=False)[1]
