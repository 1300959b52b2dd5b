"""Small things that programs written for TVM ask of expressions, buffers and targets."""

import pickle

import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import OperandError


def test_text_is_no_number():
    with pytest.raises(OperandError, match="Can't cast a handle to other types: 's' is text"):
        tir.StringImm("s").astype("int32")


def test_reductions_take_numbers():
    left, right = te.var("l"), te.var("r")
    reducer = tir.CommReducer([left], [right], [left + right], [tir.const(0)])
    axis = te.reduce_axis((0, 3))
    made = tir.Reduce(reducer, [1], [axis], tir.const(1, "bool"), 0, [2])
    assert made.dtype == "int32" and int(made.source[0]) == 1 and int(made.init[0]) == 2


@pytest.mark.parametrize(
    ("options", "sizes"),
    [({}, [24]), ({"axis_separators": [1]}, [2, 12]), ({"strides": [20, 5, 1]}, [40])],
)
def test_flattened_buffers(options, sizes):
    b = tir.decl_buffer((2, 3, 4), "float16", "b", **options)
    flat = b.get_flattened_buffer()
    analyzer = tvm.arith.Analyzer()
    assert [int(analyzer.simplify(d)) for d in flat.shape] == sizes
    assert flat.data is b.data and flat.dtype == "float16" and not flat.strides


def test_classes_group_expressions():
    x = te.var("x")
    groups = tir.expr
    assert isinstance(tir.const(1), groups.ConstExpr) and not isinstance(x, groups.ConstExpr)
    assert isinstance(x + 1, groups.BinaryOpExpr) and isinstance(x < 1, groups.CmpExpr)
    assert isinstance(tir.all(x < 1, x > 0), groups.LogicalExpr)
    assert isinstance(x, groups.ExprOp) and issubclass(tir.IntImm, groups.ConstExpr)


def test_targets_by_name():
    list_tags = tvm.target.list_tags()
    assert list_tags["nvidia/jetson-nano"].attrs["arch"] == "sm_53"
    assert tvm.target.Target("nvidia/geforce-rtx-3090").arch == "sm_86"
    board = tvm.target.Target("raspberry-pi/4b-aarch64")
    assert board.host is not None and board.cpu == "cortex-a72"
    more = tvm.target.Target({"tag": "nvidia/nvidia-a100", "l2_cache_size_bytes": 12345})
    assert more.arch == "sm_80" and more.attrs["l2_cache_size_bytes"] == 12345
    assert tvm.target.arm_cpu("rasp4b64").mcpu == "cortex-a72"
    assert tvm.target.mali().keys[:2] == ["mali", "opencl"]
    with pytest.warns(UserWarning, match="deprecated"):
        assert tvm.target.create("llvm").kind.name == "llvm"
    with pytest.raises(tvm.TVMError, match="previously defined"):
        tvm.target.register_tag("nvidia/nvidia-a100", {"kind": "llvm"})
    with pytest.raises(tvm.TVMError, match="no target tag"):
        tvm.target.Target({"tag": "nobody/nothing"})
    assert pickle.loads(pickle.dumps(board)) == board
    assert "mcpu" in tvm.target.TargetKind.options_from_name("llvm")


def test_functions_for_targets():
    @tvm.target.generic_func
    def scale(x):
        return x

    @scale.register("gpu")
    def gpu(x):
        return x * 10

    scale.register(["rocm", "cuda"], lambda x: x * 100)
    assert scale(2) == 2 and scale.fdefault(3) == 3
    with tvm.target.Target("opencl"):
        assert scale(2) == 20
    with tvm.target.cuda():
        assert scale(2) == 200
    with tvm.target.rocm():
        assert scale(2) == 200
    with pytest.raises(tvm.TVMError, match="is registered"):
        scale.register("gpu", gpu)
    scale.register("gpu", lambda x: -x, override=True)
    with tvm.target.Target("opencl"):
        assert scale(2) == -2

    @tvm.target.override_native_generic_func("test.vocabulary")
    def native(x):
        return x + 1

    tvm.target.get_native_generic_func("test.vocabulary").register(lambda x: x + 2, ["llvm", "cpu"])
    with tvm.target.Target("llvm"):
        assert native(1) == 3
    assert native(1) == 2


def test_facts_about_cpus():
    facts = tvm.target.codegen
    skylake = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
    assert facts.target_has_features(["avx512f", "avx2"], skylake)
    assert not facts.llvm_cpu_has_features(
        "avx512f", "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
    )
    with tvm.target.Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"):
        assert "neon" in facts.llvm_get_cpu_features()
        assert facts.llvm_get_vector_width() == 128
    assert facts.llvm_get_system_cpu() and "-" in facts.llvm_get_system_triple()
    with pytest.raises(tvm.TVMError, match="not for cuda"):
        facts.llvm_get_vector_width("cuda")
