"""`tvm.runtime.container`: text, shapes, sequences and maps."""

from ..loopir.sequences import Array as Array
from ..loopir.sequences import Map as Map
from ..rt.values import ADT as ADT
from ..rt.values import ShapeTuple as ShapeTuple
from ..rt.values import String as String
from ..rt.values import tuple_object as tuple_object
