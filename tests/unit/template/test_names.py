"""Every public name of autotvm resolves, by attribute and by import."""

import importlib
import pkgutil

import pytest

import tilewright
from tilewright import autotvm


def test_names_resolve() -> None:
    assert tilewright.autotvm is autotvm
    for name in autotvm.__all__:  # type: ignore[attr-defined]
        assert getattr(autotvm, name) is not None
    assert set(autotvm.__all__) == set(dir(autotvm))  # type: ignore[attr-defined]
    assert autotvm.apply_history_best is autotvm.ApplyHistoryBest
    assert int(autotvm.MeasureErrorNo.RUN_TIMEOUT) == 7
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = autotvm.nothing  # type: ignore[attr-defined]


def test_modules_import() -> None:
    found = [m.name for m in pkgutil.walk_packages(autotvm.__path__, "tilewright.autotvm.")]
    assert "tilewright.autotvm.task.space" in found and "tilewright.autotvm.tuner" in found
    for name in found:
        importlib.import_module(name)


def test_nothing_heavy_is_loaded() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from tilewright import autotvm; autotvm.tuner.XGBTuner; "
        "sys.exit(any(m in sys.modules for m in ('xgboost', 'pyopencl', 'onnx', 'rich')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
