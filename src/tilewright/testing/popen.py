"""Functions that tests of worker processes call in them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, NoReturn

_state: list[Any] = [0, 0, 0]


def identity_after(x: Any, sleep: float) -> Any:
    """`x`, `sleep` seconds later."""
    time.sleep(sleep)
    return x


def terminate_self() -> NoReturn:
    """End this process."""
    sys.stdout.flush()
    os._exit(-1)


def fast_summation(n: int) -> int:
    """The sum of 0, ..., n."""
    return n * (n + 1) // 2


def slow_summation(n: int) -> int:
    """The sum of 0, ..., n, in steps."""
    result = 0
    for i in range(n + 1):
        result += i
    return result


def timeout_job(n: float) -> None:
    """Take half as long again as `n` seconds."""
    time.sleep(n * 1.5)


def initializer(
    test_global_state_1: Any, test_global_state_2: Any, test_global_state_3: Any
) -> None:
    """Note three things, for `after_initializer`."""
    _state[:] = [test_global_state_1, test_global_state_2, test_global_state_3]


def after_initializer() -> tuple[Any, ...]:
    """What `initializer` was told in this process; zeros without it."""
    return tuple(_state)


def strtobool(val: str) -> int:
    """1 for "y", "yes", "t", "true", "on", "1"; 0 for their opposites; ValueError for others."""
    text = val.lower()
    if text in ("y", "yes", "t", "true", "on", "1"):
        return 1
    if text in ("n", "no", "f", "false", "off", "0"):
        return 0
    raise ValueError(f"invalid truth value {val!r}")


def is_ampere_or_newer() -> bool:
    """Whether there is a CUDA device of compute capability 8 or newer."""
    from ..rt.device import device

    found = device("cuda").compute_version if device("cuda").exist else None
    return found is not None and int(str(found).split(".")[0]) >= 8
