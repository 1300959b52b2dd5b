"""A compiled candidate runs in a process that has no LLVM: what a device of a fleet does."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright
from tilewright import te
from tilewright.measure.process import environment
from tilewright.rt import elf, export
from tilewright.target import cpuinfo, host
from tilewright.target.capability import architecture, system

RUNS = """
import sys
sys.modules["llvmlite"] = None  # as where it is not installed
import gc
import numpy as np
from pathlib import Path
from tilewright.base.errors import TilewrightError
from tilewright.rt.load import load_module
from tilewright.rt.threads import set_num_threads

def mapped():
    return len(Path("/proc/self/maps").read_text().splitlines())

def run(path):
    f = load_module(path)
    a, b = np.arange(4000, dtype="float32"), np.zeros(4000, "float32")
    f(a, b)
    np.testing.assert_allclose(b, np.exp(a * 1e-3), rtol=1e-5)

set_num_threads(3)
run(sys.argv[1])  # its pool of threads stays
first = mapped()
for _ in range(20):
    run(sys.argv[1])
gc.collect()
assert mapped() <= first + 8, (first, mapped())  # the others have left the process
assert not [m for m in sys.modules if m.startswith("llvmlite.")]
for path in sys.argv[2:]:
    try:
        load_module(path)["default_function"](np.zeros(4000, "float32"), np.zeros(4000, "float32"))
    except TilewrightError as error:
        print(error)
"""


def exponentials(target: str) -> tilewright.runtime.Module:
    a = te.placeholder((4000,), name="a")
    b = te.compute((4000,), lambda i: te.exp(a[i] * 1e-3), name="b")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 8)
    s[b].parallel(outer)
    s[b].vectorize(inner)
    return tilewright.build(s, [a, b], target)


@pytest.mark.skipif(sys.platform != "linux", reason="devices of fleets run Linux")
def test_archives_with_a_runtime(tmp_path: Path) -> None:
    mine, other, bare = (tmp_path / f"{name}.two" for name in ("mine", "other", "bare"))
    exponentials("llvm").export_library(bare)
    is_arm = architecture(host.host_triple()) == "aarch64"
    triple = "x86_64-linux-gnu" if is_arm else "aarch64-linux-gnu"
    for path, target in ((mine, "llvm"), (other, f"llvm -mtriple={triple}")):
        exponentials(target).export_library(path)
        before = export.read_archive(path)
        export.add_runtime(path)
        after = export.read_archive(path)
        assert elf.is_linkable(after.pop(export.RUNTIME)) and after == before
    done = subprocess.run(
        [sys.executable, "-c", RUNS, str(mine), str(other), str(bare)],
        capture_output=True, text=True, env=environment(), timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "cannot run on this machine: it is for" in done.stdout
    assert "by LLVM: pip install llvmlite" in done.stdout


def test_other_archives_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "riscv.two"
    exponentials("llvm -mtriple=riscv64-linux-gnu -mattr=+m,+a,+f,+d").export_library(path)
    before = path.read_bytes()
    export.add_runtime(path)
    assert path.read_bytes() == before


def test_the_system_and_llvm_agree_on_this_machine() -> None:
    known, there = cpuinfo.features()
    if platform.machine() in ("x86_64", "aarch64") and sys.platform == "linux":
        assert len(there) >= 2
    assert there == known & host.host_features()
    theirs, mine = host.host_triple(), cpuinfo.triple()
    assert (architecture(theirs), system(theirs)) == (architecture(mine), system(mine))


def test_words_and_flags() -> None:
    known, there = cpuinfo.of_words({16: 1 << 1 | 1 << 20, 26: 1 << 13})
    assert there == {"neon", "dotprod", "i8mm"} < known
    known, there = cpuinfo.of_flags("processor : 0\nflags\t\t: pni sse4_1 avx512_bf16 abm\n")
    assert there == {"sse3", "sse4.1", "avx512bf16", "lzcnt"} < known
    assert cpuinfo.of_flags("isa : rv64imafdc\n") == (frozenset(), frozenset())
