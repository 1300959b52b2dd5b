"""`tvm.contrib.rocblas`: rocBLAS is not called; its functions say what to use."""

from .libraries import refusal

_INSTEAD = "write the product with topi.matmul; its devices are cuda and opencl"

matmul = refusal("matmul", "rocBLAS", _INSTEAD)
batch_matmul = refusal("batch_matmul", "rocBLAS", _INSTEAD)
