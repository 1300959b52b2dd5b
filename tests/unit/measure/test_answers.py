"""Results of candidates are checked against what their tensors say."""

from typing import Any

import pytest

import tilewright as tvm
from tests.unit.measure.runner_kit import LLVM, measured
from tilewright import te
from tilewright.measure.program import describe
from tilewright.measure.result import MeasureErrorNo as No


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8", "bool", "float64"])
def test_arguments_of_every_type_can_be_made(dtype: str) -> None:
    A = te.placeholder((8,), dtype, name="A")
    B = te.compute((8,), lambda i: A[7 - i], name="B")
    (result,) = measured([describe(te.create_schedule(B.op), [A, B], LLVM)], check=True)
    assert result.ok, result.message


def test_a_wrong_answer_is_found() -> None:
    """The loops of one computation pretend to be another's schedule."""
    A = te.placeholder((8,), name="A")
    right, wrong = (te.compute((8,), lambda i, c=c: A[i] + c, name="B") for c in (1.0, 2.0))
    honest = describe(te.create_schedule(right.op), [A, right], LLVM)
    module = tvm.lower(te.create_schedule(wrong.op), [A, wrong], name="candidate")
    forged = {**honest, "ir": tvm.ir.save_json(module)}
    found = measured([honest, forged], check=True)
    assert found[0].ok and found[1].error_no == No.WRONG_ANSWER
    assert "B[0] is" in found[1].message and "8 of 8 elements" in found[1].message


def relaid(order: str) -> dict[str, Any]:
    """A product whose second operand lies in memory otherwise than its tensor says."""
    A, B = (te.placeholder((8, 12), name=x) for x in "AB")
    C = te.compute((8, 12), lambda i, j: A[i, j] - 2.0 * B[7 - i, j], name="C")
    s = te.create_schedule(C.op)
    maps = {
        "blocked": lambda i, j: [j // 4, i, j % 4],
        "swapped": lambda i, j: [j, i],
        "padded": lambda i, j: [j // 5, i, j % 5],
    }
    s[B].transform_layout(maps[order])
    return describe(s, [A, B, C], LLVM)


@pytest.mark.parametrize("order", ["blocked", "swapped", "padded"])
def test_results_are_checked_where_an_argument_is_laid_out_anew(order: str) -> None:
    (result,) = measured([relaid(order)], check=True)
    assert result.ok, result.message


def test_results_are_checked_against_the_computation_that_was_rewritten() -> None:
    """The candidate reads an operand in tiles, the computation it came from does not."""
    A, B = (te.placeholder((8, 12), name=x) for x in "AB")
    C = te.compute((8, 12), lambda i, j: A[i, j] - 2.0 * B[7 - i, j], name="C")
    plain = describe(te.create_schedule(C.op), [A, B, C], LLVM)
    T = te.placeholder((3, 8, 4), name="B")
    tiled = te.compute((8, 12), lambda i, j: A[i, j] - 2.0 * T[j // 4, i, j % 4], name="C")
    program = describe(te.create_schedule(tiled.op), [A, T, tiled], LLVM)
    data = {"tensors": plain["tensors"], "args": 3}
    dims = [[1, 3], [~0, 8], [1, 4]]
    right = {**program, "reference": {**data, "layouts": {"1": [[8, 12], dims]}}}
    forwards = [[1, 3], [0, 8], [1, 4]]
    wrong = {**program, "reference": {**data, "layouts": {"1": [[8, 12], forwards]}}}
    found = measured([right, wrong], check=True)
    assert found[0].ok, found[0].message
    assert found[1].error_no == No.WRONG_ANSWER
