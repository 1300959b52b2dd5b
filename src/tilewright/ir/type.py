"""`tvm.ir.type`: types."""

from ..loopir.attrs import FuncType as FuncType
from ..loopir.attrs import TupleType as TupleType
from ..loopir.types import PointerType as PointerType
from ..loopir.types import PrimType as PrimType
from ..loopir.types import Type as Type
