"""Calls whose sizes lead out of an array, or to a division by zero, are refused, and no others: for
all small sizes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.base.errors import TilewrightError
from tilewright.interp.te_eval import te_eval
from tilewright.loopir.expr import const_int
from tilewright.tensor.size_checks import size_checks

n, m, p, q = (te.var(name) for name in "nmpq")
A = te.placeholder((m,), name="A")
B = te.placeholder((n,), name="B")
S = te.placeholder((n, m), name="S")
T = te.placeholder((p, q), name="T")
I = te.placeholder((n,), "int32", name="I")
J = te.placeholder((n,), "int8", name="J")
r = te.reduce_axis((0, m), name="r")
K = te.placeholder((3,), name="K")
DOUBLED = te.compute((m,), lambda i: A[i] * 2, name="doubled")

# inputs, and the output over sizes that are not related to theirs
DOUBTFUL: dict[str, tuple[list[Any], Any]] = {
    "sum": ([A, B], te.compute((n,), lambda i: A[i] + B[i])),
    "known extent": ([A], te.compute((2,), lambda i: A[i] + 1)),
    "broadcast to a known extent": ([A, K], topi.add(A, K)),
    "backwards": ([A], te.compute((n,), lambda i: A[n - 1 - i])),
    "matmul": ([S, T], te.compute((n, q), lambda i, j: te.sum(S[i, r] * T[r, j], axis=r))),
    "stage": ([A], te.compute((n,), lambda i: DOUBLED[i] + 1)),
    "reshape": ([S], topi.reshape(S, (p, q))),
    "window": ([A], te.compute((n, p), lambda i, j: A[i + j])),
    "every second": ([A], te.compute((n,), lambda i: A[2 * i])),
    "halves": ([A], te.compute((n,), lambda i: A[i // 2])),
    "shifted": ([A, p], te.compute((n,), lambda i: A[i + p])),
    "one element": ([A, p], te.compute((n, 2), lambda i, j: A[p])),
    "limited": ([A, p], te.compute((n,), lambda i: te.if_then_else(i < p, A[i], 0.0))),
    "limited twice": (
        [A, p],
        te.compute((n,), lambda i: te.if_then_else(te.all(i >= 1, i - 1 < p), A[i - 1], 0.0)),
    ),
    "behind a size": ([A, p], te.compute((n,), lambda i: te.if_then_else(p > 1, A[i], 0.0))),
    "quotient of data": ([I, p], te.compute((n, m), lambda i, j: I[i] // p)),
    "quotient of an index": ([p], te.compute((n,), lambda i: (i + 3) // (p - 1))),
    "divided by a size": ([I, A], te.compute((n,), lambda i: te.truncmod(I[i], m))),
    "divided where it may be": (
        [I, p],
        te.compute((n,), lambda i: te.if_then_else(p >= 0, I[i] // p, 5)),
    ),
    "row": ([S], te.compute((p,), lambda i: S[i, 0])),
}
FINE: dict[str, tuple[list[Any], Any]] = {
    "one size": ([B], te.compute((n,), lambda i: B[i])),
    "one less": ([B], te.compute((n - 1,), lambda i: B[i + 1])),
    "padded": (
        [A, p],
        te.compute((n,), lambda i: te.if_then_else(te.all(i >= p, i - p < m), A[i - p], 0.0)),
    ),
    "divided where it can be": (
        [I, p],
        te.compute((n,), lambda i: te.if_then_else(p != 0, I[i] // p, 5)),
    ),
    "data": ([A, I], te.compute((n,), lambda i: A[I[i]])),
    "data of few values": ([A, J], te.compute((n,), lambda i: A[J[i]])),
    "choice": ([A], te.compute((n,), lambda i: A[te.if_then_else(i < m, i, 0)])),
    "clamped data": ([A, I], te.compute((n,), lambda i: A[te.max(te.min(I[i], 3), 0)])),
    "axis twice": ([A], te.compute((n,), lambda i: A[i * (n - 1 - i)])),
    "condition on data": ([A, I], te.compute((n,), lambda i: te.if_then_else(I[i] > 0, A[i], 0.0))),
}


def outcomes(call: Any, inputs: list[Any], out: Any, most: int = 4) -> dict[tuple[int, ...], bool]:
    """Whether calls with all small sizes pass."""
    found = {}
    sizes = [v for v in (n, m, p, q) if any(v is x for t in (*inputs, out) for x in used(t))]
    scalars = {id(x) for x in inputs if not isinstance(x, te.tensor.Tensor)}
    spans = [range(-1 if id(v) in scalars else 0, most) for v in sizes]
    for values in itertools.product(*spans):
        at = dict(zip(sizes, values))
        try:
            call(at)
            found[values] = True
        except TilewrightError as error:
            assert "out of bounds" in str(error) or "division by zero" in str(error)
            found[values] = False
    return found


def used(t: Any) -> list[Any]:
    return list(t.shape) if isinstance(t, te.tensor.Tensor) else [t]


def array(t: Any, at: dict[Any, int]) -> Any:
    if not isinstance(t, te.tensor.Tensor):
        return at[t]
    shape = tuple(at[e] if e in at else const_int(e) or 0 for e in t.shape)
    return np.arange(np.prod(shape), dtype=t.dtype).reshape(shape)


@pytest.mark.parametrize("name", sorted(DOUBTFUL))
@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_calls_are_refused_exactly_where_a_read_is_out_of_bounds(name: str, target: str) -> None:
    dev = tw.device(target, 0)
    if not dev.exist:
        pytest.skip(f"no {target} device")
    inputs, out = DOUBTFUL[name]
    s = te.create_schedule(out.op)
    if target == "opencl":
        for op in (out.op, DOUBLED.op) if DOUBLED in out.op.input_tensors else (out.op,):
            s[op].bind(s[op].op.axis[0], te.thread_axis("blockIdx.x"))
    built = tw.build(s, [*inputs, out], target)

    def call(at: dict[Any, int]) -> None:
        given = [array(t, at) for t in inputs]
        given = [tw.nd.array(x, dev) if isinstance(x, np.ndarray) else x for x in given]
        result = tw.nd.array(array(out, at), dev)
        built(*given, result)
        np.testing.assert_array_equal(result.numpy(), expected(at))

    def expected(at: dict[Any, int]) -> Any:
        feeds = {t: array(t, at) for t in inputs if isinstance(t, te.tensor.Tensor)}
        return te_eval(out, feeds, symbols=at)[0]

    right = outcomes(expected, inputs, out)
    assert set(right.values()) == {True, False}
    assert outcomes(call, inputs, out) == right


@pytest.mark.parametrize("name", sorted(FINE))
def test_what_is_proved_or_depends_on_data_is_not_checked(name: str) -> None:
    _, out = FINE[name]
    assert not size_checks([out], [n, m, p])


def test_the_refusal_names_the_read() -> None:
    inputs, out = DOUBTFUL["sum"]
    built = tw.build(te.create_schedule(out.op), [*inputs, out], "llvm")
    a, b, c = (tw.nd.array(np.zeros(k, "float32")) for k in (1, 5, 5))
    with pytest.raises(TilewrightError, match=r"compute reads A\[i\] out of bounds"):
        built(a, b, c)


def test_inputs_bound_to_broadcasting_buffers_are_repeated_where_a_dimension_is_one() -> None:
    wide = te.compute((n, m), lambda i, j: S[i, j] + T[i, j], name="wide")
    binds = {
        t: tw.tir.decl_buffer(t.shape, t.dtype, t.op.name, buffer_type="auto_broadcast")
        for t in (S, T)
    }
    built = tw.build(te.create_schedule(wide.op), [S, T, wide], "llvm", binds=binds)
    rng = np.random.default_rng(0)
    a = rng.random((3, 4), "float32")
    for shape in ((3, 4), (1, 4), (3, 1), (1, 1)):
        b, c = rng.random(shape, "float32"), np.zeros((3, 4), "float32")
        built(a, b, c)
        np.testing.assert_array_equal(c, a + b)
    with pytest.raises(TilewrightError, match="index 1 leaves"):
        built(a, np.zeros((3, 2), "float32"), np.zeros((3, 4), "float32"))
