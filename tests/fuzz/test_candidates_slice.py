"""A slice of the fuzzer of candidates for every run, with a fresh seed."""

import os
import time

import numpy as np

from tilewright.auto_scheduler.transform import Rearranged

from . import candidates

CASES = 60


def test_some_random_candidates():
    seed = int(os.environ.get("TILEWRIGHT_FUZZ_SEED") or time.time_ns() % 10**9)
    print(f"seed {seed}: python -m tests.fuzz.candidates --seed {seed} --cases {CASES}")
    failures = candidates.run_cases(CASES, seed, 3, quiet=True)
    assert not failures, "\n".join(failures)


def test_a_case_can_be_made_again():
    first, second = candidates.draw(11), candidates.draw(11)
    assert first.title() == second.title()
    assert first.state().rows == second.state().rows
    assert candidates.draw(12).title() != first.title()


def test_weights_laid_out_wrongly_are_noticed(monkeypatch):
    """The fuzzer is itself tested."""
    real = Rearranged.apply
    monkeypatch.setattr(Rearranged, "apply", lambda self, array: np.roll(real(self, array), 1))
    failures = candidates.run_cases(100, 0, 1, quiet=True)
    assert len(failures) == 1
    assert "REWRITE_FOR_PRE_TRANSFORMED" in failures[0]
    assert "differ" in failures[0]
