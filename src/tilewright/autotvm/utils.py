"""Small helpers: `autotvm.utils`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..base.errors import UsageError
from ..topi.utils import get_const_int as get_const_int
from ..topi.utils import get_const_tuple as get_const_tuple

logger = logging.getLogger("autotvm")

SI_PREFIXES = "yzafpn\xb5m kMGTPEZY"
YOCTO_EXP10 = -24

EmptyContext = nullcontext


def get_rank(values: Any) -> np.ndarray[Any, Any]:
    """The rank of each value, 0 for the largest."""
    order = np.argsort(-np.asarray(values))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks


def pool_map(
    func: Callable[[Any], Any],
    args: Sequence[Any],
    batch_size: int,
    verbose: bool = False,
    pool: Any = None,
) -> Any:
    """`func` of each of `args`, in threads or by `pool.map`, so many at a time, as one array.
    `verbose`: log how far it is."""
    parts = []
    with nullcontext(pool) if pool is not None else ThreadPoolExecutor() as workers:
        for start in range(0, len(args), batch_size):
            if verbose:
                logger.info("mapping %d/%d", start, len(args))
            parts.append(np.array(list(workers.map(func, args[start : start + batch_size]))))
    return np.concatenate(parts) if parts else None


def sample_ints(low: int, high: int, m: int) -> list[int]:
    """m different whole numbers from `low` up to but not `high`, at random. Raises UsageError where
    there are not m different numbers from low up to high."""
    if m > high - low:
        raise UsageError(f"there are no {m} different numbers from {low} up to {high}")
    return [low + int(i) for i in np.random.permutation(high - low)[:m]]


def get_func_name(func: Any) -> str:
    """The name of a function."""
    return str(getattr(func, "func_name", None) or func.__name__)


def format_si_prefix(x: float, si_prefix: str) -> float:
    """A number in units of a prefix: 2e9 in "G" is 2. Raises UsageError where si_prefix is no
    prefix."""
    place = SI_PREFIXES.find(si_prefix) if len(si_prefix) == 1 else -1
    if place < 0:
        raise UsageError(f"{si_prefix!r} is no prefix; there are {' '.join(SI_PREFIXES)}")
    return float(x) / float(f"1e{place * 3 + YOCTO_EXP10}")
