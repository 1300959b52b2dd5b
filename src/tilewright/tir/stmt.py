"""`tvm.tir.stmt`: the statements."""

from ..loopir.blocks import Block as Block
from ..loopir.blocks import BlockRealize as BlockRealize
from ..loopir.blocks import MatchBufferRegion as MatchBufferRegion
from ..loopir.buffer import BufferRegion as BufferRegion
from ..loopir.realize import *  # noqa: F403
from ..loopir.stmt import *  # noqa: F403
