"""Templates and tasks: registration, arguments as data, contexts, operators in two parts."""

import logging
from typing import Any

import numpy as np
import pytest

from tilewright import autotvm, te
from tilewright.base.errors import TilewrightError
from tilewright.target.target import Target
from tilewright.template.context import ApplyConfig, ApplyFixedConfig, FallbackContext


@autotvm.template("tests/task/add")
def add(shape: tuple[int, ...], bias: float) -> tuple[Any, list[Any]]:
    cfg = autotvm.get_config()
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda *i: A(*i) + bias, name="B")
    s = te.create_schedule(B.op)
    cfg.define_split("x", s[B].op.axis[-1])
    cfg["x"].apply(s, B, s[B].op.axis[-1])
    return s, [A, B]


def test_a_task_knows_its_space_and_operations() -> None:
    task = autotvm.task.create("tests/task/add", args=((4, 6), 1.5), target="llvm")
    assert task.workload == ("tests/task/add", (4, 6), 1.5)
    assert task.flop == 24 and len(task.config_space) == 4
    assert task.target == Target("llvm")
    s, args = task.instantiate(task.config_space.get(2))
    assert "factor=3" in s.as_python() and [a.name for a in args] == ["A", "B"]
    assert "tests/task/add" in repr(task) and "len=4" in repr(task.config_space)


def test_a_task_is_made_from_the_template_itself() -> None:
    assert autotvm.task.create(add, args=((4,), 0.0), target="llvm").name == "tests/task/add"

    @autotvm.template
    def bare_template(n: int) -> Any:
        return add.__wrapped__((n,), 1.0)  # type: ignore[attr-defined]

    assert autotvm.task.create(bare_template, (3,), "llvm").name == "bare_template"


def test_given_operations_count() -> None:
    @autotvm.template("tests/task/counted")
    def counted(n: int) -> Any:
        cfg = autotvm.get_config()
        cfg.add_flop(1000)
        cfg.add_flop(n)
        return add.__wrapped__((n,), 1.0)  # type: ignore[attr-defined]

    assert autotvm.task.create("tests/task/counted", (8,), "llvm").flop == 1008


def test_arguments_are_data() -> None:
    A = te.placeholder((2, 3), "int8", name="A")
    plain = autotvm.task.serialize_args([A, [1, "x"], None, np.int64(3), np.float32(0.5)])
    assert plain == (("TENSOR", (2, 3), "int8"), (1, "x"), None, 3, 0.5)
    again = autotvm.task.deserialize_args(plain)
    assert again[0].dtype == "int8" and [int(d) for d in again[0].shape] == [2, 3]
    with pytest.raises(TilewrightError, match="has to be a number"):
        autotvm.task.serialize_args([object()])
    with pytest.raises(TilewrightError, match="constant shape"):
        autotvm.task.serialize_args([te.placeholder((te.var("n"),))])


def test_mistakes_are_named() -> None:
    with pytest.raises(TilewrightError, match=r"no template 'tests/nothing'.*Known: .*tests/task"):
        autotvm.task.create("tests/nothing", (), "llvm")
    with pytest.raises(TilewrightError, match="keyword"):
        add((2,), bias=1.0)

    @autotvm.template("tests/task/careless")
    def careless() -> Any:
        return None

    with pytest.raises(TilewrightError, match=r"has to return \(schedule, arguments\)"):
        autotvm.task.create("tests/task/careless", (), "llvm")
    with pytest.raises(TilewrightError, match="there is a template 'tests/task/add' already"):
        autotvm.template("tests/task/add")(careless)
    with pytest.raises(TilewrightError, match="unknown target kind"):
        autotvm.task.create("tests/task/add", ((2,), 1.0), "abacus")


def test_outside_of_contexts_there_are_fallbacks(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "autotvm"):
        s, _ = add((7,), 2.0)
    assert "Cannot find config" in caplog.text
    assert "factor=1)" in s.as_python()
    caplog.clear()
    with FallbackContext() as context:
        context.silent = True
        target = Target("llvm")
        found = context.query(target, ("t",))
        assert found.is_fallback and context.query(target, ("t",)) is found
        context.clear_cache(target, ("t",))
        assert context.query(target, ("t",)) is not found
    assert not caplog.text


def test_contexts_nest() -> None:
    outer, inner = ApplyConfig("outer"), ApplyConfig("inner")
    with outer:
        with inner:
            assert autotvm.get_config() == "inner"
            assert autotvm.DispatchContext.current is inner
        assert autotvm.get_config() == "outer"
        inner.update(Target("llvm"), ("t",), "new")
        with inner, outer, inner:
            assert autotvm.get_config() == "new"
    assert isinstance(autotvm.DispatchContext.current, FallbackContext)


def test_fixed_configurations() -> None:
    task = autotvm.task.create("tests/task/add", args=((4, 6), 1.5), target="llvm")
    with ApplyFixedConfig([task], "tests/task/add") as context:
        assert context.query(task.target, task.workload).cost < 1
        with pytest.raises(TilewrightError, match="no task 'other'"):
            context.query(task.target, ("other",))
    with ApplyFixedConfig([task], []) as context:
        assert context.query(task.target, task.workload).cost > 1
        s, _ = add((4, 6), 1.5)
        assert "factor=1" in s.as_python()


def test_operators_in_two_parts() -> None:
    @autotvm.register_topi_compute("tests/task/double")
    def double(cfg: Any, data: Any) -> Any:
        cfg.define_knob("by", [2, 3])
        return te.compute(data.shape, lambda i: data[i] * float(cfg["by"].val), name="out")

    @autotvm.register_topi_schedule("tests/task/double")
    def schedule_double(cfg: Any, outs: Any) -> Any:
        s = te.create_schedule([t.op for t in outs])
        cfg.define_split("x", s[outs[0]].op.axis[0])
        cfg["x"].apply(s, outs[0], s[outs[0]].op.axis[0])
        return s

    A = te.placeholder((6,), name="A")
    task = autotvm.task.create("tests/task/double", args=(A,), target="llvm")
    assert task.config_space.dims == [2, 4]
    s, args = task.instantiate(task.config_space.get(5))
    assert "factor=3" in s.as_python() and len(args) == 2
    with ApplyConfig(task.config_space.get(3)):
        out = double(A)
        assert autotvm.task.get_workload(out) == task.workload
        assert "factor=2" in schedule_double([out]).as_python()
    with pytest.raises(TilewrightError, match="no tensor of these"):
        schedule_double([A])

    @autotvm.register_topi_compute("tests/task/half")
    def half(cfg: Any, data: Any) -> Any:
        return data

    with pytest.raises(TilewrightError, match="has no schedule"):
        autotvm.task.create("tests/task/half", args=(A,), target="llvm")
