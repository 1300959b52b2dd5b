"""Complex numbers and Fourier transforms within modules of PyTorch, against PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tilewright.base.errors import ImportModelError  # noqa: E402
from tilewright.graph import compile as compile_graph  # noqa: E402
from tilewright.graph.torch.export import from_torch  # noqa: E402
from tilewright.rt.network import Executable  # noqa: E402

fft = torch.fft


class Of(torch.nn.Module):  # type: ignore[name-defined]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given)


class Turned(torch.nn.Module):  # type: ignore[name-defined]
    """Rotary embedding as Llama's authors wrote it, with complex constants."""

    def __init__(self, steps: int, size: int) -> None:
        super().__init__()
        turns = torch.outer(torch.arange(steps), 10.0 ** -torch.arange(size // 2))
        self.register_buffer("turns", torch.polar(torch.ones_like(turns), turns))

    def forward(self, x: Any) -> Any:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[: x.shape[1]]).flatten(-2)


def drawn(*shape: int, dtype: Any = None) -> Any:
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=made, dtype=dtype)


def same(module: Any, *args: Any, tol: float = 2e-5) -> None:
    module = module if isinstance(module, torch.nn.Module) else Of(module)
    wanted = module(*args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    graph = from_torch(module, args)
    net = compile_graph(graph)
    assert isinstance(net, Executable)
    found = net.run({v.name: a.numpy() for v, a in zip(graph.inputs, args)})
    assert len(found) == len(wanted)
    for a, b in zip(found.values(), wanted):
        scale = max(float(b.abs().max()), 1.0) if b.numel() else 1.0
        np.testing.assert_allclose(a, b.numpy(), rtol=tol, atol=tol * scale, strict=True)


def pairs(x: Any) -> Any:
    return torch.view_as_real(x)


NORMS = ("backward", "ortho", "forward")


@pytest.mark.parametrize("n, norm", [(None, 0), (1, 1), (5, 2), (13, 1), (24, 0), (10, 2)])
def test_transforms_of_lines(n: int | None, norm: int) -> None:
    def transforms(x: Any) -> Any:
        how = {"n": n, "norm": NORMS[norm]}
        whole, half = fft.fft(x), fft.rfft(x)
        found = fft.rfft(x, **how), fft.fft(x, **how), fft.ifft(whole, **how)
        return *map(pairs, found), fft.irfft(half, **how), fft.hfft(whole, **how)

    same(transforms, drawn(3, 10))


@pytest.mark.parametrize("dims, norm", [((-2, -1), 0), ((0, 1), 1), ((2, 0), 2), ((1,), 1)])
def test_transforms_of_images(dims: Any, norm: int) -> None:
    def transforms(x: Any) -> Any:
        how = {"dim": dims, "norm": NORMS[norm]}
        half = fft.rfftn(x, **how)
        whole = fft.fftn(x, dim=dims)
        return pairs(half), pairs(fft.ifftn(whole, **how)), fft.irfftn(half, **how)

    same(transforms, drawn(4, 5, 6))


@pytest.mark.parametrize("size", [509, 600, 1021])
def test_long_transforms(size: int) -> None:
    same(lambda x: (pairs(fft.rfft(x)), fft.irfft(fft.rfft(x), size)), drawn(2, size))


@pytest.mark.parametrize("shape", [(1, 1), (1, 7, 3)])
def test_odd_shapes(shape: Any) -> None:
    same(lambda x: (pairs(fft.rfft(x)), pairs(fft.fft(x, dim=0))), drawn(*shape))


def test_no_elements() -> None:
    """PyTorch's own transforms take some."""
    same(lambda x: pairs(torch.complex(x, x) * torch.complex(x, -x)), drawn(0, 4))


def test_float64() -> None:
    x = drawn(3, 9, dtype=torch.float64)
    same(lambda x: fft.fft2(x).abs(), x, tol=1e-12)


@pytest.mark.parametrize("size, hop, how", [
    (8, 4, {}), (16, 4, {"center": False}), (10, 3, {"normalized": True}),
    (7, 7, {"onesided": False}), (8, 2, {"pad_mode": "constant"}),
])  # fmt: skip
def test_spectrograms(size: int, hop: int, how: dict[str, Any]) -> None:
    window = torch.hann_window(size)

    def lines(x: Any) -> Any:
        found = torch.stft(x, size, hop, window=window, return_complex=True, **how)
        return found.abs() ** 2, pairs(found)

    same(lines, drawn(2, 61))


@pytest.mark.parametrize("size, hop, length", [(8, 4, None), (16, 4, 64), (12, 3, 50)])
def test_spectrograms_and_back(size: int, hop: int, length: int | None) -> None:
    window, x = torch.hann_window(size), drawn(2, 60)

    def there_and_back(x: Any) -> Any:
        lines = torch.stft(x, size, hop, window=window, return_complex=True)
        return torch.istft(lines * 0.5, size, hop, window=window, length=length)

    same(there_and_back, x)
    same(lambda x: torch.istft(torch.view_as_complex(x), 6, 2, window=torch.ones(6)),
         drawn(3, 4, 9, 2))  # fmt: skip


PLAIN: dict[str, Callable[..., Any]] = {
    "products": lambda a, b: pairs(a * b),
    "products with real ones": lambda a, b: pairs(a * b.real + 2 * b.imag * a),
    "sums": lambda a, b: pairs(a - b + 3 - 2j * a + b.real),
    "sums with factors": lambda a, b: pairs(torch.add(a, b, alpha=2)),
    "quotients": lambda a, b: pairs(a / b + a / b.abs() + a / 3 + 1 / b),
    "absolute": lambda a, b: a.abs() + (a + b).abs(),
    "angles": lambda a, b: torch.angle(a) + torch.angle(b.real),
    "conjugates": lambda a, b: pairs(a.conj() * b + b.mH.mT),
    "polar": lambda a, b: pairs(torch.polar(a.abs(), b.angle())),
    "exponentials": lambda a, b: pairs(torch.exp(a) + torch.exp(1j * b.real)),
    "logarithms": lambda a, b: pairs(torch.log(a)),
    "powers": lambda a, b: pairs(a**2 + b**3 + a**0.5),
    "matrices": lambda a, b: pairs(a @ b.mT),
    "matrices with real ones": lambda a, b: pairs(a @ b.real.to(a.dtype).mT),
    "einsum": lambda a, b: pairs(torch.einsum("bi,oi->bo", a, b)),
    "means": lambda a, b: pairs(a.mean(0) + b.sum(0, keepdim=True)),
    "moves": lambda a, b: pairs(torch.cat([a.flip(1), b.roll(2, 0)], 1).T.reshape(-1)[2:, None]),
    "parts": lambda a, b: pairs(torch.stack(a.chunk(2, 1)) * torch.stack(b[:, 2:].unbind(0))),
    "shifts": lambda a, b: pairs(fft.ifftshift(fft.fftshift(a) * b)),
    "padding": lambda a, b: pairs(torch.nn.functional.pad(a, (1, 2)).expand(2, 3, -1)),
    "choices": lambda a, b: pairs(torch.where(a.abs() > 1, a, b)),
    "masks": lambda a, b: pairs(torch.zeros_like(a) + torch.full((2, 1, 1), 2 + 1j) * b),
    "types": lambda a, b: pairs(a.real.to(torch.complex64) + b),
}


@pytest.mark.parametrize("name", PLAIN)
def test_complex_numbers(name: str) -> None:
    function = PLAIN[name]

    def of_pairs(x: Any, y: Any) -> Any:
        return function(torch.view_as_complex(x), torch.complex(y[..., 0], y[..., 1]))

    same(of_pairs, drawn(3, 4, 2), drawn(3, 4, 2) + 0.5, tol=1e-4)


@pytest.mark.parametrize("steps", [1, 7])
def test_rotary_embedding_by_complex_constants(steps: int) -> None:
    same(Turned(9, 8), drawn(2, steps, 8))


def test_long_convolution() -> None:
    def convolved(x: Any, k: Any) -> Any:
        n = x.shape[-1] + k.shape[-1]
        return fft.irfft(fft.rfft(x, n) * fft.rfft(k, n), n)[..., : x.shape[-1]]

    same(convolved, drawn(2, 3, 37), drawn(3, 37))


def test_open_batches() -> None:
    module = Of(lambda x: fft.irfft(fft.rfft(x) * 2j).mean(-1) + fft.fft(x).abs().sum(-1))
    shapes = ({0: torch.export.Dim("n", min=2, max=99)},)
    program = torch.export.export(module, (drawn(3, 10),), dynamic_shapes={"given": shapes})
    net = compile_graph(from_torch(program))
    for n in (2, 5, 40):
        x = drawn(n, 10)
        np.testing.assert_allclose(net(x.numpy()), module(x).numpy(), rtol=1e-4, atol=1e-4)


def test_complex_numbers_do_not_leave() -> None:
    with pytest.raises(ImportModelError, match=r"torch.view_as_real gives them as pairs"):
        from_torch(Of(fft.fft), (drawn(3),))
    with pytest.raises(ImportModelError, match=r"is torch.complex64, which is not supported"):
        from_torch(Of(torch.abs), (drawn(3, dtype=torch.complex64),))


def test_what_is_not_supported_is_named() -> None:
    with pytest.raises(ImportModelError, match=r"asin.* of complex numbers is not supported"):
        from_torch(Of(lambda x: torch.asin(fft.fft(x)).real), (drawn(3),))
