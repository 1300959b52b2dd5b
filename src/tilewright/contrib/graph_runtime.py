"""`tvm.contrib.graph_runtime`: the older name of graph_executor."""

from .graph_executor import GraphModule as GraphModule
from .graph_executor import create as create
