"""What docstrings say of errors is what calls raise: an argument that is wrong in the way that a
docstring names gets the class that it names."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.errors.test_operator_ranks import FILLED
from tilewright import te, tir
from tilewright.base.errors import OperandError, TilewrightError
from tools.api_errors import Public, public

WRONG = {
    "holds what is neither a number nor an expression": ([object()], OperandError),
    "is neither a number nor an expression": (object(), OperandError),
    "is no type such as 'float32'": ("no_such_type", TilewrightError),
    "is no integer, or no dimension of the tensor": (99, TilewrightError),
    "is not text": (3, TilewrightError),
}
"""What is said of a parameter: a value of which it is so, and what is raised."""


LEFT_OUT = {
    "tir.address_of-obj", "tir.dp4a-acc", "tir.if_then_else-f", "tir.if_then_else-t",
    "tir.ldexp-x2", "op.select-false_value", "op.select-true_value",  # int32 stands for the others
    "tir.evaluate-value", "tir.launch_thread-extent", "tir.thread_binding-start",  # in a function
    "frames.ForFrame-domains",  # pairs
    "te.max-expr", "te.min-expr", "te.prod-expr", "te.sum-expr",  # with an axis
    "topi.arange-step", "topi.arange-stop", "nn.bitpack-bits", "nn.bitserial_dense-data_bits",
    "nn.bitserial_dense-weight_bits", "nn.simulated_dequantize-input_scale",
    "nn.simulated_dequantize-input_zero_point", "utils.within_index-s",
    "utils.make_idx-s", "image.crop_and_resize-crop_size",
    "cuda.get_valid_counts-score_threshold", "cuda.non_max_suppression-iou_threshold",
    "cuda.non_max_suppression-max_output_size",
    "cuda.all_class_non_max_suppression-iou_threshold",
    "cuda.all_class_non_max_suppression-max_output_boxes_per_class",
    "cuda.all_class_non_max_suppression-score_threshold",  # tensors of other shapes
}  # fmt: skip
"""Where the arguments that are filled in are wrong themselves, and refused first."""


def claims() -> Iterator[Any]:
    """Calls with one wrong argument, where the others are known by name or may be left out."""
    for item in public():
        text = " ".join((inspect.getdoc(item.value) or "").split())
        for said, (wrong, error) in WRONG.items():
            names = r"((?:(?:one of )?`\w+`(?:, | or )?)+)"
            for found in re.finditer(f"{names} {re.escape(said)}", text):
                for several, name in re.findall(r"(one of )?`(\w+)`", found[1]):
                    given = arguments(item, name, [wrong] if several else wrong)
                    where = f"{item.path}-{name}"
                    if given is not None and ".".join(where.split(".")[-2:]) not in LEFT_OUT:
                        yield pytest.param(item.value, given, error, id=where)


def arguments(item: Public, name: str, wrong: Any) -> dict[str, Any] | None:
    """All arguments that a call needs, one of them wrong; None where one is not known."""
    if not inspect.isfunction(item.value) and item.value is not item.owner:
        return None
    if item.value is not item.owner and item.owner is not None:
        return None
    try:
        parameters = inspect.signature(item.value).parameters
    except ValueError:
        return None
    if name not in parameters or parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
        return None
    given: dict[str, Any] = {}
    for p in parameters.values():
        if p.name == name:
            given[p.name] = wrong
        elif p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            value = filled(item, p)
            if value is None:
                return None
            given[p.name] = value
    return given


def filled(item: Public, parameter: inspect.Parameter) -> Any:
    kind = str(parameter.annotation)
    if parameter.name in FILLED:
        return FILLED[parameter.name]
    if kind == "Tensor":
        return te.placeholder((2, 3), name=parameter.name)
    topi = ".topi" in item.path
    if kind in ("Any", "ExprLike", "PrimExpr") and parameter.name != "span":
        return te.placeholder((2, 3), name=parameter.name) if topi else tir.Var("v", "int32")
    return {"int": 1, "float": 1.0, "str": "float32"}.get(kind)


@pytest.mark.parametrize(("function", "given", "error"), list(claims()))
def test_a_wrong_argument_raises_what_is_said(
    function: Any, given: dict[str, Any], error: type[TilewrightError]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error) as caught:
            function(**given)
    assert str(caught.value)
