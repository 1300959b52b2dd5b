"""`tvm.parser`: not part of this project; importing it says what to use instead."""

raise ImportError(
    "Relay's text format is not part of tilewright: give models as ONNX or PyTorch modules"
)
