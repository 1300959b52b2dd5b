"""Slices of the graph fuzzer and of the one of damaged ONNX files, each with a fresh seed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from click.testing import CliRunner

import tilewright as tvm
from tilewright.cli.main import main

from .graphs import Fuzzer, text_of
from .onnx_files import mutated, run_files
from .test_fuzz_slice import fresh_seed

GRAPHS = {"llvm": 25, "opencl": 3}
FILES = 60


@pytest.mark.filterwarnings("ignore")  # NumPy's, from the evaluators
@pytest.mark.parametrize("target", list(GRAPHS))
def test_some_random_graphs(target: str) -> None:
    if target != "llvm" and not tvm.device(target, 0).exist:
        pytest.skip(f"no {target} device")
    seed = fresh_seed()
    fuzzer = Fuzzer(target)
    found = [fuzzer.run(k) for k in range(seed, seed + GRAPHS[target])]
    fuzzer.close()
    texts = [f"{f[1]}\n{text_of(f[0])}" for f in found if f is not None]
    assert not texts, "\n".join(texts)
    assert fuzzer.counts["graphs"] > GRAPHS[target] // 2


@pytest.mark.filterwarnings("ignore")
def test_some_damaged_files() -> None:
    seed = fresh_seed()
    counts, found = run_files(FILES, seed)
    assert not found, "\n".join(f"seed {k}: {text}" for k, text in found)
    assert counts["ran"] + counts["compiled"] and counts["refused at import"]


@pytest.mark.filterwarnings("ignore")
def test_the_command_refuses_damaged_files_in_one_line(tmp_path: Path) -> None:
    seed = fresh_seed()
    refused = 0
    for k in range(seed, seed + 12):
        path = tmp_path / f"{k}.onnx"
        path.write_bytes(mutated(random.Random(k)))
        result = CliRunner().invoke(main, ["run", str(path), "--repeat", "1"])
        if result.exit_code:
            refused += 1
            assert result.exit_code == 2 and isinstance(result.exception, SystemExit), k
            assert "Traceback" not in result.output
    assert refused
