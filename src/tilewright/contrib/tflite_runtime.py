"""`tvm.contrib.tflite_runtime`: models run here as ONNX or PyTorch models."""

from .libraries import refusal

create = refusal("create", "TFLite", "convert the model to ONNX, then tilewright.compile")
