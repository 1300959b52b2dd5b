"""How many cores code is planned for: those that its threads get."""

from __future__ import annotations

import pytest

from tilewright.base import cores
from tilewright.target import Target, host


@pytest.mark.parametrize(("granted", "wanted"), [(2.0, 2), (2.5, 3), (0.5, 1), (1e9, 8)])
def test_what_a_control_group_grants(
    granted: float, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "allowed_cores", lambda: set(range(8)))
    monkeypatch.setattr(host, "_granted", lambda: granted)
    assert Target("llvm").num_cores == host.host_cores() == wanted
    assert Target("llvm -num-cores=5").num_cores == 5


def test_threads_and_plans_agree() -> None:
    assert host.host_cores() == cores.cores()
