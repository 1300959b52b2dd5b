"""`tvm.tir.buffer`: buffers."""

from ..loopir.buffer import *  # noqa: F403
