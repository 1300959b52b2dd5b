"""`tvm.contrib.dlpack`: built functions on arrays of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def convert_func(
    tvm_func: Any, tensor_type: type, to_dlpack_func: Callable[[Any], Any]
) -> Callable[..., Any]:
    """`tvm_func` taking arrays of `tensor_type`, shared without a copy through DLPack."""
    from ..rt.array import from_dlpack

    def call(*args: Any) -> Any:
        return tvm_func(
            *(from_dlpack(to_dlpack_func(a)) if isinstance(a, tensor_type) else a for a in args)
        )

    return call


def to_pytorch_func(tvm_func: Any) -> Callable[..., Any]:
    """`tvm_func`, which takes PyTorch's tensors without a copy as it is."""
    return lambda *args: tvm_func(*args)
