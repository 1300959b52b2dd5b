"""Scripts for boards, in the words of TVM's, over each kind of session."""

import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.exec.fleet.rpc_kit import add_one, uploaded
from tilewright import rpc, te
from tilewright.contrib import utils
from tilewright.exec import query_rpc_tracker, rpc_server, rpc_tracker
from tilewright.measure.process import environment
from tilewright.rpc.tracker import Tracker


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A device with a fleet of its own."""
    with rpc.Server(port=0, key="board") as found:
        yield found


@pytest.fixture(params=["local", "server", "tracker"])
def remote(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "local":
        found = rpc.LocalSession()
    else:
        server = request.getfixturevalue("server")
        if request.param == "server":
            found = rpc.connect("127.0.0.1", server.port)
        else:
            tracker = rpc.connect_tracker("127.0.0.1", server.port)
            found = tracker.request(server.key, priority=2, session_timeout=60)
    with found:
        yield found


def test_cross_compile_and_run(remote: Any) -> None:
    """Build here, upload, load, run and time there."""
    n = tvm.runtime.convert(1024)
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    lib = tvm.build(s, [A, B], target="llvm", name="add_one")
    temp = utils.tempdir()
    path = temp.relpath("lib.tar")
    lib.export_library(path)

    remote.upload(path)
    func = remote.load_module("lib.tar")
    assert isinstance(func, tvm.runtime.Module) and func.entry_name == "add_one"
    dev = remote.cpu(0)
    x = np.random.uniform(size=1024).astype(A.dtype)
    a = tvm.nd.array(x, dev)
    b = tvm.nd.array(np.zeros(1024, dtype=A.dtype), dev)
    assert a.device == dev and dev.exist and dev != tvm.cpu(0)
    func(a, b)
    np.testing.assert_equal(b.numpy(), a.numpy() + 1)

    timer = func.time_evaluator(func.entry_name, dev, number=10, repeat=3, min_repeat_ms=1)
    found = timer(a, b)
    assert isinstance(found, tvm.runtime.BenchmarkResult) and len(found.results) == 3
    assert 0 < found.min <= found.mean < 1
    func["add_one"](b, a)
    dev.sync()
    np.testing.assert_equal(a.numpy(), x + 1 + 1)

    assert remote.listdir() == ["lib.tar"]
    assert remote.download("lib.tar") == Path(path).read_bytes()
    remote.upload(bytearray(b"text"), "note")
    assert remote.download("note") == b"text"
    remote.upload(b"", target="note")
    assert remote.download("note") == b""
    remote.remove("lib.tar")
    assert remote.listdir() == ["note"]


def test_every_suffix_of_a_library(tmp_path: Any) -> None:
    with rpc.LocalSession() as remote:
        lib = add_one()
        for name in ("lib.o", "lib.so", "lib.tar", "lib.two"):
            func = uploaded(remote, lib, tmp_path, name)
            a = tvm.nd.array(np.arange(1024, dtype="float32"), remote.cpu())
            b = tvm.nd.empty((1024,), "float32", remote.cpu())
            func(a, b)
            np.testing.assert_equal(b.numpy(), np.arange(1024) + 1)
        shared = remote.download_linked_module("lib.tar")
    (tmp_path / "again.so").write_bytes(shared)
    assert tvm.runtime.load_module(tmp_path / "again.so").entry_name == "add_one"


@pytest.mark.parametrize("name", ["lib.tar", "lib.o", "lib.so"])
def test_a_library_for_another_machine(tmp_path: Any, name: str) -> None:
    """It is written here without that machine's tools; a device that is another says so."""
    with rpc.LocalSession() as remote:
        other = "x86_64" if platform.machine() == "aarch64" else "aarch64"
        lib = add_one(f"llvm -mtriple={other}-linux-gnu")
        with pytest.raises(tvm.TVMError, match=f"cannot run on this machine: it is for {other}"):
            uploaded(remote, lib, tmp_path, name)


def test_arrays(tmp_path: Any) -> None:
    """What is made there is an array like any other: views, copies, types."""
    with rpc.LocalSession() as remote, rpc.LocalSession() as second:
        dev = remote.cpu()
        x = np.arange(24, dtype="int16").reshape(4, 6)
        a = tvm.nd.array(x, dev)
        np.testing.assert_equal(a[1:3, ::2].numpy(), x[1:3, ::2])
        a[0] = 7
        assert a[0, 3] == 7
        b = a.copyto(tvm.nd.empty((4, 6), "int16", dev))
        c = b.copyto(second.cpu())
        np.testing.assert_equal(c.numpy(), a.numpy())
        assert "remote_cpu(0)" in repr(c.device)
        for y in (np.float64(2.5), np.zeros((0, 3), "uint8"), np.ones((), "bool")):
            np.testing.assert_equal(tvm.nd.array(y, dev).numpy(), np.asarray(y))
        func = uploaded(remote, add_one(n=8), tmp_path)
        whole = tvm.nd.array(np.zeros((2, 8), "float32"), dev)
        func(whole[0], whole[1])  # parts of one memory
        np.testing.assert_equal(whole.numpy(), [[0] * 8, [1] * 8])
        far = tvm.nd.array(np.zeros(8, "float32"), second.cpu())
        with pytest.raises(tvm.TVMError, match="argument 1: an array of another session"):
            func(whole[0], far)
        with pytest.raises(tvm.TVMError, match=r"got one in this process's memory; nd\.array\(x,"):
            func(whole[0], np.zeros(8, "float32"))
        with pytest.raises(tvm.TVMError, match=r"add_one: argument 1 .* shape"):
            func(whole[0], whole)
        with pytest.raises(
            tvm.TVMError, match=r"expected an array in CPU memory.* remote_cpu\(0\)"
        ):
            add_one(n=8)(whole[0], whole[1])
        with pytest.raises(tvm.TVMError, match=r"argument 1 .*its memory overlaps"):
            func(whole[0], whole[0])
        with pytest.raises(tvm.TVMError, match="is no device of the session on this machine"):
            func.time_evaluator("add_one", tvm.cpu())


def test_large_arrays_travel_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.fleet.remote.CHUNK", 1000)
    monkeypatch.setattr("tilewright.fleet.session.CHUNK", 1000)
    x = np.random.default_rng(0).integers(0, 256, 2500, "uint8")
    with rpc.LocalSession() as remote:
        np.testing.assert_equal(tvm.nd.array(x, remote.cpu()).numpy(), x)
        remote.upload(x.tobytes(), "bytes")
        assert remote.download("bytes") == x.tobytes()


def test_registered_functions() -> None:
    with rpc.LocalSession() as remote:
        fill = remote.get_function("tvm.contrib.random.random_fill")
        a = tvm.nd.array(np.zeros(100, "float32"), remote.cpu())
        fill(a)
        assert np.unique(a.numpy()).size > 50
        with pytest.raises(AttributeError, match="no function is registered under the name 'nope'"):
            remote.get_function("nope")


@pytest.mark.skipif(not tvm.opencl(0).exist, reason="no OpenCL device")
def test_opencl(remote: Any, tmp_path: Any) -> None:
    func = uploaded(remote, add_one("opencl", bind=True), tmp_path, "lib_cl.tar")
    dev = remote.cl(0)
    assert dev.max_threads_per_block and tvm.target.Target.from_device(dev).kind.name == "opencl"
    a = tvm.nd.array(np.arange(1024, dtype="float32"), dev)
    b = tvm.nd.array(np.zeros(1024, "float32"), dev)
    func(a, b)
    np.testing.assert_equal(b.numpy(), a.numpy() + 1)
    assert func.time_evaluator("add_one", dev, number=2)(a, b).mean > 0
    with pytest.raises(tvm.TVMError, match=r"expected an array on opencl\(0\), got one"):
        func(a, tvm.nd.array(np.zeros(1024, "float32"), remote.cpu()))


def test_programs_of_tvm(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m tvm.exec.rpc_tracker` and the others, as child processes of a script find them."""
    run = [sys.executable, "-m", "tilewright.as_tvm", "-m"]
    common: dict[str, Any] = {
        "stdout": subprocess.PIPE, "text": True, "env": environment(), "start_new_session": True
    }  # fmt: skip
    started: list[Any] = []
    try:
        started.append(subprocess.Popen([*run, "tvm.exec.rpc_tracker", "--port", "0"], **common))
        said = started[0].stdout.readline()
        port = said.split("tcp://127.0.0.1:")[1].split(";")[0]
        options = ["--tracker", f"127.0.0.1:{port}", "--key", "rasp"]
        started.append(subprocess.Popen([*run, "tvm.exec.rpc_server", *options], **common))
        assert "of key 'rasp' is up" in started[1].stdout.readline()
        assert query_rpc_tracker.main(["--port", port]) == 0
        table = capsys.readouterr().out
        assert "server:rasp\n" in table and "rasp  1      1     0" in table
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(20)
            process.stdout.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--load-library", "lib.so"], "load_library='lib.so': a device of a fleet has no such"),
        (["--custom-addr", "10.0.0.1"], "custom_addr='10.0.0.1'"),
        (["--tracker", "here"], "--tracker is HOST:PORT, got 'here'"),
        (["--target", "nothing", "--tracker", "127.0.0.1:1"], "'nothing'"),
        (["--tracker", "10.0.0.1:1", "--certificates", "/nowhere"], "/nowhere has no fleet-ca.pem"),
    ],
)
def test_programs_of_tvm_refuse(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rpc_server.main(options) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ") and says in said


def test_ports_that_are_taken(capsys: pytest.CaptureFixture[str], server: Any) -> None:
    taken = ["--port", str(server.port), "--port-end", str(server.port + 1)]
    assert rpc_tracker.main(taken) == 1
    said = f"no port of 127.0.0.1 from {server.port} to {server.port} is free"
    assert said in capsys.readouterr().err
    with pytest.raises(tvm.TVMError, match="is to be had: all are taken"):
        Tracker(port=server.port, port_end=server.port + 1)
