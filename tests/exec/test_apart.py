"""The benchmark that tells near cores from cores that are apart: how it sorts its turns."""

from __future__ import annotations

import math

import pytest

from benchmarks.apart import kinds_of, limit_of, rows_of

NEAR, APART = 2e-7, 6e-7


def test_round_trips_of_one_kind_have_no_limit() -> None:
    assert limit_of([2e-7, 2.2e-7, 3e-7]) == math.inf


def test_round_trips_of_two_kinds_have_one_between_them() -> None:
    assert 3e-7 < limit_of([2e-7, 3e-7, 6e-7]) < 6e-7


def test_turns_in_which_the_machine_was_moved_do_not_count() -> None:
    turns = [(NEAR, NEAR, [1.0]), (NEAR, APART, [2.0]), (APART, APART, [3.0]), (APART, NEAR, [4.0])]
    assert kinds_of(turns, limit_of([NEAR, APART])) == {"near": [[1.0]], "apart": [[3.0]]}
    assert kinds_of(turns[:1], math.inf) == {"near": [[1.0]], "apart": []}


def test_rows_have_medians_and_the_ratios_of_turns() -> None:
    turns = [(NEAR, NEAR, [t, 3 * t]) for t in (1.0, 2.0, 9.0)]
    (row,) = rows_of("models/net.onnx", turns, math.inf, ["ours", "onnxruntime"])
    assert (row["network"], row["cores"], row["turns"]) == ("net", "near", 3)
    assert row["ms"] == {"ours": 2.0, "onnxruntime": 6.0}
    assert row["ratio"] == {"onnxruntime": pytest.approx(3.0)}
