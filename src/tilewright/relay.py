"""`tvm.relay`: not part of this project; importing it says what to use instead."""

raise ImportError(
    "Relay's graphs are not part of tilewright: compile a model with "
    "tilewright.compile('model.onnx') or tilewright.from_torch(module), or write kernels with "
    "te and topi"
)
