"""Times with the unit that suits them."""

import pytest

from tilewright.cli.units import time_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0.0, "0 ns"), (3e-10, "0.3 ns"), (1e-9, "1 ns"), (9.415e-7, "941.5 ns"),
        (1e-6, "1 us"), (1.23456e-5, "12.35 us"), (1e-3, "1 ms"), (0.25, "250 ms"), (1.0, "1 s"),
        (90.0, "90 s"), (123456.0, "123456 s"), (9.99996e-4, "1 ms"),
    ],
)  # fmt: skip
def test_times(seconds: float | None, text: str) -> None:
    assert time_text(seconds) == text
