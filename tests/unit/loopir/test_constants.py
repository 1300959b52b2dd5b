"""Constants: what a type holds, what was given and what programs compute with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.narrow import value_of
from tilewright import tir
from tilewright.base.errors import OperandError, TilewrightError
from tilewright.loopir.equal import structural_equal
from tilewright.loopir.hash import structural_hash


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (128, "int8"),
        (-129, "int8"),
        (-1, "uint8"),
        (256, "uint8"),
        (2, "bool"),
        (2**31, "int32"),
        (2**64, "uint64"),
        (65505.0, "float16"),
        (-3.403e38, "float32"),
        (1e39, "float32x4"),
    ],
)
def test_a_type_holds_no_more_than_it_does(value: Any, dtype: str) -> None:
    with pytest.raises(OperandError, match="does not fit"):
        tir.const(value, dtype)


def test_types_of_numbers() -> None:
    large = float(np.finfo("float32").max)
    given: list[tuple[Any, str]] = [
        (2**31 - 1, "int32"), (2**31, "int64"), (large, "float32"), (3.402e39, "float64"),
        (math.inf, "float32"), (np.float16(1), "float16"), (True, "bool"),
    ]  # fmt: skip
    for value, dtype in given:
        assert tir.const(value).dtype == dtype and value_of(tir.const(value)) == value
    with pytest.raises(OperandError, match="is no float"):
        tir.FloatImm("int32", 1.0)


def test_casts_of_constants_wrap_and_round() -> None:
    assert value_of(tir.const(300).astype("int8")) == 44
    assert value_of(tir.const(-1).astype("uint16")) == 65535
    assert value_of(tir.const(1e39, "float64").astype("float32")) == math.inf
    assert value_of(tir.const(0.1, "float32").astype("float64")) == float(np.float32(0.1))


def test_a_value_stays_as_given_and_counts_rounded() -> None:
    given, rounded = tir.const(3.14159), tir.const(float(np.float32(3.14159)))
    assert isinstance(given, tir.FloatImm) and given.value == 3.14159
    assert given.number == float(np.float32(3.14159)) and tir.IntImm("int8", 7).number == 7
    assert structural_equal(given, rounded) and structural_hash(given) == structural_hash(rounded)
    assert value_of(given == rounded) == 1
    assert value_of(given + 0.1) == float(np.float32(3.14159) + np.float32(0.1))
    assert str(given) == str(rounded) == "T.float32(3.14159)"


def test_nans_are_one() -> None:
    payload = float(np.int32(0x7F800001).view("float32"))
    one, other = tir.const(math.nan, "float32"), tir.const(payload, "float32")
    assert structural_equal(one, other) and structural_hash(one) == structural_hash(other)


def test_operators_fold_what_has_one_value() -> None:
    x = tir.Var("x", "int32")
    for zero in (0 // x, 0 % x, x % 1, tir.truncmod(x, 1), tir.truncdiv(0, x)):
        assert value_of(zero) == 0
    with pytest.raises(TilewrightError, match="division by zero"):
        _ = tir.const(1.0) / 0.0
    for amount in (-1, 32):
        with pytest.raises(TilewrightError, match="is not in"):
            _ = x << amount
    assert str(10 ^ x) == "T.bitwise_xor(10, x)" and str(7 & x) == "T.bitwise_and(7, x)"


def test_vectors_of_unknown_length() -> None:
    lanes: Any = tir.Ramp(0, 1, 11 * tir.vscale()).lanes
    assert structural_equal(lanes.a, tir.vscale()) and lanes.b.value == 11
    for wrong in (tir.vscale(), tir.vscale() + 3):
        with pytest.raises(OperandError, match="lanes"):
            tir.Broadcast(0, wrong)
    buffer = tir.decl_buffer((24,))
    at = tir.Ramp(0, 1, 4 * tir.vscale())
    fits, short = (tir.Broadcast(tir.const(1, "bool"), n) for n in (4 * tir.vscale(), 4))
    assert tir.BufferLoad(buffer, [at], fits).dtype == "float32xvscalex4"
    with pytest.raises(OperandError, match="must both be scalable"):
        tir.BufferLoad(buffer, [at], short)
    with pytest.raises(OperandError, match=r"mask with 8 lanes, but trying to store .* 4 lanes"):
        tir.BufferStore(buffer, tir.Broadcast(1.0, 4), [tir.Ramp(0, 1, 4)], tir.Broadcast(True, 8))


def test_types_of_variables() -> None:
    pointer = tir.Var("p", tir.decl_buffer((4,), "int8", scope="shared").data.type_annotation)
    assert pointer.dtype == "handle" and str(pointer.type_annotation) == (
        "PointerType(PrimType(int8), 'shared')"
    )
    assert str(tir.Var("n", "int64").type_annotation) == "PrimType(int64)"
