"""Other runtimes, for `tilewright run --compare`: the same model on the same data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..base.errors import TilewrightError
from ..graph.ir import Graph
from ..rt import threads
from .data import Array


class Peer(NamedTuple):
    """Outputs by name, and what gives a further call to time."""

    outputs: dict[str, Array]
    prepare: Callable[[], Callable[[], Any]]


def _onnxruntime(path: str, arrays: Mapping[str, Array]) -> Peer:
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads.num_threads()
    settings.log_severity_level = 3
    session = ort.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    data = dict(arrays)

    def prepare() -> Callable[[], Any]:
        binding = session.io_binding()
        for name, x in data.items():
            binding.bind_cpu_input(name, x)
        for name in names:
            binding.bind_output(name)
        return lambda: (data, session.run_with_iobinding(binding))[1]

    return Peer(dict(zip(names, session.run(names, data))), prepare)


def _openvino(path: str, arrays: Mapping[str, Array]) -> Peer:
    import openvino as ov

    core = ov.Core()
    model = core.read_model(path)
    model.reshape({name: list(x.shape) for name, x in arrays.items()})
    settings = {
        "INFERENCE_NUM_THREADS": threads.num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # which is not its choice on every CPU
    }
    compiled = core.compile_model(model, "CPU", settings)

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


PEERS: dict[str, Callable[[str, Mapping[str, Array]], Peer]] = {
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
