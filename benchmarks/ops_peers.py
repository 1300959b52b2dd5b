"""The libraries that the operator benchmark compares with, each served by a process of its own.

    python -m benchmarks.ops_peers onnxruntime|torch|torch_last|openvino [--threads 2]

Each computes the same function on the same numbers in the layout it likes, with its fastest calls:
no conversion of a layout, no copy of an argument or a result is timed. Weights of convolutions,
and B where a row of the table says so, are constants to everyone. Of several ways to compute a
case the fastest counts.
"""

from __future__ import annotations

import argparse
import ctypes
import tempfile
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ops_torch
from benchmarks.ops_channel import Prepare, Way, serve_cases
from benchmarks.ops_onnx import Model, channels_last, models
from benchmarks.ops_reference import Array
from benchmarks.ops_suite import Case


def onnxruntime(threads: int) -> Prepare:
    """ONNX Runtime's CPU provider, on memory bound beforehand."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3

    def way(model: Model) -> Way:
        session = ort.InferenceSession(model.data, settings, providers=["CPUExecutionProvider"])
        binding, kept = session.io_binding(), []
        for name, x in model.feeds.items():
            kept.append(ort.OrtValue.ortvalue_from_numpy(x))
            binding.bind_ortvalue_input(name, kept[-1])
        y = ort.OrtValue.ortvalue_from_numpy(np.zeros(model.shape, np.float32))
        binding.bind_ortvalue_output("Y", y)
        # what run_with_iobinding calls, less half a microsecond of Python
        call = partial(session._sess.run_with_iobinding, binding._iobinding, ort.RunOptions())
        return call, lambda: (kept, model.restore(y.numpy()))[1]

    def ways(case: Case, inputs: list[Array]) -> dict[str, Callable[[], Way]]:
        return {
            f"onnxruntime:{name}": partial(way, model)
            for name, model in models(case, inputs).items()
        }

    return ways


class _OpenVino:
    """OpenVINO through its C interface, whose calls cost less than those of its Python one."""

    FLOAT32 = 4

    def __init__(self, threads: int) -> None:
        import openvino

        self.python = openvino
        folder = Path(openvino.__file__).parent / "libs"
        self.library = ctypes.CDLL(str(next(folder.glob("libopenvino_c.so*"))))
        self.core = ctypes.c_void_p()
        self._do("ov_core_create", ctypes.byref(self.core))
        self.settings = {
            "INFERENCE_NUM_THREADS": str(threads),
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }

    def _do(self, name: str, *args: Any) -> None:
        status = getattr(self.library, name)(*args)
        if status:
            self.library.ov_get_error_info.restype = ctypes.c_char_p
            why = self.library.ov_get_error_info(status).decode()
            raise RuntimeError(f"{name}: {why} (status {status})")

    def _tensor(self, x: Array) -> ctypes.c_void_p:
        class Shape(ctypes.Structure):
            _fields_ = [("rank", ctypes.c_int64), ("dims", ctypes.POINTER(ctypes.c_int64))]

        shape, tensor = Shape(), ctypes.c_void_p()
        dims = (ctypes.c_int64 * x.ndim)(*x.shape)
        self._do("ov_shape_create", ctypes.c_int64(x.ndim), dims, ctypes.byref(shape))
        data = ctypes.c_void_p(x.ctypes.data)
        self._do("ov_tensor_create_from_host_ptr", self.FLOAT32, shape, data, ctypes.byref(tensor))
        return tensor

    def _compile(self, model: Any) -> ctypes.c_void_p:
        compiled = ctypes.c_void_p()
        options = [text.encode() for pair in self.settings.items() for text in pair]
        with tempfile.TemporaryDirectory(prefix="tilewright-openvino-") as folder:
            path = f"{folder}/model.xml"
            self.python.save_model(model, path, compress_to_fp16=False)
            self._do(
                "ov_core_compile_model_from_file",
                self.core, path.encode(), b"CPU", ctypes.c_size_t(len(options)),
                ctypes.byref(compiled), *options,
            )  # fmt: skip
        return compiled

    def _free(self, handles: Iterable[tuple[str, ctypes.c_void_p]]) -> None:
        for kind, handle in handles:
            getattr(self.library, f"ov_{kind}_free")(handle)

    def way(self, model: Model, last: bool) -> Way:
        """`last`: tensors outside have channels last; the plugin may then keep them so inside."""
        network = self.python.Core().read_model(model.data)
        feeds, shape = list(model.feeds.values()), model.shape
        if last:
            network = _with_channels_last(self.python, network, feeds[0].ndim)
            feeds = [channels_last(x) for x in feeds]
            shape = (shape[0], *shape[2:], shape[1])
        y = np.zeros(shape, np.float32)
        compiled, request = self._compile(network), ctypes.c_void_p()
        self._do("ov_compiled_model_create_infer_request", compiled, ctypes.byref(request))
        tensors = [("tensor", self._tensor(x)) for x in (*feeds, y)]
        for i, (_, tensor) in enumerate(tensors):
            side, at = ("input", i) if i < len(feeds) else ("output", 0)
            self._do(
                f"ov_infer_request_set_{side}_tensor_by_index", request, ctypes.c_size_t(at), tensor
            )

        def result() -> Array:
            assert len(feeds) == len(model.feeds)  # keeps the inputs' memory
            return model.restore(np.moveaxis(y, -1, 1) if last else y)

        handles = (("infer_request", request), ("compiled_model", compiled), *tensors)
        weakref.finalize(result, self._free, handles)
        infer = self.library.ov_infer_request_infer
        infer.argtypes = [ctypes.c_void_p]
        return partial(infer, request), result


def _with_channels_last(openvino: Any, network: Any, rank: int) -> Any:
    from openvino.preprocess import PrePostProcessor

    inside = {3: "NCL", 4: "NCHW", 5: "NCDHW"}[rank]
    layouts = inside[0] + inside[2:] + "C", inside
    steps = PrePostProcessor(network)
    for side in (steps.input(), steps.output()):
        side.tensor().set_layout(openvino.Layout(layouts[0]))
        side.model().set_layout(openvino.Layout(layouts[1]))
    return steps.build()


def openvino(threads: int) -> Prepare:
    """OpenVINO's CPU plugin in float32, on memory set beforehand."""
    own = _OpenVino(threads)

    def ways(case: Case, inputs: list[Array]) -> dict[str, Callable[[], Way]]:
        made: dict[str, Callable[[], Way]] = {}
        for name, model in models(case, inputs).items():
            made[f"openvino:{name}"] = partial(own.way, model, False)
            if model.spatial:
                made[f"openvino:{name}_last"] = partial(own.way, model, True)
        return made

    return ways


PEERS: dict[str, Callable[[int], Prepare]] = {
    "onnxruntime": onnxruntime,
    "torch": partial(ops_torch.prepare, "torch", False),
    "torch_last": partial(ops_torch.prepare, "torch_last", True),
    "openvino": openvino,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=list(PEERS))
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    serve_cases(PEERS[options.peer](options.threads))


if __name__ == "__main__":
    main()
