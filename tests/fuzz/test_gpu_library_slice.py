"""A slice of the fuzzer of default schedules for GPUs, and a mistake that it must find."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.fuzz import gpu_library
from tilewright.loopir.expr import const
from tilewright.topi.nn import attention_kernel
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

    monkeypatch.setattr(windows, "or_zero", unconditional)
    assert gpu_library.run(80, 3, 1)[1]


def test_fresh_cases_of_attention() -> None:
    seed = random.SystemRandom().randrange(10**6)
    stats, failures = gpu_library.run(6, seed, attention=True)
    again = f"python -m tests.fuzz.gpu_library --attention --cases 6 --seed {seed}\n"
    assert not failures, again + "\n".join(failures)
    assert stats["attention"] == 6


def test_a_mistake_of_attention_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys beyond the last one that count."""
    monkeypatch.setattr(attention_kernel.Kernel, "_at_edge", lambda *given: const(False, "bool"))
    assert gpu_library.run(20, 3, 1, attention=True)[1]
