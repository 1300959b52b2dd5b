"""Modules: functions by name, with attributes of their own."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.base.errors import UsageError
from tilewright.loopir.module import IRModule
from tilewright.script import ir as I
from tilewright.script import tir as T
from tilewright.script.ir_builder import IRBuilder
from tilewright.script.ir_builder import ir as build


@I.ir_module
class Decorated:
    I.module_attrs({"a": 3, "b": "x"})

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):  # type: ignore[valid-type]
        A[0] = T.float32(1)


Example: Any = Decorated


def test_attributes_are_read_printed_and_kept_in_files() -> None:
    assert Example.attrs == {"a": 3, "b": "x"}
    again = tvm.script.from_source(Example.script())
    tvm.ir.assert_structural_equal(again, Example)
    assert tvm.ir.load_json(tvm.ir.save_json(Example)).attrs == Example.attrs


def test_modules_of_other_attributes_are_other_modules() -> None:
    other = Example.with_attr("a", 4)
    assert (other.get_attr("a"), Example.get_attr("a"), Example.get_attr("c")) == (4, 3, None)
    assert not tvm.ir.structural_equal(other, Example)
    assert tvm.ir.structural_hash(other) != tvm.ir.structural_hash(Example)
    assert tvm.ir.structural_equal(other.without_attr("a"), Example.without_attr("a"))


def test_a_clone_takes_functions_of_its_own() -> None:
    more = Example.clone()
    more["other"] = Example["main"]
    assert (len(more), len(Example), more.attrs) == (2, 1, Example.attrs)


@pytest.mark.parametrize(
    "change",
    [
        tir.transform.AnnotateEntryFunc(),
        tir.transform.ConvertSSA(),
        tir.transform.Simplify(),
        tvm.lower,
    ],
)
def test_passes_keep_attributes(change: object) -> None:
    assert callable(change)
    assert change(Example).attrs == Example.attrs


def test_attributes_in_a_builder() -> None:
    with IRBuilder() as ib, build.ir_module():
        build.module_attrs({"n": 1})
    made = ib.get()
    assert isinstance(made, IRModule) and made.attrs == {"n": 1}
    with pytest.raises(UsageError, match="dictionary"):
        build.module_attrs(3)
