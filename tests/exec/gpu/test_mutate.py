"""A slice of `python -m tests.exec.gpu.mutate`: what simt reports when kernels are damaged."""

from __future__ import annotations

import pytest

from tests.exec.gpu.mutate import LEAST, LISTED, listed, survey, why

SLICE = (
    "add_float4_tail",
    "transpose_odd",
    "rows_by_48_two_a_block",
    "argmax_by_64",
    "factored_rows",
    "matmul_odd_double",
    "matmul_async",
    "matmul_pipeline_registers",
    "matmul_pipeline_registers_odd",
    "matmul_virtual_double_vectors",
    "conv_shared_double",
    "softmax_block",
    "mirrored_scan",
    "prefix_sweeps",
    "five_points_twice",
    "two_kernels",
    "histogram_shared",
    "wgmma_half",
    "wgmma_bfloat_in_step",
    "wgmma_half_parts",
    "wgmma_bytes",
    "sort",
    "sums",
    "attend_half",
    "dense_pipeline",
    "matmul_odd_columns",
    "dense_hopper",
    "dense_cluster_below",
    "matmul_cluster_beside",
    "dense_cluster_joined",
    "dense_stays",
    "dense_stream",
)


@pytest.mark.parametrize("name", SLICE)
def test_damage_is_reported(name: str) -> None:
    reasons = listed()
    found = survey(name)
    silent = [m for m, outcome in found if not outcome]
    assert len(found) > len(silent)
    unknown = [m.name for m in silent if not why(m, reasons)]
    assert not unknown, f"not reported, and not in {LISTED.name}"


def test_most_is_reported() -> None:
    outcomes = [outcome for name in SLICE[:6] for _, outcome in survey(name)]
    assert sum(map(bool, outcomes)) >= LEAST * len(outcomes)


@pytest.mark.parametrize(
    ("name", "what", "kind"),
    [
        ("transpose_odd", "barrier", "race"),
        ("transpose_odd", "shared buffer", "out of bounds"),
        ("transpose_odd", "array", "out of bounds"),
        ("matmul_async", "wait", "async copy not waited for"),
        ("matmul_async", "end of a group of copies", "async copy not waited for"),
    ],
)
def test_what_is_reported(name: str, what: str, kind: str) -> None:
    found = [outcome for m, outcome in survey(name) if m.what.startswith(what)]
    assert found and set(found) == {kind}
