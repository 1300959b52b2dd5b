"""Features of loops, against counts made by running the loops."""

import math
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.autotvm import feature
from tilewright.base.errors import TilewrightError


def product(n: int, l: int, m: int) -> Any:
    A, B = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_schedule(C.op), [A, B, C]


def named(features: Any) -> list[dict[str, list[float]]]:
    return [{row[0]: row[1:] for row in loop[1:]} for loop in features]


@pytest.mark.parametrize("shape", [(5, 7, 3), (2, 3, 11)])
def test_a_product_of_primes(shape: tuple[int, int, int]) -> None:
    """What each loop touches of each matrix, counted over its iterations."""
    n, l, m = shape
    s, args = product(n, l, m)
    loops = named(feature.get_itervar_feature(s, args))
    extents, strides = [n, m, l], {"A_0": (l, 0, 1), "B_0": (0, 1, m), "C_0": (m, 1, 0)}
    for depth, loop in enumerate(loops):
        inside = extents[depth:]
        assert loop["_attr_"][:4] == [
            extents[depth], depth + 1, math.prod(extents[: depth + 1]), math.prod(inside),
        ]  # fmt: skip
        assert loop["_attr_"][4:] == [float(kind == 9) for kind in range(11)]
        for name, steps in strides.items():
            places = np.zeros(1, np.int64)
            for extent, step in zip(inside, steps[depth:]):
                places = (places[:, None] + step * np.arange(extent)).ravel()
            count = len(set(places.tolist()))
            stride, mod, touched, reuse, *threads = loop[name]
            assert (stride, mod, touched) == (steps[depth], -1, count)
            assert touched * reuse == len(places) and threads == [0, 0]
    assert [loop["_arith_"] for loop in loops] == [[0, 0, 0], [0, 0, 0], [1, 1, 0]]


def test_threads_are_told_apart_from_what_one_of_them_does() -> None:
    s, args = product(12, 5, 8)
    y, x = s[args[2]].op.axis
    s[args[2]].bind(y, te.thread_axis("blockIdx.x"))
    s[args[2]].bind(x, te.thread_axis("threadIdx.x"))
    with tvm.target.Target("cuda"):
        block, thread, loop = named(feature.get_itervar_feature(s, args))
    assert block["_attr_"][4:].index(1.0) == 0 and thread["_attr_"][4:].index(1.0) == 3
    assert loop["A_0"][2:4] == [5, 1]
    assert thread["A_0"][2:] == [5, 8, 1.0, 8.0]  # 8 threads read the same row
    assert block["B_0"][2:4] == [40, 12]


def test_logarithms_and_names() -> None:
    s, args = product(4, 4, 4)
    s[args[2]].vectorize(s[args[2]].op.axis[1])
    plain = feature.flatten_itervar_feature(feature.get_itervar_feature(s, args))
    logs = feature.get_itervar_feature_flatten(s, args, take_log=True)
    names = feature.get_flatten_name(feature.get_itervar_feature(s, args))
    assert len(plain) == len(logs) == len(names) == len(set(names))
    assert names[0].endswith("_attr_.length") and plain[0] == 4
    assert math.isclose(logs[0], math.log2(5))
    assert np.array_equal(plain, feature.get_itervar_feature_flatten(s, args, take_log=False))


def test_curves_have_eight_numbers_a_place_and_buffer() -> None:
    s, args = product(4, 8, 2)
    found = feature.get_buffer_curve_sample_flatten(s, args, sample_n=7)
    assert len(found) == 7 * 3 * 4 * 2
    first = found[:14].reshape(7, 2)  # of A: reuse over count
    assert first[0].tolist() == [0.0, 0.0] and first[6, 0] <= math.log2(64)
    with pytest.raises(TilewrightError, match="sample_n is at least 1"):
        feature.get_buffer_curve_sample_flatten(s, args, sample_n=0)
