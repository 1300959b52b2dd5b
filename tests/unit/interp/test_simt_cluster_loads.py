"""Blocks of a cluster that read each other's shared memory, and meetings that show no stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.interp import cluster_kit as kit
from tests.unit.interp.hopper_kit import evaluate
from tilewright.interp.simt import run_kernel
from tilewright.loopir import expr as E
from tilewright.loopir import hopper_calls as H
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.calls import storage_sync

LANES = 2
STRICT, RELAXED = H.ptx_cluster_sync(), H.ptx_cluster_sync(relaxed=True)
NEAR = storage_sync("shared")


def run(
    first: Any, last: Any, rank: Any = None, at: Any = None, later: Any = None, cluster: int = 2
) -> tuple[set[str], bool]:
    """Each block writes a row to shared memory, meets others (`first`), reads a row of the next
    one, meets them again (`last`), and may write once more (`later`)."""
    size = kit.THREADS * LANES
    out = decl_buffer((8 * size,), "int32", "OUT")
    row = decl_buffer((size,), "int32", "row", None, None, None, "shared")
    x, t = kit.BLOCKS["blockIdx.x"], kit.THREAD
    own = H.ptx_cluster_rank()
    there = E.FloorMod(own + 1, E.const(cluster)) if rank is None else rank
    place = (kit.THREADS - 1 - t) * LANES if at is None else at
    pointer = E.Call("handle", "tir.tvm_access_ptr", (E.const(0, "int32"), row.data, place, 2, 1))
    lanes = E.Ramp(t * LANES, 1, LANES)

    def fill(more: int) -> S.Stmt:
        value = E.Broadcast(x * 1000 + t + more, LANES)
        return S.BufferStore(row, value, [lanes])

    body = S.seq(
        fill(0),
        *([evaluate(first)] if first is not None else []),
        S.BufferStore(
            out,
            H.ptx_cluster_load("int32x2", pointer, there),
            [E.Ramp(x * size + t * LANES, 1, LANES)],
        ),
        *([evaluate(last)] if last is not None else []),
        *([fill(1), evaluate(later)] if later is not None else []),
    )
    body = S.Allocate(row, body)
    attrs = {"global_symbol": "f"}
    kernel = S.PrimFunc([out.data], kit.launched(body, (8,), cluster), None, {}, attrs)
    found = np.zeros(8 * size, np.int32)
    report = run_kernel(kernel, None, [found], check=False)
    blocks = np.arange(8)
    after = blocks - blocks % cluster + (blocks + 1) % cluster
    want = after[:, None] * 1000 + np.arange(kit.THREADS)[::-1]
    right = bool((found.reshape(8, -1, LANES) == want[..., None]).all())
    return {f.kind for f in report.findings}, right


@pytest.mark.parametrize("cluster", [2, 4, 8])
def test_blocks_read_what_others_have_written(cluster: int) -> None:
    assert run(STRICT, STRICT, cluster=cluster) == (set(), True)
    assert run(STRICT, STRICT, later=NEAR, cluster=cluster) == (set(), True)


@pytest.mark.parametrize("first", [None, NEAR, RELAXED])
def test_stores_are_not_seen_before_all_have_met(first: Any) -> None:
    kinds, _ = run(first, STRICT)
    assert "race between blocks" in kinds


@pytest.mark.parametrize("last", [None, NEAR, RELAXED])
def test_a_block_that_is_read_does_not_end(last: Any) -> None:
    assert run(STRICT, last) == ({"race between blocks"}, True)


@pytest.mark.parametrize("last", [None, NEAR, RELAXED])
def test_what_others_read_is_not_written_before_they_have_met(last: Any) -> None:
    kinds, _ = run(STRICT, last, later=STRICT)
    assert kinds == {"race between blocks"}


@pytest.mark.parametrize("how", [{"rank": 2}, {"rank": -1}, {"at": 127}, {"at": -1}])
def test_places_that_no_block_has(how: dict[str, int]) -> None:
    given: Any = {k: E.const(v) for k, v in how.items()}
    assert "out of bounds" in run(STRICT, STRICT, **given)[0]
