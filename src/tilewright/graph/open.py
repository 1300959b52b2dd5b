"""OpenExecutable: a network whose sizes come with its inputs, compiled once for all of them."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

from ..base.errors import TilewrightError
from ..base.pictured import Shown
from ..rt.array import NDArray
from ..rt.network import Executable
from ..rt.open_sizes import OtherSizesError, bound_sizes
from ..rt.plan import Array, Tensor, alone_or_tuple, by_name, described, shapes_given
from ..target.target import Target
from .device import DeviceExecutable

log = logging.getLogger(__name__)

_KEPT = 64
"""Networks for fixed shapes that are kept."""


class OpenExecutable(Shown):
    """A network with open dimensions, with the interface of `Executable`.

    `whole` is one network for all sizes that its conditions allow. `fixed` makes one for given
    shapes, which runs what is outside of them, and everything where there is no `whole`.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor],
        target: Target,
        whole: Executable | DeviceExecutable | None,
        fixed: Callable[[Mapping[str, tuple[int, ...]]], Any],
    ) -> None:
        self.name = name
        self.inputs = list(inputs)
        self.target = target
        self.whole = whole
        self._fixed = fixed
        self._made: OrderedDict[Any, Any] = OrderedDict()
        self._lock = RLock()

    def at(self, inputs: Mapping[str, Any]) -> Any:
        """The network that runs inputs of these shapes; compiled now where it must be."""
        if self.whole is not None:
            try:
                self.whole.shaped(inputs)
                return self.whole
            except OtherSizesError as error:
                reason = str(error)
        else:
            reason = "there is no network for all sizes"
        given = {v.name: inputs[v.name] for v in self.inputs if v.name in inputs}
        shapes = shapes_given(self.name, given)
        bound_sizes(self.name, self.inputs, shapes)
        shapes = {v.name: shapes[v.name] for v in self.inputs if v.default is None}
        key = tuple(shapes.items())
        with self._lock:
            if key not in self._made:
                log.info("%s: compiled for %s: %s", self.name, shapes, reason)
                self._made[key] = self._fixed(shapes)
                if len(self._made) > _KEPT:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return self._made[key]

    @property
    def outputs(self) -> list[Tensor]:
        """Outputs, where they are known for all sizes."""
        return [] if self.whole is None else self.whole.outputs

    @property
    def output_names(self) -> list[str]:
        return [v.name for v in self.outputs]

    @property
    def distinct(self) -> int:
        """The number of kernels that were compiled."""
        made = [*self._made.values(), *([] if self.whole is None else [self.whole])]
        return sum(e.distinct for e in made)

    @property
    def tuned(self) -> int:
        """How many of those have a schedule from records."""
        return sum(e.tuned for e in self._made.values())

    def __repr__(self) -> str:
        once = "for each shape" if self.whole is None else f"{self.whole.distinct} kernels"
        return described(self.name, str(self.target), self.inputs, self.outputs, once)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The output for inputs in their order or by name; a tuple where there are several."""
        names = [v.name for v in self.inputs]
        return alone_or_tuple(self.run(by_name(self.name, names, arrays, named)))

    def run(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None
    ) -> dict[str, Array]:
        """Outputs by name; as `Executable.run`, for inputs of any sizes that fit each other."""
        chosen = self.at(inputs)
        found: dict[str, Array]
        found = chosen.run(inputs) if outputs is None else chosen.run(inputs, outputs)
        return found

    def run_on_device(self, inputs: Mapping[str, Any]) -> dict[str, NDArray]:
        """As `DeviceExecutable.run_on_device`; TilewrightError for a CPU."""
        chosen = self.at(inputs)
        if not isinstance(chosen, DeviceExecutable):
            raise TilewrightError(
                f"{self.name} is compiled for {str(self.target)!r}: outputs stay on devices only"
            )
        return chosen.run_on_device(inputs)

    def prepare(self, inputs: Mapping[str, Any]) -> Callable[[], None]:
        """A call on fixed inputs that are checked once; results are dropped. For timing."""
        call: Callable[[], None] = self.at(inputs).prepare(inputs)
        return call

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> list[tuple[str, float]]:
        """Median seconds of each kernel call, by the names of its nodes, in order."""
        rows: list[tuple[str, float]] = self.at(inputs).profile(inputs, repeat)
        return rows

    def save(self, path: Any) -> None:
        """Write what is for all sizes; TilewrightError where there is no such network."""
        if self.whole is None:
            raise TilewrightError(
                f"{self.name} cannot be saved to {path}: it is compiled for each shape of its "
                "inputs by itself; fix them (shapes={...})"
            )
        self.whole.save(path)
