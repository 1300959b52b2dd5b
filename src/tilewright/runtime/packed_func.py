"""`tvm.runtime.packed_func`: what can be called."""

from ..rt.module import PackedFunc as PackedFunc
