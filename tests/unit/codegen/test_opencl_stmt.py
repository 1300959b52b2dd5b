"""Loops around barriers in OpenCL source: PoCL gets a barrier behind them."""

from __future__ import annotations

import tilewright as tw
from tests.exec.gpu.corpus.matmul import Tiles, tiled
from tests.exec.gpu.corpus.recurrence import prefix
from tests.exec.gpu.corpus.transpose import transpose


def source(target: str, made: tuple) -> str:
    return tw.build(*made, target).imported_modules[0].get_source()


def test_only_pocl_gets_the_barrier() -> None:
    text = source("opencl", tiled(Tiles()))
    assert "#ifdef POCL_DEVICE_ADDRESS_BITS\n#define TW_LOOP_END barrier(" in text
    assert "#else\n#define TW_LOOP_END\n#endif" in text


def test_it_stands_behind_the_loop() -> None:
    lines = [x.strip() for x in source("opencl", tiled(Tiles())).splitlines()]
    at = lines.index("TW_LOOP_END;")
    assert lines[at - 1] == "}" and lines.count("TW_LOOP_END;") == 1
    depth, start = 0, at - 1
    while depth or start == at - 1:
        depth += lines[start].count("}") - lines[start].count("{")
        start -= 1
    assert lines[start + 1].startswith("for (int k_outer")


def test_nothing_stands_behind_other_loops() -> None:
    assert "TW_LOOP_END" not in source("opencl", transpose(32, 32))  # no loop around its barrier
    assert "TW_LOOP_END" not in source("opencl", prefix(2, 64))  # no loop at all
    assert "TW_LOOP_END" not in source("cuda", tiled(Tiles()))
