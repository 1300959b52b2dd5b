"""The importer against onnx's own node tests, one test for each operator."""

import random
import re

import numpy as np
import pytest

import tilewright as tvm
from tests.fuzz.test_fuzz_slice import fresh_seed
from tests.graph.backend import cases, data_sets, with_known_parameters
from tests.narrow import as_a
from tilewright import graph
from tilewright.base.errors import ImportModelError
from tilewright.graph.device import DeviceExecutable
from tilewright.graph.onnx.load import CONVERTERS

REFUSED = {  # what is known not to be supported, and says so
    r"_[a-z]*pool_3d": "only 1-D and 2-D pooling is supported",
    r"maxpool_3d": "only 1-D and 2-D pooling is supported",
    r"batchnorm_.*_training_mode": "training mode is not supported",
    r"training_dropout_(default|mask|default_mask)?$": "training mode is not supported",
    r"training_dropout$": "training mode is not supported",
    r"maxpool_with_argmax": "output 1 .* is not supported",
    r"(edge|reflect|wrap)_pad": "mode '(edge|reflect|wrap)' is not supported",
    r"center_crop_pad": "Pad node .* must be a constant",
}


def _run(case, target="llvm") -> None:
    for inputs, expected in data_sets(case):
        names = [i.name for i in case.model.graph.input]
        model = with_known_parameters(case.model, inputs)
        imported = graph.load_onnx(model)
        open_names = {v.name for v in imported.inputs}
        net = graph.compile(imported, target)
        if target.startswith("cuda"):
            as_a(DeviceExecutable, net).device = tvm.simt(0)
        results = net.run({name: x for name, x in zip(names, inputs) if name in open_names})
        for item, wanted in zip(case.model.graph.output, expected):
            got = results[item.name]
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), item.name
            np.testing.assert_allclose(
                got.astype(np.float64), wanted.astype(np.float64), rtol=1e-3, atol=1e-7
            )


@pytest.mark.parametrize("operator", sorted(CONVERTERS))
def test_operator(operator: str) -> None:
    found = {
        name: case
        for name, case in cases().items()
        if any(n.op_type == operator for n in case.model.graph.node)
    }
    assert found, "the suite has cases for every operator of the importer"
    failures = []
    for name, case in found.items():
        refusal = next((text for key, text in REFUSED.items() if re.search(key, name)), None)
        try:
            if refusal is None:
                _run(case)
            else:
                with pytest.raises(ImportModelError, match=refusal):
                    _run(case)
        except (Exception, pytest.fail.Exception) as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


def _small() -> list[str]:
    """Cases that are not refused, with outputs that an interpreter of threads can compute."""
    return [
        name
        for name, case in cases().items()
        if not any(re.search(key, name) for key in REFUSED)
        and all(wanted.size <= 500 for _, outputs in data_sets(case) for wanted in outputs)
    ]


def test_kernels_for_cuda() -> None:
    """Threads that race, or read what nobody wrote, are errors there."""
    for name in _small():
        _run(cases()[name], "cuda -arch=sm_80")


@pytest.mark.skipif(not tvm.opencl(0).exist, reason="there is no OpenCL device")
@pytest.mark.parametrize("target", ["opencl", "opencl -device=mali"])
def test_some_kernels_for_opencl(target: str) -> None:
    """PoCL takes a second for each; others are drawn in every run."""
    for name in random.Random(fresh_seed()).sample(_small(), 15):
        print(name)
        _run(cases()[name], target)


def test_most_cases_run() -> None:
    names = list(cases())
    refused = [n for n in names if any(re.search(key, n) for key in REFUSED)]
    assert len(names) > 400
    assert len(refused) < 40
