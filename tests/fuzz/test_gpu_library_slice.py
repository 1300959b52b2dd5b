"""A slice of the fuzzer of default schedules for GPUs, and a mistake that it must find."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.fuzz import gpu_library
from tilewright.topi.schedules.gpu import windows


def test_fresh_cases() -> None:
    seed = random.SystemRandom().randrange(10**6)
    stats, failures = gpu_library.run(25, seed)
    again = f"python -m tests.fuzz.gpu_library --cases 25 --seed {seed}\n"
    assert not failures, again + "\n".join(failures)
    assert stats["cases"] == 25 and stats["answers"] > 2 and stats["on tensor cores"] > 1


def test_a_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows without zeros behind their runs."""

    def unconditional(value: Any, *inside: Any) -> Any:
        del inside
        return value

    monkeypatch.setattr(windows, "_or_zero", unconditional)
    assert gpu_library.run(80, 3, 1)[1]
