"""Cases in PyTorch, contiguous or with channels last: ways to compute each, from eager to frozen.

The ways: `eager` functions; `prepacked`, oneDNN's operators on weights reordered for it beforehand
(what Inductor emits for frozen weights); `frozen`, TorchScript with its optimisation for
inference; `mkl` for products with a constant; `compiled`, torch.compile, for what no library has as
one operator, and only where a C++ compiler is installed.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.ops_channel import Prepare, Way
from benchmarks.ops_onnx import channels_first, channels_last, outward_weight
from benchmarks.ops_reference import Array
from benchmarks.ops_suite import Case

Makers = dict[str, Callable[[], Way]]
# Inference mode is entered once and for all: entering it takes longer than a small operator.
_MODES: list[Any] = []


def prepare(label: str, last: bool, threads: int) -> Prepare:
    """The ways of the peer `label`; `last`: convolutions have channels last in memory."""
    import torch

    torch.set_num_threads(threads)
    _MODES.append(torch.inference_mode())
    _MODES[-1].__enter__()

    def ways(case: Case, inputs: list[Array]) -> Makers:
        if case.conv is not None:
            made = _convolution(case, inputs, last)
        elif last:
            made = {}
        elif case.op == "GMM":
            made = _product(case, inputs)
        elif case.op == "NRM":
            made = _norm(inputs[0])
        else:
            made = _scores(inputs)
        return {f"{label}:{name}": make for name, make in made.items()}

    return ways


def _way(call: Callable[[], Any], restore: Callable[[Array], Array] = lambda y: y) -> Way:
    return call, lambda: restore(call().numpy())


class _Convolution:
    """A convolution's tensors. A rank of 1 is one of 2 with a height of 1, as PyTorch does it."""

    def __init__(self, case: Case, inputs: list[Array], last: bool) -> None:
        import torch

        conv = case.conv
        assert conv is not None
        plain = conv.canonical(inputs)
        self.relu, self.transposed, self.groups = plain.relu, conv.transposed, conv.groups
        self.rank = max(2, conv.rank)
        lift = conv.rank == 1
        x, weight = channels_first(plain.x), outward_weight(plain.weight, conv.transposed)
        self.stride, self.padding, self.dilation = (
            ([fill] if lift else []) + [value] * conv.rank
            for fill, value in ((1, conv.stride), (0, conv.padding), (1, conv.dilation))
        )
        order = torch.contiguous_format
        if last:
            order = torch.channels_last_3d if self.rank == 3 else torch.channels_last
        self.x, self.weight = (
            torch.from_numpy(v[:, :, None] if lift else v).contiguous(memory_format=order)
            for v in (x, weight)
        )
        self.bias = None if plain.bias is None else torch.from_numpy(plain.bias)
        shape = case.shapes()[-1]

        def restore(y: Array) -> Array:
            return conv.restore(channels_last(y[:, :, 0] if lift else y), shape)

        self.restore = restore

    def forward(self, x: Any, weight: Any, bias: Any) -> Any:
        """The operator, eagerly."""
        import torch

        y = torch.convolution(
            x, weight, bias, self.stride, self.padding, self.dilation, self.transposed,
            [0] * self.rank, self.groups,
        )  # fmt: skip
        return y.relu_() if self.relu else y

    def eager(self) -> Way:
        return _way(lambda: self.forward(self.x, self.weight, self.bias), self.restore)

    def prepacked(self) -> Way:
        import torch

        x, bias, after = self.x, self.bias, "relu" if self.relu else "none"
        weight: Any = self.weight.contiguous()
        stride, padding, dilation, groups = self.stride, self.padding, self.dilation, self.groups
        none = [0] * self.rank
        own = torch.ops.mkldnn
        if self.transposed:
            pack, run = (
                own._reorder_convolution_transpose_weight,
                own._convolution_transpose_pointwise,
            )
            weight = pack(weight, padding, none, stride, dilation, groups, list(x.shape))
            padded: Any = (padding, none)
        else:
            pack = getattr(torch._C._nn, f"mkldnn_reorder_conv{self.rank}d_weight")
            weight = pack(weight.to_mkldnn(), padding, stride, dilation, groups, list(x.shape))
            run, padded = own._convolution_pointwise, (padding,)
        call = run.default
        given = (x, weight, bias, *padded, stride, dilation, groups, after, [], "")
        return _way(lambda: call(*given), self.restore)

    def frozen(self) -> Way:
        import torch

        outer = self

        class Layer(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(outer.weight, requires_grad=False)
                bias = outer.bias
                self.bias = None if bias is None else torch.nn.Parameter(bias, requires_grad=False)

            def forward(self, x: Any) -> Any:
                return outer.forward(x, self.weight, self.bias)

        x = self.x
        return _way(_frozen(Layer().eval(), x), self.restore)


def _frozen(module: Any, *examples: Any) -> Callable[[], Any]:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.freeze(torch.jit.trace(module, examples))
        run = torch.jit.optimize_for_inference(traced)
    for _ in range(3):
        run(*examples)
    return lambda: run(*examples)


def _convolution(case: Case, inputs: list[Array], last: bool) -> Makers:
    own = _Convolution(case, inputs, last)
    return {"eager": own.eager, "frozen": own.frozen, "prepacked": own.prepacked}


def _product(case: Case, inputs: list[Array]) -> Makers:
    import torch

    a, b = map(torch.from_numpy, inputs)
    out = torch.empty(case.shapes()[-1])
    ways: Makers = {"eager": lambda: _way(lambda: torch.matmul(a, b, out=out))}
    if not case.constants or a.ndim > 2:
        return ways
    across = torch.from_numpy(np.ascontiguousarray(inputs[1].T))

    def linear() -> Way:
        return _way(lambda: torch.nn.functional.linear(a, across))

    def mkl() -> Way:
        packed = torch.ops.mkl._mkl_reorder_linear_weight(across, len(a))
        run = torch.ops.mkl._mkl_linear.default
        return _way(lambda: run(a, packed, across, None, len(a)))

    def prepacked() -> Way:
        packed = torch.ops.mkldnn._reorder_linear_weight(across, len(a))
        run = torch.ops.mkldnn._linear_pointwise.default
        return _way(lambda: run(a, packed, None, "none", [], ""))

    return {**ways, "linear": linear, "mkl": mkl, "prepacked": prepacked}


def _norm(data: Array) -> Makers:
    import torch

    x = torch.from_numpy(data)
    flat = x.reshape(len(x), -1)
    out = torch.empty(len(x))

    def dot() -> Way:
        rows, columns = flat[:, None], flat[:, :, None]
        return _way(lambda: torch.bmm(rows, columns).sqrt_(), lambda y: y.reshape(-1))

    def eager() -> Way:
        run = torch.linalg.vector_norm
        return _way(lambda: run(x, 2, (1, 2), out=out))

    def single() -> Way:
        row = flat[0]
        return _way(lambda: torch.dot(row, row).sqrt_(), lambda y: y.reshape(-1))

    ways: Makers = {"eager": eager, "bmm": dot}
    if len(x) == 1:
        ways["dot"] = single
    if _compiler():
        ways["compiled"] = lambda: _compiled(lambda v: (v * v).sum((1, 2)).sqrt(), x)
    return ways


def _scores(inputs: list[Array]) -> Makers:
    import torch

    q, k = map(torch.from_numpy, inputs)

    def function(q: Any, k: Any) -> Any:
        product = torch.matmul(q.permute(0, 2, 1, 3), k.permute(0, 2, 3, 1))
        return torch.softmax(product, -1)

    def in_place() -> Way:
        def call() -> Any:
            product = torch.matmul(q.permute(0, 2, 1, 3), k.permute(0, 2, 3, 1))
            return torch.softmax(product, -1, out=product)

        return _way(call)

    ways: Makers = {"eager": lambda: _way(lambda: function(q, k)), "in_place": in_place}
    if _compiler():
        ways["compiled"] = lambda: _compiled(function, q, k)
    return ways


def _compiler() -> bool:
    return any(map(shutil.which, ("g++", "clang++")))


def _compiled(function: Callable[..., Any], *tensors: Any) -> Way:
    import torch

    torch._dynamo.reset()
    run = torch.compile(function, dynamic=False)
    run(*tensors)
    return _way(lambda: run(*tensors))
