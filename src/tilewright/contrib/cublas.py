"""`tvm.contrib.cublas`: cuBLAS is not called; its functions say what to use."""

from .libraries import refusal

_INSTEAD = "write the product with topi.matmul and schedule it for cuda (docs/gpu.md)"

matmul = refusal("matmul", "cuBLAS", _INSTEAD)
batch_matmul = refusal("batch_matmul", "cuBLAS", _INSTEAD)
