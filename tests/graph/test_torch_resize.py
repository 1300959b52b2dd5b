"""torch.nn.functional.interpolate through from_torch, against PyTorch, whose kernels decide which
elements a factor that is not whole takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
Module: Any = torch.nn.Module

from tilewright.graph import compile as compile_graph  # noqa: E402
from tilewright.graph.torch.export import from_torch  # noqa: E402


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
SIZES = [{"size": (5, 40)}, {"size": (48, 1)}]


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
