"""`tvm.contrib.dnnl`: matrix products by the BLAS that NumPy was built with."""

from __future__ import annotations

from .products import products

matmul, _ = products("tvm.contrib.dnnl")
