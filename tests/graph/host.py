"""Host operators called directly, with the nodes of onnx's own tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.graph.conformance import Conformance, conformance_cases
from tilewright.graph.onnx.host import HOST, HostNode


def attribute(a: onnx.AttributeProto) -> Any:
    """What a host operator is given for an attribute."""
    found = helper.get_attribute_value(a)
    if a.type == onnx.AttributeProto.STRING:
        return found.decode()
    if a.type == onnx.AttributeProto.STRINGS:
        return [s.decode() for s in found]
    if a.type == onnx.AttributeProto.TENSOR:
        return numpy_helper.to_array(found)
    if a.type in (onnx.AttributeProto.FLOATS, onnx.AttributeProto.INTS):
        return list(found)
    return found


def key_of(node: onnx.NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def run_node(node: onnx.NodeProto, inputs: list[Any], opset: int) -> list[Any]:
    """The results of a node by its host operator; inputs are not written to."""
    attrs = {a.name: attribute(a) for a in node.attribute}
    given = [as_strings(x) for x in inputs]
    for x in given:
        if isinstance(x, np.ndarray):
            x.setflags(write=False)
    found = HostNode(node.op_type, node.name or "n", given, list(node.output), attrs, opset)
    results = HOST[key_of(node)](found)
    for x in results:
        assert x is None or isinstance(x, (np.ndarray, list)), type(x)
    return results


def as_strings(x: Any) -> Any:
    """Strings of NumPy's own types, which a host operator never sees, as objects; a copy."""
    if isinstance(x, list):
        return [as_strings(item) for item in x]
    if not isinstance(x, np.ndarray):
        return x
    return x.astype(object) if x.dtype.kind in "US" else x.copy()


def host(kind: str, *inputs: Any, opset: int = 28, outputs: int = 1, **attrs: Any) -> list[Any]:
    """The results of one operator, "domain.Operator" outside the standard domain."""
    domain, _, name = kind.rpartition(".")
    names = [f"x{k}" if x is not None else "" for k, x in enumerate(inputs)]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(name, names, results, domain=domain, **attrs)
    return run_node(node, list(inputs), opset)


def opset_of(model: onnx.ModelProto, node: onnx.NodeProto) -> int:
    """The operator set of a node."""
    found = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    return found["" if node.domain == "ai.onnx" else node.domain]


@cache
def host_cases() -> dict[str, Conformance]:
    """The suite's cases all of whose nodes have host operators."""
    return {
        name: case
        for name, case in conformance_cases().items()
        if all(key_of(n) in HOST for n in case.model.graph.node)
    }


def check_same(got: Any, wanted: Any, what: str = "") -> None:
    """Compare a result with what the suite expects."""
    if isinstance(wanted, list):
        assert isinstance(got, list) and len(got) == len(wanted), what
        for mine, right in zip(got, wanted):
            check_same(mine, right, what)
        return
    if wanted is None or isinstance(wanted, dict):
        assert got == wanted, what
        return
    wanted = as_strings(wanted)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), what
    if wanted.dtype == object or wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(got, wanted, what)
    else:
        np.testing.assert_allclose(
            got.astype(np.float64), wanted.astype(np.float64), 1e-3, 1e-7, err_msg=what
        )


def reference(
    kind: str, *inputs: Any, opset: int = 25, outputs: int = 1, **attrs: Any
) -> list[Any]:
    """The results by ONNX's reference evaluator."""
    domain, _, name = kind.rpartition(".")
    names = [f"x{k}" if x is not None else "" for k, x in enumerate(inputs)]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(name, names, results, domain=domain, **attrs)
    given = {n: as_strings(x) for n, x in zip(names, inputs) if n}
    values = [onnx.ValueInfoProto(name=n) for n in given]
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=n) for n in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)])
    return list(ReferenceEvaluator(model).run(None, given))


def check_like_reference(kind: str, *inputs: Any, opset: int = 25, **attrs: Any) -> list[Any]:
    found = host(kind, *inputs, opset=opset, **attrs)
    for got, wanted in zip(found, reference(kind, *inputs, opset=opset, **attrs)):
        check_same(got, wanted, kind)
    return found
