"""Both sides of a session in the process of the test, which sees what they do."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import tilewright as tvm
from tests.exec.fleet.rpc_kit import add_one, uploaded
from tests.forget import collect
from tilewright.fleet import server
from tilewright.fleet.facts import Facts, device_resource
from tilewright.fleet.held import CLOSE, hold
from tilewright.fleet.link import Link
from tilewright.fleet.session import RPCSession
from tilewright.fleet.session_child import Hands
from tilewright.fleet.work import as_bytes
from tilewright.measure.protocol import pack, unpack


class Direct(Link):
    """A link with hands of this process."""

    def __init__(self, folder: Path) -> None:
        super().__init__("here")
        self.hands = Hands()
        self.ask("begin", folder=str(folder))

    def _send(self, message: dict[str, Any]) -> dict[str, Any]:
        return unpack(pack(self.hands.answer(unpack(pack(message)))))

    def _leave(self) -> None:
        pass


@pytest.fixture
def link(tmp_path: Path) -> Direct:
    folder = tmp_path / "session"
    folder.mkdir()
    return Direct(folder)


def test_what_goes_is_forgotten(link: Direct, tmp_path: Path) -> None:
    remote = RPCSession(link)
    func = uploaded(remote, add_one(n=8), tmp_path)
    dev = remote.cpu()
    a = tvm.nd.array(np.arange(16, dtype="float32").reshape(2, 8), dev)
    func(a[0], a[1])
    assert a.numpy().tolist() == [list(range(8)), list(range(1, 9))]
    assert func.time_evaluator("add_one", dev, number=1, repeat=2)(a[0], a[1]).mean > 0
    b = a.copyto(dev)
    assert len(link.hands._kept) == 3
    del a, b, func
    collect()
    assert remote.listdir() == ["lib.tar"]
    assert not link.hands._kept
    remote.remove("lib.tar")
    dev.sync()
    assert dev.limits is None and not remote.vulkan().exist
    for kind in ["cuda", "cl", "metal", "rocm", "ext_dev", "hexagon", "webgpu"]:
        assert getattr(remote, kind)(1).kind.startswith("remote_")
    remote.close()
    with pytest.raises(tvm.error.RPCError, match="the session on here has ended: it was closed"):
        remote.listdir()


@pytest.mark.parametrize(
    ("op", "question", "says"),
    [
        ("dance", {}, "unknown request 'dance'"),
        ("read", {"kept": 7, "offset": 0, "count": 1}, "the session has no memory 7"),
        ("read", {"kept": 1, "offset": 30, "count": 3}, "bytes 30 to 33 of 32"),
        ("call", {"function": {"kept": 1, "name": "f"}, "args": []}, "has no library 1"),
        ("call", {"function": {"name": "f"}, "args": []}, "no function is registered"),
        ("call", {"function": {"name": "gives_array"}, "args": []}, "gives numbers and text"),
        ("read", {"kept": 1}, "KeyError: 'offset'"),
    ],
)
def test_questions_that_make_no_sense(
    link: Direct, op: str, question: dict[str, Any], says: str
) -> None:
    tvm.register_func("gives_array", lambda: np.zeros(3), override=True)
    assert link.ask("alloc", kind="cpu", index=0, bytes=32)["kept"] == 1
    with pytest.raises(tvm.TVMError, match=says):
        link.ask(op, **question)
    assert not link.ended


@pytest.mark.parametrize(
    ("offset", "shape", "strides"), [(-4, [1], None), (8, [7], None), (0, [2, 2], [8, -1])]
)
def test_arrays_stay_in_their_memory(
    link: Direct, offset: int, shape: list[int], strides: list[int] | None
) -> None:
    kept = link.ask("alloc", kind="cpu", index=0, bytes=32)["kept"]
    tvm.register_func("first", lambda x: float(x.numpy().sum()), override=True)
    how = {"kept": kept, "offset": offset, "shape": shape, "strides": strides, "dtype": "float32"}
    with pytest.raises(tvm.TVMError, match=r"bytes -?\d+ to \d+ is not in a memory of 32"):
        link.ask("call", function={"name": "first"}, args=[how])
    link.ask("write", kept=kept, offset=0, data=np.arange(8, dtype="float32").tobytes())
    inside = {**how, "offset": 28, "shape": [2, 3], "strides": [-4, -1]}
    assert link.ask("call", function={"name": "first"}, args=[inside])["value"] == 24


async def held() -> list[Any]:
    """What a device says of a session, and after it."""
    async with (
        server.scheduler({"host": "127.0.0.1"}) as scheduler,
        server.worker(
            {"address": scheduler.address, "facts": Facts("device", "d", key="k").as_data()}
        ) as worker,
        Client(scheduler.address, asynchronous=True, set_as_default=False) as client,
    ):
        task = client.submit(
            hold, as_bytes({"session": "s", "timeout": 0}), pure=False,
            resources={device_resource("k"): 1},
        )  # fmt: skip
        while "s" not in worker.sessions.open:
            await asyncio.sleep(0.01)

        async def ask(request: bytes, session: str = "s", address: str = worker.address) -> Any:
            return unpack(
                await client.scheduler.tilewright_session(
                    worker=address, session=session, request=request
                )
            )

        names = pack({"op": "list", "id": 0})
        said = [await ask(names), await ask(names, "other"), await ask(CLOSE)]
        said.append(json.loads(await task))
        said += [await ask(names), await ask(names, "s", "tcp://127.0.0.1:1")]
        return said


def test_a_device_that_is_held() -> None:
    first, other, closed, ended, late, gone = asyncio.run(held())
    assert first["names"] == []
    assert other == {"ended": "the device has given it up"}
    assert closed == {}
    assert ended == late == {"ended": "it was closed"}
    assert gone == {"ended": "the device is gone"}
