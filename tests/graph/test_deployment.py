"""Networks as files: saved and loaded, in processes without a compiler, and as libraries of C."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tilewright
from tests.graph import damage
from tests.narrow import as_a
from tilewright import graph
from tilewright.base.errors import ArgumentError, ImportModelError, TilewrightError
from tilewright.cli.main import main
from tilewright.driver.c_library import write_library
from tilewright.graph.ir import Graph, Value
from tilewright.graph.onnx.convert import Builder
from tilewright.rt import cpu, network_file
from tilewright.target import Target

ARM = "llvm -mtriple=aarch64-linux-gnu"
WITHOUT = "import sys\nfor n in ('llvmlite', 'onnx', 'ml_dtypes'): sys.modules[n] = None\n"
RNG = np.random.default_rng(0)
X = RNG.standard_normal((1, 3, 17, 19)).astype(np.float32)


def floats(*shape: int) -> Any:
    """The same numbers whenever the shape is the same."""
    return (np.random.default_rng(shape).standard_normal(shape) * 0.2).astype(np.float32)


def network() -> Graph:
    """A convolution, a shortcut, pooling and a dense layer; two outputs."""
    b = Builder(17)
    x = Value("x", (1, 3, 17, 19), "float32")
    first = b.add("relu", [conv(b, x, 16, 3, "c1")], "r1")
    second = b.add("add", [conv(b, first, 16, 16, "c2"), first], "s")
    pooled = b.add("reduce", [second], "p", type="sum", axes=[2, 3], keepdims=False)
    weight = b.constant(floats(10, 16), "w3")
    y = b.add("softmax", [b.add("dense", [pooled, weight], "d")], "y", axis=1)
    return Graph("small", [x], [y, pooled], b.nodes)


def conv(b: Builder, x: Value, outputs: int, inputs: int, name: str) -> Value:
    weight = b.constant(floats(outputs, inputs, 3, 3), f"{name}.w")
    return b.add("conv2d", [x, weight], name, strides=(1, 1), padding=(1, 1, 1, 1),
                 dilation=(1, 1), groups=1)  # fmt: skip


@pytest.fixture(scope="module")
def net() -> graph.Executable:
    return as_a(graph.Executable, tilewright.compile(network()))


@pytest.fixture
def saved(net: graph.Executable, tmp_path: Path) -> Path:
    net.save(tmp_path / "small.net")
    return tmp_path / "small.net"


def run_python(program: str, *args: Any) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_what_is_loaded_gives_the_same_bits(net: graph.Executable, saved: Path) -> None:
    again = tilewright.load_network(saved, verify=True)
    for a, b in zip(net(X), again(X)):
        np.testing.assert_array_equal(a, b)
    assert repr(again) == repr(net) and "x: float32[1, 3, 17, 19]" in repr(net)
    assert len(again.profile({"x": X}, repeat=2)) == len(net.calls)
    again.prepare({"x": X})()
    assert again.target.triple == net.target.triple
    assert not any(c.flags.writeable for c in again.constants)


def test_a_network_gives_the_same_bytes(net: graph.Executable, saved: Path, tmp_path: Path) -> None:
    other, again = tmp_path / "other.net", tmp_path / "again.net"
    as_a(graph.Executable, tilewright.compile(network())).save(other)
    assert saved.read_bytes() == other.read_bytes()
    tilewright.load_network(saved).save(again)
    assert saved.read_bytes() == again.read_bytes()
    net.save(other)
    assert saved.read_bytes() == other.read_bytes()


def test_it_runs_where_no_compiler_is(net: graph.Executable, saved: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    program = (
        WITHOUT
        + """
import numpy as np, tilewright
net = tilewright.load_network(sys.argv[1])
y, p = net(np.load(sys.argv[2]))
np.save(sys.argv[3], y)
assert not any(m.startswith("tilewright." + r) for m in sys.modules for r in ("graph", "target"))
"""
    )
    run_python(program, saved, tmp_path / "x.npy", tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), net(X)[0])


def test_parallel_loops_run_where_no_compiler_is(tmp_path: Path) -> None:
    """Two networks in one process have one pool."""
    b = Builder(17)
    x = Value("x", (512, 4096), "float32")
    big = Graph("big", [x], [b.add("sigmoid", [x], "y")], b.nodes)
    made = as_a(graph.Executable, tilewright.compile(big))
    made.save(tmp_path / "big.net")
    assert made.code.needs_threads
    data = RNG.standard_normal((512, 4096)).astype(np.float32)
    np.save(tmp_path / "x.npy", data)
    program = (
        WITHOUT
        + """
import numpy as np, os, tilewright
from tilewright.rt import native, threads
threads.set_num_threads(3)
first, second = (tilewright.load_network(sys.argv[1]) for _ in range(2))
x = np.load(sys.argv[2])
for _ in range(5): a, b = first(x), second(x)
assert (a == b).all()
del first
assert (second(x) == b).all()
np.save(sys.argv[3], b)
print(int(native.pool_state()["workers"]), len(os.listdir("/proc/self/task")))
"""
    )
    out = run_python(program, tmp_path / "big.net", tmp_path / "x.npy", tmp_path / "y.npy")
    workers, tasks = map(int, out.split())
    assert 1 <= workers <= 2 and tasks <= workers + 40
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), made(data))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="no /proc/self/smaps")
def test_processes_share_the_weights(saved: Path) -> None:
    """Pages of the file are mapped, and none of them is a copy of the process's own."""
    program = (
        WITHOUT
        + """
import numpy as np, tilewright
net = tilewright.load_network(sys.argv[1])
net(np.zeros((1, 3, 17, 19), "float32"))
at = net.constants[0].ctypes.data
found = False
for line in open("/proc/self/smaps"):
    head = line.split()[0]
    if "-" in head and not head.endswith(":"):
        low, high = (int(v, 16) for v in head.split("-"))
        found = low <= at < high
        if found: assert line.rstrip().endswith("small.net") and line.split()[1][:2] == "r-", line
    elif found and head in ("Private_Dirty:", "Anonymous:"):
        print(line.split()[1])
"""
    )
    assert set(run_python(program, saved).split()) == {"0"}


def test_outputs_go_where_the_caller_says(net: graph.Executable) -> None:
    wanted = net.run({"x": X})
    y = np.zeros((1, 10), np.float32)
    got = net.run({"x": X}, {"y": y})
    assert (
        got["y"] is y and np.array_equal(y, wanted["y"]) and np.array_equal(got["p"], wanted["p"])
    )
    mine = tilewright.nd.empty((1, 10), "float32")
    net.run({"x": X}, {"y": mine})
    np.testing.assert_array_equal(mine.numpy(), wanted["y"])


def test_outputs_that_do_not_fit_are_refused(net: graph.Executable) -> None:
    frozen, pair = np.zeros((1, 10), np.float32), np.zeros((1, 26), np.float32)
    frozen.flags.writeable = False
    refused: list[tuple[Any, str]] = [
        ({"z": frozen}, "no output 'z'; outputs: y: float32"),
        ({"y": np.zeros((2, 10), np.float32)}, r"output 'y' has shape \(2, 10\)"),
        ({"y": np.zeros((1, 10))}, "output 'y' is float64, expected float32"),
        ({"y": frozen}, "output 'y' is read-only"),
        ({"y": np.zeros((10, 20), np.float32)[:1, ::2]}, "not compact"),
        ({"y": [0.0] * 10}, "has to be an array to write to, got list"),
        ({"y": pair[:, :10], "p": pair[:, 8:24]}, "output 'p' shares memory"),
    ]
    for outputs, message in refused:
        with pytest.raises(ArgumentError, match=message):
            net.run({"x": X}, outputs)
    x = np.zeros(X.size + 10, np.float32)
    with pytest.raises(ArgumentError, match="output 'y' shares memory"):
        net.run({"x": x[: X.size].reshape(X.shape)}, {"y": x[5:15].reshape(1, 10)})


def test_calls_by_position_and_name(net: graph.Executable) -> None:
    np.testing.assert_array_equal(net(x=X)[0], net(X)[0])
    with pytest.raises(ArgumentError, match="takes 1 inputs, got 2"):
        net(X, X)
    with pytest.raises(ArgumentError, match="'x' is given twice"):
        net(X, x=X)


def test_threads_share_one_loaded_network(net: graph.Executable, saved: Path) -> None:
    again, wrong = tilewright.load_network(saved), []
    inputs = [RNG.standard_normal(X.shape).astype(np.float32) for _ in range(6)]
    wanted = [net(x)[0] for x in inputs]

    def work(k: int) -> None:
        y = np.empty((1, 10), np.float32)
        for _ in range(40):
            again.run({"x": inputs[k]}, {"y": y})
            if not np.array_equal(y, wanted[k]):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_code_leaves_the_process_with_the_network(saved: Path) -> None:
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("tilewright_network")

    tilewright.load_network(saved)(X)
    before = mapped()
    for _ in range(20):
        tilewright.load_network(saved)(X)
    assert mapped() <= before + 8


def test_damaged_files_are_refused(saved: Path, tmp_path: Path) -> None:
    whole, rng, bad = saved.read_bytes(), random.Random(3), tmp_path / "bad.net"
    parts = network_file.read(saved)
    first_weight = len(whole) - len(parts.weights)
    places = [rng.randrange(first_weight) for _ in range(150)]
    for at in [*range(100), *places]:
        data = bytearray(whole)
        data[at] ^= 1 << rng.randrange(8)
        bad.write_bytes(data)
        with pytest.raises(TilewrightError, match=r"damaged|cut short|not a saved|format version"):
            tilewright.load_network(bad)
    for size in [
        0,
        5,
        8,
        60,
        96,
        first_weight,
        len(whole) - 1,
        *(rng.randrange(len(whole)) for _ in range(30)),
    ]:
        bad.write_bytes(whole[:size])
        with pytest.raises(TilewrightError, match=r"damaged|cut short|not a saved"):
            tilewright.load_network(bad)
    data = bytearray(whole)
    data[-3] ^= 1
    bad.write_bytes(data)
    with pytest.raises(TilewrightError, match="weights do not have their checksum"):
        tilewright.load_network(bad, verify=True)
    bad.write_bytes(whole + b"more")
    with pytest.raises(TilewrightError, match="damaged"):
        tilewright.load_network(bad)
    with pytest.raises(TilewrightError, match="cannot read"):
        tilewright.load_network(tmp_path / "none.net")


def test_files_for_other_machines_are_refused(
    saved: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    other = as_a(graph.Executable, tilewright.compile(network(), ARM))
    other.save(tmp_path / "arm.net")
    with pytest.raises(TilewrightError, match="it is for aarch64, this machine is x86_64"):
        tilewright.load_network(tmp_path / "arm.net")
    monkeypatch.setattr(cpu, "_features", lambda: frozenset({"sse2"}))
    with pytest.raises(TilewrightError, match=r"this CPU lacks .*avx2.*; compile it again"):
        tilewright.load_network(saved)


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="no /proc/cpuinfo")
def test_the_system_knows_this_cpu() -> None:
    here = Target("llvm")
    assert cpu.gap(cpu.machine(), here.required_features) == ""
    known = {f for names in cpu._TABLES[cpu.machine()].values() for f in names}
    assert len(here.required_features & known) >= 0.9 * len(here.required_features)


def test_what_cannot_be_saved_says_why(net: graph.Executable, tmp_path: Path) -> None:
    device = tilewright.compile(network(), "opencl")
    assert "for 'opencl'" in repr(device)
    with pytest.raises(TilewrightError, match="files hold networks for CPUs"):
        device.save(tmp_path / "x.net")
    with pytest.raises(ImportModelError, match=r"a model is a path, .* not int"):
        tilewright.compile(3)
    with pytest.raises(ImportModelError, match="shapes are for models"):
        tilewright.compile(network(), shapes={"x": (1,)})
    with pytest.raises(TilewrightError, match="cannot begin the names of C functions"):
        write_library(net, tmp_path / "3.so")
    net.save(tmp_path / "x.net")
    with pytest.raises(TilewrightError, match="is linked already"):
        write_library(tilewright.load_network(tmp_path / "x.net"), tmp_path / "x.so")


C_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "libsmall.h"
%s
int main(void) {
  int32_t rank;
  const int64_t *shape = small_input_shape(0, &rank);
  long n = 1;
  for (int k = 0; k < rank; ++k) n *= shape[k];
  if (rank != 4 || small_input_shape(1, &rank) || small_output_count() != 2) return 4;
  float *x = malloc(4 * n), y[10], z[10], p[16];
  FILE *f = fopen("x.bin", "rb");
  if (fread(x, 4, n, f) != n) return 2;
  %s
  int code = small_run(x, y, p);
  void *own = aligned_alloc(64, small_workspace_bytes());
  code |= small_run_in(own, x, z, p);
  for (int k = 0; k < 10; ++k) if (y[k] != z[k]) return 3;
  f = fopen("y.bin", "wb");
  fwrite(y, 4, 10, f);
  return fclose(f) | code;
}
"""
C_PARALLEL = """
static int32_t each(small_task task, void *context, int64_t steps, int32_t threads, int32_t homes,
                    double *site) {
  for (int64_t k = 0; k < steps; ++k) if (task(context, k, k + 1, k % threads)) return 9;
  return 0;
}
"""
C_CASES = {
    "own": ("", "small_set_threads(3); small_after_fork();"),
    "caller": (C_PARALLEL, "small_set_parallel(each, 2);"),
    "none": ("", ""),
}


def run_in_c(
    made: graph.Executable, threads: str, folder: Path, tools: list[str], start: list[str]
) -> Any:
    missing = [t for t in (*tools, *start[:1]) if shutil.which(t) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    write_library(made, folder / "libsmall.so", threads=threads)
    (folder / "main.c").write_text(C_MAIN % C_CASES[threads])
    X.tofile(folder / "x.bin")
    command = [tools[0], "-Wall", "main.c", "-L.", "-lsmall", "-lm", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    subprocess.run([*start, "./main"], cwd=folder, check=True)
    return np.fromfile(folder / "y.bin", np.float32).reshape(1, 10)


@pytest.mark.parametrize("threads", C_CASES)
def test_programs_in_c_run_it(net: graph.Executable, threads: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(run_in_c(net, threads, tmp_path, ["cc"], []), net(X)[0])


C_THREADS = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib{name}.h"
static void *in[8], *first[8];
static long sizes[8];
static void *call(void *own) {{
  void *workspace = own ? aligned_alloc(64, {name}_workspace_bytes()) : NULL, *out[8];
  for (int k = 0; k < {outputs}; ++k) out[k] = malloc(sizes[k]);
  long bad = 0;
  for (int turn = 0; turn < 5; ++turn) {{
    bad |= own ? {name}_run_in(workspace, {args}) : {name}_run({args});
    for (int k = 0; k < {outputs}; ++k) bad |= memcmp(out[k], first[k], sizes[k]) != 0;
  }}
  for (int k = 0; k < {outputs}; ++k) free(out[k]);
  free(workspace);
  return (void *)bad;
}}
int main(void) {{
  const long in_sizes[] = {{{in_sizes}}}, out_sizes[] = {{{out_sizes}}};
  char path[] = "in0";
  for (int k = 0; k < {inputs}; ++k, ++path[2]) {{
    in[k] = malloc(in_sizes[k]);
    FILE *f = fopen(path, "rb");
    if (fread(in[k], 1, in_sizes[k], f) != in_sizes[k]) return 2;
    fclose(f);
  }}
  void *out[8];
  for (int k = 0; k < {outputs}; ++k) {{
    sizes[k] = out_sizes[k];
    out[k] = first[k] = malloc(sizes[k]);
  }}
  if ({name}_run({args})) return 3;
  void *kept = in[0];
  in[0] = NULL;
  if ({name}_run({args}) != -2) return 4;
  in[0] = kept;
  if ({name}_run_in(NULL, {args}) != -2 || {name}_run_in((char *)64 + 8, {args}) != -2) return 5;
  pthread_t threads[8];
  for (long k = 0; k < 8; ++k) pthread_create(&threads[k], NULL, call, (void *)(k & 1));
  long bad = 0;
  for (int k = 0; k < 8; ++k) {{
    void *result;
    pthread_join(threads[k], &result);
    bad |= (long)result;
  }}
  strcpy(path, "y0");
  for (int k = 0; k < {outputs}; ++k, ++path[1]) {{
    FILE *f = fopen(path, "wb");
    fwrite(first[k], 1, sizes[k], f);
    fclose(f);
    free(first[k]);
  }}
  for (int k = 0; k < {inputs}; ++k) free(in[k]);
  return bad ? 6 : 0;
}}
"""


@pytest.mark.parametrize("machine", ["here", "aarch64"])
@pytest.mark.parametrize("name", ["attention", "recurrent"])
def test_threads_in_c_share_a_library(name: str, machine: str, tmp_path: Path) -> None:
    """Whole numbers go in and come out, there are several outputs; NULL is an error."""
    cc, start, target = "cc", [], "llvm"
    if machine == "aarch64":
        cc, start = "aarch64-linux-gnu-gcc", ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
        target = ARM
    missing = [t for t in (cc, *start[:1]) if shutil.which(t) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    model = graph.load_onnx(damage.MODELS[name]())
    made = as_a(graph.Executable, tilewright.compile(model, target))
    write_library(made, tmp_path / f"lib{name}.so")
    inputs, rng = {}, np.random.default_rng(5)
    for k, v in enumerate(made.inputs):
        whole = v.dtype == "int64"
        data = rng.integers(0, 9, v.shape) if whole else rng.standard_normal(v.shape)
        inputs[v.name] = data.astype(v.dtype)
        inputs[v.name].tofile(tmp_path / f"in{k}")
    places = [f"in[{k}]" for k in range(len(made.inputs))]
    text = C_THREADS.format(
        name=name,
        inputs=len(made.inputs),
        outputs=len(made.outputs),
        args=", ".join([*places, *(f"out[{k}]" for k in range(len(made.outputs)))]),
        in_sizes=", ".join(str(v.nbytes) for v in made.inputs),
        out_sizes=", ".join(str(v.nbytes) for v in made.outputs),
    )
    (tmp_path / "main.c").write_text(text)
    command = [cc, "main.c", "-L.", f"-l{name}", "-lm", "-pthread", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([*start, "./main"], cwd=tmp_path, check=True)
    here = tilewright.compile(graph.load_onnx(damage.MODELS[name]()))
    wanted = here.run(inputs)
    for k, v in enumerate(made.outputs):
        got = np.fromfile(tmp_path / f"y{k}", v.dtype).reshape(v.shape)
        np.testing.assert_allclose(got, wanted[v.name], rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_objects_link_into_programs(net: graph.Executable, tmp_path: Path) -> None:
    """Two networks in one program, whose own names do not meet."""
    write_library(net, tmp_path / "libsmall.o")
    write_library(net, tmp_path / "other.o")
    (tmp_path / "main.c").write_text(C_MAIN % C_CASES["own"])
    X.tofile(tmp_path / "x.bin")
    command = ["cc", "main.c", "libsmall.o", "other.o", "-lm", "-pthread", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./main"], cwd=tmp_path, check=True)
    got = np.fromfile(tmp_path / "y.bin", np.float32).reshape(1, 10)
    np.testing.assert_array_equal(got, net(X)[0])


@pytest.mark.parametrize("threads", ["own", "none"])
def test_programs_in_c_run_it_on_aarch64(
    net: graph.Executable, threads: str, tmp_path: Path
) -> None:
    other = as_a(graph.Executable, tilewright.compile(network(), ARM))
    start = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
    got = run_in_c(other, threads, tmp_path, ["aarch64-linux-gnu-gcc"], start)
    wanted = net(X)[0]
    np.testing.assert_allclose(got.sum(), 1, rtol=1e-5)
    assert got.shape == wanted.shape


def test_the_command_compiles_and_runs(tmp_path: Path) -> None:
    from tools.make_networks import make

    (tmp_path / "lenet.onnx").write_bytes(make("lenet", seed=3).SerializeToString())
    out = tmp_path / "lenet.net"
    done = CliRunner().invoke(
        main, ["compile", str(tmp_path / "lenet.onnx"), "-o", str(out), "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["bytes"] == out.stat().st_size
    done = CliRunner().invoke(main, ["run", str(out), "--json", "--repeat", "2"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["model"]
    done = CliRunner().invoke(main, ["run", str(out), "--shape", "input=1,1"])
    assert done.exit_code == 2 and "is compiled already" in done.output
    so = tmp_path / "liblenet.so"
    done = CliRunner().invoke(
        main, ["compile", str(tmp_path / "lenet.onnx"), "-o", str(so), "--format", "so"]
    )
    assert done.exit_code == 0 and "lenet_run(" in so.with_suffix(".h").read_text()
