"""`python -m tests.fuzz.files --format F --cases N --seed S`: damaged files of every kind we read.

A mutated file (bits, cuts, splices; in JSON and SQLite also values of other types, extreme numbers
and deep nesting) is read or refused with one of the project's errors, which names it. A signal,
another exception, or memory past a limit is a finding. One bad record costs that record alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from random import Random
from typing import Any

from tilewright.base.errors import TilewrightError

from .file_kinds import KINDS, Kind

MEMORY = 3 << 30
SECONDS = 30
BYTES = (
    b"\0",
    b"\xff",
    b"\x80",
    b"\x7f" + b"\xff" * 7,
    b"\xff" * 8,
    b"[" * 400,
    b'"',
    b"\n",
    b"-1",
)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, -1e308, 5e-324,
    float("nan"), float("inf"), 0.5, "", "x", "x" * 2000, "\0", "\ud800", "float32x999999999",
    [], {}, [[]], [None], {"": None}, {"x": 1, "y": 2},
)  # fmt: skip


def mutate_bytes(data: bytes, rng: Random) -> bytes:
    """The data with one to three changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(6)
        if kind == 0 and changed:
            for _ in range(rng.choice((1, 2, 8))):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            start = rng.randrange(len(changed) + 1)
            part = changed[start : start + rng.randrange(1, 200)]
            changed[at : at + rng.choice((0, len(part)))] = part
        elif kind == 3:
            piece = rng.choice(BYTES)
            changed[at : at + len(piece)] = piece
        elif kind == 4:
            piece = struct.pack(rng.choice(("<q", ">q", "<i", "<d")), rng.choice((0, -1, 1 << 30)))
            changed[at : at + len(piece)] = piece
        else:
            del changed[at : at + rng.randrange(1, 50)]
    return bytes(changed)


def deep(rng: Random) -> Any:
    value: Any = 1
    for _ in range(rng.choice((50, 900))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def mutate_json(value: Any, rng: Random) -> Any:
    """A JSON value with one change at a random place."""
    if isinstance(value, (list, dict)) and value and rng.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys)
        copy: Any = dict(value) if isinstance(value, dict) else list(value)
        chance = rng.random()
        if chance < 0.06:
            del copy[key]
        elif chance < 0.1:
            copy[key] = copy[rng.choice(keys)]
        else:
            copy[key] = mutate_json(value[key], rng)
        return copy
    if isinstance(value, str) and value[:1] in ("[", "{") and rng.random() < 0.8:
        return json.dumps(mutate_json(json.loads(value), rng))  # JSON within JSON
    if isinstance(value, int) and rng.random() < 0.3:
        return value + rng.choice((-1, 1, 100))
    return deep(rng) if rng.random() < 0.04 else rng.choice(VALUES)


def mutate(kind: Kind, data: bytes, rng: Random) -> tuple[bytes, bool]:
    """A damaged file, and whether the damage is within one line."""
    if kind.mutate is not None and rng.random() < 0.7:
        return kind.mutate(data, rng, VALUES), True
    if kind.json and rng.random() < 0.8:
        lines = data.split(b"\n") if kind.lines else [data]
        n = rng.choice([k for k, line in enumerate(lines) if line])
        value = mutate_json(json.loads(lines[n]), rng)
        try:
            lines[n] = json.dumps(value).encode()
        except (UnicodeError, RecursionError):
            lines[n] = b"[" * 100_000
        return b"\n".join(lines), True
    return mutate_bytes(data, rng), False


def judge(kind: Kind, path: Path, one_line: bool) -> str:
    """What is wrong with how a file is read; empty where nothing is."""
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = kind.read(path)
        least = kind.records - 1
        if one_line and found is not None and found < least:
            return f"one bad record costs {kind.records - found}"
    except TilewrightError as error:
        if kind.names_file and str(path) not in str(error):
            return f"the error does not name the file: {error!s:.200}"
    except BaseException as error:
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        where = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else ""
        return f"{type(error).__name__} at {where}: {error!s:.200}"
    finally:
        signal.alarm(0)
    return ""


def late(*_: Any) -> None:
    raise TimeoutError(f"no answer within {SECONDS} s")


def child(name: str, first: int, count: int, folder: str) -> int:
    """Run cases, with a line for each that begins and each that fails."""
    kind = KINDS[name]
    data = kind.make(Path(folder))
    path = Path(folder, "case" + kind.suffix)
    path.write_bytes(data)
    kind.read(path)  # loads what reading needs, before the limit
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.signal(signal.SIGALRM, late)
    for seed in range(first, first + count):
        print(f"begin {seed}", flush=True)
        path = Path(folder, f"case{seed % 50}{kind.suffix}")
        changed, one_line = mutate(kind, data, Random(f"{name}{seed}"))
        path.write_bytes(changed)
        problem = judge(kind, path, one_line)
        if problem:
            print(f"wrong {seed} {json.dumps(problem)}", flush=True)
    return 0


def run(name: str, cases: int, seed: int) -> list[str]:
    """Findings, one text each."""
    findings: list[str] = []
    at = seed
    while at < seed + cases:
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "tests.fuzz.files",
                "--format",
                name,
                "--child",
                folder,
            ]
            command += ["--cases", str(seed + cases - at), "--seed", str(at)]
            environment = {**os.environ, "TILEWRIGHT_CACHE": "0"}
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, check=False
            )
        lines = done.stdout.splitlines()
        for line in lines:
            if line.startswith("wrong "):
                _, number, text = line.split(" ", 2)
                findings.append(f"{name} --seed {number}: {json.loads(text)}")
        begun = [int(line.split()[1]) for line in lines if line.startswith("begin ")]
        if done.returncode == 0:
            break
        last = begun[-1] if begun else at - 1
        findings.append(
            f"{name} --seed {last}: the process died: {done.returncode}: {done.stderr[-600:]}"
        )
        if not begun:
            break
        at = last + 1
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.files", description=__doc__)
    parser.add_argument("--format", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--cases", type=int, default=500, help="of each (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first case (default 0)")
    parser.add_argument("--child", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.format, options.seed, options.cases, options.child)
    names = list(KINDS) if options.format == "all" else [options.format]
    total = 0
    for name in names:
        findings = run(name, options.cases, options.seed)
        total += len(findings)
        print("\n".join([f"{name}: {options.cases} cases, {len(findings)} findings", *findings]))
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
