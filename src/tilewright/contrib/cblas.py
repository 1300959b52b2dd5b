"""`tvm.contrib.cblas`: matrix products by the BLAS that NumPy was built with."""

from __future__ import annotations

from .products import product as product
from .products import products

matmul, batch_matmul = products("tvm.contrib.cblas")
