"""`tvm.contrib.coreml_runtime`: models run here as ONNX or PyTorch models."""

from .libraries import refusal

create = refusal("create", "Core ML", "convert the model to ONNX, then tilewright.compile")
