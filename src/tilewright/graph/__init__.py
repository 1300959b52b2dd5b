"""Networks: import, passes, compilation, execution.

from tilewright import graph
net = graph.compile(graph.load_onnx("model.onnx"), target="llvm")
outputs = net.run({"input": images})
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "graph.onnx.load": "load_onnx",
        "graph.build": "compile",
        "graph.tasks": "extract_tasks",
        "rt.network": "Executable",
        "graph.ir": "Graph Node Value",
    },
)
