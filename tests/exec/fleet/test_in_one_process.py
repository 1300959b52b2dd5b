"""The servers of a fleet in the process of the test, which sees what they do."""

import asyncio
import json
from typing import Any

from distributed import Client

from tests.unit.measure.runner_kit import FAST, calls, product
from tilewright.fleet import server
from tilewright.fleet.child import Child
from tilewright.fleet.facts import BUILD, Facts, device_resource
from tilewright.fleet.work import as_bytes, build, digest, pretended_cost, run
from tilewright.measure.result import MeasureErrorNo as No


async def answers(program: dict[str, Any]) -> dict[str, Any]:
    """What a builder and a pretending device say of a candidate."""
    async with server.scheduler({"host": "127.0.0.1"}) as scheduler:

        def joins(facts: Facts) -> Any:
            return server.worker({"address": scheduler.address, "facts": facts.as_data()})

        device = Facts("device", "d", key="k", target="llvm", pretends=0.01)
        async with (
            joins(Facts("build", "b")),
            joins(device),
            Client(scheduler.address, asynchronous=True, set_as_default=False) as client,
        ):
            request = {"programs": [program], "options": {}, "timeout": 60.0}
            built = client.submit(build, as_bytes(request), resources={BUILD: 1}, pure=False)
            candidate = {"ticket": 7, "place": 0, "program": program, "digest": digest(program)}
            asked = {"candidates": [candidate], "turn": 2.0}
            done = client.submit(
                run, built, built, as_bytes(asked), resources={device_resource("k"): 1}, pure=False
            )
            answer = json.loads(await done)
            assert sum(c["memory"] for c in scheduler.done.values()) == 2
            assert answer["device"] == "d" and answer["turn"] == 2.0 and not answer["starved"]
            found: dict[str, Any]
            (found,) = answer["results"]
            assert found.pop("ticket") == 7
            return found


def test_a_candidate_is_built_and_its_cost_made_up() -> None:
    program = product(2)
    found = asyncio.run(answers(program))
    assert found["costs"] == [pretended_cost(digest(program))]
    assert found["seconds"] > 0


def test_what_is_compiled_passes_builders_that_have_another_cpu() -> None:
    compiled = {"archive": "of another CPU", "target": {"kind": "llvm"}}
    assert asyncio.run(answers(compiled))["costs"] == [pretended_cost(digest(compiled))]


def test_what_cannot_be_built_is_not_run() -> None:
    found = asyncio.run(answers({**product(2), "trace": "[]x"}))
    assert found["error"] == No.INSTANTIATION_ERROR and "costs" not in found


def test_a_child_is_replaced_when_it_has_died() -> None:
    child = Child()
    limits: tuple[Any, ...] = (60.0, No.RUN_TIMEOUT, No.RUNTIME_DEVICE)
    how = {**FAST, "check": False, "best": None, "min_repeat_ms": 0, "cooldown_ms": 0,
           "flush_bytes": 0}  # fmt: skip
    try:
        for program, error in ((product(2), None), (calls("abort"), No.RUNTIME_DEVICE)) * 2:
            made = child.ask({"op": "build", "id": 0, "program": program}, *limits)
            assert not made.get("error"), made
            done = child.ask({"op": "run", "id": 0, **how}, *limits)
            assert done.get("error") == error, done
            assert child.is_alive == (error is None)
        late = child.ask({"op": "build", "id": 0, "program": product(4)}, 0.0, *limits[1:])
        assert late["error"] == No.RUN_TIMEOUT and not child.is_alive
    finally:
        child.close()
