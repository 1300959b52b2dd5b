"""`tvm.tir.op`: builders of operations."""

from ..loopir.op import *  # noqa: F403
