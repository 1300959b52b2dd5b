"""float16 and bfloat16: arithmetic, sums in float32, conversions, vectors."""

from __future__ import annotations

from typing import Any

from tests.exec.gpu.corpus.elementwise import flat
from tests.exec.gpu.corpus.matmul import Tiles, tiled
from tests.exec.gpu.corpus.reduction import rows
from tests.exec.gpu.kit import Case, bind_flat
from tilewright import te, tir


def converted(source: str, middle: str, result: str, vector: int = 1) -> tuple[Any, list[Any]]:
    n = 256
    a = te.placeholder((n,), source, "A")
    b = te.compute(
        (n,), lambda i: (a[i].astype(middle) * tir.const(3, middle)).astype(result), name="B"
    )
    s = te.create_schedule(b.op)
    bind_flat(s, b, 32, vector)
    return s, [a, b]


def functions(dtype: str) -> tuple[Any, list[Any]]:
    """exp, sqrt, max and a division."""
    n = 100
    a = te.placeholder((n,), dtype, "A")
    one = tir.const(1, dtype)
    b = te.compute((n,), lambda i: te.sqrt(te.exp(a[i])) / (one + tir.max(a[i], -a[i])), name="B")
    s = te.create_schedule(b.op)
    bind_flat(s, b, 32)
    return s, [a, b]


CASES = [
    Case("half_functions", lambda: functions("float16")),
    Case("half_rows", lambda: rows(5, 60, 32, dtype="float16")),
    Case("half_rows_max", lambda: rows(5, 60, 16, te.max, "float16")),
    Case("half_matmul", lambda: tiled(Tiles(dtype="float16"))),
    Case(
        "half_matmul_vectors",
        lambda: tiled(Tiles(dtype="float16", tile=32, depth=16, vector=8, align=16)),
    ),
    Case("half_matmul_pure", lambda: tiled(Tiles((16, 16, 8), dtype="float16", sum_in="float16"))),
    Case("bytes_to_half", lambda: converted("int8", "float16", "float32", 4)),
    Case("floats_to_half", lambda: converted("float32", "float32", "float16", 4)),
    Case("bfloat_add", lambda: flat(200, "bfloat16")),
    Case("bfloat_add_vectors", lambda: flat(256, "bfloat16", 4)),
    Case("bfloat_functions", lambda: functions("bfloat16")),
    Case("bfloat_matmul", lambda: tiled(Tiles(dtype="bfloat16"))),
]
