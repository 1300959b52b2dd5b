"""tvm.testing: what tests are written with. Its parts for pytest run a pytest of their own."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, testing
from tilewright.script import tir as T

PROGRAM = """
import pytest
import tilewright.testing as testing

ran = []

class TestTogether:
    first, second = testing.parameters((1, "a"), (2, "b"))
    other = testing.parameter(10, 20)
    seen = []

    def test_pair(self, first, second, other):
        assert (first, second) in [(1, "a"), (2, "b")]
        self.seen.append((first, other))

    def test_count(self):
        assert sorted(self.seen) == [(1, 10), (1, 20), (2, 10), (2, 20)]

class TestTargets:
    seen = []

    def test_target(self, target, dev):
        assert testing.device_enabled(target) and dev.exist
        self.seen.append(target)

    def test_all(self):
        assert self.seen == [t for t, _ in testing.enabled_targets()] and "llvm" in self.seen

    @testing.exclude_targets("llvm")
    def test_excluded(self, target):
        assert target != "llvm"

    @testing.known_failing_targets("llvm")
    def test_failing(self, target):
        assert target != "llvm"

    @testing.parametrize_targets("llvm", "rocm")
    def test_named(self, target):
        ran.append(target)

    @testing.parametrize_targets("llvm")
    def test_named_both(self, target, dev):
        ran.append(dev)

    def test_named_ran(self):
        assert [str(x) for x in ran] == ["llvm", "cpu(0)"]

class TestCache:
    param = testing.parameter(1, 2)
    again = testing.parameter(3, 4)
    calls = 0

    @testing.fixture(cache_return_value=True)
    def made(self, param):
        type(self).calls += 1
        return {"value": param}

    def test_use(self, param, again, made):
        assert made == {"value": param}
        made["value"] = None

    def test_calls(self):
        assert self.calls == 2

@testing.skip_parameterizations("2", reason="for a test")
@pytest.mark.parametrize("x", [1, 2])
def test_skipped(x):
    assert x == 1

@testing.xfail_parameterizations("2", reason="for a test")
@pytest.mark.parametrize("x", [1, 2])
def test_xfailed(x):
    assert x == 1

@testing.requires_rocm
def test_rocm():
    raise AssertionError

@testing.requires_llvm
def test_llvm():
    pass

@testing.uses_gpu
def test_anywhere():
    pass
"""


def test_parameters_and_targets(tmp_path, monkeypatch, plain_pytest):
    monkeypatch.setenv("TVM_TEST_TARGETS", "llvm; metal")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tilewright.testing.plugin"]\n')
    (tmp_path / "test_it.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "ROCm is not used by this project" in done.stdout
    assert "19 passed, 4 skipped, 2 xfailed" in done.stdout


def test_without_the_plugin(tmp_path, plain_pytest):
    (tmp_path / "test_it.py").write_text(
        "import tilewright.testing as testing\n"
        "@testing.parametrize_targets\n"
        "def test_one(target, dev):\n    assert str(dev)\n"
        "if __name__ == '__main__':\n    testing.main()\n"
    )
    command = [sys.executable, "test_it.py", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and " passed" in done.stdout


def test_expressions_that_are_equal():
    x, y = te.var("x"), te.var("y")
    testing.assert_prim_expr_equal((x + y) * 2, x * 2 + y + y)
    with pytest.raises(AssertionError, match="not equal"):
        testing.assert_prim_expr_equal(x + y, x - y)


def test_transformed_constraints():
    x, y, n = te.var("x"), te.var("y"), te.var("n")
    source = SimpleNamespace(
        variables=[x, y],
        ranges={x: tvm.ir.Range(-20, 20), y: tvm.ir.Range(0, 10)},
        relations=[(x + y).equal(0)],
    )
    target = SimpleNamespace(variables=[n], ranges={n: tvm.ir.Range(0, 10)}, relations=[])
    found = SimpleNamespace(src=source, dst=target, src_to_dst={x: -n, y: n}, dst_to_src={n: y})
    testing.check_int_constraints_trans_consistency(found)
    target.ranges = {n: tvm.ir.Range(0, 9)}
    with pytest.raises(AssertionError, match="is not true"):
        testing.check_int_constraints_trans_consistency(found)


def test_ranges_of_types():
    assert testing.get_dtype_range("int8") == (-128, 127)
    assert testing.get_dtype_range("uint16") == (0, 65535)
    low, high = testing.get_dtype_range("float32")
    assert high == -low == np.finfo("float32").max
    with pytest.raises(ValueError, match="bool has no range"):
        testing.get_dtype_range("bool")


def test_features_say_what_is_missing():
    assert testing.requires_llvm.missing() == ""
    assert "CUDA" in testing.requires_nvptx.missing()
    assert (
        testing.requires_x86.missing() == "" or "this machine is" in testing.requires_x86.missing()
    )
    feature = testing.Feature("of_a_test", run_time_check=lambda: "because", parent_features="llvm")
    mark = feature.marks()[0]
    assert mark.args == (True,) and mark.kwargs["reason"] == "because"
    assert feature.marks("optional") == []
    del testing.Feature._all_features["of_a_test"]


class TestSimplify(testing.CompareBeforeAfter):
    transform = tvm.tir.transform.Simplify()

    def before(self):
        return _stored(lambda i: i * 1 + 0)

    def expected(self):
        return _stored(lambda i: i)


class TestRaises(testing.CompareBeforeAfter):
    def transform(self):
        def fail(func):
            raise ValueError("always")

        return fail

    def before(self):
        return _stored(lambda i: i)

    expected = ValueError


class TestFixtures(testing.CompareBeforeAfter):
    """Programs by way of fixtures, which may take others."""

    extent = testing.parameter(1, 8)

    def transform(self):
        return lambda module: module

    @testing.fixture
    def before(self, extent):
        @T.prim_func
        def fill(A: T.Buffer((8,), "float32")):
            for i in range(extent):
                A[i] = 0.0

        return fill

    expected = before


class TestBareFunctions(testing.CompareBeforeAfter):
    """Functions without a decorator are read as the IR's when the test runs."""

    transform = tvm.tir.transform.Simplify()

    def before(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = i + 0 * A[i]

    def expected(B: T.Buffer((8,), "int32")):
        for j in range(8):
            B[j] = j


class TestClassesOfFunctions(testing.CompareBeforeAfter):
    transform = tvm.tir.transform.Simplify()

    class Before:
        @T.prim_func
        def one(A: T.Buffer((8,), "int32")):
            A[0] = 1 + A[0] * 0

        @T.prim_func
        def two(A: T.Buffer((8,), "int32")):
            A[0] = 2

    class Expected:
        @T.prim_func
        def one(A: T.Buffer((8,), "int32")):
            A[0] = 1

        @T.prim_func
        def two(A: T.Buffer((8,), "int32")):
            A[0] = 2


def test_a_difference_is_told():
    found, other = _stored(lambda i: i), _stored(lambda i: i + 1)
    with pytest.raises(ValueError, match="StructuralEqual check failed"):
        TestSimplify().test_compare(found, other, lambda module: module)


def _stored(value):
    i = te.var("i")
    b = tvm.tir.decl_buffer((8,), "int32", "b")
    store = tvm.tir.BufferStore(b, value(i), [i])
    return tvm.tir.PrimFunc([b], tvm.tir.For(i, 0, 8, 0, store))


def test_names_of_workers():
    from tilewright.contrib.popen_pool import PopenWorker
    from tilewright.testing import popen

    worker = PopenWorker(initializer=popen.initializer, initargs=("noted", 2, 3))
    worker.send(popen.after_initializer)
    assert worker.recv() == ("noted", 2, 3)
    assert popen.fast_summation(9) == popen.slow_summation(9) == 45
    worker.send(popen.terminate_self)
    with pytest.raises(ChildProcessError):
        worker.recv()
    assert popen.strtobool("yes") == 1 and popen.strtobool("off") == 0
    assert Path(testing.plugin.__file__).name == "plugin.py"


def test_features_as_decorators_and_as_marks(tmp_path: Any, plain_pytest: None) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tilewright.testing.plugin"]\n')
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "import tilewright.testing as testing\n"
        "@testing.requires_llvm()\n"
        "def test_called():\n    pass\n"
        "@testing.requires_rocm()\n"
        "def test_skipped():\n    assert False\n"
        "@pytest.mark.parametrize('n', [pytest.param(1, marks=testing.requires_rocm())])\n"
        "def test_marks(n):\n    assert False\n"
        "@testing.known_failing_targets('llvm')\n"
        "@testing.parametrize_targets('llvm')\n"
        "def test_known(target, dev):\n    assert False\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 passed, 2 skipped, 1 xfailed" in done.stdout, done.stdout


def test_devices_that_nothing_is_generated_for() -> None:
    for name, number in (("sdaccel", 4), ("hexagon", 16), ("webgpu", 15), ("ext_dev", 12)):
        assert tvm.device(name, 0).device_type == number
        assert not testing.device_enabled(name)


def test_gradients_of_the_first_inputs_are_enough():
    x, y = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    testing.check_numerical_grads(lambda a, b: (a * b).sum(), [x, y], [y])
    testing.check_numerical_grads(lambda a, b: (a * b).sum(), {"a": x, "b": y}, {"b": x})
    with pytest.raises(AssertionError, match="Analytical and numerical grads"):
        testing.check_numerical_grads(lambda a, b: (a * b).sum(), [x, y], [x])
