"""Comparing what an operator gives with what NumPy does: `topi.testing.compare_numpy_tvm`; and what
a target does with what Threefry needs: `topi.random.threefry_test_wrapping`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..loopir.expr import const
from ..rt.array import array
from ..target.target import Target
from ..tensor.compute import compute as compute_tensor
from ..tensor.compute import placeholder
from ..topi.schedules.default import default_schedule
from .build_module import build


def compare_numpy_tvm(
    inputs: Sequence[np.ndarray[Any, Any]],
    output: np.ndarray[Any, Any],
    target: Any,
    device: Any,
    compute: Callable[..., Any],
    schedule: Callable[..., Any],
) -> None:
    """Raise AssertionError where `compute` of tensors of the inputs, under `schedule`, differs from
    `output` on a device by more than a relative 1e-4. Raises TargetError where `target` is no
    target, as text, dict or Target, where `target` has no kind of target, or no attributes by
    name."""
    tensors = [placeholder(x.shape, str(x.dtype)) for x in inputs]
    with Target(target):
        out = compute(*tensors)
        built = build(schedule([out]), [*tensors, out])
    found = array(np.zeros(output.shape, output.dtype), device)
    built(*(array(np.asarray(x), device) for x in inputs), found)
    np.testing.assert_allclose(found.numpy(), output, rtol=1e-4, atol=1e-5)


def threefry_test_wrapping(target: Any, device: Any) -> bool:
    """Whether the largest number of uint64, plus one, is zero in a program that `target` runs on
    `device`. Raises TargetError where `target` is no target, as text, dict or Target, where
    `target` has no kind of target, or no attributes by name."""
    with Target(target):
        most = placeholder((1,), "uint64")
        after = compute_tensor((1,), lambda i: most(i) + const(1, "uint64"))
        built = build(default_schedule(after), [most, after])
    found = array(np.ones(1, "uint64"), device)
    built(array(np.full(1, 2**64 - 1, "uint64"), device), found)
    return bool(found.numpy()[0] == 0)
