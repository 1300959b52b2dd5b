"""`tvm.ir.container`: sequences are tuples and maps are dicts here."""

from ..loopir.sequences import Array as Array
from ..loopir.sequences import Map as Map

__all__ = ["Array", "Map"]
