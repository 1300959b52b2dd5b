"""contrib.graph_executor over a compiled network: inputs set, run, outputs read."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright as tvm
from tilewright.base.errors import UsageError
from tilewright.contrib import graph_executor, graph_runtime
from tilewright.contrib.debugger import debug_executor


@pytest.fixture(scope="module")
def network():
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xyz"]
    nodes = [helper.make_node("Mul", ["x", "x"], ["s"]), helper.make_node("Add", ["s", "y"], ["z"])]
    graph = helper.make_graph(nodes, "small", ports[:2], ports[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return tvm.compile(model)


def test_inputs_and_outputs(network):
    module = graph_executor.GraphModule(network)
    assert module.get_num_inputs() == 2 and module.get_num_outputs() == 1
    assert module.get_input_index("y") == 1 and module.get_input_index("w") == -1
    assert module.get_input_info() == ({"x": (2, 3), "y": (2, 3)}, dict.fromkeys("xy", "float32"))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    module.set_input("x", x)
    module.set_input(1, tvm.nd.array(x + 1))
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), x * x + x + 1)
    module.run(y=np.zeros((2, 3), "float32"), weights=None)
    out = tvm.nd.empty((2, 3))
    np.testing.assert_array_equal(module.get_output(0, out).numpy(), x * x)
    np.testing.assert_array_equal(module["get_input"]("x").numpy(), x)
    times = module.benchmark(tvm.cpu(), repeat=2, number=3, end_to_end=True, x=x)
    assert len(times.results) == 2 and times.mean > 0


def test_what_has_no_counterpart_says_so(network):
    module = graph_runtime.create(None, network, tvm.cpu())
    with pytest.raises(UsageError, match="comes after run"):
        module.get_output(0)
    with pytest.raises(UsageError, match="Could not find 'w' in graph's inputs; it has: x, y"):
        module.set_input("w", np.zeros(1))
    with pytest.raises(UsageError, match=r"tilewright\.compile"):
        graph_executor.create("{}", network, tvm.cpu())
    with pytest.raises(UsageError, match="GraphModule takes a network"):
        graph_executor.GraphModule({})
    with pytest.raises(UsageError, match="part of a compiled network"):
        module.load_params(b"")
    with pytest.raises(UsageError, match="no function 'nothing'"):
        module["nothing"]


def test_times_by_kernel(network):
    module = debug_executor.create(None, network, tvm.cpu())
    found = module.profile(x=np.ones((2, 3), "float32"))
    assert found and all(seconds > 0 for _, seconds in found)
