"""`python -m tests.fuzz.onnx_files --cases N --seed S`: damaged ONNX files.

Small valid models are mutated, as bytes and as messages, then imported, compiled and run in a
process whose memory is limited. A file runs, or is refused by one of the project's errors; anything
else (another exception, a signal, memory past the limit, no answer) is a finding.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from tests.fuzz.isolated import Dead, Worker
from tests.graph.backend import cases as node_cases
from tests.graph.backend import load_with_known_parameters
from tilewright import graph
from tilewright.base import config
from tilewright.base.dtype import parse
from tilewright.base.errors import TilewrightError

SECONDS = 120.0
MEMORY_MB = 128  # the option network_memory
SPACE = 3 << 30  # address space beyond what a process has at its start; deep recursion takes 1 GiB
MOST_RUN = 1 << 20  # bytes of an array of a network that is run too

INTS = (0, 1, -1, 2, 3, 7, 64, 255, 2**31 - 1, -(2**31), 2**31, 2**40, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 0.5, 1e38, -1e38, 1e-45, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "y", "ai.onnx", "com.example", "SAME_UPPER", "VALID", "\x00", "é" * 40, "a/../b")


@cache
def models() -> list[bytes]:
    """Valid models: onnx's own node tests, and a few of several nodes."""
    found = []
    for _, case in sorted(node_cases().items()):
        inputs, _ = case.data[0]
        if sum(np.size(x) for x in inputs) <= 10_000:
            found.append(load_with_known_parameters(case.model, inputs)[1].SerializeToString())
    return [*found, *networks() * 20]


def networks() -> list[bytes]:
    """Models of several nodes, with weights, an inner function, and shapes that are computed."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    weight = onnx.numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    bias = onnx.numpy_helper.from_array(np.ones(4, np.float32), "b")
    one = onnx.numpy_helper.from_array(np.array([1, -1]), "flat")
    big = onnx.numpy_helper.from_array(np.array([5, 5]), "big")
    body = onnx.helper.make_function(
        "my", "Act", ["a"], ["c"],
        [make("Relu", ["a"], ["t"]), make("Add", ["t", "a"], ["c"])],
        [onnx.helper.make_opsetid("", 17)],
    )  # fmt: skip
    nodes = [
        make("Conv", ["x", "w", "b"], ["c1"], pads=[1] * 4),
        make("Act", ["c1"], ["a1"], domain="my"),
        make("MaxPool", ["a1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        make("Reshape", ["p1", "flat"], ["f1"]),
        make("Shape", ["f1"], ["s1"]),
        make("ConstantOfShape", ["s1"], ["z1"]),
        make("Concat", ["f1", "z1"], ["k1"], axis=1),
        make("Softmax", ["k1"], ["y"], axis=1),
        make("Expand", ["b1", "big"], ["e1"]),
        make("ReduceMean", ["e1"], ["y2"], axes=[0]),
    ]
    small = onnx.numpy_helper.from_array(np.ones(5, np.float32), "b1")
    whole = onnx.helper.make_graph(
        nodes, "net", [info("x", 1, (1, 3, 5, 5))], [info("y", 1, None), info("y2", 1, None)],
        [weight, bias, one, big, small],
    )  # fmt: skip
    sets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("my", 1)]
    made = onnx.helper.make_model(whole, opset_imports=sets, ir_version=8, functions=[body])
    return [made.SerializeToString()]


def mutated(rng: random.Random) -> bytes:
    """A damaged model."""
    data = rng.choice(models())
    if rng.random() < 0.25:
        return _bytes_changed(rng, data)
    proto = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        _message_changed(rng, proto)
    data = proto.SerializeToString()
    return _bytes_changed(rng, data) if rng.random() < 0.05 else data


def _bytes_changed(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, end = sorted(rng.randrange(len(changed) + 1) for _ in range(2))
        kind = rng.randrange(5)
        if kind == 0 and changed:
            changed[min(at, len(changed) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1 and changed:
            changed[min(at, len(changed) - 1)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del changed[at:]
        elif kind == 3:
            changed[at:at] = changed[at : min(end, at + 200)]
        else:
            other = rng.choice(models())
            changed[at:end] = other[at : at + rng.randrange(200)]
    return bytes(changed)


def _messages(message: Any) -> Iterator[Any]:
    """A message and all in it."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for item in value if field.is_repeated else [value]:
                yield from _messages(item)


def _message_changed(rng: random.Random, proto: Any) -> None:
    """One field of one message anywhere gets another value."""
    everything = list(_messages(proto))
    message = rng.choice(everything)
    fields = [f for f, _ in message.ListFields()] or list(message.DESCRIPTOR.fields)
    field = rng.choice(fields if rng.random() < 0.8 else list(message.DESCRIPTOR.fields))
    try:
        if field.is_repeated:
            _repeated_changed(rng, proto, message, field, everything)
        elif field.type == field.TYPE_MESSAGE:
            _copied(rng, getattr(message, field.name), everything)
        elif rng.random() < 0.15:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, _scalar(rng, proto, field, getattr(message, field.name)))
    except (ValueError, TypeError, DecodeError):
        return  # a value that the field does not take


def _copied(rng: random.Random, message: Any, everything: list[Any]) -> None:
    same = [m for m in everything if m.DESCRIPTOR is message.DESCRIPTOR and m is not message]
    source = rng.choice(same).SerializeToString() if same else b""
    message.ParseFromString(source)


def _repeated_changed(
    rng: random.Random, proto: Any, message: Any, field: Any, everything: list[Any]
) -> None:
    values = getattr(message, field.name)
    at = rng.randrange(len(values)) if len(values) else 0
    kind = rng.choice(("remove", "again", "change", "change", "swap"))
    if kind == "remove" and len(values):
        del values[at]
    elif field.type == field.TYPE_MESSAGE:
        if kind == "swap" and len(values) > 1:
            parts = [m.SerializeToString() for m in values]
            rng.shuffle(parts)
            for m, part in zip(values, parts):
                m.ParseFromString(part)
        elif kind == "again" or not len(values):
            new = values.add()
            if len(values) > 1:
                new.CopyFrom(values[at])
        else:
            _copied(rng, values[at], everything)
    elif kind == "again" or not len(values):
        values.extend([_scalar(rng, proto, field, None)] * rng.choice((1, 1, 2, 5)))
    else:
        values[at] = _scalar(rng, proto, field, values[at])


def _scalar(rng: random.Random, proto: Any, field: Any, old: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_ENUM:
        return rng.choice([v.number for v in field.enum_type.values])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice(FLOATS)
    if field.type == field.TYPE_BYTES:
        data = bytes(old or b"")
        cut = rng.randrange(len(data) + 1)
        noise = bytes(rng.randrange(256) for _ in range(rng.randrange(17)))
        return rng.choice((data[:cut], data + noise, noise, b""))
    if field.type == field.TYPE_STRING:
        names = [n for node in proto.graph.node for n in (*node.input, *node.output, node.op_type)]
        return rng.choice([*names, *TEXTS])
    return rng.choice((*INTS, rng.randrange(-20, 40), (old or 0) + 1, (old or 0) - 1))


def judge(data: bytes) -> str:
    """What became of a file: "ran", a stage that refused it, or "FOUND" with what was wrong."""
    _limit_memory()
    stage = "import"
    try:
        with config.scoped(network_memory=MEMORY_MB), np.errstate(all="ignore"):
            imported = graph.load_onnx(data)
            stage = "compile"
            net = graph.compile(imported)
            stage = "run"
            values = [*imported.inputs, *(n.output for n in imported.nodes)]
            if max((v.nbytes for v in values), default=0) > MOST_RUN:
                return "compiled"
            arrays = {v.name: np.ones(v.shape, parse(v.dtype).numpy) for v in imported.inputs}
            net.run(arrays)
        return "ran"
    except TilewrightError as error:
        text = str(error)
        bad = "MemoryError" in text or any(
            isinstance(e, MemoryError) for e in (error.__cause__, error.__context__)
        )
        return f"FOUND memory past the limit: {text[:200]}" if bad else f"refused at {stage}"
    except MemoryError as error:
        return f"FOUND memory past the limit at {stage}: {error}"
    except BaseException as error:
        return f"FOUND {type(error).__name__} at {stage}: {str(error)[:300]}"


@cache
def _limit_memory() -> None:
    """Limit the address space of this process, once its libraries are loaded."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + SPACE, now + SPACE))


def run_files(
    cases: int, seed: int, quiet: bool = True, stop_after: int = 10
) -> tuple[Counter[str], list[tuple[int, str]]]:
    """How many files ran and were refused, and the findings by seed."""
    worker = Worker()
    counts: Counter[str] = Counter()
    found: list[tuple[int, str]] = []
    for k in range(seed, seed + cases):
        data = mutated(random.Random(k))
        try:
            outcome = worker.ask(judge, (data,), SECONDS)
        except Dead as error:
            worker.close()
            worker = Worker()
            outcome = f"FOUND {error}"
        counts[outcome.split(":")[0]] += 1
        if outcome.startswith("FOUND"):
            found.append((k, outcome))
            if not quiet:
                print(f"seed {k}: {outcome}", flush=True)
            if len(found) >= stop_after:
                break
    worker.close()
    return counts, found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.onnx_files")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=10)
    parser.add_argument("--save", help="write the file of --seed here, and stop")
    args = parser.parse_args()
    if args.save:
        with open(args.save, "wb") as file:
            file.write(mutated(random.Random(args.seed)))
        return 0
    counts, found = run_files(args.cases, args.seed, quiet=False, stop_after=args.stop_after)
    for what, n in counts.most_common():
        print(f"{n:7}  {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
