"""A small writer of ONNX graphs for convolutional networks, with weights from NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 13
IR_VERSION = 8

Array = NDArray[np.float32]
Dim = int | str


class GraphWriter:
    """Appends nodes to a graph with one float32 input; methods return the name of the output."""

    def __init__(self, name: str, input_name: str, input_shape: Sequence[Dim]) -> None:
        """Start a graph whose input ``input_name`` has the shape ``input_shape`` (N, C, H, W)."""
        self.name = name
        self.input = helper.make_tensor_value_info(input_name, TensorProto.FLOAT, list(input_shape))
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def weight(self, name: str, value: NDArray[np.generic]) -> str:
        """Add an initializer and return its name."""
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Append a node with one output, which names the node as well."""
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=output, **attributes))
        return output

    def conv(
        self,
        x: str,
        output: str,
        weight: Array,
        bias: Array | None = None,
        *,
        stride: int = 1,
        pad: int | tuple[int, int, int, int] = 0,
        group: int = 1,
    ) -> str:
        """2-D convolution with weights (out, in / group, kh, kw).

        ``pad`` is one number or top, left, bottom, right.
        """
        inputs = [x, self.weight(f"{output}.weight", weight)]
        if bias is not None:
            inputs.append(self.weight(f"{output}.bias", bias))
        return self.node(
            "Conv",
            inputs,
            output,
            kernel_shape=list(weight.shape[2:]),
            strides=[stride, stride],
            pads=[pad] * 4 if isinstance(pad, int) else list(pad),
            dilations=[1, 1],
            group=group,
        )

    def batch_norm(
        self, x: str, output: str, gamma: Array, beta: Array, mean: Array, var: Array
    ) -> str:
        """Batch normalisation with stored statistics (inference form), epsilon 1e-5."""
        parts = {"weight": gamma, "bias": beta, "running_mean": mean, "running_var": var}
        inputs = [x] + [self.weight(f"{output}.{key}", value) for key, value in parts.items()]
        return self.node("BatchNormalization", inputs, output, epsilon=1e-5)

    def relu(self, x: str, output: str) -> str:
        """max(x, 0)."""
        return self.node("Relu", [x], output)

    def pool(
        self,
        op: str,
        x: str,
        output: str,
        kernel: int,
        stride: int,
        pad: int = 0,
        ceil: bool = False,
    ) -> str:
        """``MaxPool`` or ``AveragePool`` with a square window; ``ceil`` rounds the extent up."""
        return self.node(
            op,
            [x],
            output,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            ceil_mode=int(ceil),
        )

    def linear(self, x: str, output: str, weight: Array, bias: Array) -> str:
        """x @ weight.T + bias with weights (out, in), as one ``Gemm`` node."""
        inputs = [x, self.weight(f"{output}.weight", weight), self.weight(f"{output}.bias", bias)]
        return self.node("Gemm", inputs, output, alpha=1.0, beta=1.0, transA=0, transB=1)

    def model(self, result: str, shape: Sequence[Dim]) -> onnx.ModelProto:
        """Close the graph with the output ``result`` of the given shape; checked by onnx."""
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, list(shape))
        graph = helper.make_graph(
            self.nodes, self.name, [self.input], [output], initializer=self.initializers
        )
        model = helper.make_model(
            graph,
            producer_name="tilewright-tools",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        onnx.checker.check_model(model)
        return model
