"""The predicates of sketch rules, on the operators that are searched for."""

import pytest

from tests.unit.auto_scheduler import computations as C
from tilewright import te, tir
from tilewright.auto_scheduler.access import (
    Access,
    const_tensor_indices,
    has_cross_thread_reduction,
    has_flag,
)
from tilewright.auto_scheduler.dag import ComputeDAG


def look(tensors):
    """Access over a computation, and its operations by name."""
    dag = ComputeDAG(tensors)
    return dag.access, C.by_name(dag)


TILED = [
    (C.matmul, "C"),
    (C.matmul_relu, "C"),
    (C.gram, "C"),
    (C.conv2d, "conv"),
    (C.conv2d_bn_relu, "conv"),
    (C.depthwise, "depthwise"),
    (C.group_conv, "group"),
    (C.transposed_conv, "transposed"),
    (C.capsule_conv, "capsule"),
    (C.norm, None),
    (C.softmax, None),
    (C.chain, None),
    (C.scan, None),
    (C.extern, None),
]


@pytest.mark.parametrize(("make", "tiled"), TILED, ids=[m.__name__ for m, _ in TILED])
def test_what_uses_data_again_is_tiled(make, tiled):
    access, ops = look(make())
    assert [n for n, op in ops.items() if access.needs_tiling(op)] == ([tiled] if tiled else [])


INLINED = [
    (C.matmul_relu, ["D"]),
    (C.conv2d_bn_relu, ["mul", "add", "relu"]),
    (C.conv2d, []),
    (C.transposed_conv, []),
    (C.norm, ["norm"]),
    (C.softmax, ["softmax"]),
    (C.chain, ["f0", "f1", "f2"]),
    (C.scan, ["init", "out"]),
    (C.extern, ["A", "out"]),
]


@pytest.mark.parametrize(("make", "names"), INLINED, ids=[m.__name__ for m, _ in INLINED])
def test_what_costs_nothing_to_repeat_is_strictly_inlineable(make, names):
    """Not padding (a branch), not exp, no reduction, nothing in a scan's step."""
    access, ops = look(make())
    assert [n for n, op in ops.items() if access.is_strictly_inlineable(op)] == names


X = te.placeholder((8, 8), name="X")
V = te.placeholder((8,), name="V")
READS = {
    # name: element, simple, strictly inlineable
    "same": (lambda i, j: X[i, j] + 1.0, True, True),
    "row": (lambda i, j: X[i, j] + V[j], True, True),
    "constant": (lambda i, j: X[i, 3] + X[2, j], True, True),
    "shift": (lambda i, j: X[i, j] + V[j - 1] + V[1 + j], True, True),
    "cheap": (lambda i, j: te.sqrt(X[i, j]) + te.floor(X[i, j]).astype("int32"), True, True),
    "nothing": (lambda i, j: (i + j).astype("float32"), True, True),
    "exp": (lambda i, j: te.exp(X[i, j]), True, False),
    "extern": (lambda i, j: tir.call_pure_extern("float32", "f", X[i, j]), True, False),
    "choice": (lambda i, j: te.if_then_else(X[i, j] > 0, X[i, j], 0.0), True, False),
    "select": (lambda i, j: tir.Select(X[i, j] > 0, X[i, j], 0.0), True, False),
    "turned": (lambda i, j: X[j, i], True, False),
    "diagonal": (lambda i, j: X[i, i] + 0.0, True, False),
    "step": (lambda i, j: X[i, j * 2 % 8], False, False),
    "mirror": (lambda i, j: X[i, 7 - j], False, False),
    "sum": (lambda i, j: V[i + j - 7], False, False),
    "gather": (lambda i, j: V[V[i].astype("int32")], False, False),
    "other": (lambda i, j: V[te.var("n")], False, False),
}


@pytest.mark.parametrize("name", READS)
def test_reads_one_by_one(name):
    element, simple, strict = READS[name]
    op = te.compute((8, 8), element, name="Y").op
    access = Access([X.op, V.op, op], [op])
    assert access.is_simple_access(op) == simple
    assert access.is_strictly_inlineable(op) == strict


def test_placeholders_have_no_predicates():
    access, ops = look(C.matmul())
    a = ops["A"]
    assert access.is_placeholder(a) and not access.is_compute(a) and not access.is_output(a)
    assert not access.is_simple_access(a) and not access.is_strictly_inlineable(a)
    assert not access.needs_tiling(a) and not access.needs_rfactor(a, 2)
    assert access.lengths(a) == (0, 0)


def test_an_axis_of_length_one_is_not_missed():
    """A matrix times a vector, written with a dimension of 1: nothing of the matrix is reused."""
    access, ops = look(C.matmul(16, 1, 16))
    assert access.needs_tiling(ops["C"])  # the vector is
    x = te.placeholder((16, 16), name="X")
    k = te.reduce_axis((0, 16), "k")
    y = te.compute((16, 1), lambda i, _: te.sum(x[i, k], axis=k), name="Y")
    access, ops = look([x, y])
    assert not access.needs_tiling(ops["Y"])


def test_two_inputs_without_a_reduction_are_reuse_and_one_is_not():
    a, b = te.placeholder((8,), name="a"), te.placeholder((8,), name="b")
    outer = te.compute((8, 8), lambda i, j: a[i] * b[j], name="outer")
    spread = te.compute((8, 8), lambda i, j: a[i] + 1.0, name="spread")
    both = te.compute((8, 8), lambda i, j: outer[i, j] * spread[i, j], name="both")
    access, ops = look([a, b, both])
    assert [n for n in ("outer", "spread", "both") if access.needs_tiling(ops[n])] == ["outer"]


@pytest.mark.parametrize(
    ("n", "m", "k", "cores", "wanted"),
    [
        (4, 4, 1024, 2, True),
        (4, 8, 32, 2, True),  # as many elements as steps, 16 a core
        (4, 8, 31, 2, False),
        (4, 9, 1024, 2, False),
        (4, 9, 1024, 3, True),
        (128, 128, 128, 64, False),
    ],
)
def test_rfactor_of_a_product(n, m, k, cores, wanted):
    access, ops = look(C.matmul(n, m, k))
    assert access.lengths(ops["C"]) == (n * m, k)
    assert access.needs_rfactor(ops["C"], cores) == wanted


def test_rfactor_of_other_reductions():
    access, ops = look(C.norm(1, 64))
    assert access.needs_rfactor(ops["S"], 2) and access.needs_rfactor(ops["S"], 4095)
    assert not access.needs_rfactor(ops["S"], 4096)
    assert not access.needs_rfactor(ops["norm"], 2)
    access, ops = look(C.softmax(8, 32))
    assert [n for n, op in ops.items() if access.needs_rfactor(op, 16)] == ["most", "total"]


def test_cross_thread_reduction():
    """Fewer elements than steps and than a block's threads; else more steps than a warp has."""
    access, ops = look(C.matmul(8, 8, 128))
    assert access.needs_cross_thread_reduction(ops["C"], 1024, 32)
    assert not access.needs_cross_thread_reduction(ops["C"], 63, 32)
    access, ops = look(C.matmul(8, 16, 128))
    assert not access.needs_cross_thread_reduction(ops["C"], 1024, 32)
    access, ops = look(C.softmax(8, 33))
    assert access.needs_cross_thread_reduction(ops["most"], 1024, 32)
    assert not access.needs_cross_thread_reduction(ops["exp"], 1024, 32)
    access, ops = look(C.softmax(8, 32))
    assert not access.needs_cross_thread_reduction(ops["most"], 1024, 32)


def test_a_bound_reduction_is_seen_on_the_stage():
    tensors = C.softmax(8, 64)
    s = te.create_schedule(tensors[-1].op)
    stage = next(x for x in s.stages if x.name == "most")
    _, inner = stage.split(stage.op.reduce_axis[0], factor=32)
    stage.bind(stage.op.axis[0], te.thread_axis("blockIdx.x"))
    assert not has_cross_thread_reduction(stage)
    stage.bind(inner, te.thread_axis("threadIdx.x"))
    assert has_cross_thread_reduction(stage)


def test_elementwise_match():
    access, ops = look(C.conv2d_bn_relu())
    assert access.elementwise_match(ops["conv"], ops["mul"])
    assert access.elementwise_match(ops["conv"], ops["relu"])
    assert access.elementwise_match(ops["relu"], ops["relu"])
    assert not access.elementwise_match(ops["pad"], ops["conv"])
    assert not access.elementwise_match(ops["relu"], ops["conv"])
    access, ops = look(C.softmax())
    assert not access.elementwise_match(ops["exp"], ops["softmax"])  # total reads it, too
    assert not access.elementwise_match(ops["total"], ops["softmax"])


@pytest.mark.parametrize(
    "element",
    [
        lambda c: lambda i, j: c[j, i],
        lambda c: lambda i, j: c[i, 0],
        lambda c: lambda i, j: c[i, i],
        lambda c: lambda i, j: c[i, te.max(j - 1, 0)],
        lambda c: lambda i, j: te.if_then_else(j > 0, c[i, j - 1], 0.0),
        lambda c: lambda i, j: c[i, j] + c[j, i],
    ],
)
def test_no_elementwise_match(element):
    a, b, c = C.matmul()
    d = te.compute((16, 16), element(c), name="D")
    access, ops = look([a, b, d])
    assert not access.elementwise_match(ops["C"], ops["D"])


def test_a_part_of_the_shape_is_no_elementwise_match():
    a, b, c = C.matmul()
    d = te.compute((16, 8), lambda i, j: c[i, j] + 1.0, name="D")
    access, ops = look([a, b, d])
    assert not access.elementwise_match(ops["C"], ops["D"])


def test_results_that_are_read_stay_results():
    a, b, c = C.matmul()
    d = te.compute((16, 16), lambda i, j: c[i, j] + 1.0, name="D")
    access, ops = look([a, b, c, d])
    assert access.is_output(ops["C"]) and access.is_output(ops["D"])
    assert not access.elementwise_match(ops["C"], ops["D"])
    access, ops = look([a, b, d])
    assert not access.is_output(ops["C"]) and access.elementwise_match(ops["C"], ops["D"])


def names(ops):
    return [op.name for op in ops]


def test_readers_and_sources_look_through_inlined_ones():
    dag = ComputeDAG(C.conv2d_bn_relu())
    ops = C.by_name(dag)
    plain = dag.access
    assert names(plain.get_consumers(ops["conv"])) == ["mul"]
    assert names(plain.get_producers(ops["relu"])) == ["add"]
    access = Access(dag.ops, dag.outputs, [ops["mul"], ops["add"], ops["pad"]])
    assert names(access.get_consumers(ops["conv"])) == ["relu"]
    assert set(names(access.get_producers(ops["relu"]))) == {"conv", "scale", "shift"}
    assert names(access.get_direct_producers(ops["relu"])) == ["add"]
    assert names(access.get_direct_consumers(ops["conv"])) == ["mul"]
    assert set(names(access.get_producers(ops["conv"]))) == {"X", "W"}
    assert names(access.get_consumers(ops["X"])) == ["conv"]
    assert access.get_consumers(ops["relu"]) == [] == access.get_producers(ops["X"])


def test_a_diamond_has_each_reader_once():
    x = te.placeholder((8,), name="X")
    a = te.compute((8,), lambda i: x[i] + 1.0, name="a")
    b, c = (te.compute((8,), lambda i, k=k: a[i] * k, name=n) for n, k in (("b", 2.0), ("c", 3.0)))
    d = te.compute((8,), lambda i: b[i] + c[i] + a[i], name="d")
    dag = ComputeDAG([x, d])
    ops = C.by_name(dag)
    access = Access(dag.ops, dag.outputs, [b.op, c.op])
    assert names(access.get_consumers(ops["a"])) == ["d"]
    assert names(access.get_producers(ops["d"])) == ["a"]
    assert not access.elementwise_match(ops["a"], ops["d"])
    assert dag.access.get_num_common_outer_iterator(ops["a"], ops["d"]) == 1


def test_common_outer_loops():
    access, ops = look(C.softmax())
    common = access.get_num_common_outer_iterator
    assert common(ops["exp"], ops["softmax"]) == 1  # through total only the rows
    assert common(ops["most"], ops["softmax"]) == 1
    assert common(ops["exp"], ops["total"]) == 1
    assert common(ops["softmax"], ops["most"]) == 0
    access, ops = look(C.chain(3))
    assert access.get_num_common_outer_iterator(ops["f0"], ops["f2"]) == 2
    access, ops = look(C.conv2d())
    assert access.get_num_common_outer_iterator(ops["pad"], ops["conv"]) == 1
    access, ops = look(C.matmul_relu())
    assert access.get_num_common_outer_iterator(ops["C"], ops["D"]) == 2
    access, ops = look(C.extern())
    assert access.get_num_common_outer_iterator(ops["A"], ops["out"]) == 0


def test_many_ways_through_a_graph_are_walked_once():
    x = te.placeholder((4,), name="X")
    tensor = te.compute((4,), lambda i: x[i] + 1.0, name="first")
    for n in range(60):
        a = te.compute((4,), lambda i, t=tensor: t[i] * 2.0, name=f"a{n}")
        b = te.compute((4,), lambda i, t=tensor: t[i] * 3.0, name=f"b{n}")
        tensor = te.compute((4,), lambda i, a=a, b=b: a[i] + b[i], name=f"c{n}")
    dag = ComputeDAG([x, tensor])
    ops = C.by_name(dag)
    assert dag.access.get_num_common_outer_iterator(ops["first"], ops["c59"]) == 1
    inner = [op for op in dag.ops if op.name[0] in "abc" and op is not tensor.op]
    access = Access(dag.ops, dag.outputs, inner)
    assert names(access.get_consumers(ops["first"])) == ["c59"]


def test_steps_of_a_scan_are_left_alone():
    access, ops = look(C.scan())
    assert [n for n, op in ops.items() if access.is_compute(op)] == ["init", "out"]
    assert not access.is_strictly_inlineable(ops["update"])
    assert names(access.get_consumers(ops["scan"])) == ["out"]
    assert not access.elementwise_match(ops["scan"], ops["out"])


def test_externs_are_opaque():
    access, ops = look(C.extern())
    assert not access.is_compute(ops["E"]) and not access.is_output(ops["E"])
    assert not access.elementwise_match(ops["A"], ops["E"])
    assert names(access.get_consumers(ops["A"])) == ["E"]


def test_several_results():
    x = te.placeholder((8, 16), name="X")
    k = te.reduce_axis((0, 16), "k")
    pick = te.comm_reducer(
        lambda a, b: (
            tir.Select(a[1] >= b[1], a[0], b[0]),
            tir.Select(a[1] >= b[1], a[1], b[1]),
        ),
        lambda t0, t1: (tir.const(-1, t0), tir.const(-1e9, t1)),
        name="pick",
    )
    index, value = te.compute((8,), lambda i: pick((k, x[i, k]), axis=k), name="best")
    out = te.compute((8,), lambda i: value[i] * 2.0, name="out")
    access, ops = look([x, index, out])
    assert access.is_output(ops["best"]) and not access.needs_tiling(ops["best"])
    assert access.needs_rfactor(ops["best"], 2) and not access.is_strictly_inlineable(ops["best"])
    assert names(access.get_consumers(ops["best"])) == ["out"]


def test_operations_put_in_by_primitives():
    """After cache_write the copy is the fusible reader; after rfactor the parts are rows."""
    _, _, c = C.matmul(8, 8, 512)
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    access = Access([x.op for x in s.stages], s.outputs)
    assert access.needs_tiling(s[local].op) and not access.needs_tiling(s[c].op)
    assert access.elementwise_match(s[local].op, s[c].op)
    _, _, c = C.matmul(2, 2, 512)
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.reduce_axis[0], factor=32)
    part = s.rfactor(c, outer, 2)
    access = Access([x.op for x in s.stages], s.outputs)
    assert access.lengths(s[part].op) == (2 * 2 * 16, 32)
    assert access.lengths(s[c].op) == (4, 16)
    assert access.needs_tiling(s[part].op) and not access.needs_tiling(s[c].op)


def test_attributes():
    y = te.compute(
        (4, 4),
        lambda a, b: X[a, b] + 1.0,
        name="Y",
        attrs={
            "auto_scheduler_simplify_const_tensor_indices": ["a", "b"],
            "auto_scheduler_always_unroll_inner": True,
            "off": 0,
        },
    )
    assert const_tensor_indices(y.op) == ("a", "b")
    assert has_flag(y.op, "auto_scheduler_always_unroll_inner")
    assert not has_flag(y.op, "off") and not has_flag(y.op, "missing")
    one = te.compute(
        (4,), lambda a: V[a], attrs={"auto_scheduler_simplify_const_tensor_indices": "a"}
    )
    assert const_tensor_indices(one.op) == ("a",)
    assert const_tensor_indices(X.op) == ()
