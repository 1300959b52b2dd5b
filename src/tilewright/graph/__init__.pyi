# Made by `python -m tools.make_stubs`.

from tilewright.graph.build import compile as compile
from tilewright.graph.ir import Graph as Graph
from tilewright.graph.ir import Node as Node
from tilewright.graph.ir import Value as Value
from tilewright.graph.onnx.load import load_onnx as load_onnx
from tilewright.graph.tasks import extract_tasks as extract_tasks
from tilewright.rt.network import Executable as Executable
