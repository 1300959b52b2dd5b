"""`tvm.runtime.object`: what all objects derive from."""

from ..loopir.node import Object as Object
