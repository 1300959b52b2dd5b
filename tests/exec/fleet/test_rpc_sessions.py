"""How sessions begin and end: crashes, time, two who want one device, who dies of both sides."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.exec.fleet.rpc_kit import add_one, calls, ints, uploaded, with_tests
from tests.forget import collect
from tilewright import rpc
from tilewright.fleet.facts import FleetError
from tilewright.rpc.tracker import Tracker


@pytest.fixture(scope="module")
def tracker() -> Iterator[Tracker]:
    """A tracker with one device."""
    with Tracker(port=0) as found, server(found):
        yield found


def server(tracker: Tracker, **how: Any) -> Any:
    return rpc.Server(tracker_addr=("127.0.0.1", tracker.port), **{"key": "board", **how})


@pytest.fixture
def fleet(tracker: Tracker) -> Iterator[Any]:
    with rpc.connect_tracker("127.0.0.1", tracker.port) as found:
        yield found


def require_works(remote: Any, folder: Path) -> None:
    func = uploaded(remote, add_one(n=4), folder)
    a, b = (tvm.nd.array(np.zeros(4, "float32"), remote.cpu()) for _ in range(2))
    func(a, b)
    assert b.numpy().tolist() == [1] * 4


@pytest.mark.parametrize("where", ["local", "fleet"])
def test_a_kernel_that_crashes_ends_the_session(where: str, fleet: Any, tmp_path: Path) -> None:
    remote = rpc.LocalSession() if where == "local" else fleet.request("board")
    func, args = uploaded(remote, calls("abort"), tmp_path), ints(remote)
    with pytest.raises(tvm.error.RPCError, match=r"has ended: its process died with .*SIGABRT"):
        func(*args)
    for work in (lambda: func(*args), lambda: args[0].numpy(), lambda: remote.upload(b"", "x")):
        with pytest.raises(tvm.error.RPCError, match="SIGABRT"):
            work()
    if where == "fleet":  # the device is there for the next
        with fleet.request("board") as again:
            require_works(again, tmp_path)


def test_the_time_of_a_session(fleet: Any, tmp_path: Path) -> None:
    """A kernel that hangs is ended with it."""
    remote = fleet.request("board", session_timeout=1.5)
    func, args = uploaded(remote, calls("sleep", 60), tmp_path), ints(remote)
    start = time.monotonic()
    with pytest.raises(tvm.error.RPCError, match=r"its session_timeout of 1\.5 s has passed"):
        func(*args)
    assert time.monotonic() - start < 30
    with pytest.raises(tvm.error.RPCError, match="has passed"):
        remote.listdir()


def test_two_who_want_one_device(fleet: Any, tmp_path: Path) -> None:
    first = fleet.request("board")
    got: list[Any] = []
    second = threading.Thread(target=lambda: got.append(fleet.request("board")))
    second.start()
    deadline = time.monotonic() + 30
    while fleet.summary()["queue_info"]["board"] != {"free": 0, "pending": 1}:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert "board  1      0     1" in fleet.text_summary()
    require_works(first, tmp_path)
    assert not got
    first.close()
    second.join(30)
    with pytest.raises(tvm.error.RPCError, match="has ended: it was closed"):
        first.listdir()
    with got[0] as held:
        require_works(held, tmp_path)


def test_a_session_ends_with_the_last_of_its_things(fleet: Any) -> None:
    """Not with the session itself, whose arrays need it."""
    remote = fleet.request("board")
    a = tvm.nd.array(np.ones(3), remote.cpu())
    del remote
    collect()
    assert a.numpy().tolist() == [1, 1, 1]
    del a
    collect()
    with fleet.request("board") as again:
        assert again.listdir() == []


@pytest.mark.parametrize("calling", [False, True], ids=["idle", "in a call"])
def test_a_client_that_is_killed_gives_its_device_back(
    calling: bool, tracker: Tracker, fleet: Any, tmp_path: Path
) -> None:
    calls("sleep", 60).export_library(tmp_path / "lib.tar")
    code = (
        "import sys, tilewright as tvm\n"
        "from tests.exec.fleet.rpc_kit import ints\n"
        "remote = tvm.rpc.connect('127.0.0.1', int(sys.argv[1]), 'board')\n"
        "remote.upload(sys.argv[2])\n"
        "func, args = remote.load_module('lib.tar'), ints(remote)\n"
        "print('has it', flush=True)\n"
        f"func(*args) if {calling} else sys.stdin.read()\n"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", code, str(tracker.port), str(tmp_path / "lib.tar")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=with_tests(),
    )  # fmt: skip
    assert client.stdout is not None and client.stdin is not None
    assert client.stdout.readline()
    time.sleep(0.3 if calling else 0)
    client.kill()
    client.wait()
    client.stdout.close()
    client.stdin.close()
    start = time.monotonic()
    with fleet.request("board") as remote:
        require_works(remote, tmp_path)
    assert time.monotonic() - start < 30


def test_a_device_that_dies(
    tracker: Tracker, fleet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session has ended; nothing goes on elsewhere as if it had not."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with server(tracker, key="frail", name="one") as one, server(tracker, key="frail", name="two"):
        held = [fleet.request("frail")]
        if "'two'" in repr(held[0]):
            held.append(fleet.request("frail"))
        remote = held[-1]
        a = tvm.nd.array(np.ones(3), remote.cpu())
        own = set(tmp_path.glob("tilewright-session-*"))
        assert len(own) == len(held)
        one._process.kill()
        with pytest.raises(tvm.error.RPCError, match="device 'one' has ended: the device is gone"):
            for _ in range(100):
                a.numpy()
        for session in held:
            session.close()
        deadline = time.monotonic() + 30
        while any(map(Path.exists, own)):  # nobody else would delete what lay there
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with fleet.request("frail") as other:
            assert "'two'" in repr(other)


def test_request_and_run(fleet: Any) -> None:
    assert fleet.request_and_run("board", lambda remote: remote.listdir()) == []
    tries = []

    def crash(remote: Any) -> None:
        tries.append(remote)
        raise tvm.error.RPCError("as if it had crashed")

    with pytest.raises(tvm.error.RPCError, match="as if"):
        fleet.request_and_run("board", crash, max_retry=2)
    assert len(tries) == 2


def test_what_is_not_to_be_had(
    tracker: Tracker, fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FleetError, match=r"no device of 'phone' .*: there are 'board'; start one"):
        fleet.request("phone")
    with pytest.raises(tvm.TVMError, match="session_constructor_args="):
        fleet.request("board", session_constructor_args=["x"])
    with Tracker(port=0) as empty:
        with pytest.raises(FleetError, match="it has no device; name one"):
            rpc.connect("127.0.0.1", empty.port)
        with pytest.raises(FleetError, match=r"no device of 'board' .*there is no device yet"):
            rpc.connect("127.0.0.1", empty.port, "board")
    monkeypatch.setattr("tilewright.fleet.facts.__version__", "9.9")
    with pytest.raises(FleetError, match=r"and this process 9\.9 .*the same version on both"):
        rpc.connect("127.0.0.1", tracker.port, "board")
    with pytest.raises(tvm.TVMError, match=r"server_init_callback=.* has no such thing"):
        rpc.Server(server_init_callback=print)


def test_names_of_files() -> None:
    with rpc.LocalSession() as remote:
        for name in ("../x", "/etc/passwd", "..", "a/b"):
            with pytest.raises(tvm.TVMError, match="have plain names"):
                remote.upload(b"", name)
        with pytest.raises(tvm.TVMError, match=r"has no file 'lib\.tar'; it has: none"):
            remote.load_module("lib.tar")
        with pytest.raises(tvm.TVMError, match="needs target="):
            remote.upload(b"x")
        remote.upload(b"x", "lib.tar")
        with pytest.raises(tvm.TVMError, match="is not a module of tilewright"):
            remote.load_module("lib.tar")


@pytest.mark.parametrize("where", ["local", "fleet"])
def test_an_interrupted_call_ends_the_session(where: str, fleet: Any, tmp_path: Path) -> None:
    remote = rpc.LocalSession() if where == "local" else fleet.request("board")
    func, args = uploaded(remote, calls("sleep", 60), tmp_path), ints(remote)
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        func(*args)
    with pytest.raises(tvm.error.RPCError, match="a question was interrupted"):
        func(*args)
    if where == "fleet":
        start = time.monotonic()
        fleet.request("board").close()
        assert time.monotonic() - start < 30


@pytest.mark.parametrize("where", ["local", "fleet"])
def test_a_session_that_another_thread_closes(where: str, fleet: Any, tmp_path: Path) -> None:
    remote = rpc.LocalSession() if where == "local" else fleet.request("board")
    func, args = uploaded(remote, calls("sleep", 60), tmp_path), ints(remote)
    threading.Timer(0.3, remote.close).start()
    start = time.monotonic()
    with pytest.raises(tvm.error.RPCError, match="has ended: it was closed"):
        func(*args)
    assert time.monotonic() - start < 30
