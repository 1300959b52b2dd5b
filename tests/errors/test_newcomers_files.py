"""The second hour of newcomers: files that are something else, NumPy's functions, axes that went
with their operation. Each is told with what would be right."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tvm
from tilewright import autotvm, graph, te, tir, topi
from tilewright.base.errors import CompileError, ScheduleError, TilewrightError


def vector() -> Any:
    return te.placeholder((8,), name="A")


def product() -> Any:
    a, b = (te.placeholder((8, 8), name=x) for x in "AB")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_schedule(c.op), c, [a, b, c]


def told(make: Callable[[], object], *parts: str, kind: Any = TilewrightError) -> None:
    with pytest.raises(kind) as caught:
        make()
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "of",
    [
        lambda a: te.compute((8,), lambda i: np.exp(a[i])),
        lambda a: te.compute((8,), lambda i: np.exp(a[i] * 2.0 + 1.0)),
        lambda a: te.compute((8,), lambda i: np.maximum(a[i], 0.0)),
        lambda a: te.compute((8,), lambda i: np.abs(a[i] + 1.0)),
        np.exp,
    ],
    ids=["element", "expression", "maximum", "abs", "tensor"],
)
def test_numpys_functions_of_expressions(of: Callable[[Any], object]) -> None:
    told(lambda: of(vector()), "computes with numbers", "te.exp", "topi", kind=TypeError)


def test_operators_with_numpys_scalars_are_expressions() -> None:
    x, a = te.var("x", "float32"), te.placeholder((4,), "float32", name="A")
    for value in (x, x + 1.0, a[0]):
        for made in (np.float32(2) * value, value * np.float32(2), np.float32(2) - value):
            assert isinstance(made, tir.PrimExpr) and made.dtype == "float32"
        assert isinstance(np.float32(2) < value, tir.GT)
        assert isinstance(np.float32(2) == value, tir.EQ)
    assert [str(e) for e in np.array([1, 2]) * te.var("n")] == ["n", "2 * n"]
    assert (np.int64(2) == a) is False


def test_the_axis_of_an_operation_that_was_replaced() -> None:
    s, c, _ = product()
    cached = s.cache_write(c, "local")
    told(
        lambda: s[cached].compute_at(s[c], c.op.reduce_axis[0]),
        "iter var k",
        "rfactor or cache_write has replaced",
        "s[C].op.axis",
        kind=ScheduleError,
    )


def test_the_axis_of_the_stage_itself_and_not_of_its_reader() -> None:
    a = vector()
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    told(
        lambda: s[b].compute_at(s[c], b.op.axis[0]),
        "parent=C",
        "a loop of C, from s[C].op.axis",
        kind=ScheduleError,
    )


def test_a_loop_that_went_after_compute_at() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((8,), lambda i: te.sum(b[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s.rfactor(c, s[c].split(c.op.reduce_axis[0], 4)[1])
    told(
        lambda: tvm.lower(s, [a, c]),
        "attachment point of stage B",
        "call compute_at after these",
        kind=ScheduleError,
    )


def test_results_that_nobody_sees() -> None:
    s, _, args = product()
    with pytest.warns(UserWarning, match=r"computes, C, is no argument.*build\(s, \[A, B, C\]\)"):
        tvm.build(s, args[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tvm.lower(s, args[:2])
        tvm.build(s, args)


def test_a_pragma_that_is_misspelt() -> None:
    s, c, args = product()
    s[c].pragma(c.op.axis[0], "unrol")
    told(lambda: tvm.build(s, args), "did you mean the pragma 'unroll'?", kind=CompileError)
    s, c, args = product()
    s[c].pragma(c.op.axis[0], "something_else")
    told(lambda: tvm.build(s, args), "pragmas: unroll, vectorize", kind=CompileError)


def test_a_function_that_is_not_registered() -> None:
    tvm.register_func("tests.newcomers.double", lambda x: 2 * x, override=True)
    told(lambda: tvm.get_global_func("tests.newcomers.duoble"), "did you mean 'tests.newcomers.d")
    told(lambda: tvm.get_global_func("zzz"), "register_func('zzz', f) registers one")


def test_operators_name_the_shapes_that_do_not_fit() -> None:
    image, filters = te.placeholder((1, 8, 8, 3), name="X"), te.placeholder((4, 3, 3, 3))
    told(lambda: topi.nn.conv2d(image, filters, 1, 1, 1), "shape=[1, 8, 8, 3]", "layouts of data")
    told(lambda: topi.matmul(array_of(3, 4), array_of(5, 6)), "[3, 4]", "[5, 6]")
    told(lambda: topi.reshape(array_of(3, 4), (5, 2)), "of 12 elements to 10", "[3, 4]", "(5, 2)")


def array_of(*shape: int) -> Any:
    return te.placeholder(shape)


def model_file(path: Path) -> Path:
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy"]
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    opset = helper.make_opsetid("", 17)
    path.write_bytes(helper.make_model(made, opset_imports=[opset]).SerializeToString())
    return path


def test_a_model_for_a_file_of_records(tmp_path: Path) -> None:
    model = model_file(tmp_path / "m.onnx")
    what = (f"{model} is no file of records", "`tilewright tune`")
    told(lambda: graph.compile(graph.load_onnx(model), records=model), *what)
    told(lambda: autotvm.apply_history_best(str(model)), *what)


def test_a_saved_network_for_a_model(tmp_path: Path) -> None:
    tvm.compile(model_file(tmp_path / "m.onnx")).save(tmp_path / "m.net")
    told(lambda: tvm.compile(tmp_path / "m.net"), "saved network", "tilewright.load_network")
