"""onnx's own node tests on devices; on CPUs all of them run in test_conformance.py."""

import random

import numpy as np
import pytest

import tilewright as tvm
from tests.fuzz.test_fuzz_slice import fresh_seed
from tests.graph.backend import cases, load_with_known_parameters
from tests.graph.conformance import different
from tests.narrow import as_a
from tilewright import graph
from tilewright.graph.device import DeviceExecutable


def _run(case, target) -> None:
    for inputs, expected in case.data:
        names = [i.name for i in case.model.graph.input]
        imported, _ = load_with_known_parameters(case.model, inputs)
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


def _small() -> list[str]:
    """Cases that are compiled as a whole, with data that an interpreter of threads can compute."""
    return [
        name
        for name, case in cases().items()
        if different(name) is None
        and len(case.model.graph.node) == 1
        and all(x.size <= 500 for pair in case.data for part in pair for x in part)
    ]


def _compiled_whole(name: str) -> bool:
    case = cases()[name]
    inputs, _ = case.data[0]
    return load_with_known_parameters(case.model, inputs)[0].rest is None


def test_kernels_for_cuda() -> None:
    """Threads that race, or read what nobody wrote, are errors there. One case of each operator,
    and others that are drawn in every run."""
    names = _small()
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(cases()[name].model.graph.node[0].op_type, name)
    drawn = random.Random(fresh_seed()).sample(names, 60)
    for name in dict.fromkeys([*first.values(), *drawn]):
        if _compiled_whole(name):
            print(name)
            _run(cases()[name], "cuda -arch=sm_80")


@pytest.mark.skipif(not tvm.opencl(0).exist, reason="there is no OpenCL device")
@pytest.mark.parametrize("target", ["opencl", "opencl -device=mali"])
def test_some_kernels_for_opencl(target: str) -> None:
    """PoCL takes a second for each; others are drawn in every run."""
    names = [n for n in random.Random(fresh_seed()).sample(_small(), 30) if _compiled_whole(n)]
    for name in names[:15]:
        print(name)
        _run(cases()[name], target)
