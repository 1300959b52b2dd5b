"""What commands read from their options and files: NAME=VALUE, shapes, arrays."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import ImportModelError, TilewrightError
from ..base.files import open_file
from ..graph.ir import Graph
from ..graph.onnx.load import load_tensor
from ..rt.files import require_writable, write_atomically
from ..rt.network import Executable
from ..rt.plan import Described, checked_inputs

Array = np.ndarray[Any, Any]
SEED = 0


@dataclass(frozen=True)
class Signature:
    """What goes into a model and comes out, whether it is compiled yet or not.

    `objects`: inputs that are no tensors; `shape`: that of the first output, None where it is not
    known before the model runs.
    """

    name: str
    inputs: Sequence[Described]
    objects: Sequence[str]
    outputs: Sequence[str]
    shape: tuple[int, ...] | None

    @staticmethod
    def of(model: Graph | Executable | None) -> Signature:
        """Of a graph, or of a saved network."""
        assert model is not None
        if isinstance(model, Graph):
            inputs, outputs = model.signature
            rest = model.rest
            shape = model.outputs[0].shape if rest is None else None
            return Signature(model.name, inputs, rest.objects if rest else (), outputs, shape)
        return Signature(model.name, model.inputs, (), model.output_names, model.outputs[0].shape)


def pairs_of(option: str, texts: Sequence[str]) -> dict[str, str]:
    """The values of an option that is given as NAME=VALUE, once for each name."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise TilewrightError(f"{option}: expected NAME=VALUE, got {text!r}")
        if name in found:
            raise TilewrightError(f"{option}: {name!r} is given twice")
        found[name] = value
    return found


def shape_of(text: str) -> tuple[int, ...]:
    """A shape, as 1,3,224,224."""
    try:
        return tuple(int(d) for d in text.split(","))
    except ValueError:
        raise TilewrightError(
            f"--shape: a shape is numbers with commas between, got {text!r}"
        ) from None


def shapes_of(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of --shape, by the names of inputs."""
    return {name: shape_of(text) for name, text in pairs_of("--shape", texts).items()}


def input_data(
    signature: Signature, files: Mapping[str, str]
) -> tuple[dict[str, Array], list[str]]:
    """Arrays for all inputs without a default, and the names of those that are random."""
    if signature.objects:
        raise TilewrightError(
            f"inputs {', '.join(signature.objects)} are text or sequences, which no file of this "
            "command holds: run the model from Python, graph.compile(graph.load_onnx(model))"
        )
    known = {v.name for v in signature.inputs}
    unknown = sorted(set(files) - known)
    if unknown:
        raise TilewrightError(
            f"--input: the model has no input {unknown[0]!r}; it has: {', '.join(sorted(known))}"
        )
    generator = np.random.default_rng(SEED)
    arrays: dict[str, Array] = {}
    random = []
    for v in signature.inputs:
        if v.name in files:
            arrays[v.name] = load_array(files[v.name])
            continue
        if v.default is not None:
            continue
        random.append(v.name)
        dtype = parse(v.dtype)
        if dtype.is_float:
            arrays[v.name] = generator.standard_normal(v.shape).astype(dtype.numpy)
        else:
            arrays[v.name] = generator.integers(0, 2, v.shape).astype(dtype.numpy)
    checked_inputs(signature.name, signature.inputs, arrays)
    return arrays, random


def output_files(signature: Signature, texts: Sequence[str]) -> dict[str, str]:
    """Where --output wants outputs to be saved, by their names; each can be written."""
    files = pairs_of("--output", texts)
    unknown = sorted(set(files) - {*signature.outputs})
    if unknown:
        known = ", ".join(signature.outputs)
        raise TilewrightError(f"--output: the model has no output {unknown[0]!r}; it has: {known}")
    for path in files.values():
        require_writable(path)
    return files


def load_array(path: str) -> Array:
    """The array in a .npy file, or in an ONNX TensorProto (.pb)."""
    if Path(path).suffix == ".pb":
        return load_tensor(path)
    try:
        open_file(path).close()
        # mapped, so that no memory is taken for elements that the file does not have
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(array, np.ndarray):
            return np.array(array)
    except Exception as error:  # of a damaged header NumPy's parser raises whatever it meets
        why = "it is no .npy or .pb file" if "pickle" in str(error) else error
        raise ImportModelError(f"cannot read an array from {path}: {why}") from None
    array.close()
    raise ImportModelError(f"{path} holds several arrays; give a .npy file with one")


def expected_array(path: str, signature: Signature) -> Array:
    """The array of --check, which must fit the first output."""
    array = load_array(path)
    shape = signature.shape
    if shape is not None and array.shape != shape:
        raise TilewrightError(f"--check: {path} has shape {array.shape}, the output has {shape}")
    if array.dtype.kind not in "biuf":
        raise TilewrightError(f"--check: {path} holds {array.dtype}, which are no numbers")
    return array


def save_array(path: str, array: Array) -> None:
    """Write a .npy file, whole or not at all."""
    data = io.BytesIO()
    np.save(data, array)
    write_atomically(path, data.getvalue())


def compare(actual: Array, expected: Array, rtol: float) -> dict[str, Any]:
    """How far an output is from what is expected, relative to the largest expected value.

    Infinities and NaNs must stand where they are expected; where they do not, or shapes differ,
    the worst error is None.
    """
    if actual.shape != expected.shape:
        return {"ok": False, "worst_error": None, "rtol": rtol}
    wide, reference = actual.astype(np.float64), expected.astype(np.float64)
    same = (wide == reference) | (np.isnan(wide) & np.isnan(reference))
    with np.errstate(invalid="ignore"):
        differences = np.where(same, 0.0, np.abs(wide - reference))
    finite = np.abs(reference[np.isfinite(reference)])
    scale = float(finite.max()) if finite.size else 0.0
    error = float(differences.max()) if differences.size else 0.0
    worst = error / scale if scale else error
    known = worst if np.isfinite(worst) else None
    return {"ok": bool(worst <= rtol), "worst_error": known, "rtol": rtol}
