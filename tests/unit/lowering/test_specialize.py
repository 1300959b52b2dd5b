"""specialize_strides: one version for contiguous rows, one for all others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.lowering.builders import K, function, loop, nodes, thread
from tests.unit.lowering.evaluator import run
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.visit import walk
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.pipeline import run_pipeline
from tilewright.lowering.specialize_strides import specialize_strides


def copy(kind: int = K.VECTORIZED) -> S.PrimFunc:
    n = E.Var("n")
    a, b = (Buffer((n,), "float32", name, strides=[E.Var(f"{name}.strides[0]")]) for name in "AB")
    body = loop("i", n, lambda i: S.BufferStore(b, a[i] + 1.0, [i]), kind)
    return function(body, a, b)


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("n", [0, 5, 40])
def test_both_versions_are_right(step: int, n: int) -> None:
    func = copy()
    base = np.arange(n * step, dtype="float32")
    arrays = {"A": base[::step], "B": np.zeros(n * step, "float32")[::step]}
    new = run_pipeline(func, LowerOptions())
    (branch,) = [s for s in nodes(new, S.IfThenElse) if s.else_case is not None]
    stores = [s for s in nodes(branch.then_case, S.BufferStore) if type(s.indices[0]) is E.Ramp]
    assert [int(s.indices[0].stride) for s in stores] == [1]
    for s in nodes(branch.then_case, S.BufferStore) + nodes(branch.then_case, E.BufferLoad):
        assert not any(".strides" in x.name for x in walk(s.indices[0]) if isinstance(x, E.Var))
    want = arrays["A"] + 1
    for side in (new, new.with_body(branch.else_case)):
        got = run(side, arrays)["B"]
        np.testing.assert_array_equal(got, want)


def test_only_vector_code_on_the_cpu_has_versions() -> None:
    options = LowerOptions()
    serial = copy(K.SERIAL)
    assert specialize_strides(serial, options) is serial
    vector = copy()
    for other in (LowerOptions(simple_mode=True), LowerOptions(disable_vectorize=True)):
        assert specialize_strides(vector, other) is vector
    tx = thread("threadIdx.x")
    device = vector.with_body(S.AttrStmt(tx, "thread_extent", 4, vector.body))
    assert specialize_strides(device, options) is device
    fixed = Buffer((8,), "float32", "A")
    body = loop("i", 8, lambda i: S.BufferStore(fixed, 1.0, [i]), K.VECTORIZED)
    func = function(body, fixed)
    assert specialize_strides(func, options) is func
