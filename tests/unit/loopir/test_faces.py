from __future__ import annotations

import importlib
import sys

import pytest

import tilewright as tvm
from tilewright import ir, tir


@pytest.mark.parametrize("face", ["tilewright.tir", "tilewright.ir"])
def test_every_public_name_resolves(face: str) -> None:
    module = importlib.import_module(face)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = module.nonsense


def test_submodules_import_by_path() -> None:
    for name in ("ir_builder", "stmt_functor", "analysis", "expr", "stmt", "buffer", "op"):
        module = importlib.import_module(f"tilewright.tir.{name}")
        assert module is getattr(tir, name)
    assert sys.modules["tilewright.tir.expr"].Var is tir.Var
    assert tir.stmt.For is tir.For and tir.op.exp is tir.exp and tir.expr.IterVar is tir.IterVar


def test_names_are_one_object_everywhere() -> None:
    assert tvm.tir.Var is tvm.te.var("x").__class__
    assert tvm.tir.exp is tvm.te.exp and tvm.tir.min is tvm.te.min
    assert ir.structural_equal is tir.analysis.expr_deep_equal


def test_min_is_binary_and_a_reducer() -> None:
    i, j = tir.Var("i"), tir.Var("j")
    assert isinstance(tir.min(i, j), tir.Min)
    k = tvm.te.reduce_axis((0, 4), "k")
    assert isinstance(tir.min(k * i, axis=k), tir.Reduce)
