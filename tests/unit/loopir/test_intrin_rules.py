from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tilewright.base.errors import TilewrightError
from tilewright.loopir.expr import Call, Var
from tilewright.loopir.intrin_rules import (
    find_rule,
    register_intrin_lowering,
    remove_rule,
    user_rules,
)

NAME = "tir.test_rule"


def first(call: Call) -> Any:
    return call.args[0]


def second(call: Call) -> Any:
    return call


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    for kind in ("llvm", "cuda", "default"):
        remove_rule(NAME, kind)


def test_the_first_kind_with_a_rule_counts() -> None:
    assert find_rule(["llvm", "default"], NAME) is None
    register_intrin_lowering(NAME, target="default", f=first)
    assert find_rule(["llvm", "default"], NAME) is first
    register_intrin_lowering(NAME, target="llvm", f=second)
    assert find_rule(["llvm", "default"], NAME) is second
    assert find_rule(["cuda", "default"], NAME) is first
    assert user_rules(["llvm", "cuda"]) == {("llvm", NAME): second}
    remove_rule(NAME, "llvm")
    assert find_rule(["llvm"], NAME) is None


def test_levels() -> None:
    register_intrin_lowering(NAME, target="cuda", f=first, level=99)
    register_intrin_lowering(NAME, target="cuda", f=second, level=50)
    assert find_rule(["cuda"], NAME) is first
    register_intrin_lowering(NAME, target="cuda", f=second, level=99)
    assert find_rule(["cuda"], NAME) is second


def test_built_in_rules_have_level_10() -> None:
    builtin = {("cuda", NAME): first, ("default", NAME): second}
    assert find_rule(["cuda", "default"], NAME, builtin) is first
    assert find_rule(["llvm", "default"], NAME, builtin) is second
    register_intrin_lowering(NAME, target="cuda", f=second, level=5)
    assert find_rule(["cuda"], NAME, builtin) is first
    assert find_rule(["cuda"], NAME) is second
    register_intrin_lowering(NAME, target="cuda", f=second)
    assert find_rule(["cuda"], NAME, builtin) is second


def test_as_decorator_and_with_a_target() -> None:
    class Target:
        kind = "llvm"

    @register_intrin_lowering(NAME, target=Target())
    def rule(call: Call) -> Any:
        return call.args[0]

    found = find_rule(["llvm"], NAME)
    x = Var("x")
    assert found is rule and found(Call("int32", NAME, (x,))) is x


def test_misuse() -> None:
    with pytest.raises(TilewrightError, match="takes the names of an op and a target kind"):
        register_intrin_lowering(NAME, 3, first)
    with pytest.raises(TilewrightError, match="must be callable, got 7"):
        register_intrin_lowering(NAME, "llvm", 7)  # type: ignore[arg-type]
