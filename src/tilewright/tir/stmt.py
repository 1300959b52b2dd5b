"""`tvm.tir.stmt`: the statements."""

from ..loopir.stmt import *  # noqa: F403
