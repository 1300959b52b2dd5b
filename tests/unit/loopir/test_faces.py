from __future__ import annotations

import importlib
import subprocess
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


def test_names_of_modules_below_do_not_hide_what_a_face_names() -> None:
    """Whoever imports a module below a face sets the face's attribute of that name."""
    program = (
        "import contextlib, importlib, pkgutil, types, tilewright\n"
        "from tilewright.base.face import FACES\n"
        "for x in pkgutil.walk_packages(tilewright.__path__, 'tilewright.', lambda _: None):\n"
        "    if 'plugin' not in x.name and '__main__' not in x.name:\n"
        "        with contextlib.suppress(ImportError):  # of those that are not here, on purpose\n"
        "            importlib.import_module(x.name)\n"
        "for name, face in FACES.items():\n"
        "    for own in set(face.homes) - set(face.modules):\n"
        "        found = getattr(importlib.import_module(name), own)\n"
        "        below = f'{name}.{own}'\n"
        "        if isinstance(found, types.ModuleType) and found.__name__ == below:\n"
        "            print(name, own)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
