"""`tvm.micro`: not part of this project; importing it says what to use instead."""

raise ImportError(
    "microTVM is not part of tilewright: `tilewright compile` writes a model as C for any compiler"
)
