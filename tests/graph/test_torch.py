"""PyTorch's modules, through torch.export and as a backend of torch.compile, against PyTorch."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
Module: Any = torch.nn.Module

import tilewright  # noqa: E402
from tilewright.base.errors import ImportModelError  # noqa: E402
from tilewright.graph import compile as compile_graph  # noqa: E402
from tilewright.graph.torch.backend import tilewright as backend  # noqa: E402
from tilewright.graph.torch.breaks import watch_breaks  # noqa: E402
from tilewright.graph.torch.export import from_torch  # noqa: E402
from tilewright.graph.torch.importer import array_of  # noqa: E402

from .torch_cases import LAYERS, cases  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning"),  # of LSTM's weights
    pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning"),  # of PyTorch's kernels
]
CASES = cases()
EXPORTED = (
    *("linear", "conv2d", "attention_mask", "multihead", "activations", "reductions"),
    *("lstm", "lstm_two", "lstm_projected", "gru", "gru_two", "rnn", "rnn_relu"),
)


def _leaves(result: Any) -> list[Any]:
    from torch.utils._pytree import tree_leaves

    return [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]


def _close(found: Any, wanted: Any) -> None:
    found, wanted = _leaves(found), _leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype and a.shape == b.shape
        tol = 1e-2 if b.dtype in (torch.half, torch.bfloat16) else 1e-4
        scale = float(b.double().nan_to_num().abs().max()) if b.numel() else 0.0
        torch.testing.assert_close(
            a.double(), b.double(), rtol=tol, atol=tol * max(scale, 1e-6), equal_nan=True
        )


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch._dynamo.reset()
    with torch.no_grad():
        yield


@pytest.mark.parametrize("name", [n for n in CASES if n not in LAYERS])
def test_backend_agrees_with_eager(name: str, caplog: Any) -> None:
    module, args = CASES[name]()
    with caplog.at_level(logging.WARNING, "tilewright.torch"):
        _close(torch.compile(module, backend=backend)(*args), module(*args))
    assert not caplog.records, caplog.text


class Every(Module):
    """Some layers, each on arguments of its own."""

    def __init__(self, modules: list[Any]) -> None:
        super().__init__()
        self.inner = torch.nn.ModuleList(modules)

    def forward(self, *groups: Any) -> Any:
        return [module(*args) for module, args in zip(self.inner, groups)]


@pytest.mark.parametrize("part", range(4))
def test_layers_agree_with_eager(part: int, caplog: Any) -> None:
    recurrent = {n for n in LAYERS if n.startswith(("lstm", "gru", "rnn"))}
    names = sorted(set(LAYERS) - recurrent)[part::4]
    modules, groups = zip(*(CASES[n]() for n in names))
    every = Every(list(modules)).eval()
    with caplog.at_level(logging.WARNING, "tilewright.torch"):
        _close(torch.compile(every, backend=backend)(*groups), every(*groups))
    assert not caplog.records, caplog.text


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_module_agrees_with_eager(name: str) -> None:
    module, args = CASES[name]()
    graph = from_torch(module, args)
    net = compile_graph(graph)
    found = net.run({v.name: a.numpy() for v, a in zip(graph.inputs, args)})
    arrays = [found[n] for n in net.output_names]
    wanted = [array_of(t.contiguous()) for t in _leaves(module(*args))]
    assert len(arrays) == len(wanted)
    for a, b in zip(arrays, wanted):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, 1e-4, 1e-4 * max(float(np.abs(b).max()), 1e-6))


def test_compile_takes_a_module_and_its_arguments() -> None:
    module, (x,) = CASES["linear"]()
    net = tilewright.compile(module, args=(x,))
    np.testing.assert_allclose(net(x.numpy()), module(x).numpy(), 1e-4, 1e-5)


def test_every_unsupported_operator_is_named() -> None:
    class Two(Module):
        def forward(self, x: Any) -> Any:
            return torch.special.bessel_j1(x), torch.linalg.qr(x)

    with pytest.raises(ImportModelError) as caught:
        from_torch(Two(), (torch.eye(3),))
    assert "bessel_j1" in str(caught.value) and "linalg_qr" in str(caught.value)


def test_module_that_changes_its_buffers_is_refused() -> None:
    with pytest.raises(ImportModelError, match="changes"):
        from_torch(torch.nn.BatchNorm1d(3).train(), (torch.ones(2, 3),))


def test_what_is_not_covered_runs_in_pytorch_between_networks(caplog: Any) -> None:
    def function(x: Any) -> Any:
        middle = torch.linalg.pinv(x @ x.t() + 4 * torch.eye(4))
        return torch.relu(middle) * 2, middle, x.t()

    x = torch.randn(4, 6)
    with caplog.at_level(logging.WARNING, "tilewright.torch"):
        _close(torch.compile(function, backend=backend)(x), function(x))
    assert "linalg_pinv" in caplog.text


def test_extents_may_change(caplog: Any) -> None:
    module, _ = CASES["linear"]()
    compiled = torch.compile(module, backend=backend)
    with caplog.at_level(logging.WARNING, "tilewright.torch"):
        for n, m in ((3, 5), (4, 5), (7, 2), (3, 5), (6, 9)):
            x = torch.randn(n, m, 8)
            _close(compiled(x), module(x))
    assert not caplog.records, caplog.text


def test_extents_in_arithmetic_may_change() -> None:
    def function(x: Any) -> Any:
        return x.reshape(x.shape[0] * 2, -1).sum(1) / x.shape[1] + torch.arange(2 * x.shape[0])

    compiled = torch.compile(function, backend=backend, dynamic=True)
    for n in (2, 3, 5):
        x = torch.randn(n, 6)
        _close(compiled(x), function(x))


OPEN: dict[str, Any] = {
    "views": lambda x: (x[:, 1:], x[-2:], x[0], x.t(), x.flatten(), x.unsqueeze(1), x.size(0) * 2,
        x[:, 1:] * 2, x[-2:] + 1, x[0] * 2, x.flatten() * 2, x.unsqueeze(1) * 2),
    "parts": lambda x: (torch.cat([x, x + 1]), torch.stack([x, -x]), x.repeat(2, 1),
        [p + 1 for p in x.chunk(2, 1)]),
    "pieces": lambda x: (
        x.chunk(2, 1), x.expand(2, *x.shape), x[:, 1:].chunk(2, 1)[1].t(), x * 3,
    ),
    "pieces_of_results": lambda x: (lambda y: (
        y, y[:, 1:], y.chunk(2, 1), y[:, 0], y.t(), y.expand(3, *y.shape), y.t() + 1,
    ))(x * 2),
    "writes": lambda x: (
        x.clone().index_fill_(1, torch.tensor([2]), 5.0), _written(x),
        torch.select_scatter(x, x[0] * 2, 0, -1),
    ),
    "places": lambda x: (
        x[torch.arange(x.shape[0])[:, None], torch.tensor([[3, 1]])], x.gather(1, _zeros(x)),
        torch.zeros_like(x).scatter_add(1, _zeros(x), x),
        x.as_strided((x.shape[0], 3), (6, 1), 2) * 2,
    ),
    "lines": lambda x: (x.cumsum(1), x.cumsum(0), x.softmax(0), x.mean(0), x.var(0), x.argmax(0)),
    "made": lambda x: (
        torch.arange(x.shape[0]) * 2, torch.ones(x.shape[0], 2), x * x.shape[0],
        torch.full((2, x.shape[0] + 1), 3), torch.arange(1, x.shape[0] + 4, 2),
    ),
    "conditions": lambda x: x * 2 if x.shape[0] < 7 else x - 1,
    "layout": lambda x: (x.t().clone(), x[:, None].expand(-1, 3, -1).permute(2, 0, 1) * 2),
    "order": lambda x: (
        x.sort(0), x.argsort(0, descending=True), x.sort(1), x.median(0), x.kthvalue(2, 0),
        x.median(), x.reshape(-1).topk(3),
    ),
    "known": lambda x: (torch.arange(5) + x.shape[0], torch.full((2,), x.shape[0]) + 1),
    "matrices": lambda x: (
        torch.linalg.det(_square(x)), torch.linalg.inv_ex(_square(x)),
        torch.linalg.solve_ex(_square(x), x), torch.linalg.cholesky_ex(_square(x)),
        torch.linalg.solve_triangular(_square(x), x, upper=True),
    ),
    "windows": lambda x: (
        torch.cat([x, x]).unfold(0, 2, 1) * 2, x.unfold(1, 3, 2) * 2,
        x[:, :1].diagonal() + 1, torch.roll(x, 1, 0), torch.roll(x, -1, 0),
        torch.nn.functional.unfold(x[None, None], (2, 3), padding=1, stride=(1, 2)),
    ),
    "borders": lambda x: tuple(
        torch.nn.functional.pad(x[None], (2, 1, 1, 1), mode=mode)
        for mode in ("reflect", "replicate", "circular")
    ),
    "resized": lambda x: (
        torch.nn.functional.interpolate(x[None, None], scale_factor=2),
        torch.nn.functional.interpolate(x[None, None], scale_factor=3, mode="bilinear"),
    ),
    "heads": lambda x: (
        _attended(*(t.t().contiguous()[None, None] for t in (x, x * 2, x + 1))),
        _attended(*(t[None, None] for t in (x, x * 2, x + 1)), is_causal=True),
        _attended(x[None, None], *[torch.cat([x, x])[None, None]] * 2, is_causal=True),
    ),
}  # fmt: skip
"""Functions of a matrix (n, 6)."""


def _written(x: Any) -> Any:
    y = x.clone()
    y[:, 1:3] = 7
    y[0] = x[-1]
    return y


def _attended(*given: Any, **how: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(*given, **how)


def _square(x: Any) -> Any:
    """A matrix that is positive definite."""
    return x @ x.t() + 4 * torch.eye(x.shape[0])


def _zeros(x: Any) -> Any:
    return torch.zeros(x.shape[0], 2, dtype=torch.long)


@pytest.mark.parametrize("name", OPEN)
def test_open_extents_are_compiled_once(name: str, caplog: Any) -> None:
    compiled = torch.compile(OPEN[name], backend=backend, dynamic=True)
    with caplog.at_level(logging.INFO, "tilewright.torch"):
        for n in (4, 2, 6, 9):
            x = torch.randn(n, 6)
            found, wanted = compiled(x), OPEN[name](x)
            _close(found, wanted)
            for a, b in zip(_leaves(found), _leaves(wanted)):
                assert a.stride() == b.stride()
    said = [r.message for r in caplog.records if r.name == "tilewright.torch"]
    made = 2 if name == "conditions" else 1
    assert said == ["1 networks, 0 calls in PyTorch"] * made


@pytest.mark.parametrize(
    "module, said",
    [
        (torch.nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), ""),
        (torch.nn.EmbeddingBag(20, 6), ""),
        (torch.nn.Upsample(scale_factor=1.7), "sym_float"),
        (torch.nn.AdaptiveAvgPool1d(3), ""),
        (torch.nn.AdaptiveAvgPool2d((5, 4)), ""),
        (torch.nn.AdaptiveMaxPool2d((5, 4)), ""),
    ],
)
def test_open_extents_of_layers(module: Any, said: str, caplog: Any) -> None:
    compiled = torch.compile(module.eval(), backend=backend, dynamic=True)
    whole = isinstance(module, torch.nn.EmbeddingBag)
    with caplog.at_level(logging.WARNING, "tilewright.torch"):
        for n in (4, 2, 7):
            x = torch.randint(0, 20, (n, n + 1)) if whole else torch.randn(n, n + 1, 6)
            _close(compiled(x), module(x))
    assert said in caplog.text and bool(said) == bool(caplog.text)


def test_open_extents_between_pytorch_and_networks(caplog: Any) -> None:
    def function(x: Any) -> Any:
        inverse = torch.linalg.pinv(x @ x.t() + 4 * torch.eye(x.shape[0]))
        return torch.linalg.pinv(torch.eye(x.shape[0]) * 2), inverse.reshape(-1)[1:] + x.shape[0]

    compiled = torch.compile(function, backend=backend, dynamic=True)
    with caplog.at_level(logging.WARNING, "tilewright.torch"):
        for n in (4, 3, 7):
            x = torch.randn(n, 6)
            _close(compiled(x), function(x))
    said = [r.message for r in caplog.records if r.name == "tilewright.torch"]
    assert len(said) == 1 and "linalg_pinv" in said[0]


def test_layout_of_inputs_and_outputs_is_kept() -> None:
    module, (x,) = CASES["conv2d"]()
    x = x.to(memory_format=torch.channels_last)
    found, wanted = torch.compile(module, backend=backend)(x), module(x)
    _close(found, wanted)
    assert found.stride() == wanted.stride()


def test_changed_weights_are_seen() -> None:
    module, (x,) = CASES["linear"]()
    compiled = torch.compile(module, backend=backend)
    for _ in range(4):
        _close(compiled(x), module(x))
        module.weight.mul_(1.5)


def _through_data(weight: Any) -> None:
    weight.data.mul_(1.5)


def _other_memory(weight: Any) -> None:
    weight.data = weight.data * 1.5


def _through_numpy(weight: Any) -> None:
    weight.detach().numpy()[...] *= 1.5


@pytest.mark.parametrize("change", [_through_data, _other_memory, _through_numpy])
def test_writes_that_pytorch_does_not_count_are_seen(change: Any) -> None:
    module, (x,) = CASES["linear"]()
    compiled = torch.compile(module, backend=backend)
    for _ in range(4):
        _close(compiled(x), module(x))
        change(module.weight)
    with torch.inference_mode():
        module, _ = CASES["linear"]()
        for _ in range(3):
            _close(compiled(x), compiled._orig_mod(x))
            compiled._orig_mod.weight.mul_(1.5)


def test_norm_in_training_moves_its_statistics(caplog: Any) -> None:
    modules = [torch.nn.BatchNorm2d(6).train() for _ in range(2)]
    compiled = torch.compile(modules[0], backend=backend)
    with caplog.at_level(logging.WARNING, "tilewright.torch"):
        for k in range(3):
            x = torch.randn(4, 6, 5, 3) + k
            _close(compiled(x), modules[1](x))
            _close(modules[0].state_dict(), modules[1].state_dict())
    assert not caplog.records, caplog.text


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, 1:].as_strided((3, 3), (1, 4)) + 0,
        lambda x: (x * 2)[1:].as_strided((3, 3), (1, 4), 2) + 0,
        lambda x: x.expand(2, 4, 9).as_strided((2, 2), (9, 1)) * 2,
        lambda x: x[:2].as_strided((4, 9), (9, 1)) * 2,
    ],
)
def test_memory_beside_a_tensor_is_read_by_pytorch(function: Any, caplog: Any) -> None:
    x = torch.randn(4, 9)
    with caplog.at_level(logging.WARNING, "tilewright.torch"):
        _close(torch.compile(function, backend=backend)(x), function(x))
    assert "reads memory" in caplog.text


def test_what_dynamo_leaves_to_python_is_said(caplog: Any) -> None:
    class Steps(Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps, self.end = torch.nn.GRU(8, 6), torch.nn.Linear(6, 2)

        def forward(self, x: Any) -> Any:
            return self.end(self.steps(x * 2)[0])

    def between(x: Any) -> Any:
        y = x * 2
        print(end="")
        return y + 1 if y.sum() > 0 else y - 1

    watch_breaks()  # which resetting Dynamo ends
    x = torch.randn(3, 5, 8)
    for function, count in ((Steps(), 1), (between, 2)):
        caplog.clear()
        compiled = torch.compile(function, backend=backend)
        with caplog.at_level(logging.WARNING, "tilewright.torch"):
            _close([compiled(x) for _ in range(2)], [function(x) for _ in range(2)])
        said = [r.message for r in caplog.records if r.name == "tilewright.torch"]
        assert len(said) == count and all("test_torch.py" in s for s in said), said


def test_buffers_that_a_module_changes() -> None:
    class Counts(Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.seen += x
            return self.seen * 2

    module, other = Counts(), Counts()
    compiled = torch.compile(module, backend=backend)
    for k in range(3):
        _close(compiled(torch.ones(3) * k), other(torch.ones(3) * k))
    _close(module.seen, other.seen)


def test_outputs_are_the_callers_own() -> None:
    def function(x: Any) -> Any:
        return x * 2, torch.arange(3)

    compiled = torch.compile(function, backend=backend)
    first = compiled(torch.ones(3))
    first[0].zero_()
    first[1].zero_()
    _close(compiled(torch.ones(3)), function(torch.ones(3)))


def test_gradients_run_in_pytorch(caplog: Any) -> None:
    module, (x,) = CASES["linear"]()
    with torch.enable_grad(), caplog.at_level(logging.WARNING, "tilewright.torch"):
        torch.compile(module, backend=backend)(x).sum().backward()
        found = module.weight.grad.clone()
        module.weight.grad = None
        module(x).sum().backward()
    _close(found, module.weight.grad)
    assert "gradients" in caplog.text


def test_threads_share_a_network() -> None:
    module, _ = CASES["linear"]()
    compiled = torch.compile(module, backend=backend)
    compiled(torch.randn(4, 8))
    inputs = [torch.randn(4, 8) for _ in range(32)]

    def call(x: Any) -> Any:
        with torch.no_grad():
            return compiled(x)

    with ThreadPoolExecutor(4) as pool:
        for x, y in zip(inputs, pool.map(call, inputs)):
            _close(y, module(x))


def test_options_are_checked() -> None:
    compiled = torch.compile(torch.relu, backend=backend, options={"speed": "high"})
    with pytest.raises(Exception, match="unknown options"):
        compiled(torch.ones(3))
