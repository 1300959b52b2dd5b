"""Other runtimes, for `run --compare` and `bench`: the same model on the same data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import TilewrightError
from ..graph.ir import Graph
from ..rt import threads
from .data import Array


class Peer(NamedTuple):
    """Outputs by name, and what gives a further call to time."""

    outputs: dict[str, Array]
    prepare: Callable[[], Callable[[], Any]]


def onnxruntime_session(model: str | bytes, count: int) -> Any:
    """A session of ONNX Runtime on the CPU, of so many threads."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = count
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 4
    return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def onnxruntime_call(
    session: Any, feeds: Mapping[str, Array], outputs: Sequence[Any]
) -> Callable[[], Any]:
    """A call of a session on memory that is bound beforehand, for outputs like these."""
    import onnxruntime as ort

    binding, kept = session.io_binding(), []
    for name, x in feeds.items():
        kept.append(ort.OrtValue.ortvalue_from_numpy(x))
        binding.bind_ortvalue_input(name, kept[-1])
    for v, y in zip(session.get_outputs(), outputs):
        if all(isinstance(n, int) for n in v.shape) and isinstance(y, np.ndarray) and y.size:
            kept.append(ort.OrtValue.ortvalue_from_numpy(np.empty_like(y)))
            binding.bind_ortvalue_output(v.name, kept[-1])
        else:
            binding.bind_output(v.name)
    # what run_with_iobinding calls, less half a microsecond of Python
    run, raw, options = session._sess.run_with_iobinding, binding._iobinding, ort.RunOptions()
    return lambda: (kept, run(raw, options))[1]


def _onnxruntime(model: str | bytes, arrays: Mapping[str, Array]) -> Peer:
    session = onnxruntime_session(model, threads.num_threads())
    names = [output.name for output in session.get_outputs()]
    data = dict(arrays)
    found = session.run(names, data)
    return Peer(dict(zip(names, found)), lambda: onnxruntime_call(session, data, found))


def _openvino(model: str | bytes, arrays: Mapping[str, Array]) -> Peer:
    import openvino as ov

    core = ov.Core()
    network = core.read_model(model)
    network.reshape({name: list(x.shape) for name, x in arrays.items()})
    settings = {
        "INFERENCE_NUM_THREADS": threads.num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # which is not its choice on every CPU
    }
    compiled = core.compile_model(network, "CPU", settings)

    def request() -> Any:
        made = compiled.create_infer_request()
        for name, x in arrays.items():
            made.set_tensor(name, ov.Tensor(x, shared_memory=True))
        return made

    def prepare() -> Callable[[], Any]:
        made = request()

        def call() -> None:
            assert arrays  # whose memory the request reads
            made.start_async()
            made.wait()

        return call

    first = request()
    first.infer()
    places = range(len(compiled.outputs))
    outputs = {compiled.outputs[k].get_any_name(): first.get_output_tensor(k).data for k in places}
    return Peer(outputs, prepare)


PEERS: dict[str, Callable[[str | bytes, Mapping[str, Array]], Peer]] = {
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}


def load_peer(name: str, path: str, model: Graph | None, arrays: Mapping[str, Array]) -> Peer:
    """The model in another runtime, in float32, on as many threads as are set; run once.

    `model`: None of a saved network, which others cannot read: TilewrightError, as where the
    runtime is not installed or refuses the model.
    """
    if model is None:
        raise TilewrightError(
            f"--compare: {name} cannot read {path}, a saved network; give the ONNX model"
        )
    try:
        return PEERS[name](path, arrays)
    except ImportError:
        raise TilewrightError(f"--compare: {name} is not installed: pip install {name}") from None
    except Exception as error:
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise TilewrightError(f"--compare: {name} does not run {path}: {text[0]}") from error


def installed() -> list[str]:
    """The other runtimes that are installed here."""
    return [name for name in PEERS if find_spec(name) is not None]
