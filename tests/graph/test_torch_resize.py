"""torch.nn.functional.interpolate through from_torch, against PyTorch, whose kernels decide which
elements a factor that is not whole takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
Module: Any = torch.nn.Module

from tilewright.base.errors import ImportModelError  # noqa: E402
from tilewright.graph import compile as compile_graph  # noqa: E402
from tilewright.graph.sizes import Symbols  # noqa: E402
from tilewright.graph.torch.export import from_torch  # noqa: E402
from tilewright.graph.torch.scaled import scaled  # noqa: E402
from tilewright.rt.network import Executable  # noqa: E402
from tilewright.rt.signature import dim_value  # noqa: E402


class Resized(Module):
    """An image at several factors, or of several sizes."""

    def __init__(self, every: Any, **how: Any) -> None:
        super().__init__()
        self.every, self.how = every, how

    def forward(self, x: Any) -> Any:
        resize = torch.nn.functional.interpolate
        return [resize(x, **one, **self.how) for one in self.every]


def _x(*shape: int, dtype: Any = torch.float32) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=dtype)


def _agrees(module: Any, net: Any, x: Any, tolerance: float = 2e-5) -> None:
    found = net(x.numpy())
    found = found if isinstance(found, (list, tuple)) else [found]
    wanted = module(x)
    assert len(found) == len(wanted)
    for a, b, how in zip(found, wanted, module.every):
        assert a.shape == tuple(b.shape)
        np.testing.assert_allclose(a, b.numpy(), tolerance, tolerance, err_msg=str(how))


FACTORS = (1.7, 0.6, 1.04)
PAIRS = [{"scale_factor": f} for f in (1.7, (1.3, 2.2), (0.57, 1.02))]
SIZES = [{"size": (5, 40)}, {"size": (48, 9)}]


@pytest.mark.parametrize("rows, columns", [(24, 17), (61, 83)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("corners", [False, True])
def test_images_are_interpolated(
    mode: str, antialias: bool, corners: bool, rows: int, columns: int
) -> None:
    module = Resized(PAIRS + SIZES, mode=mode, antialias=antialias, align_corners=corners)
    x = _x(1, 3, rows, columns)
    _agrees(module, compile_graph(from_torch(module, (x,))), x, 1e-4)


@pytest.mark.parametrize("corners", [False, True])
def test_lines_and_volumes_are_interpolated(corners: bool) -> None:
    every = [{"scale_factor": f} for f in FACTORS]
    for mode, shape in (("linear", (14,)), ("trilinear", (4, 5, 6))):
        module = Resized(every, mode=mode, align_corners=corners)
        x = _x(2, 3, *shape)
        _agrees(module, compile_graph(from_torch(module, (x,))), x, 1e-4)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(24, 17), (61, 83), (14,), (5, 6, 7)])
def test_nearest_elements_are_those_of_pytorch(mode: str, dtype: Any, shape: Any) -> None:
    every: list[Any] = [{"scale_factor": f} for f in FACTORS]
    if len(shape) == 2:
        every = [*PAIRS, *SIZES, {"scale_factor": (2.04, 1.02)}]
    module = Resized(every, mode=mode)
    x = _x(1, 2, *shape, dtype=dtype)
    _agrees(module, compile_graph(from_torch(module, (x,))), x, 0.0)


OPEN: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "nearest": ([2, (1.7, 0.6), (1.04, 2.04)], {}),
    "nearest-exact": ([(1.7, 0.6)], {}),
    "bilinear": ([2, (1.7, 1.04)], {"align_corners": False}),
    "bicubic": ([1.7], {"align_corners": False}),
}


def _open(module: Any) -> Any:
    dim = torch.export.Dim
    shapes = ({2: dim("h", min=4, max=400), 3: dim("w", min=4, max=400)},)
    net = compile_graph(from_torch(module, (_x(1, 2, 32, 24),), dynamic_shapes=shapes))
    assert isinstance(net, Executable)
    return net


OTHER = ((9, 13), (64, 65), (30, 7))


@pytest.mark.parametrize("mode", OPEN)
def test_open_images_are_resized_by_factors(mode: str) -> None:
    factors, how = OPEN[mode]
    module = Resized([{"scale_factor": f} for f in factors], mode=mode, **how)
    net = _open(module)
    for size in OTHER:
        _agrees(module, net, _x(1, 2, *size), 0.0 if "nearest" in mode else 1e-4)


@pytest.mark.parametrize("mode, antialias", [("bilinear", False), ("bicubic", True)])
def test_open_images_are_resized_to_corners(mode: str, antialias: bool) -> None:
    every = [{"scale_factor": 1.7, "recompute_scale_factor": True}, {"size": (5, 7)}]
    module = Resized(every, mode=mode, antialias=antialias, align_corners=True)
    net = _open(module)
    for size in OTHER:
        _agrees(module, net, _x(1, 2, *size), 1e-4)


class Restored(Module):
    """An image made smaller, and as large as it was."""

    every = ("nearest", "bilinear", "averaged")

    def forward(self, x: Any) -> Any:
        small = torch.nn.functional.avg_pool2d(x, 2)
        resize = torch.nn.functional.interpolate
        return [
            resize(small, x.shape[2:]),
            resize(small, x.shape[2:], mode="bilinear"),
            resize(x, small.shape[2:], mode="bilinear", antialias=True),
        ]


def test_open_images_are_resized_to_open_sizes() -> None:
    net = _open(Restored())
    for size in OTHER:
        _agrees(Restored(), net, _x(1, 2, *size), 1e-4)


def test_factors_of_open_extents_are_those_of_floats() -> None:
    symbols = Symbols()
    size = symbols.size("n", 20)
    for factor in (2.0, 0.5, 1.25, 1.7, 0.6, 1.04, 0.57, 1.4, 0.7, 1 / 3):
        symbols.conditions.clear()
        found = scaled(size, factor)
        tops = [n for n in range(1, 3000) if all(
            (dim_value(d, {"n": n}) <= 0) == holds for d, _, holds in symbols.conditions
        )]  # fmt: skip
        assert len(tops) >= 44
        assert [dim_value(found.dim, {"n": n}) for n in tops] == [int(n * factor) for n in tops]
    with pytest.raises(ImportModelError, match=r"above 44: give the size"):
        scaled(symbols.size("m", 100), 1.4)
