"""`python -m tests.fuzz.threads --seconds N --seed S`: random programs and networks that eight
threads build, call, time, export and drop at once.

Every result is compared with te_eval's, or with what the same code gave one thread alone. All runs
in a child process, so that a signal is a finding; a new child begins every minute, since first
calls are where threads meet.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import graph, te, tir
from tilewright.base.errors import TilewrightError
from tilewright.graph.ir import Graph, Node, Value
from tilewright.rt import packed, threads

from .check import REFUSALS, Run, drawn, judged
from .values import Array, differs

THREADS = 8
CASES = 6
CHILD_SECONDS = 60.0
GRACE_SECONDS = 120.0
MOST_FINDINGS = 5


class Wrong(Exception):
    """A result that is not what it has to be."""


class Case:
    """A program that is built and nobody has called yet, data, and what it has to give."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        _, built, s, _ = drawn(seed, "llvm")
        feeds = built.feeds(0)
        needed = {t: feeds[t] for t in built.used()}
        self.inputs = list(needed.values())
        self.expected = Run(built, s, "llvm", [])(self.inputs)
        wrong, _ = judged(built, needed, self.expected)
        if any(np.any(w) for w in wrong):
            raise Wrong(f"seed {seed}: the result differs from te_eval's")
        self.run = Run(built, s, "llvm", [])
        self.module = self.run.function

    def outputs(self) -> list[Array]:
        return [np.full(e.shape, 77, e.dtype) for e in self.expected]

    def check(self, outputs: list[Array], how: str) -> None:
        if any(np.any(differs(a, b)) for a, b in zip(outputs, self.expected)):
            raise Wrong(f"seed {self.seed}: the result of {how} differs from the first")


def call(case: Case, rng: random.Random) -> None:
    for _ in range(rng.randrange(1, 20)):
        case.check(case.run(case.inputs), "a call")


def prepare(case: Case, rng: random.Random) -> None:
    outputs = case.outputs()
    run = case.module.prepare(*case.inputs, *outputs)
    for _ in range(rng.randrange(1, 10)):
        run()
    case.check(outputs, "a prepared call")


def evaluate(case: Case, rng: random.Random) -> None:
    outputs = case.outputs()
    case.module.time_evaluator("fuzz", tvm.cpu(), number=3, repeat=2)(*case.inputs, *outputs)
    case.check(outputs, "a timed call")


def export(case: Case, rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, rng.choice(("m.two", "m.o", "m.tar")))
        case.module.export_library(path) if path.suffix != ".o" else case.module.save(path)
        loaded = tvm.runtime.load_module(path)
    outputs = case.outputs()
    loaded(*case.inputs, *outputs)
    case.check(outputs, "the exported module")


def source(case: Case, rng: random.Random) -> None:
    if not case.module.get_source(rng.choice(("ll", "asm", "tir"))):
        raise Wrong("no source")


def change_threads(case: Case, rng: random.Random) -> None:
    threads.set_num_threads(rng.randrange(5))


def collect(case: Case, rng: random.Random) -> None:
    gc.collect()


ACTIONS: list[tuple[float, Callable[[Case, random.Random], None]]] = [
    (60, call),
    (10, prepare),
    (4, evaluate),
    (6, export),
    (3, source),
    (2, change_threads),
    (1, collect),
]


class Network:
    """A chain of products and activations, called at once by several threads."""

    def __init__(self, rng: random.Random) -> None:
        n = rng.choice((3, 8, 17, 32))
        values = [Value("x", (n, n), "float32")]
        nodes = []
        for k in range(rng.randrange(1, 5)):
            value = Value(f"v{k}", (n, n), "float32")
            op = rng.choice(("matmul", "add", "multiply", "relu"))
            reads = [values[-1]] if op == "relu" else [values[-1], rng.choice(values)]
            nodes.append(Node(op, f"n{k}", reads, [value], {}))
            values.append(value)
        self.nodes, self.shape = nodes, (n, n)
        self.net = graph.compile(Graph("g", [values[0]], [values[-1]], nodes))

    def call(self, rng: random.Random) -> None:
        x = np.random.default_rng(rng.randrange(1 << 30)).integers(-1, 2, self.shape)
        known: dict[Any, Any] = {"x": x.astype(np.float32)}
        for node in self.nodes:
            known[node.output.name] = _OPERATIONS[node.op](*(known[v.name] for v in node.inputs))
        expected = known[self.nodes[-1].output.name]
        for _ in range(rng.randrange(1, 20)):
            (found,) = self.net.run({"x": known["x"]}).values()
            if not np.allclose(found, expected, rtol=1e-4):
                raise Wrong(f"a network of {[n.op for n in self.nodes]} gives another result")


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "matmul": np.matmul,
    "add": np.add,
    "multiply": np.multiply,
    "relu": lambda a: np.maximum(a, 0),
}


class Callbacks:
    """A parallel loop that calls Python; the callback raises where the data of the call says so."""

    def __init__(self) -> None:
        packed.register_func("fuzz.callback", self.callback, override=True)
        a = te.placeholder((16,), "int32", name="A")

        def body(ins: Any, outs: Any) -> Any:
            ib = tir.ir_builder.create()
            with ib.for_range(0, 16, name="i", kind="parallel") as i:
                ib.emit(tir.call_packed("fuzz.callback", i, ins[0], outs[0]))
            return ib.get()

        c = te.extern((16,), [a], body, name="C", dtype="int32")
        self.function = tvm.build(te.create_schedule(c.op), [a, c], "llvm")

    @staticmethod
    def callback(i: int, a: Any, c: Any) -> None:
        value = int(a[i])
        if value < 0:
            raise TilewrightError(f"{value}")
        c[i] = value + 1

    def call(self, rng: random.Random) -> None:
        data = np.full(16, rng.randrange(1000), np.int32)
        if rng.random() < 0.6:
            data[rng.sample(range(16), rng.randrange(1, 16))] = -rng.randrange(1, 1 << 30)
        out = np.zeros(16, np.int32)
        try:
            self.function(data, out)
        except TilewrightError as error:
            if str(error) != str(data.min()):
                raise Wrong(f"a call raised {error}, its callbacks {data.min()}") from None
            return
        if data.min() < 0 or np.any(out != data + 1):
            raise Wrong("a callback's exception or result is lost")


class Session:
    """What the threads of a child share."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.end = time.monotonic() + seconds
        self.seed = seed
        self.cases: list[Case | None] = [None] * CASES
        self.networks: list[Network | None] = [None] * 2
        self.callbacks = Callbacks()
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []

    def work(self, number: int) -> None:
        rng = random.Random(self.seed * 1000 + number)
        while time.monotonic() < self.end and len(self.findings) < MOST_FINDINGS:
            name = ""
            try:
                name = self.step(rng)
            except REFUSALS:
                name = "refused"
            except Exception as error:
                frames = "" if isinstance(error, Wrong) else traceback.format_exc()[-1500:]
                self.findings.append(f"{type(error).__name__}: {error}\n{frames}")
            self.counts[name] += 1

    def step(self, rng: random.Random) -> str:
        """One random action; its name."""
        chance = rng.random()
        if chance < 0.2:
            self.callbacks.call(rng)
            return "callbacks"
        if chance < 0.35:
            slot = rng.randrange(len(self.networks))
            net = self.networks[slot]
            if net is None or rng.random() < 0.05:
                net = self.networks[slot] = Network(rng)
            net.call(rng)
            return "network"
        slot = rng.randrange(CASES)
        case = self.cases[slot]
        if case is None or chance < 0.45:
            self.cases[slot] = None  # the old one goes, maybe while it is called
            self.cases[slot] = Case(rng.randrange(1 << 30))
            return "build"
        weights = [w for w, _ in ACTIONS]
        action = rng.choices([a for _, a in ACTIONS], weights)[0]
        action(case, rng)
        return action.__name__


def child(seconds: float, seed: int) -> int:
    """Run the threads; prints counts and findings as JSON."""
    faulthandler.enable()
    warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, from the oracle
    session = Session(seconds, seed)
    workers = [threading.Thread(target=session.work, args=(k,)) for k in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(json.dumps({"counts": session.counts, "findings": session.findings}), flush=True)
    return 0


def run(seconds: float, seed: int, quiet: bool = False) -> tuple[Counter[str], list[str]]:
    """Counts of actions, and findings, of children one after another."""
    counts: Counter[str] = Counter()
    findings: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(findings) < MOST_FINDINGS:
        part = min(CHILD_SECONDS, max(end - time.monotonic(), 1.0))
        command = [sys.executable, "-m", "tests.fuzz.threads", "--child", "--seconds", str(part)]
        command += ["--seed", str(seed)]
        environment = {"TILEWRIGHT_CACHE": "0", "TILEWRIGHT_NUM_THREADS": "3", **os.environ}
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                env=environment,
                timeout=part + GRACE_SECONDS,
                check=False,
            )
            if done.returncode:
                raise ValueError(f"exit status {done.returncode}: {done.stderr[-3000:]}")
            found = json.loads(done.stdout)
            counts.update(found["counts"])
            findings += [f"--seed {seed}: {text}" for text in found["findings"]]
        except (subprocess.TimeoutExpired, ValueError) as error:
            findings.append(f"--seed {seed}: {error}")
        if not quiet:
            print(f"seed {seed}: {sum(counts.values())} actions, {len(findings)} findings")
        seed += 1
    return counts, findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.threads", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the first child (default 0)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.seconds, options.seed)
    counts, findings = run(options.seconds, options.seed)
    print("\n".join([f"  {n:8} {name}" for name, n in counts.most_common()] + findings))
    print(f"{len(findings)} findings in {sum(counts.values())} actions")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
