"""Networks quantised by ONNX Runtime's tools, in several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]

WAYS: dict[str, dict[str, Any]] = {
    "uint8 x int8": {"data": "QUInt8", "weights": "QInt8"},
    "uint8 x int8, per channel": {"data": "QUInt8", "weights": "QInt8", "per_channel": True},
    "uint8 x uint8": {"data": "QUInt8", "weights": "QUInt8"},
    "int8 x int8, symmetric": {"data": "QInt8", "weights": "QInt8", "symmetric": True},
    "int8 x int8, per channel": {"data": "QInt8", "weights": "QInt8", "per_channel": True},
    "dynamic, int8": {"weights": "QInt8", "dynamic": True},
    "dynamic, uint8": {"weights": "QUInt8", "dynamic": True},
}
"""Types of data and weights; with one scale for all weights, or one for each channel."""


def quantised(source: Path, path: Path, way: Mapping[str, Any], draws: Sequence[Arrays]) -> None:
    """Write a network quantised, with the ranges of `draws`."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )

    weights = getattr(QuantType, way["weights"])
    if "dynamic" in way:
        quantize_dynamic(source, path, weight_type=weights)
        return

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(draws)

        def get_next(self) -> Arrays | None:
            return next(self.rest, None)

    even = way.get("symmetric", False)
    quantize_static(
        source,
        path,
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=way.get("per_channel", False),
        activation_type=getattr(QuantType, way["data"]),
        weight_type=weights,
        extra_options={"ActivationSymmetric": even, "WeightSymmetric": way["weights"] == "QInt8"},
    )
