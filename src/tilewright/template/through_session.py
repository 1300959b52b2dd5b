"""Candidates timed in a session that a loader of the user's gives, as TVM's runners time all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from ..fleet.requests import request_remote
from ..fleet.rpc_server import on_this_machine
from ..measure.reference import random_array
from ..rt.array import array
from ..target.target import Target

Loader = Callable[[dict[str, Any], Any], AbstractContextManager[tuple[Any, Any]]]


@contextmanager
def local_session(timeout: float) -> Iterator[dict[str, Any]]:
    """What a session with this machine is asked for, while a tracker and a server run here.
    `timeout`: seconds after which a session ends."""
    tracker, server = on_this_machine()
    where = {"device_key": server.key, "host": tracker.host, "port": tracker.port}
    with tracker, server:
        yield {**where, "priority": 1, "timeout": timeout}


def default_module_loader(
    pre_load_function: Callable[[Any, Any], Any] | None = None,
) -> Loader:
    """A `module_loader` that uploads what was built and loads it there.

    `pre_load_function`: called with the session and the BuildResult before that.
    """

    @contextmanager
    def load(remote_kwargs: dict[str, Any], build_result: Any) -> Iterator[tuple[Any, Any]]:
        remote = request_remote(**remote_kwargs)
        if pre_load_function is not None:
            pre_load_function(remote, build_result)
        with remote:  # its files go with it
            remote.upload(build_result.filename)
            yield remote, remote.load_module(os.path.basename(build_result.filename))

    return load


def time_loaded(
    remote: Any, module: Any, target: Any, arg_info: Sequence[Any], runner: Any
) -> tuple[float, ...]:
    """Seconds of a run of a module's entry on random data (a runner's `ref_input`, if it has one),
    a repetition each, without extremes."""
    dev = remote.device(Target(target).kind.name)
    timing = runner.timing
    timer = module.time_evaluator(
        module.entry_name, dev, number=timing.number, repeat=timing.repeat,
        min_repeat_ms=timing.min_repeat_ms, cache_flush_bytes=timing.flush_bytes,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    data = runner.ref_input or [random_array(shape, dtype, rng) for shape, dtype in arg_info]
    costs = timer(*(array(np.asarray(d), dev) for d in data)).results
    return without_extremes(costs)


def without_extremes(costs: Sequence[float]) -> tuple[float, ...]:
    """Costs without the least and the largest, where there are more than two: they vary most."""
    return tuple(sorted(costs)[1:-1] if len(costs) > 2 else costs)
