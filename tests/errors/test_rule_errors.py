"""Users' lowering rules on every target: levels, override at run time, rules that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.base.errors import CompileError, TilewrightError
from tilewright.ir import register_intrin_lowering, register_op_attr
from tilewright.loopir.intrin_rules import remove_rule

TARGETS = ("cuda", "opencl", "llvm")


@pytest.fixture
def rule() -> Iterator[Callable[..., None]]:
    """Registers rules that are forgotten after the test."""
    made: list[tuple[str, str]] = []

    def register(op: str, target: str, f: Any, level: int = 99) -> None:
        register_intrin_lowering(op, target=target, f=f, level=level)
        made.append((op, target))

    yield register
    for op, target in made:
        remove_rule(op, target)


def build(target: str, f: Callable[[Any], Any] = te.exp, dtype: str = "float32") -> tuple[Any, str]:
    """B[i] = f(A[i]): the module, and the text of its kernel or function."""
    n = te.var("n")
    A = te.placeholder((n,), name="A", dtype=dtype)
    B = te.compute((n,), lambda i: f(A[i]), name="B")
    s = te.create_schedule(B.op)
    if target != "llvm":
        bx, tx = s[B].split(B.op.axis[0], factor=64)
        s[B].bind(bx, te.thread_axis("blockIdx.x"))
        s[B].bind(tx, te.thread_axis("threadIdx.x"))
    module = tw.build(s, [A, B], target, name="f")
    if target == "llvm":
        return module, module.get_source("ll")
    return module, module.imported_modules[0].get_source()


def extern(name: str) -> Callable[[Any], Any]:
    return lambda call: tir.call_pure_extern(call.dtype, name, *call.args)


@pytest.mark.parametrize("target", TARGETS)
def test_a_rule_applies_from_the_next_build_on(target: str, rule: Callable[..., None]) -> None:
    assert "myexp" not in build(target)[1]
    rule("tir.exp", target, extern("sinhf" if target == "llvm" else "myexp"))
    text = build(target)[1]
    assert "sinhf" in text if target == "llvm" else " myexp(" in text


@pytest.mark.parametrize("target", TARGETS)
def test_the_highest_level_counts(target: str, rule: Callable[..., None]) -> None:
    rule("tir.exp", target, extern("coshf"), 50)
    rule("tir.exp", target, extern("sinhf"), 20)
    assert "coshf" in build(target)[1]
    rule("tir.exp", target, extern("tanhf"), 50)
    assert "tanhf" in build(target)[1], "of equal levels the latest"


def test_a_rule_below_the_built_in_level_does_not_replace_it(rule: Callable[..., None]) -> None:
    rule("tir.exp", "cuda", extern("myexp"), 5)
    assert "__expf(" in build("cuda")[1]


@pytest.mark.parametrize("target", TARGETS)
def test_own_intrinsics(target: str, rule: Callable[..., None]) -> None:
    register_op_attr("tir.my_softplus", "TCallEffectKind", tir.CallEffectKind.Pure)
    own = lambda x: tir.call_intrin(x.dtype, "tir.my_softplus", x)  # noqa: E731
    with pytest.raises(CompileError, match=r"no code for tir\.my_softplus.*register_intrin_lowe"):
        build(target, own)
    rule("tir.my_softplus", "default", lambda c: te.log(1.0 + te.exp(c.args[0])))
    module, text = build(target, own)
    assert "my_softplus" not in text
    if target == "llvm":
        a = tw.nd.array(np.linspace(-3, 3, 10).astype("float32"))
        b = tw.nd.array(np.zeros(10, "float32"))
        module(a, b)
        np.testing.assert_allclose(b.numpy(), np.log1p(np.exp(a.numpy())), rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_a_rule_that_returns_another_type(target: str, rule: Callable[..., None]) -> None:
    narrow = lambda c: te.sin(c.args[0].astype("float32"))  # noqa: E731
    rule("tir.exp", target, narrow)
    with pytest.warns(UserWarning, match="It is converted") as warned:
        module, _ = build(target, dtype="float64")
    text = str(warned[0].message)
    if target == "llvm":
        a, b = np.linspace(-3, 3, 10), np.zeros(10)
        module(a, b)
        np.testing.assert_allclose(b, np.sin(a), rtol=1e-6)
    rule("tir.exp", target, lambda c: te.sin(c.args[0]).astype("int32"))
    with pytest.raises(CompileError, match="expression of type int32 for a call of type float64"):
        build(target, dtype="float64")
    assert f"rule of tir.exp for target '{target}' returned an expression of type float32" in text
    assert "for a call of type float64" in text and ".astype()" in text


@pytest.mark.parametrize("target", TARGETS)
def test_a_rule_that_returns_no_expression(target: str, rule: Callable[..., None]) -> None:
    for wrong in (None, "expf", object()):
        rule("tir.exp", target, lambda c, wrong=wrong: wrong)
        with pytest.raises(CompileError, match="must return an expression"):
            build(target)


@pytest.mark.parametrize("target", TARGETS)
def test_rules_that_lead_back_to_themselves(target: str, rule: Callable[..., None]) -> None:
    rule("tir.exp", target, lambda c: tir.exp2(c.args[0] * 1.4426950408889634))
    rule("tir.exp2", target, lambda c: tir.exp(c.args[0] * 0.6931471805599453))
    with pytest.raises(CompileError, match=r"tir\.exp2? .*lead back to themselves without end"):
        build(target)
    rule("tir.exp", target, lambda c: tir.exp(c.args[0]) + 1.0)
    with pytest.raises(CompileError, match="lead back to themselves without end"):
        build(target)


def test_a_rule_that_returns_its_call_leaves_it_to_the_compiler(rule: Callable[..., None]) -> None:
    rule("tir.exp", "llvm", lambda c: c)
    assert "exp" in build("llvm")[1]
    rule("tir.exp", "cuda", lambda c: c)
    with pytest.raises(CompileError, match=r"has no code for tir\.exp"):
        build("cuda")


@pytest.mark.parametrize("target", TARGETS)
def test_rules_that_grow_without_end(target: str, rule: Callable[..., None]) -> None:
    for grow in (
        lambda c: tir.exp(tir.exp(c.args[0])),
        lambda c: tir.exp(c),
        lambda c: c * 0.5,
        lambda c: tir.exp(c.args[0] * 0.5) * tir.exp(c.args[0] * 0.5),
        lambda c: tir.exp(c.args[0] + tir.exp(c.args[0])),
    ):
        rule("tir.exp", target, grow)
        with pytest.raises(CompileError, match="lead back to themselves without end"):
            build(target)


@pytest.mark.parametrize("target", TARGETS)
def test_calls_in_calls_are_no_rules_of_rules(target: str, rule: Callable[..., None]) -> None:
    """As many of a program's calls may stand in one another as it likes, and so may a rule's."""

    def nested(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def apply(x: Any) -> Any:
            for _ in range(100):
                x = f(x) + 0.5
            return x

        return apply

    rule("tir.sin", target, lambda c: tir.call_pure_extern(c.dtype, "sinhf", *c.args))
    rule("tir.cos", target, lambda c: nested(tir.sin)(c.args[0]))
    assert "sinhf" in build(target, nested(te.sin))[1]
    assert build(target, te.cos)[1].count("sinhf") >= 100
    rule("tir.cos", target, lambda c: c.args[0].a.args[0] + 1.0)
    assert "cos" not in build(target, nested(lambda x: te.cos(te.sin(x) + 1.0)))[1]


@pytest.mark.parametrize("target", TARGETS)
def test_a_rule_with_a_variable_of_its_own(target: str, rule: Callable[..., None]) -> None:
    rule("tir.exp", target, lambda c: te.var("q", c.dtype) * c.args[0])
    with pytest.raises(CompileError, match="expression of q, which has no value there"):
        build(target)


def test_levels_are_integers() -> None:
    with pytest.raises(TilewrightError, match=r"level of the rule of tir\.exp is an integer"):
        register_intrin_lowering("tir.exp", target="cuda", f=lambda c: c, level="high")
