"""from_torch with open dimensions, and what mixtures of experts are made of, against PyTorch."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
Module: Any = torch.nn.Module

from tilewright.base.errors import ArgumentError, ImportModelError  # noqa: E402
from tilewright.graph import compile as compile_graph  # noqa: E402
from tilewright.graph.torch.backend import tilewright as backend  # noqa: E402
from tilewright.graph.torch.export import from_torch  # noqa: E402
from tilewright.rt.network import Executable  # noqa: E402

Dim = torch.export.Dim


class Mixed(Module):
    """A layer of x, and as many steps of y."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: Any, y: Any) -> Any:
        return self.layer(x).softmax(-1) + y[:, : x.shape[1]]


def _mixed() -> tuple[Any, Any]:
    batch, steps, more = Dim("batch"), Dim("steps", max=512), Dim("more")
    shapes = {"x": {0: batch, 1: steps}, "y": {0: batch, 1: more}}
    module = Mixed().eval()
    graph = from_torch(module, (_x(3, 5, 8), _x(3, 7, 8)), dynamic_shapes=shapes)
    return module, compile_graph(graph)


def _x(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_open_dimensions_are_compiled_once() -> None:
    module, net = _mixed()
    assert isinstance(net, Executable)
    for batch, steps, more in ((3, 5, 7), (1, 1, 1), (9, 30, 40), (2, 6, 6)):
        x, y = _x(batch, steps, 8), _x(batch, more, 8)
        wanted = module(x, y).detach().numpy()
        np.testing.assert_allclose(net(x.numpy(), y.numpy()), wanted, 1e-4, 1e-5)


@pytest.mark.parametrize(
    "first, second, said",
    [
        ((2, 600, 8), (2, 700, 8), "x_1"),
        ((2, 9, 8), (2, 4, 8), "x_1"),
        ((2, 3, 8), (3, 4, 8), "dimension 0 of input 'y', x_0, is 3, but x_0 is 2 in input 'x'"),
        ((2, 3, 7), (2, 4, 8), r"input 'x' has shape \(2, 3, 7\), expected \(x_0, x_1, 8\)"),
    ],
)
def test_sizes_out_of_range_are_refused(first: Any, second: Any, said: str) -> None:
    _, net = _mixed()
    with pytest.raises(ArgumentError, match=said):
        net(np.zeros(first, np.float32), np.zeros(second, np.float32))


def test_open_images_are_saved(tmp_path: Any) -> None:
    nn = torch.nn
    layers = (nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    module = nn.Sequential(*layers).eval()
    shapes = ({0: Dim("n"), 2: Dim("h", min=4), 3: Dim("w", min=4)},)
    compile_graph(from_torch(module, (_x(2, 3, 16, 20),), dynamic_shapes=shapes)).save(
        tmp_path / "net"
    )
    net = Executable.load(tmp_path / "net")
    for shape in ((2, 3, 16, 20), (1, 3, 5, 9)):
        x = _x(*shape)
        np.testing.assert_allclose(net(x.numpy()), module(x).detach().numpy(), 1e-4, 1e-5)
    with pytest.raises(ArgumentError, match="input_2"):
        net(np.zeros((1, 3, 3, 9), np.float32))


def test_dimensions_that_depend_on_others_are_checked() -> None:
    class Twice(Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x.repeat_interleave(2, 0) + y

    n = Dim("n")
    graph = from_torch(Twice(), (_x(3, 4), _x(6, 4)), dynamic_shapes=({0: n}, {0: 2 * n}))
    net = compile_graph(graph)
    x, y = _x(5, 4), _x(10, 4)
    np.testing.assert_allclose(net(x.numpy(), y.numpy()), Twice()(x, y).numpy(), 1e-6)
    with pytest.raises(ArgumentError, match="input 'y'"):
        net(x.numpy(), y.numpy()[:7])


def test_extents_that_data_gives_are_refused_in_words() -> None:
    class Chosen(Module):
        def forward(self, x: Any) -> Any:
            return x[x > 0]

    with pytest.raises(ImportModelError, match="nothing says before it runs what u0 is: data does"):
        from_torch(Chosen(), (_x(3, 4),))


class Experts(Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(_x(4, 8, 16))

    def forward(self, x: Any, ends: Any) -> Any:
        return torch._grouped_mm(x.bfloat16(), self.weight.bfloat16(), offs=ends).float()


def test_rows_are_multiplied_by_groups(caplog: Any) -> None:
    x, ends = _x(16, 8), torch.tensor([3, 3, 9, 16], dtype=torch.int32)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "tilewright.torch"):
        found = torch.compile(Experts(), backend=backend)(x, ends)
    rows = np.repeat(np.arange(4), [3, 0, 6, 7])
    weight = Experts().weight.detach().bfloat16().double()[rows]
    wanted = torch.einsum("ik,ikj->ij", x.bfloat16().double(), weight)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-2, 1e-2)
    assert not [r for r in caplog.records if r.name == "tilewright.torch"], caplog.text


def test_transposed_convolutions_take_images_of_any_form() -> None:
    module = torch.nn.ConvTranspose2d(3, 4, 4, 2, 1).eval()
    shapes = ({2: Dim("h", min=4, max=400), 3: Dim("w", min=4, max=400)},)
    net = compile_graph(from_torch(module, (_x(1, 3, 16, 12),), dynamic_shapes=shapes))
    for rows, columns in ((9, 13), (13, 9), (5, 5)):
        x = _x(1, 3, rows, columns)
        np.testing.assert_allclose(net(x.numpy()), module(x).detach().numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("times, more", [(2, 0), (2, 1), (3, 5)])
def test_extents_that_are_multiples_of_a_dimension(times: int, more: int) -> None:
    module = torch.nn.Conv1d(4, 6, 5, 2, 2).eval()
    part = Dim("n", min=4, max=2000)
    extent = times * part + more if more else times * part
    net = compile_graph(
        from_torch(module, (_x(2, 4, times * 30 + more),), dynamic_shapes=({2: extent},))
    )
    assert isinstance(net, Executable)
    for n in (5, 100, 500):
        x = _x(2, 4, times * n + more)
        np.testing.assert_allclose(net(x.numpy()), module(x).detach().numpy(), 1e-4, 1e-5)
    for wrong in (times * 40 + more + 1, times * 2001 + more, times * 3 + more):
        with pytest.raises(ArgumentError, match="input_2"):
            net(np.zeros((2, 4, wrong), np.float32))


def test_a_missing_pytorch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportModelError, match=r"pip install 'tilewright\[torch\]'"):
        from_torch(object(), (1,))


class Branches(Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x,))


class Loops(Module):
    def forward(self, x: Any) -> Any:
        from torch._higher_order_ops.while_loop import while_loop

        start = torch.tensor(0)
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), (start, x))


@pytest.mark.parametrize("module, name", [(Branches(), "cond"), (Loops(), "while_loop")])
def test_operators_of_control_are_refused_by_name(module: Any, name: str) -> None:
    with pytest.raises(ImportModelError, match=rf"(?s)  {name}: .*torch\.compile\(module"):
        from_torch(module, (_x(5),))


def test_threads_read_modules_at_once() -> None:
    modules = [torch.nn.Linear(4, n).eval() for n in range(3, 9)]
    with ThreadPoolExecutor(4) as pool:
        graphs = list(pool.map(lambda m: from_torch(m, (_x(2, 4),)), modules))
    assert [g.outputs[0].shape for g in graphs] == [(2, n) for n in range(3, 9)]
