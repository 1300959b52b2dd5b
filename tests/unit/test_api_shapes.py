"""Operators say of which shape and type what they give is; what they say of it is so."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.errors.test_operator_ranks import FILLED, SHAPES
from tilewright import te
from tools.api_shapes import lacking, lacks, operators

MORE: dict[str, Any] = {
    "a_max": 1, "a_min": 0, "alpha": 0.1, "fill_value": 0, "indices_or_sections": 1, "n": 3,
    "dst_layout": "NHWC", "kernel": (1, 1), "multiplier": 1 << 30, "pad_before": (0, 0), "shift": 1,
    "scale_d": 2, "scale_h": 2, "scale_w": 2, "src_layout": "NCHW", "target_shape": (1, 2, 4, 4, 4),
    "size": 3, "block_shape": (1,), "vc": 1,
}  # fmt: skip
KEPT = (
    r"which the result keeps|whose (?:shape and )?type the result keeps|[Ss]hape and type[^.]* stay"
)
SHAPE_KEPT = r"whose shape and type the result keeps|[Ss]hape and type[^.]* stay|[Tt]he shape stays"
INTEGERS = {"condition", "index", "indices", "seq_lengths", "valid_count", "valid_length"}


def test_every_operator_says_of_which_shape_and_type_its_result_is() -> None:
    assert lacking() == []
    assert len(list(operators())) > 230, "the reader has found less than there was"


def test_what_is_not_said_is_missing() -> None:
    def twice(x: te.Tensor) -> te.Tensor:
        """Twice. Raises TilewrightError where `x` has no type or shape."""
        return x

    assert [one.what for one in lacks("twice", twice)] == ["shape", "dtype"]


def said() -> Iterator[Any]:
    """Operators that keep a type or a shape, and which types they take."""
    for path, value in operators():
        doc = " ".join((inspect.getdoc(value) or "").split())
        types, shape = re.search(KEPT, doc), re.search(SHAPE_KEPT, doc)
        if types or shape:
            floats, integers = "akes floats" in doc, "akes integers" in doc
            kinds = ["float16", "float32"] * (not integers) + ["int32", "int8"] * (not floats)
            made = applied(value, kinds[0])
            if made is not None:
                yield pytest.param(value, kinds, bool(types), bool(shape), id=path.split(".", 1)[1])


def applied(operator: Callable[..., Any], dtype: str) -> tuple[Any, te.Tensor] | None:
    """What an operator makes of tensors of a type, and the first of these; None where no shape
    or no argument that is filled in fits."""
    parameters = inspect.signature(operator).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    for shape in SHAPES:
        given: dict[str, Any] = {}
        for p in needed:
            kind = "int32" if p.name in INTEGERS else dtype
            if "Sequence[Tensor" in str(p.annotation):
                given[p.name] = [te.placeholder(shape, kind)]
            elif p.annotation == "Tensor":
                given[p.name] = te.placeholder(shape, kind)
            elif p.name in (known := {**FILLED, **MORE}):
                given[p.name] = known[p.name]
            else:
                return None
        first = next(iter(given.values()))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = operator(**given)
        except Exception:  # another shape will do
            continue
        return made, first[0] if isinstance(first, list) else first
    return None


CLAIMS = list(said())


def test_most_claims_are_tried() -> None:
    assert len(CLAIMS) > 70


@pytest.mark.parametrize(("operator", "kinds", "types", "shape"), CLAIMS)
def test_what_is_said_to_stay_stays(
    operator: Callable[..., Any], kinds: list[str], types: bool, shape: bool
) -> None:
    for kind in kinds:
        found = applied(operator, kind)
        assert found is not None, f"{kind} is refused"
        made, given = found
        result = made[0] if isinstance(made, (list, tuple)) else made
        if types:
            assert result.dtype == given.dtype
        if shape:
            assert [str(d) for d in result.shape] == [str(d) for d in given.shape]
