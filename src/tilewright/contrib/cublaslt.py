"""`tvm.contrib.cublaslt`: cuBLASLt is not called; its functions say what to use."""

from .libraries import refusal

_INSTEAD = "write the product with topi.matmul and schedule it for cuda (docs/gpu.md)"

matmul = refusal("matmul", "cuBLASLt", _INSTEAD)
