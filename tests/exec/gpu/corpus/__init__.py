"""The GPU corpus: all cases, by name."""

from __future__ import annotations

from tests.exec.gpu.corpus import (
    convolution,
    elementwise,
    half,
    matmul,
    others,
    recurrence,
    reduction,
    rows,
    stencil,
    tensor_cores,
    topi_cuda,
    topi_defaults,
    transpose,
)
from tests.exec.gpu.kit import named

FAMILIES = {
    "elementwise": elementwise.CASES,
    "transpose": transpose.CASES,
    "reduction": reduction.CASES,
    "matmul": matmul.CASES,
    "convolution": convolution.CASES,
    "rows": rows.CASES,
    "recurrence": recurrence.CASES,
    "stencil": stencil.CASES,
    "half": half.CASES,
    "tensor_cores": tensor_cores.CASES,
    "others": others.CASES,
    "topi": topi_defaults.CASES,
    "topi_cuda": topi_cuda.CASES,
}

CASES = named([c for cases in FAMILIES.values() for c in cases])
