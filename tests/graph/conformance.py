"""onnx's own backend tests, all of them, as they stand: what passes, and why what does not."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tilewright import graph
from tilewright.base.dtype import canonical
from tilewright.base.errors import TilewrightError

SUITES = ("simple", "pytorch-converted", "pytorch-operator")
DIFFERENT = {
    r"attention_.*_(bf16|fp16)(_expanded)?$": "expected values are rounded after each term of a "
    "sum, ours once at its end",
    r"bernoulli|training_dropout": "random numbers, which onnx's own runner does not compare",
    r"dft_inverse": "2e-7 are expected where 0 is right, which is what comes out",
    r"gradient_of": "Gradient differentiates a part of the graph that it stands in",
}
"""Cases that do not pass, by a part of their names: why."""


@dataclass(frozen=True)
class Conformance:
    """A model, and data sets of inputs and expected outputs."""

    name: str
    model: onnx.ModelProto
    data: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


@cache
def node_cases() -> dict[str, Conformance]:
    """Those of single operators, most of one node, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, from the suite's own generators
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    return {c.name: _from_arrays(c) for c in found if c.model is not None}


@cache
def conformance_cases() -> dict[str, Conformance]:
    """All cases by name."""
    from onnx.backend.test.loader import load_model_tests

    stored = [_from_folder(c) for suite in SUITES for c in load_model_tests(kind=suite)]
    return {**node_cases(), **{c.name: c for c in stored}}


def _from_arrays(c: Any) -> Conformance:
    data = [([as_value(x) for x in i], [as_value(x) for x in o]) for i, o in c.data_sets or ()]
    return Conformance(c.name, c.model, data, c.rtol, c.atol)


def _from_folder(c: Any) -> Conformance:
    folder = Path(c.model_dir)
    model = onnx.load(folder / "model.onnx")
    weights = {t.name for t in model.graph.initializer}
    data = []
    for place in sorted(folder.glob("test_data_set*")):
        count = len(list(place.glob("input_*.pb")))
        items = list(model.graph.input)
        if count != len(items):
            items = [i for i in items if i.name not in weights]
        data.append((_files(place, "input", items), _files(place, "output", model.graph.output)))
    return Conformance(c.name, model, data, c.rtol, c.atol)


def _files(place: Path, kind: str, items: Any) -> list[Any]:
    made = {
        "tensor_type": onnx.TensorProto,
        "sequence_type": onnx.SequenceProto,
        "optional_type": onnx.OptionalProto,
    }
    found = []
    for k, item in enumerate(items):
        proto = made[item.type.WhichOneof("value")]()
        proto.ParseFromString((place / f"{kind}_{k}.pb").read_bytes())
        found.append(as_value(proto))
    return found


def as_value(x: Any) -> Any:
    """A value of a case: an array, a list of them, or None."""
    if isinstance(x, onnx.TensorProto):
        return numpy_helper.to_array(x)
    if isinstance(x, onnx.SequenceProto):
        return numpy_helper.to_list(x)
    if isinstance(x, onnx.OptionalProto):
        return numpy_helper.to_optional(x)
    if isinstance(x, (list, tuple)):
        return [as_value(item) for item in x]
    return x if x is None or isinstance(x, dict) else np.asarray(x)


def different(name: str) -> str | None:
    """Why a case does not pass; None where it should."""
    return next((why for part, why in DIFFERENT.items() if re.search(part, name)), None)


def run_case(case: Conformance) -> None:
    """Run a case as it stands, and with those inputs stored as weights whose values the importer
    asks for, so that it is compiled as a whole."""
    for inputs, expected in case.data:
        given = _named(case.model, inputs)
        model = onnx.ModelProto.FromString(case.model.SerializeToString())
        kept = [t for t in model.graph.initializer if t.name not in given]
        del model.graph.initializer[:]
        model.graph.initializer.extend(kept)
        while True:
            network = graph.load_onnx(model, _shapes(model, given))
            names = {i.name for i in model.graph.input}
            results = graph.compile(network).run({n: x for n, x in given.items() if n in names})
            for item, want in zip(case.model.graph.output, expected):
                compare(results[item.name], want, case)
            asked = network.rest.asked if network.rest is not None else ()
            if not asked:
                break
            for name in asked:
                item = next(i for i in model.graph.input if i.name == name)
                model.graph.input.remove(item)
                model.graph.initializer.append(numpy_helper.from_array(given[name], name))


def _named(model: onnx.ModelProto, inputs: list[Any]) -> dict[str, Any]:
    weights = {t.name for t in model.graph.initializer}
    names = [i.name for i in model.graph.input]
    if len(inputs) < len(names):
        names = [n for n in names if n not in weights]
    return dict(zip(names, inputs))


def _shapes(model: onnx.ModelProto, given: dict[str, Any]) -> dict[str, Any]:
    """Shapes of the data, for tensors that the model declares without."""
    found = {}
    for item in model.graph.input:
        x, declared = given.get(item.name), item.type.tensor_type
        if item.type.WhichOneof("value") != "tensor_type" or not isinstance(x, np.ndarray):
            continue
        open_ = [d for d in declared.shape.dim if not d.HasField("dim_value")]
        if (open_ or not declared.HasField("shape")) and _carried(x.dtype):
            found[item.name] = x.shape
    return found


def _carried(dtype: Any) -> bool:
    try:
        return bool(canonical(dtype))
    except TilewrightError:
        return False


def compare(got: Any, want: Any, case: Conformance) -> None:
    """AssertionError where a result is not what is expected, within the case's tolerance."""
    if want is None:
        assert got is None, got
        return
    if isinstance(want, dict):
        assert set(got) == set(want), (got, want)
        for key, value in want.items():
            compare(got[key], value, case)
        return
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), (got, want)
        for a, b in zip(got, want):
            compare(a, b, case)
        return
    want, got = np.asarray(want), np.asarray(got)
    assert got.shape == want.shape, (got.shape, want.shape)
    if want.dtype.kind in "OSU":
        texts = [x.decode() if isinstance(x, bytes) else str(x) for x in want.reshape(-1)]
        assert [str(x) for x in got.reshape(-1)] == texts
        return
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        got.astype(wide), want.astype(wide), rtol=case.rtol, atol=max(case.atol, 1e-7)
    )
