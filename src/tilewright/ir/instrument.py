"""`tvm.ir.instrument`: what watches passes."""

from ..instrument import *  # noqa: F403
