"""Networks beside other programs: how much slower ours, ONNX Runtime and OpenVINO get.

    python -m benchmarks.busy [--json] [--rounds 5] [--seconds 1.0] [--threads 2]
        [--network NAME ...] [--peers-python PYTHON]

Each network runs with each system three ways: on the quiet machine, beside one process that spins,
and beside one that copies memory. Systems and ways take turns in each round, each system in a
process of its own that lives through all rounds; a figure is the median of the rounds' medians.
Bar: neither neighbour slows ours down by a larger factor than it slows ONNX Runtime and OpenVINO
down, the larger of theirs. `--peers-python`: the Python that has the other two installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

NETWORKS = ("resnet18", "resnet50", "mobilenet")
SYSTEMS = ("ours", "onnxruntime", "openvino")
NEIGHBOURS = {
    "quiet": "",
    "spinning": "while True: pass",
    "copying": "import numpy as np\na, b = np.ones((2, 1 << 24))\nwhile True: b[:] = a",
}
SETTLE_S = 0.3


def load_ours(path: str, threads: int) -> Callable[[], Any]:
    """A call of the network that tilewright compiles."""
    from tilewright import graph
    from tilewright.rt.threads import set_num_threads

    set_num_threads(threads)
    net = graph.compile(graph.load_onnx(path))
    return net.prepare({v.name: _image(v.shape) for v in net.inputs})


def load_onnxruntime(path: str, threads: int) -> Callable[[], Any]:
    """A call of the same network in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {item.name: _image(tuple(item.shape)) for item in session.get_inputs()}
    return lambda: session.run(None, feed)


def load_openvino(path: str, threads: int) -> Callable[[], Any]:
    """A call of the same network in OpenVINO, in float32 and for latency."""
    import openvino

    hints = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core: Any = openvino.Core()
    model = core.compile_model(path, "CPU", hints)
    request = model.create_infer_request()
    feed = [_image(tuple(item.shape)) for item in model.inputs]
    return lambda: request.infer(feed, share_inputs=True)


LOADERS: dict[str, Callable[[str, int], Callable[[], Any]]] = {
    "ours": load_ours,
    "onnxruntime": load_onnxruntime,
    "openvino": load_openvino,
}


def _image(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def serve(system: str, path: str, threads: int) -> None:
    """In a process of its own: for each number of seconds on the input, run for so long and write
    the median milliseconds of a call."""
    call = LOADERS[system](path, threads)
    call()
    print("ready", flush=True)
    for line in sys.stdin:
        settled = time.perf_counter() + SETTLE_S
        end = settled + float(line)
        times: list[float] = []
        while (start := time.perf_counter()) < end or not times:
            call()
            if start >= settled:
                times.append(time.perf_counter() - start)
        print(float(np.median(times)) * 1e3, flush=True)


class System:
    """A system in its own process, with one network loaded. `tree`: the folder of the version of
    tilewright that it is to have."""

    def __init__(
        self, python: str, system: str, path: str, threads: int, tree: str | None = None
    ) -> None:
        command = [python, "-m", "benchmarks.busy", "--serve", system, str(Path(path).resolve())]
        command += ["--threads", str(threads)]
        env = dict(os.environ)
        if tree is not None:
            env["PYTHONPATH"] = os.pathsep.join((str(Path(tree) / "src"), tree))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=tree
        )
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args!r}: ended early")
        return line

    def measure(self, seconds: float) -> float:
        """Median milliseconds of a call."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def neighbour(code: str) -> Iterator[None]:
    """Another process that runs `code`, if any."""
    if not code:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(SETTLE_S)
        yield
    finally:
        process.kill()
        process.wait()


def measure(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of a network by system and neighbour, and the factors."""
    path = str(folder / f"{name}.onnx")
    command = [sys.executable, "-m", "tools.make_networks", name, path, "--seed", "0"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    times: dict[str, dict[str, list[float]]] = {s: {n: [] for n in NEIGHBOURS} for s in SYSTEMS}
    with ExitStack() as stack:
        systems = {}
        for s in SYSTEMS:
            python = sys.executable if s == "ours" else options.peers_python
            systems[s] = System(python, s, path, options.threads)
            stack.callback(systems[s].close)
        for _ in range(options.rounds):
            for kind, code in NEIGHBOURS.items():
                with neighbour(code):
                    for s in SYSTEMS:
                        times[s][kind].append(systems[s].measure(options.seconds))
    ms = {s: {n: float(np.median(x)) for n, x in by.items()} for s, by in times.items()}
    factors = {s: {n: by[n] / by["quiet"] for n in by if n != "quiet"} for s, by in ms.items()}
    return {"network": name, "threads": options.threads, "ms": ms, "factors": factors}


def missed(row: dict[str, Any]) -> list[str]:
    """The neighbours that slow ours down more than the others."""
    factors = row["factors"]
    return [
        n
        for n in NEIGHBOURS
        if n != "quiet" and factors["ours"][n] > max(factors[s][n] for s in SYSTEMS[1:])
    ]


def main() -> int:
    """Print the table; the exit status says whether a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--network", choices=NETWORKS, nargs="+", default=NETWORKS)
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--serve", nargs=2, metavar=("SYSTEM", "MODEL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        system, path = args.serve
        serve(system, path, args.threads)
        return 0
    from tilewright.rt.busy import watched  # the peers' Python may not have it

    with watched(), tempfile.TemporaryDirectory(prefix="tilewright-busy-") as folder:
        rows = [measure(name, Path(folder), args) for name in args.network]
    if args.json:
        print(json.dumps([{**row, "missed": missed(row)} for row in rows], indent=1))
        return 1 if any(map(missed, rows)) else 0
    for row in rows:
        for s in SYSTEMS:
            figures = "  ".join(
                f"{n} {ms:7.2f} ms" + (f" ({row['factors'][s][n]:.2f})" if n != "quiet" else "")
                for n, ms in row["ms"][s].items()
            )
            print(f"{row['network']:10} {s:12} {figures}")
        if missed(row):
            print(f"{row['network']:10} MISSED {' '.join(missed(row))}")
    return 1 if any(map(missed, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
