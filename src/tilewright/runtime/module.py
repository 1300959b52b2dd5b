"""`tvm.runtime.module`: compiled modules."""

from ..rt.load import load_module as load_module
from ..rt.module import Module as Module
from ..rt.timing import BenchmarkResult as BenchmarkResult
