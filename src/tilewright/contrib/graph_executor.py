"""`tvm.contrib.graph_executor`: set inputs, run, get outputs, over a network of ours.

`GraphModule(tilewright.compile("model.onnx"))`; TVM's way, from Relay's graph as JSON, has no
counterpart.
"""

from __future__ import annotations

import time
from typing import Any, NoReturn

import numpy as np

from ..base.errors import UsageError
from ..rt.array import NDArray, array, empty
from ..rt.timing import BenchmarkResult, measure_by


def create(graph_json_str: Any, libmod: Any, device: Any) -> GraphModule:
    """A GraphModule of a compiled network, `libmod`; UsageError for a graph of Relay's.

    graph_json_str: None; the network itself says what its graph is.
    """
    if isinstance(graph_json_str, str) and graph_json_str:
        raise UsageError(
            "graphs of Relay as JSON cannot be run: compile the model with "
            "tilewright.compile('model.onnx') and give that to graph_executor.GraphModule"
        )
    return GraphModule(libmod)


class GraphModule:
    """A network with arrays of its own for inputs and outputs, which are set and read by number or
    name.

    module: what `tilewright.compile` or `tilewright.load_network` gives, of fixed sizes. Raises
    UsageError where `module` is no network of tilewright.compile or load_network.
    """

    def __init__(self, module: Any) -> None:
        for name in ("inputs", "outputs", "run"):
            if not hasattr(module, name):
                raise UsageError(
                    "GraphModule takes a network of tilewright.compile or load_network, "
                    f"got {type(module).__name__}"
                )
        self.module = module
        self._names = [t.name for t in module.inputs]
        self._inputs = [self._made(t) for t in module.inputs]
        self._outputs: list[NDArray] = []

    def _made(self, tensor: Any) -> NDArray:
        if not all(isinstance(d, int) for d in tensor.shape):
            raise UsageError(
                f"the input {tensor.name!r} has sizes that are open: {tensor.shape}; compile with "
                "shapes={...}, or call the network itself"
            )
        made = empty(tensor.shape, tensor.dtype)
        made.copyfrom(np.zeros(tensor.shape, made.numpy().dtype))
        return made

    def _at(self, key: int | str) -> int:
        if isinstance(key, str):
            if key not in self._names:
                raise UsageError(
                    f"Could not find '{key}' in graph's inputs; it has: {', '.join(self._names)}"
                )
            return self._names.index(key)
        if not 0 <= int(key) < len(self._names):
            raise UsageError(f"the network has {len(self._names)} inputs, none is number {key}")
        return int(key)

    def set_input(self, key: int | str | None = None, value: Any = None, **params: Any) -> None:
        """Copy a value into the input of that number or name, and others by their names. Names that
        are no inputs (weights, which are in the network already) are passed over in `params`, as
        TVM does. Raises UsageError where `key` is neither the name nor the number of an input."""
        if key is not None:
            self._inputs[self._at(key)].copyfrom(value)
        for name, given in params.items():
            if name in self._names:
                self._inputs[self._at(name)].copyfrom(given)

    def run(self, **input_dict: Any) -> None:
        """Compute the outputs of the inputs as they are; `input_dict` sets some first. Raises
        UsageError where an argument is neither the name nor the number of an input."""
        self.set_input(**input_dict)
        found = self.module(*self._inputs)
        self._outputs = [array(x) for x in (found if isinstance(found, tuple) else (found,))]

    def get_num_outputs(self) -> int:
        """How many outputs the network has."""
        return len(self.module.outputs)

    def get_num_inputs(self) -> int:
        """How many inputs the network has; weights are none."""
        return len(self._names)

    def get_input(self, index: int | str, out: NDArray | None = None) -> NDArray:
        """The array of an input, or `out` with its values. Raises UsageError where `index` is
        neither the name nor the number of an input."""
        found = self._inputs[self._at(index)]
        return found if out is None else out.copyfrom(found)

    def get_input_index(self, name: str) -> int:
        """The number of an input; -1 where there is none of that name."""
        return self._names.index(name) if name in self._names else -1

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Shapes and dtypes of the inputs by name."""
        pairs = list(zip(self._names, self._inputs))
        return {n: tuple(a.shape) for n, a in pairs}, {n: a.dtype for n, a in pairs}

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """The array of an output of the last `run`, or `out` with its values. Raises UsageError
        where nothing has been run."""
        if not self._outputs:
            raise UsageError("get_output comes after run(): nothing has been computed")
        found = self._outputs[index]
        return found if out is None else out.copyfrom(found)

    def debug_get_output(self, node: Any, out: Any) -> NoReturn:
        """Values inside a network are not kept: UsageError says so."""
        raise UsageError(
            "values inside a network are not kept; make them outputs of the model, or look at "
            "times with the network's profile()"
        )

    def load_params(self, params_bytes: Any) -> NoReturn:
        """Weights are part of a compiled network: UsageError says so."""
        raise UsageError("weights are part of a compiled network: compile the model with new ones")

    def share_params(self, other: Any, params_bytes: Any) -> NoReturn:
        """Weights are part of a compiled network: UsageError says so."""
        raise UsageError("weights are part of a compiled network, which any number may share")

    def __getitem__(self, key: str) -> Any:
        """A method by its name, as TVM's module of functions has them."""
        found = getattr(self, key, None)
        if found is None or key.startswith("_"):
            raise UsageError(f"a GraphModule has no function {key!r}")
        return found

    def benchmark(
        self,
        device: Any,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Times of `run`, in seconds; `kwargs` are inputs, set before unless `end_to_end`, which
        counts setting them. `repeat` repetitions, of `number` runs each, or of as many as take
        `min_repeat_ms` milliseconds; after `repeats_to_cooldown` runs of them a rest of
        `cooldown_interval_ms` milliseconds. Raises UsageError where func_name is not "run". Names
        that are no inputs are passed over, as `set_input` does."""
        if func_name != "run":
            raise UsageError(f"benchmark times 'run', got {func_name!r}")
        self.set_input(**kwargs)
        given = kwargs if end_to_end else {}
        self.run()

        def clock(runs: int) -> float:
            start = time.perf_counter()
            for _ in range(runs):
                self.run(**given)
            return time.perf_counter() - start

        return measure_by(
            clock,
            number,
            repeat,
            min_repeat_ms or 0,
            cooldown_interval_ms,
            repeats_to_cooldown,
            None,
            limit_zero_time_iterations,
        )
