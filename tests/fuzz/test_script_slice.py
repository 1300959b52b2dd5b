"""A slice of the fuzzer of scripts under a fresh seed, and mistakes that it must find."""

from __future__ import annotations

import random

import pytest

from tests.fuzz import script
from tilewright.script import frames


def test_fresh_programs() -> None:
    seed = random.SystemRandom().randrange(10**6)
    stats, failures = script.run(40, seed)
    assert not failures, f"python -m tests.fuzz.script --seed {seed}\n" + "\n".join(failures)
    assert stats["loops"] > 20 and stats["simple"] > 5 and stats["split"] > 2


def test_a_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that lose their kind."""
    plain = frames.ForFrame.made

    def serial(self):
        self.kind = 0
        return plain(self)

    monkeypatch.setattr(frames.ForFrame, "made", serial)
    assert script.run(60, 1, 1)[1]
