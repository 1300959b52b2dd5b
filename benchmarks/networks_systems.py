"""The systems of benchmarks.networks, each in a process of its own: load a network, time it.

`precision`: what a network in float32 may be computed in. ONNX Runtime's CPU provider has no such
setting and stays in float32; quantised networks are computed in bytes by all, whatever it says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.ops_channel import serve

Row = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]
SETTLE_S = 0.3


def timed(call: Callable[[], Any], seconds: float) -> list[float]:
    """Seconds of each run, for so long and at least three, after some that do not count."""
    end = time.perf_counter() + SETTLE_S
    call()
    while time.perf_counter() < end:
        call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


Loaded = tuple[Callable[[], Any], Callable[[], Sequence[Any]], Row]
"""A call to time, what gives the outputs, and what is known of loading it."""


def load_ours(path: str, data: Arrays, threads: int, precision: str, records: str | None) -> Loaded:
    """Compiled, from whatever the cache has."""
    import onnx  # noqa: F401  (whose import is not counted, as that of the compiler is not)

    from tilewright import graph
    from tilewright.graph.build import compile as compile_graph
    from tilewright.rt.network import Executable
    from tilewright.rt.threads import set_num_threads

    set_num_threads(threads)
    start = time.perf_counter()
    model = graph.load_onnx(path, {name: x.shape for name, x in data.items()})
    imported = time.perf_counter()
    net = compile_graph(model, records=records, dtype=precision)
    facts: Row = {"load_s": imported - start, "compile_s": time.perf_counter() - imported}
    facts["staged"] = model.rest is not None

    def profile() -> list[Row]:
        seconds = [s for _, s in net.profile(data)]
        if not isinstance(net, Executable):  # whose parts are not kept apart
            return []
        return [
            {
                "kernel": call.kernel,
                "nodes": nodes,
                "ms": s * 1e3,
                "gflop": w.flops / 1e9,
                "mb": w.bytes / 1e6,
            }
            for s, w, nodes, call in zip(seconds, net.work, net.nodes, net.calls)
        ]

    facts["profile"] = profile
    return net.prepare(data), lambda: list(net.run(data).values()), facts


def load_onnxruntime(
    path: str, data: Arrays, threads: int, precision: str, _records: str | None
) -> Loaded:
    """A session of the CPU provider, on memory bound beforehand."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    start = time.perf_counter()
    session = ort.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    facts = {"compile_s": time.perf_counter() - start}
    binding = session.io_binding()
    for name, x in data.items():
        binding.bind_cpu_input(name, x)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def call() -> None:
        assert data  # whose memory the binding reads
        session.run_with_iobinding(binding)

    return call, lambda: session.run(None, data), facts


_HINTS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


def load_openvino(
    path: str, data: Arrays, threads: int, precision: str, _records: str | None
) -> Loaded:
    """A request of the CPU plugin, which computes in what it is told where the CPU can."""
    import openvino as ov

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": _HINTS[precision],
    }
    start = time.perf_counter()
    core = ov.Core()
    model = core.read_model(path)
    model.reshape({name: list(x.shape) for name, x in data.items()})
    compiled = core.compile_model(model, "CPU", settings)
    facts = {"compile_s": time.perf_counter() - start}
    request = compiled.create_infer_request()
    for name, x in data.items():
        request.set_tensor(name, ov.Tensor(x, shared_memory=True))
    outputs = range(len(compiled.outputs))

    def call() -> None:
        assert data  # whose memory the request reads
        request.start_async()
        request.wait()

    def results() -> list[Any]:
        call()
        return [request.get_output_tensor(k).data for k in outputs]

    return call, results, facts


LOADERS: dict[str, Callable[..., Loaded]] = {
    "ours": load_ours,
    "tuned": load_ours,
    "onnxruntime": load_onnxruntime,
    "openvino": load_openvino,
}


def serve_system(who: str) -> None:
    """One system: load a network, time it, say where its time goes."""
    held: dict[str, Loaded] = {}

    def load(request: Row) -> Row:
        with np.load(request["inputs"]) as file:
            data = dict(file)
        records = request["records"] if who == "tuned" else None
        how = (request["threads"], request["precision"], records)
        held["net"] = LOADERS[who](request["model"], data, *how)
        _, outputs, facts = held["net"]
        if request["outputs"]:
            np.savez(request["outputs"], *outputs())
        return {name: value for name, value in facts.items() if not callable(value)}

    def profile(_request: Row) -> Row:
        return {"rows": held["net"][2]["profile"]()}

    serve(
        load=load,
        time=lambda request: {"times": timed(held["net"][0], request["seconds"])},
        profile=profile,
    )
