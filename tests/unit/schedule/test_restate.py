"""restate: a tensor by other operations that give the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.schedule.primitives.restate import restate
from tilewright.schedule.state import Illegal


def doubled_sums() -> tuple[Any, Any, Any]:
    a = te.placeholder((12, 5), name="A")
    k = te.reduce_axis((0, 5), "k")
    b = te.compute((12,), lambda i: te.sum(a[i, k] * 2.0, axis=k), name="B")
    return a, b, te.compute((12,), lambda i: b[i] + 1.0, name="C")


def other_way(a: Any) -> tuple[Any, Any]:
    """The sums of rows that lie in columns, doubled afterwards."""
    turned = te.compute((5, 12), lambda i, j: a[j, i], name="turned")
    k = te.reduce_axis((0, 5), "k")
    sums = te.compute((12,), lambda i: te.sum(turned[k, i], axis=k), name="sums")
    return sums, te.compute((12,), lambda i: sums[i] * 2.0, name="by")


@pytest.mark.parametrize("last", ["B", "C"])
def test_values_stay_and_new_stages_can_be_scheduled(last: str) -> None:
    a, b, c = doubled_sums()
    out = {"B": b, "C": c}[last]
    s = te.create_schedule(out.op)
    _, by = other_way(a)
    turned, sums = restate(s, b, by)
    names = [stage.op.name for stage in s.stages]
    assert names == ["A", "turned", "sums", "B", *("C" if last == "C" else "")]
    s[turned].compute_inline()
    if last == "C":
        s[b].compute_inline()
    block, _ = s[s[out].op.output(0)].split(s[out].op.axis[0], factor=4)
    s[sums].compute_at(s[out], block)
    x = np.random.default_rng(0).random((12, 5)).astype("float32")
    result = np.zeros(12, "float32")
    tw.build(s, [a, out], "llvm")(x, result)
    want = x.sum(1) * 2 + (last == "C")
    np.testing.assert_allclose(result, want, rtol=1e-6)
    text = str(tw.lower(s, [a, out]))
    assert "turned" not in text and "allocate([4]" in text


def test_what_is_not_alike_or_is_scheduled_already() -> None:
    a, b, c = doubled_sums()
    s = te.create_schedule(c.op)
    shorter = te.compute((11,), lambda i: a[i, 0], name="shorter")
    with pytest.raises(Illegal, match="is not like"):
        restate(s, b, shorter)
    s[b].split(b.op.axis[0], factor=4)
    with pytest.raises(Illegal, match="loops are as they were made"):
        restate(s, b, other_way(a)[1])


def test_sizes_that_are_variables_are_compared() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), "float32", "a")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="b")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2, name="c")
    s = te.create_schedule(c.op)
    with pytest.raises(Illegal, match="is not like"):
        restate(s, b, te.compute((m, n), lambda i, j: a[j, i] + 1, name="turned"))
    assert restate(s, b, te.compute((n, m), lambda i, j: 1 + a[i, j], name="other")) == []
