"""`auto_scheduler.utils`: small helpers under TVM's names."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..fleet.requests import check_session
from ..fleet.requests import request_remote as request_remote
from ..topi.utils import get_const_int as get_const_int
from ..topi.utils import get_const_tuple as get_const_tuple
from .records import distance_of

MAX_TRACEBACK_INFO_LEN = 512

check_remote = check_session


def decode_workload_key(workload_key: str) -> tuple[str, list[Any] | None]:
    """The name and the arguments of a key; of a text that is no JSON list, itself and None."""
    try:
        parts = json.loads(workload_key)
    except ValueError:
        return workload_key, None
    if isinstance(parts, list) and parts:
        return parts[0], parts[1:]
    return workload_key, None


def calc_workload_dis_factor(
    target_workload_pair: tuple[str, Any], workload_pair: tuple[str, Any]
) -> float:
    """How many times a workload, (name, arguments), fits into another of the same function whose
    sizes it divides; infinite where it does not."""
    return distance_of(target_workload_pair, workload_pair)


def get_func_name(func: Any) -> str:
    """The name that a function is registered by."""
    return str(getattr(func, "func_name", None) or func.__qualname__)


def list_to_tuple(x: Sequence[Any]) -> tuple[Any, ...]:
    """Lists within lists as tuples."""
    return tuple(list_to_tuple(item) if isinstance(item, list) else item for item in x)


def array_mean(arr: Iterable[Any]) -> float:
    """The mean of numbers, or of constants of the IR."""
    values = [float(getattr(x, "value", x)) for x in arr]
    return sum(values) / len(values)


def to_str_round(x: Any, decimal: int = 6) -> str:
    """Numbers, texts, and lists and dicts of them as text, with so many decimals. Raises ValueError
    where x is no number, text, list or None."""
    if isinstance(x, str):
        return x
    if isinstance(x, (list, tuple, np.ndarray)):
        return "[" + ", ".join(to_str_round(y, decimal) for y in x) + "]"
    if isinstance(x, dict):
        return str({k: to_str_round(v) for k, v in x.items()})
    if isinstance(x, (int, np.integer)):
        return str(x)
    if isinstance(x, (float, np.floating)):
        return f"{x:.{decimal}f}"
    raise ValueError(f"Invalid value: {x}\ttype: {type(x)}")


def make_traceback_info() -> str:
    """The traceback of the error that is being handled, its middle left out where it is long."""
    text = traceback.format_exc()
    half = MAX_TRACEBACK_INFO_LEN // 2
    if len(text) <= MAX_TRACEBACK_INFO_LEN:
        return text
    return f"{text[:half]}\n...\n{text[-half:]}"


def call_func_with_thread(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a function gives, or raises, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(func, *args, **kwargs).result()


def call_func_with_timeout(
    worker: Any, timeout: float, func: Callable[..., Any], args: Any = (), kwargs: Any = None
) -> Any:
    """What a function gives in a process of its own (`contrib.popen_pool.PopenWorker`); an
    Exception with the traceback where it raised one or took longer than `timeout` seconds."""
    worker.send(func, args, kwargs, timeout)
    try:
        return worker.recv()
    except Exception:
        return Exception(make_traceback_info())
