"""A part of a network's kernels, drawn by another process: Python runs one thread at a time, and
the page of a large network takes seconds.

    python -m tilewright.report.share REQUEST RESULT
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base import config
from ..base.collect import collecting_rarely
from ..graph.helper import as_data, of_data
from ..graph.kernel import cache_key, emit_kernel, lower_named
from ..graph.passes.fuse import Group
from ..graph.team import helpers
from ..graph.tuned import Tuned
from ..rt import cache as disk
from ..rt.plan import symbol_of
from ..target.target import Target
from .kernel import Kernel, Watched

_OTHERS = 0.45
"""The other process's part: it has to begin first."""


def keys(groups: Sequence[Group], tuned: Sequence[Tuned | None], target: Target) -> list[str]:
    """For each kernel of a network, the key under which the compile cache has it once it is drawn,
    so that who compiles the network lowers none again; empty where none is to be kept."""
    if not disk.is_on() or target.kind.name != "llvm" or target.missing_on_host():
        return [""] * len(groups)
    return [cache_key(g, target, symbol_of(k), t) for k, (g, t) in enumerate(zip(groups, tuned))]


def draw(group: Group, target: Target, number: int, tuned: Tuned | None, key: str = "") -> Kernel:
    """What is shown of the kernel of a group, the `number`th of its network. With a key the
    compile cache has its object code then."""
    watched = Watched()
    with watched.watching():
        module = lower_named(group, target, symbol_of(number), tuned)
    if key and disk.get(key) is None:
        emit_kernel(module, target, key)
    (kernel,) = watched.finished(target)
    return kernel


class Share:
    """The last kernels of a network, on their way in another process where one is worth starting.
    What it cannot be told of, or fails at, is left to this process, which meets the same error."""

    def __init__(
        self,
        groups: Sequence[Group],
        tuned: Sequence[Tuned | None],
        target: Target,
        keys: Sequence[str],
    ) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="tilewright-")
        if not helpers(len(groups), target):
            return
        own = len(groups) - int(len(groups) * _OTHERS)
        rows = [(k, as_data(groups[k], tuned[k])) for k in range(own, len(groups))]
        request = {
            "target": target.export(),
            "options": config.changed_as_data(),
            "kernels": [(k, data, keys[k]) for k, data in rows if data is not None],
        }
        given, self._result = (Path(self._folder.name, name) for name in ("request", "result"))
        given.write_bytes(pickle.dumps(request))
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(given), str(self._result)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.numbers = frozenset(k for k, data in rows if data is not None)

    numbers: frozenset[int] = frozenset()
    """Those that the other process draws."""

    def __enter__(self) -> Share:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def found(self) -> dict[int, Kernel]:
        """The other process's kernels by their numbers, once it has ended; some may be missing."""
        if self._process is None or self._process.wait() or not self._result.exists():
            return {}
        kernels: dict[int, Kernel] = pickle.loads(self._result.read_bytes())
        return kernels


def _drawn(request: Mapping[str, Any]) -> dict[int, Kernel]:
    for name, value in request["options"].items():
        config.set_option(name, value)
    target = Target(request["target"])
    kernels = {}
    for number, data, key in request["kernels"]:
        group, tuned = of_data(data, target)
        kernels[number] = draw(group, target, number, tuned, key)
    return kernels


if __name__ == "__main__":
    with collecting_rarely():
        made = _drawn(pickle.loads(Path(sys.argv[1]).read_bytes()))
    Path(sys.argv[2]).write_bytes(pickle.dumps(made))
