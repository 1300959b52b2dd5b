"""PassContext: options by TVM's names, and passes of the user's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, transform
from tilewright.base import config
from tilewright.base.errors import TilewrightError
from tilewright.driver.build_module import build
from tilewright.driver.lower import lower
from tilewright.loopir import stmt as S
from tilewright.loopir.visit import walk


def program() -> tuple[Any, list[Any]]:
    a = te.placeholder((32,), name="A")
    b = te.compute((32,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=8)
    s[b].vectorize(inner)
    del outer
    return s, [a, b]


def loops(module: Any) -> list[S.For]:
    return [x for f in module.functions.values() for x in walk(f.body) if isinstance(x, S.For)]


def test_options_by_tvms_names() -> None:
    assert len(loops(lower(*program()))) == 1
    with transform.PassContext(config={"tir.disable_vectorize": True}):
        assert len(loops(lower(*program()))) == 2
    with transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}}):
        assert config.get("unroll_max_step") == 8
        assert not loops(lower(*program()))
    assert config.get("unroll_max_step") == 0


def test_contexts_nest_and_are_left_on_errors() -> None:
    assert transform.PassContext.current().opt_level == 2
    with transform.PassContext(opt_level=3) as outer:
        assert config.get("opt_level") == 3
        with pytest.raises(RuntimeError, match="inside"), transform.PassContext(opt_level=0):
            assert transform.PassContext.current().opt_level == 0
            raise RuntimeError("inside")
        assert transform.PassContext.current() is outer
    assert config.get("opt_level") == 2
    with outer, outer:
        assert config.get("opt_level") == 3
    assert config.get("opt_level") == 2


def test_users_passes_run_in_their_phase() -> None:
    seen: list[int] = []

    def first(func: S.PrimFunc) -> S.PrimFunc:
        seen.append(len([x for x in walk(func.body) if isinstance(x, S.For)]))
        return func

    @transform.prim_func_pass(opt_level=0)
    def last(func: S.PrimFunc, module: Any, context: Any) -> S.PrimFunc:
        seen.append(len([x for x in walk(func.body) if isinstance(x, S.For)]))
        return func.with_attr("seen", True)

    with transform.PassContext(config={"tir.add_lower_pass": [(0, first), (3, last)]}):
        module = lower(*program(), name="f")
        built = build(*program())
    assert seen == [2, 1, 2, 1] and module["f"].attrs["seen"]
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    built(x, out)
    np.testing.assert_array_equal(out, x + 1)
    assert last(lower(*program()))["main"].attrs["seen"]


def test_wrong_options() -> None:
    for kwargs, text in (
        ({"config": {"tir.unknown": 1}}, "unknown option 'tir.unknown'"),
        ({"config": {"tir.UnrollLoop": {"steps": 1}}}, "has no option 'steps'"),
        ({"config": {"tir.UnrollLoop": 3}}, "takes a dict"),
        ({"config": {"tir.add_lower_pass": [lambda f: f]}}, "takes pairs of a phase"),
        ({"config": {"tir.add_lower_pass": [(7, lambda f: f)]}}, "takes pairs of a phase"),
        ({"opt_level": 9}, "opt_level is 0 to 4"),
    ):
        with pytest.raises(TilewrightError, match=text):
            transform.PassContext(**kwargs)


def test_passes_by_name() -> None:
    from tilewright.tir import transform as passes

    with transform.PassContext(config={"tir.disable_vectorize": True}):
        serial = lower(*program())
    assert len(loops(serial)) == 2
    with transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}}):
        unrolled = passes.UnrollLoop()(serial)
    assert len(loops(unrolled)) == 1
    assert passes.Simplify()(serial["main"]).params == serial["main"].params


def test_groups_of_options_are_read_by_name() -> None:
    group = transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 10}}).config
    unroll = group["tir.UnrollLoop"]
    assert unroll.auto_max_step == 10 and unroll.explicit_unroll is True
    assert unroll == {"auto_max_step": 10}
    with pytest.raises(AttributeError, match="no option 'steps' among"):
        _ = unroll.steps
    for wrong in ({"tir.UnrollLoop": {"invalid": 1}}, {"no-option": True}, {"tir.UnrollLoop": 1}):
        with pytest.raises(AttributeError):
            transform.PassContext(config=wrong)
