"""What Dask runs on the workers of a fleet: one function that builds, one that times.

Both take and give bytes of JSON (`measure.protocol`), so that Dask's pickles hold nothing of a
user's. Neither raises for what a candidate does: errors are part of the answer. What they do raise,
`ChildError`, says that this worker is of no use, and Dask tries another one.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
import time
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any

from ..measure.protocol import Message
from ..measure.result import MeasureErrorNo as No
from .child import of_this_thread

_files: dict[str, str] = {}
_REFERENCE = -1
"""The id, in a device's child, of the kernel that is timed with each candidate."""


def as_bytes(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def build(request: bytes) -> bytes:
    """Compile candidates: {programs, options, timeout} -> {made: for each {archive, seconds}, or
    {error, message, seconds}}."""
    asked = json.loads(request)
    return as_bytes({"made": [_built(program, asked) for program in asked["programs"]]})


def _built(program: Message, asked: Message) -> Message:
    """One candidate. What is compiled already goes on as it is: a builder may have another CPU than
    it is for."""
    if "archive" in program:
        return {"archive": program["archive"], "seconds": 0.0}
    worker = _worker()
    if worker.facts.pretends:
        time.sleep(worker.facts.pretends)
        return {"archive": "", "seconds": worker.facts.pretends}
    child = of_this_thread(memory=worker.child_memory)
    question = {"op": "pack", "id": 0, "program": program, "options": asked["options"]}
    return child.ask(question, asked["timeout"], No.BUILD_TIMEOUT, No.COMPILE_HOST)


def run(built: bytes, reference: bytes, request: bytes) -> bytes:
    """Time candidates that `build` made, on this device: {candidates, how, timeout, turn} ->
    {results, device, turn, starved}. A candidate: {ticket, place: in what was built, program,
    inputs}, and a digest for devices that pretend; its result: {ticket, costs, early, seconds,
    reference}, or {ticket, error, message, seconds}.

    `reference` is what `build` made of a kernel that is timed with each candidate; in the result
    the seconds that it took, for how fast this device is just now. `turn`: see `share`. `starved`:
    this could have begun earlier, had it been here (see `ahead.Window`).
    """
    made, asked = json.loads(built)["made"], json.loads(request)
    worker = _worker()
    turns = worker.turns
    starved = turns.begin(asked["turn"])
    results = [
        {**_run(c, made[c["place"]], reference, asked), "ticket": c["ticket"]}
        for c in asked["candidates"]
    ]
    turns.end(len(worker.state.constrained))
    return as_bytes(
        {"results": results, "device": worker.facts.name, "turn": turns.last, "starved": starved}
    )


def _run(candidate: Message, code: Message, reference: bytes, asked: Message) -> Message:
    facts = _worker().facts
    if code.get("error"):
        return {k: code[k] for k in ("error", "message", "seconds")}
    if facts.pretends:
        answer = _pretended(candidate["digest"], facts.pretends)
    else:
        answer = _timed(candidate, code, reference, asked)
    if not answer.get("error"):
        answer["seconds"] += code["seconds"]
    return answer


def _worker() -> Any:
    """The FleetWorker that this runs in."""
    from distributed import get_worker

    return get_worker()


def _timed(candidate: Message, code: Message, reference: bytes, asked: Message) -> Message:
    child = of_this_thread(memory=_worker().child_memory)
    seconds = _reference_seconds(child, reference, candidate["program"]["target"], asked)
    if isinstance(seconds, dict):
        return seconds
    inputs = {place: _as_file(text) for place, text in candidate["inputs"].items()}
    program = {**candidate["program"], "archive": code["archive"], "inputs": inputs}
    made = child.ask(
        {"op": "build", "id": 0, "program": program}, asked["timeout"], No.RUN_TIMEOUT,
        No.RUNTIME_DEVICE,
    )  # fmt: skip
    if made.get("error"):
        return made
    done = child.ask(
        {"op": "run", "id": 0, **asked["how"]}, asked["timeout"], No.RUN_TIMEOUT, No.RUNTIME_DEVICE
    )
    return {**done, "reference": seconds}


def _as_file(text: str) -> str:
    """A file of this machine with an argument's data, written once for all candidates."""
    name = hashlib.sha256(text.encode()).hexdigest()
    if name not in _files:
        path = Path(_folder()) / f"{name}.npy"
        path.write_bytes(b64decode(text))
        _files[name] = str(path)
    return _files[name]


@cache
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="tilewright-device-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _reference_seconds(
    child: Any, reference: bytes, target: Any, asked: Message
) -> float | Message | None:
    """Seconds of the reference kernel; what went wrong, as an answer, where it cannot run, for then
    no candidate would; None where it could not be built for this target."""
    limits: tuple[Any, ...] = (asked["timeout"], No.RUN_TIMEOUT, No.RUNTIME_DEVICE)
    if not child.is_alive or child.reference != reference:
        (code,) = json.loads(reference)["made"]
        if code.get("error"):
            return None
        program = {"archive": code["archive"], "target": target}
        made = child.ask({"op": "build", "id": _REFERENCE, "program": program}, *limits)
        if made.get("error"):
            return {**made, "unfit": True}
        child.reference = reference
    how = {"number": 1, "repeat": 5, "min_repeat_ms": 2.0, "cooldown_ms": 0.0, "flush_bytes": 0}
    question = {"op": "run", "id": _REFERENCE, "keep": True, "check": False, "best": None, **how}
    done: Message = child.ask({**question, "device": asked["how"]["device"]}, *limits)
    return {**done, "unfit": True} if done.get("error") else float(min(done["costs"]))


def digest(program: Message) -> str:
    """A name for a candidate, the same wherever it is made."""
    return hashlib.sha256(json.dumps(program, sort_keys=True).encode()).hexdigest()


def pretended_cost(name: str) -> float:
    """Seconds, from 10 us to 10 ms, that a device which only pretends gives a candidate."""
    return float(10.0 ** (-5 + 3 * int(name[:8], 16) / 0xFFFFFFFF))


def _pretended(name: str, seconds: float) -> Message:
    time.sleep(seconds)
    return {
        "costs": [pretended_cost(name)], "early": False, "seconds": seconds, "reference": 1e-3
    }  # fmt: skip
