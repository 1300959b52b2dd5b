"""Operators say what they take where a tensor has another number of dimensions: none of them falls
over its shape with an IndexError or a ValueError of Python's own."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tilewright import te, topi
from tilewright.base.errors import TilewrightError
from tilewright.loopir.expr import const_int
from tools.api_pages import entries

MODULES = ("topi", "topi.nn", "topi.image", "topi.vision")
SHAPES = ((), (5,), (2, 3), (1, 2, 3), (1, 2, 4, 4), (1, 2, 4, 4, 4), (1, 2, 4, 4, 4, 2))
FILLED: dict[str, Any] = {
    "axes": (0,), "axis": 0, "begin": (0,), "block_size": 2, "data_layout": "NCHW", "depth": 4,
    "deformable_groups": 1, "dilation": 1, "dilations": 1, "dtype": "float32", "end": (1,),
    "groups": 1, "kernel_layout": "OIHW", "layout": "NCHW", "max_displacement": 1,
    "newshape": (6,), "off_value": 0, "on_value": 1, "out_dtype": "float32", "out_layout": "NCHW",
    "output_padding": 0, "output_size": (1, 1), "padding": 0, "pool_type": "avg", "reps": (2,),
    "repeats": 2, "shape": (2, 3), "size": 3, "stride": 1, "stride1": 1, "stride2": 1,
    "strides": 1, "tile_size": 4,
}  # fmt: skip
LEFT_OUT = {
    "conv_nchwc", "depthwise_nchwc", "winograd_product", "unpack_channels", "conv_nd",
    "unpack_NCHWc_to_nchw",  # what networks are made of: their shapes are the compiler's own
    "dilate", "expand_like", "pool_nd", "max_pool_index", "tensordot",  # FILLED does not fit
    "unravel_index", "searchsorted", "sparse_transpose", "binarize_pack", "argmax", "argmin",
}  # fmt: skip


def operators() -> Iterator[Any]:
    for module in MODULES:
        for entry in entries(f"tilewright.{module}"):
            if not inspect.isfunction(entry.value) or entry.name in LEFT_OUT:
                continue
            needed = [
                p
                for p in inspect.signature(entry.value).parameters.values()
                if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
            ]
            tensors = [p.name for p in needed if p.annotation == "Tensor"]
            others = [p.name for p in needed if p.name not in tensors]
            public = not entry.value.__name__.startswith(("_", "schedule"))
            if tensors and public and all(name in FILLED for name in others):
                yield pytest.param(entry.value, tensors, others, id=f"{module}.{entry.name}")


@pytest.mark.parametrize(("operator", "tensors", "others"), list(operators()))
def test_other_ranks_are_refused_with_an_error_of_ours(
    operator: Callable[..., Any], tensors: list[str], others: list[str]
) -> None:
    filled = {name: FILLED[name] for name in others}
    for shape in SHAPES:
        given = {name: te.placeholder(shape, name=name) for name in tensors}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                operator(**given, **filled)
            except TilewrightError as error:
                assert str(error)


def test_depthwise_filters_for_other_channels() -> None:
    """As of someone who has PyTorch's order, or that of a group, in mind."""
    data, filters = te.placeholder((1, 4, 8, 8)), te.placeholder((1, 4, 3, 3))
    with pytest.raises(TilewrightError, match=r"has 4 channels, .* has filters for 1"):
        topi.nn.depthwise_conv2d_nchw(data, filters, 1, 1, 1)
    data, filters = te.placeholder((1, 8, 8, 4)), te.placeholder((3, 3, 1, 4))
    with pytest.raises(TilewrightError, match=r"has 4 channels, .* has filters for 1"):
        topi.nn.depthwise_conv2d_nhwc(data, filters, 1, 1, 1)
    made = topi.nn.depthwise_conv2d_nhwc(data, filters, 1, 1, 1, "HWIO")
    assert const_int(made.shape[3]) == 4


def test_what_is_said_of_a_rank() -> None:
    image, filters = te.placeholder((8, 8), name="X"), te.placeholder((4, 3, 3, 3), name="W")
    for make, parts in (
        (lambda: topi.nn.depthwise_conv2d_nchw(image, filters, 1, 1, 1), "Input has 4 dimensions"),
        (lambda: topi.nn.conv2d_transpose_nchw(image, filters, (1, 1), (0, 0), "float32", (0, 0)),
         "have not the same dimensions"),
        (lambda: topi.nn.batch_matmul(image, image), "topi.matmul takes others"),
        (lambda: topi.nn.bias_add(image, te.placeholder((8,)), axis=2), "axis 2 is out of range"),
        (lambda: topi.strided_slice(image, (0, 0, 0), (1, 1, 1)), "axis 2 is out of range"),
        (lambda: topi.gather_nd(image, te.placeholder((), "int32")), "indices has 1 or more dim"),
    ):  # fmt: skip
        with pytest.raises(TilewrightError, match=parts):
            make()
