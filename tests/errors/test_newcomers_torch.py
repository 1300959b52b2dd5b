"""What people give from_torch that torch.export cannot read, and what they are told."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
Module: Any = torch.nn.Module

import tilewright as tvm  # noqa: E402
from tilewright.base.errors import ImportModelError  # noqa: E402

PARTS = r'torch\.compile\(module, backend="tilewright"\)'


class Branches(Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


class Eigenvalues(Module):
    def forward(self, x: Any) -> Any:
        return torch.linalg.eig(x)[0].real


def test_a_module_without_inputs() -> None:
    with pytest.raises(ImportModelError, match=r"give inputs to call it with, as in from_torch\("):
        tvm.from_torch(torch.nn.Linear(3, 4))


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of what it was asked to trace
def test_a_module_that_branches_on_its_data() -> None:
    with pytest.raises(ImportModelError, match=r"torch\.where chooses without that, and " + PARTS):
        tvm.from_torch(Branches(), (torch.zeros(3, 3),))


def test_a_module_with_an_operator_that_is_not_there() -> None:
    with pytest.raises(ImportModelError, match=PARTS) as caught:
        tvm.from_torch(Eigenvalues(), (torch.eye(3),))
    assert "aten.linalg_eig.default: there is no such operator here" in str(caught.value)
