"""The large block that compiled functions keep between calls."""

from __future__ import annotations

import resource
import threading
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tvm
from tests.unit.rt.test_module import SHARED
from tilewright import te


def two_stages(rows: int) -> tuple[Any, Any]:
    """A copy of `rows` MiB in between."""
    x = te.placeholder((rows, 1 << 18), name="x")
    y = te.compute(x.shape, lambda i, j: x[i, j] + 1.0, name="y")
    z = te.compute(x.shape, lambda i, j: y[rows - 1 - i, (1 << 18) - 1 - j] * 2.0, name="z")
    s = te.create_schedule(z.op)
    s[z].parallel(z.op.axis[0])
    return tvm.build(s, [x, z], "llvm"), lambda data: (data[::-1, ::-1] + 1) * 2


def arrays(rows: int, seed: int = 0) -> tuple[Any, Any]:
    data = np.random.default_rng(seed).random((rows, 1 << 18), dtype="float32")
    return data, tvm.nd.array(np.zeros_like(data))


def test_pages_of_a_workspace_are_touched_once() -> None:
    f, expected = two_stages(40)
    data, out = arrays(40)
    x = tvm.nd.array(data)
    f(x, out)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    f(x, out)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert np.array_equal(out.numpy(), expected(data))
    assert faults < 1000  # 40 MiB are 10240 pages


def test_blocks_of_many_sizes_take_turns() -> None:
    """One that is too small is replaced; small ones are not kept."""
    for rows in (5, 9, 2, 9, 40, 5, 3, 40):
        f, expected = two_stages(rows)
        data, out = arrays(rows, rows)
        f(tvm.nd.array(data), out)
        assert np.array_equal(out.numpy(), expected(data)), rows


def test_calls_at_the_same_time_have_their_own() -> None:
    f, expected = two_stages(6)
    g, _ = two_stages(11)
    wrong: list[int] = []

    def work(seed: int) -> None:
        rows, call = (6, f) if seed % 2 else (11, g)
        data, out = arrays(rows, seed)
        x = tvm.nd.array(data)
        for _ in range(12):
            call(x, out)
            if not np.array_equal(out.numpy(), expected(data)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@SHARED
def test_shared_libraries_keep_it_too(tmp_path: Path) -> None:
    f, expected = two_stages(20)
    f.export_library(tmp_path / "two.so")
    data, out = arrays(20)
    x = tvm.nd.array(data)
    loaded = tvm.runtime.load_module(str(tmp_path / "two.so"))
    loaded(x, out)
    assert np.array_equal(out.numpy(), expected(data))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    loaded(x, out)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000
