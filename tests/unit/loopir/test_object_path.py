"""Where two programs differ first, as paths from their roots."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.ir.base import get_first_structural_mismatch
from tilewright.runtime import ObjectPath

X = tir.Var("x", "int32")
ROOT = ObjectPath.root()
SECOND = ROOT.attr("seq").array_index(1).attr("value").attr("b").attr("value")


def steps(*numbers: int) -> Any:
    return tir.SeqStmt([tir.Evaluate(X + n) for n in numbers])


@pytest.mark.parametrize(
    "left, right, path",
    [
        (X + 1, X + 2, ROOT.attr("b").attr("value")),
        (steps(1, 2, 3), steps(1, 5, 3), SECOND),
        (steps(1, 2, 3, 4), steps(1, 5, 3), SECOND),
        (X + 1, X * 1 * X, ROOT),
    ],
)  # fmt: skip
def test_first_difference(left: Any, right: Any, path: ObjectPath) -> None:
    assert get_first_structural_mismatch(left, right) == (path, path)
    assert get_first_structural_mismatch(left, left) is None


def test_what_is_missing() -> None:
    seq = ROOT.attr("seq")
    found = get_first_structural_mismatch(steps(1, 2), steps(1, 2, 3))
    assert found == (seq.missing_array_element(2), seq.array_index(2))
    y, one = tir.Var("y", "handle"), tir.Var("a", "handle")
    buffers = [tir.decl_buffer((4,)), tir.decl_buffer((5,))]
    body = tir.Evaluate(0)
    few = tir.PrimFunc([one], body, buffer_map={one: buffers[0]})
    more = tir.PrimFunc([one], body, buffer_map={one: buffers[0], y: buffers[1]})
    held = ROOT.attr("buffer_map")
    assert get_first_structural_mismatch(few, more) == (held.missing_map_entry(), held.map_value(y))


def test_types_of_parameters() -> None:
    a, b = tir.Var("a", "int32"), tir.Var("b", "int64")
    body = tir.Evaluate(0)
    found = get_first_structural_mismatch(tir.PrimFunc([X, a], body), tir.PrimFunc([X, b], body))
    path = ROOT.attr("params").array_index(1).attr("dtype")
    assert found == (path, path)
    with pytest.raises(ValueError, match=r"lhs at <root>\.params\[1\]"):
        tvm.ir.assert_structural_equal(tir.PrimFunc([X, a], body), tir.PrimFunc([X, b], body))


def test_paths() -> None:
    path = ROOT.attr("body").array_index(3).map_value("k").attr(None)
    assert str(path) == "<root>.body[3]['k'].<missing>" and len(path) == 5
    assert path.parent is not None and path.parent.is_prefix_of(path)
    assert not path.is_prefix_of(path.parent) and path.get_prefix(2) == ROOT.attr("body")
    assert str(ObjectPath.root("f").missing_map_entry()) == "f[<missing>]"
    assert hash(path) == hash(ROOT.attr("x").array_index(3).map_value("k").attr(None))
    assert ROOT.map_value(X) == ROOT.map_value(X) != ROOT.map_value(tir.Var("x", "int32"))
