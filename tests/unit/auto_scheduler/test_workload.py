"""Workloads by name, and their keys."""

import json
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.unit.auto_scheduler import computations as C
from tilewright import te
from tilewright.auto_scheduler import workload as W
from tilewright.auto_scheduler.dag import ComputeDAG
from tilewright.base.errors import TilewrightError
from tilewright.rt.packed import get_global_func, register_func, remove_global_func


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    """Each test starts without workloads and leaves none."""
    monkeypatch.setattr(W, "WORKLOAD_FUNC_REGISTRY", {})


def shapes(tensors):
    return [tuple(int(n) for n in t.shape) for t in tensors]


def test_bare_decorator_and_key():
    @W.register_workload
    def product(n, m, k):
        return C.matmul(n, m, k)

    name = product.__qualname__
    key = W.make_workload_key(product, (8, 4, 16))
    assert json.loads(key) == [name, 8, 4, 16]
    assert W.make_workload_key(name, [8, 4, 16]) == key
    assert W.get_workload_name(key) == name
    assert shapes(W.workload_key_to_tensors(key)) == [(8, 16), (16, 4), (8, 4)]
    assert W.registered_workloads() == [name]
    assert shapes(product(2, 3, 4)) == [(2, 4), (4, 3), (2, 3)], "the function stays as it is"


def test_decorator_with_a_name():
    @W.register_workload("mm")
    def product(n):
        return C.matmul(n, n, n)

    W.register_workload("relu", C.matmul_relu)
    assert json.loads(W.make_workload_key(product, (8,))) == ["mm", 8]
    assert W.registered_workloads() == ["mm", "relu"]
    dag = ComputeDAG(W.make_workload_key("relu", (8, 8, 8)))
    assert [op.name for op in dag.ops] == ["A", "B", "C", "D"]
    assert W.make_workload_key("mm", 8) == '["mm", 8]', "one argument needs no list"


def test_each_use_of_a_key_makes_new_tensors():
    W.register_workload("mm", C.matmul)
    first, second = (W.workload_key_to_tensors('["mm", 8, 8, 8]') for _ in range(2))
    assert first[0] is not second[0]


def test_a_name_is_taken_once():
    def product(n):
        return C.matmul(n, n, n)

    W.register_workload("mm", product)
    W.register_workload("mm", product)
    with pytest.raises(TilewrightError, match=r"a workload 'mm' already.*override=True"):
        W.register_workload("mm", C.matmul_relu)
    W.register_workload("mm", C.matmul_relu, override=True)
    assert len(W.workload_key_to_tensors('["mm", 4, 4, 4]')) == 3

    @W.register_workload("mm", override=True)
    def again(n):
        return C.matmul(n, 2, 2)

    assert shapes(W.workload_key_to_tensors('["mm", 4]'))[-1] == (4, 2)


ARGUMENTS = [
    ((1, 2.5, True, None, "same"), [1, 2.5, True, None, "same"]),
    (((1, 2), [3, (4,)]), [[1, 2], [3, [4]]]),
    (({"stride": (1, 2)},), [{"stride": [1, 2]}]),
    ((np.int64(3), np.float32(0.5), np.bool_(True)), [3, 0.5, True]),
    ((te.const(7, "int32"),), [7]),
    ((te.placeholder((4, 8), "float16"),), [["TENSOR", [4, 8], "float16"]]),
]


@pytest.mark.parametrize(("given", "written"), ARGUMENTS)
def test_arguments_as_data(given, written):
    W.register_workload("f", lambda *a: [])
    assert json.loads(W.make_workload_key("f", given)) == ["f", *written]


def test_arguments_come_back_as_tuples_and_placeholders():
    seen = []

    def record(x, stride, options, name=None):
        seen.append((stride, options, name))
        return [x, te.compute(x.shape, lambda *i: x(*i) + 1.0)]

    W.register_workload("f", record)
    x = te.placeholder((4, 8), "float64", name="data")
    key = W.make_workload_key("f", (x, [1, [2]], {"k": [3]}, "n"))
    tensors = W.workload_key_to_tensors(key)
    assert seen == [((1, (2,)), {"k": (3,)}, "n")]
    assert shapes(tensors) == [(4, 8), (4, 8)] and tensors[0].dtype == "float64"
    assert tensors[0] is not x


@pytest.mark.parametrize(
    "wrong", [object(), C.matmul, {1, 2}, {1: 2}, float("nan"), float("inf"), [b"x"], 1j]
)
def test_arguments_that_cannot_be_written(wrong):
    W.register_workload("f", C.matmul)
    with pytest.raises(TilewrightError, match="argument 1 of workload 'f' cannot be written"):
        W.make_workload_key("f", (1, wrong))


def test_tensors_of_unknown_size_are_refused():
    W.register_workload("f", C.matmul)
    x = te.placeholder((te.var("n"),), name="X")
    with pytest.raises(TilewrightError, match=r"argument 0 .* is the tensor X of shape \[n\]"):
        W.make_workload_key("f", (x,))


def test_unknown_workloads_say_what_to_do():
    W.register_workload("matmul_relu", C.matmul_relu)
    with pytest.raises(TilewrightError, match=r"did you mean 'matmul_relu'.*import the module"):
        W.workload_key_to_tensors('["matmul_rel", 3]')
    with pytest.raises(TilewrightError, match=r"no workload 'matmul'.*register_workload before"):
        W.make_workload_key(C.matmul, (3,))
    with pytest.raises(TilewrightError, match="no tensors are registered for the workload of hash"):
        W.workload_key_to_tensors(ComputeDAG(C.matmul()).workload_key())


@pytest.mark.parametrize("text", ["", "matmul", "[]", "[3]", "{}", '"matmul"', '["mm", 3', None, 3])
def test_what_is_no_key(text):
    for use in (W.workload_key_to_tensors, W.get_workload_name):
        with pytest.raises(TilewrightError, match="is no workload key"):
            use(text)


def test_functions_without_a_name():
    for function in (lambda n: C.matmul(n, n, n), partial(C.matmul, 4)):
        with pytest.raises(TilewrightError, match="has no name to register it by"):
            W.register_workload(function)
        W.register_workload("named", function, override=True)
        assert json.loads(W.make_workload_key(function, (4, 4)))[0] == "named"
    junk: list[Any] = [3, None, ""]
    for wrong in junk:
        with pytest.raises(TilewrightError, match="registered by its name"):
            W.register_workload(wrong)
    with pytest.raises(TilewrightError, match="'x' has to be a function"):
        W.register_workload("x")(3)  # type: ignore[type-var]
    with pytest.raises(TilewrightError, match="by its function or that one's name"):
        W.make_workload_key(3, ())  # type: ignore[arg-type]


def test_what_a_function_must_return():
    W.register_workload("one", lambda: C.matmul()[-1])
    assert len(W.workload_key_to_tensors('["one"]')) == 1
    W.register_workload("none", lambda: None)
    W.register_workload("numbers", lambda: [1])
    for key in ('["none"]', '["numbers"]'):
        with pytest.raises(TilewrightError, match="has to return a list of tensors"):
            W.workload_key_to_tensors(key)
    W.register_workload("three", C.matmul)
    with pytest.raises(TilewrightError, match=r"three.*does not take these arguments: too many"):
        W.workload_key_to_tensors('["three", 1, 2, 3, 4]')


def test_errors_of_the_function_itself_pass_through():
    def broken(n):
        raise TypeError(f"cannot be made for {n}")

    W.register_workload("broken", broken)
    with pytest.raises(TypeError, match=r"^cannot be made for 3$"):
        W.workload_key_to_tensors('["broken", 3]')


def test_tensors_by_key():
    dag = ComputeDAG(C.matmul_relu(8, 8, 8))
    key = dag.workload_key()
    assert W.register_workload_tensors(key, dag.tensors) == key
    assert W.workload_key_to_tensors(key) == dag.tensors
    again = ComputeDAG(key)
    assert again.workload_key() == key and again.outputs == dag.outputs
    W.register_workload_tensors(key, dag.tensors, override=False)
    other = C.matmul_relu(8, 8, 8)
    with pytest.raises(TilewrightError, match="stands for other tensors already"):
        W.register_workload_tensors(key, other, override=False)
    W.register_workload_tensors(key, other)
    assert W.workload_key_to_tensors(key) == other
    with pytest.raises(TilewrightError, match="a workload is a list of tensors"):
        W.register_workload_tensors(key, [])
    assert W.register_workload_tensors("any name", other) == "any name"
    assert W.workload_key_to_tensors("any name") == other
    with pytest.raises(TilewrightError, match="a workload key is text"):
        W.register_workload_tensors(("matmul", 8), other)  # type: ignore[arg-type]


def test_functions_of_the_main_program(tmp_path):
    """A script's own functions are registered under their plain names."""
    script = tmp_path / "program.py"
    script.write_text(
        "from tilewright import te\n"
        "from tilewright.auto_scheduler.dag import ComputeDAG\n"
        "from tilewright.auto_scheduler.workload import make_workload_key, register_workload\n"
        "@register_workload\n"
        "def double(n):\n"
        "    x = te.placeholder((n,), name='x')\n"
        "    return [x, te.compute((n,), lambda i: x[i] * 2.0, name='y')]\n"
        "if __name__ == '__main__':\n"
        "    key = make_workload_key(double, (8,))\n"
        "    print(key, ComputeDAG(key).flop_ct)\n"
    )
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == '["double", 8] 8.0'


def test_a_cell_of_a_notebook_may_be_run_again() -> None:
    """A function of the main program takes the place of itself, and of no other."""
    cell = (
        "@register_workload\ndef t_cell(n):\n    return [n]\n"
        "@register_func('t.cell')\ndef t_called(n):\n    return n\n"
    )
    names: dict[str, Any] = {"__name__": "__main__", "register_workload": W.register_workload}
    names["register_func"] = register_func
    try:
        exec(cell, names)
        first = names["t_cell"]
        exec(cell, names)
        assert W.WORKLOAD_FUNC_REGISTRY["t_cell"] is names["t_cell"] is not first
        assert get_global_func("t.cell") is names["t_called"]
        other = cell.replace("@register_workload", "@register_workload('t_cell')")
        with pytest.raises(TilewrightError, match="a workload 't_cell' already"):
            exec(other.replace("t_cell(n)", "other(n)"), names)
        with pytest.raises(TilewrightError, match="a workload 't_cell' already"):
            exec(cell, {**names, "__name__": "elsewhere"})
    finally:
        W.WORKLOAD_FUNC_REGISTRY.pop("t_cell", None)
        remove_global_func("t.cell")
