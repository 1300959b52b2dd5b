"""specialize_strides: one version for contiguous rows, one for all others."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.narrow import as_a
from tests.unit.lowering.builders import K, function, loop, nodes, thread
from tests.unit.lowering.evaluator import run
from tilewright import te
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.visit import walk
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.pipeline import run_pipeline
from tilewright.lowering.specialize_strides import specialize_strides
from tilewright.rt.device_module import DeviceFunction


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


def test_only_vector_code_has_versions() -> None:
    options = LowerOptions()
    serial = copy(K.SERIAL)
    assert specialize_strides(serial, options) is serial
    vector = copy()
    for other in (LowerOptions(simple_mode=True), LowerOptions(disable_vectorize=True)):
        assert specialize_strides(vector, other) is vector
    fixed = Buffer((8,), "float32", "A")
    body = loop("i", 8, lambda i: S.BufferStore(fixed, 1.0, [i]), K.VECTORIZED)
    func = function(body, fixed)
    assert specialize_strides(func, options) is func


def test_the_host_asks_whether_arrays_of_kernels_are_compact() -> None:
    """All strides count, since alignment follows from them; others have no copies under way."""
    n = E.Var("n")
    strides = [E.Var("row"), E.Var("step")]
    a = Buffer((n, 12), "float32", "A", strides=strides)
    row, step = strides
    flat = a.with_(shape=(n * 12,), strides=None)
    body: S.Stmt = loop(
        "i", 12, lambda i: S.BufferStore(flat, 1.0, [n * row + i * step]), K.VECTORIZED
    )
    body = S.AttrStmt(E.const(0), "pragma_software_pipeline_stages", 3, body)
    func = function(S.AttrStmt(thread("threadIdx.x"), "thread_extent", 4, body), a)
    branch = specialize_strides(func, LowerOptions()).body
    assert isinstance(branch, S.IfThenElse) and branch.else_case is not None
    asked = {str(x.a): str(x.b) for x in walk(branch.condition) if type(x) is E.EQ}
    assert asked == {"row": "12", "step": "1"}
    for side, count, of in ((branch.then_case, 1, False), (branch.else_case, 0, True)):
        marks = [x.attr_key for x in nodes(side, S.AttrStmt)]
        assert marks.count("pragma_software_pipeline_stages") == count
        (store,) = nodes(side, S.BufferStore)
        assert any(x is row for e in store.indices for x in walk(e)) is of


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "opencl"])
def test_kernels_take_arrays_of_all_strides(step: int, target: str) -> None:
    """Those that are not compact need not be aligned as vectors are."""
    n = te.var("n")
    x = te.placeholder((n, 8), "float32", "x")
    y = te.compute((n, 8), lambda i, j: x[i, j] + 1, "y")
    s = te.create_schedule(y.op)
    s[y].bind(s[y].op.axis[0], te.thread_axis("blockIdx.x"))
    s[y].vectorize(s[y].split(s[y].op.axis[1], factor=4)[1])
    f = tw.build(s, [x, y], target, name="f")
    device = tw.simt(0)
    data = np.arange(5 * 8 * step + 1, dtype="float32")
    wide = tw.nd.array(data[: 5 * 8 * step].reshape(5, 8 * step), device)
    out = tw.nd.empty((5, 8), "float32", device)
    function = as_a(DeviceFunction, f.entry_func).simt()
    function(wide[:, ::step], out)
    np.testing.assert_array_equal(out.numpy(), wide.numpy()[:, ::step] + 1)
    if step > 1:
        function(wide[:, 1::step], out)
        np.testing.assert_array_equal(out.numpy(), wide.numpy()[:, 1::step] + 1)
