"""What tests of tir_eval share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.base.dtype import parse
from tilewright.interp.tir_eval import tir_eval
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer


def function(body: S.Stmt, *buffers: Buffer, scalars: Sequence[E.Var] = ()) -> S.PrimFunc:
    handles = [E.Var(b.name, "handle") for b in buffers]
    return S.PrimFunc([*handles, *scalars], body, None, dict(zip(handles, buffers, strict=True)))


def compute(make: Callable[..., Any], *args: Any, dtypes: Sequence[str]) -> Any:
    """make(x, y, ...) of scalars, by way of buffers; and once more with vectors of four lanes."""
    buffers = [Buffer((4,), t, f"in{n}") for n, t in enumerate(dtypes)]
    result = E.convert(make(*[b[0] for b in buffers]))
    out, vector_out = Buffer((1,), result.dtype, "out"), Buffer((4,), result.dtype, "vec")
    arrays = [np.full(4, a, parse(t).numpy) for a, t in zip(args, dtypes)]
    scalar, vector = (np.zeros(n, parse(result.dtype).numpy) for n in (1, 4))
    tir_eval(function(S.BufferStore(out, result, [0]), *buffers, out), *arrays, scalar)
    lanes = E.Ramp(0, 1, 4)
    whole = make(*[b[lanes] for b in buffers])
    body = S.BufferStore(vector_out, whole, [lanes])
    tir_eval(function(body, *buffers, vector_out), *arrays, vector)
    assert np.repeat(scalar, 4).tobytes() == vector.tobytes()
    return scalar[0]


def lanes_of(x: E.PrimExpr, dtype: str) -> str:
    """`dtype` with as many lanes as `x` has."""
    return parse(dtype).with_lanes(parse(x.dtype).lanes)


def to(dtype: str) -> Callable[[E.PrimExpr], E.PrimExpr]:
    return lambda x: x.astype(lanes_of(x, dtype))
