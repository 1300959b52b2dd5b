"""`tvm.ir.attrs`: values by name."""

from ..loopir.attrs import Attrs as Attrs
from ..loopir.attrs import DictAttrs as DictAttrs
from ..loopir.attrs import make_node as make_node
