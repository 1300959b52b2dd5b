"""`tvm.runtime.module`: compiled modules."""

from ..rt.module import Module as Module
from ..rt.module import load_module as load_module
from ..rt.timing import BenchmarkResult as BenchmarkResult
