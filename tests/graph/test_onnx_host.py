"""Host operators against onnx's own tests, each called directly."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from tests.graph.conformance import Conformance
from tests.graph.host import check_same, host_cases, key_of, opset_of, run_node
from tilewright.base.errors import TilewrightError
from tilewright.graph.onnx.host import HOST


def check_case(case: Conformance) -> None:
    model = case.model
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in weights]
    for inputs, outputs in case.data:
        known = {"": None, **weights, **dict(zip(names, inputs))}
        for node in model.graph.node:
            given = [known[n] for n in node.input]
            opset = opset_of(model, node)
            if node.op_type == "ImageDecoder" and find_spec("PIL") is None:
                with pytest.raises(TilewrightError, match=r"pip install tilewright\[images\]"):
                    run_node(node, given, opset)
                return
            results = run_node(node, given, opset)
            known.update(zip(node.output, results))
            if is_random(node, given):
                check_random(node, given, results)
                return
        for item, wanted in zip(model.graph.output, outputs, strict=True):
            check_same(known[item.name], wanted, item.name)


def is_random(node: Any, given: list[Any]) -> bool:
    """Whether elements are drawn: then the suite's are of another generator."""
    drops = node.op_type == "Dropout" and given[2:] == [True] and given[1] != 0
    return node.op_type == "Bernoulli" or drops


def check_random(node: Any, given: list[Any], results: list[Any]) -> None:
    x = given[0]
    if node.op_type == "Bernoulli":
        (drawn,) = results
        assert drawn.shape == x.shape and np.isin(drawn, (0, 1)).all()
        return
    result, mask = results
    ratio = 0.5 if given[1] is None else float(given[1])
    assert mask.dtype == bool and abs(mask.mean() - (1 - ratio)) < 4 / np.sqrt(mask.size)
    check_same(result, np.where(mask, x / x.dtype.type(1 - ratio), x.dtype.type(0)))


@pytest.mark.parametrize("operator", sorted(HOST))
def test_operator(operator: str) -> None:
    failures = []
    for name, case in host_cases().items():
        if all(key_of(n) != operator for n in case.model.graph.node):
            continue
        try:
            check_case(case)
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


def test_how_many_cases() -> None:
    assert len(host_cases()) >= 490
