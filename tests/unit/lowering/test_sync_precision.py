"""Barriers where loops have bounds of block indices or of symbols: none that nothing needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tests.exec.gpu.corpus import stencil
from tests.exec.gpu.corpus.matmul import Tiles, tiled
from tilewright import te

COUNTS: dict[str, tuple[Callable[[], tuple[Any, list[Any]]], int]] = {
    # one for the tile in each part: blocks inside, and blocks at the edge
    "guards of one iteration": (lambda: stencil.five_points(16, 24, False), 2),
    "bounds of block indices": (lambda: stencil.five_points(16, 20, True), 2),
    "symbolic bounds": (lambda: stencil.three_points(te.size_var("n"), 32), 2),
    # in each part: one after each fetch, of the double buffer and of the shorter last step
    "guards of loops that have ended": (
        lambda: tiled(Tiles((20, 33, 18), double=True)),
        8,
    ),
    # two in the loop of each part
    "symbolic rows": (lambda: tiled(Tiles((te.size_var("n"), 32, 16))), 4),
}


def _rows_of_vectors() -> tuple[Any, list[Any]]:
    """Rows of 9 elements in vectors of 4, of which the last one leaves 3 lanes out: those would be
    elements of the next thread's row."""
    A = te.placeholder((63, 9), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    i, tx = s[B].split(B.op.axis[0], factor=7)
    ty, lane = s[B].split(B.op.axis[1], factor=4)
    s[B].reorder(ty, tx, i, lane)
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    s[B].bind(ty, te.thread_axis("threadIdx.y"))
    s[B].vectorize(lane)
    s[B].unroll(i)
    return s, [A, B]


COUNTS["lanes that a predicate leaves out"] = (_rows_of_vectors, 0)


@pytest.mark.parametrize("name", COUNTS)
def test_barriers(name: str) -> None:
    make, count = COUNTS[name]
    source = tw.build(*make(), "cuda").imported_modules[0].get_source()
    assert source.count("__syncthreads()") == count
