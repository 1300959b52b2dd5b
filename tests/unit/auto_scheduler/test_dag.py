"""ComputeDAG: order, results, counts, hashes, and what it refuses."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.auto_scheduler import computations as C
from tilewright import te, tir
from tilewright.auto_scheduler.dag import ComputeDAG
from tilewright.base.errors import TilewrightError


def names(ops):
    return [op.name for op in ops]


ORDERS: list[tuple[Callable[[], list[te.Tensor]], str]] = [
    (C.matmul, "A B C"),
    (C.matmul_relu, "A B C D"),
    (C.conv2d, "X pad W conv"),
    (C.conv2d_bn_relu, "X pad W conv scale mul shift add relu"),
    (C.depthwise, "X pad W depthwise"),
    (C.softmax, "X most exp total softmax"),
    (C.norm, "X S norm"),
    (C.capsule_conv, "X pad W capsule"),
    (C.extern, "X A E out"),
]


@pytest.mark.parametrize(("make", "order"), ORDERS, ids=[m.__name__ for m, _ in ORDERS])
def test_operations_stand_in_the_order_of_record_lines(make, order):
    """Stage numbers in records count on it: TVM's order of the same computation."""
    assert names(ComputeDAG(make()).ops) == order.split()


def test_a_step_of_a_product_with_an_added_matrix():
    """TVM's tutorial prints this one as A, B, matmul, C, out."""
    a, b, product = C.matmul()
    c = te.placeholder((16, 16), name="addend")
    out = te.compute((16, 16), lambda i, j: product[i, j] + c[i, j], name="out")
    dag = ComputeDAG([a, b, c, out])
    assert names(dag.ops) == ["A", "B", "C", "addend", "out"]
    assert dag.tensors == [a, b, c, out] and dag.outputs == [out.op]
    assert str(dag) == (
        "A = PLACEHOLDER [16, 16]\n"
        "B = PLACEHOLDER [16, 16]\n"
        "C(i, j) += A[i, k] * B[k, j]\n"
        "addend = PLACEHOLDER [16, 16]\n"
        "out(i, j) = C[i, j] + addend[i, j]\n"
    )


def test_every_operation_stands_behind_those_it_reads():
    for make, _ in ORDERS:
        done: set[te.Operation] = set()
        for op in ComputeDAG(make()).ops:
            assert all(t.op in done for t in op.input_tensors)
            done.add(op)


def test_results_in_the_order_of_the_arguments():
    x = te.placeholder((8,), name="X")
    first = te.compute((8,), lambda i: x[i] + 1.0, name="first")
    second = te.compute((8,), lambda i: first[i] * 2.0, name="second")
    dag = ComputeDAG([second, x, first])
    assert dag.outputs == [second.op, first.op]
    assert names(dag.ops) == ["X", "first", "second"]
    s = te.create_schedule(dag.outputs)
    assert s[first].is_output and s[second].is_output


def test_several_values_of_one_operation():
    x = te.placeholder((8,), name="X")
    a, b = te.compute((8,), lambda i: (x[i] + 1.0, x[i] * 2.0), name="both")
    dag = ComputeDAG([x, a, b])
    assert dag.outputs == [a.op] and dag.flop_ct == 16.0
    assert dag.hash_key() != ComputeDAG([x, b, a]).hash_key()


def test_an_argument_that_nothing_reads_is_no_stage():
    x, y = te.placeholder((8,), name="X"), te.placeholder((8,), name="Y")
    z = te.compute((8,), lambda i: x[i] + 1.0, name="Z")
    dag = ComputeDAG([x, y, z])
    assert names(dag.ops) == ["X", "Z"] and dag.tensors == [x, y, z]


def test_a_schedule_gives_the_computations_of_its_stages():
    a, b, c = C.matmul()
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=4)
    assert ComputeDAG(s).tensors == [a, b, c]
    assert ComputeDAG(s).hash_key() == ComputeDAG([a, b, c]).hash_key()
    local = s.cache_write(c, "local")
    s.cache_read(a, "shared", [local])
    dag = ComputeDAG(s)
    assert names(dag.ops) == ["A", "A.shared", "B", "C.local", "C"]
    assert [t.name for t in dag.tensors] == ["A", "B", "C"]
    assert [st.op.name for st in dag.init_state.stages] == names(dag.ops)
    scan = C.scan()
    assert ComputeDAG(te.create_schedule(scan[-1].op)).tensors == scan


FLOPS = [
    (C.matmul(8, 4, 16), 2 * 8 * 4 * 16),
    (C.conv2d(8, 4, 6), 2 * 8 * 8 * 6 * 4 * 9),
    (C.depthwise(8, 4), 2 * 8 * 8 * 4 * 9),
    (C.norm(1, 64), 2 * 64 * 64 + 1),
    (C.chain(3, 8), 3 * 64),
    (C.extern(), 64 + 64),
    (C.extern(FLOP=1000), 64 + 1000 + 64),
    (C.scan(8, 4), 2 * 32 + 32),
]


@pytest.mark.parametrize(("tensors", "flop"), FLOPS)
def test_operations_are_counted(tensors, flop):
    assert ComputeDAG(tensors).flop_ct == float(flop)


def test_the_hash_is_that_of_the_structure():
    key = ComputeDAG(C.matmul_relu()).hash_key()
    assert len(key) == 32 and int(key, 16) >= 0
    assert ComputeDAG(C.matmul_relu()).hash_key() == key
    a, b = te.placeholder((16, 16), name="left"), te.placeholder((16, 16), name="right")
    r = te.reduce_axis((0, 16), "r")
    p = te.compute((16, 16), lambda y, x: te.sum(a[y, r] * b[r, x], axis=r), name="product")
    out = te.compute((16, 16), lambda y, x: te.max(p[y, x], 0.0), name="positive")
    assert ComputeDAG([a, b, out]).hash_key() == key, "names do not count"
    assert ComputeDAG([b, a, out]).hash_key() != key, "the order of arguments does"


ELEMENTS = [
    lambda a, b, i, j, k: a[i, k] + b[k, j],
    lambda a, b, i, j, k: b[k, j] * a[i, k],
    lambda a, b, i, j, k: a[i, k] * b[j, k],
    lambda a, b, i, j, k: a[i, k] * a[k, j] + b[0, 0],
    lambda a, b, i, j, k: a[i, k] * 2.0 + b[0, 0],
    lambda a, b, i, j, k: a[i, k] * 3.0 + b[0, 0],
    lambda a, b, i, j, k: te.exp(a[i, k]) + b[0, 0],
    lambda a, b, i, j, k: te.log(a[i, k]) + b[0, 0],
]


def variant(
    element=lambda a, b, i, j, k: a[i, k] * b[k, j],
    shape=(16, 16),
    dtype="float32",
    reduce=te.sum,
    begin=0,
    **attrs,
):
    """The product of two 16x16 matrices, or something that differs from it in one thing."""
    a, b = te.placeholder(shape, dtype, name="A"), te.placeholder((16, 16), dtype, name="B")
    k = te.reduce_axis((begin, 16), "k")
    c = te.compute(
        (16, 16),
        lambda i, j: reduce(element(a, b, i, j, k), axis=k),
        name="C",
        attrs=attrs or None,
    )
    return ComputeDAG([a, b, c])


def variants():
    yield variant()
    yield variant(shape=(17, 16))
    yield variant(dtype="float64")
    yield variant(reduce=te.max)
    yield variant(reduce=te.min)
    yield variant(begin=1)
    yield variant(layout="free")
    yield variant(layout="fixed")
    yield variant(levels=[1, 2.0, {"a": None}])
    for element in ELEMENTS:
        yield variant(element)


def test_different_computations_have_different_hashes():
    found = [v.hash_key() for v in variants()]
    assert len(set(found)) == len(found) == 17
    assert [v.hash_key() for v in variants()] == found


def test_attributes_that_name_tensors_count_by_what_they_name():
    def keyed(which):
        a, b, _ = C.matmul()
        k = te.reduce_axis((0, 16), "k")
        attrs = {"layout_free_placeholders": [(a, b)[which]]}
        c = te.compute(
            (16, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C", attrs=attrs
        )
        return ComputeDAG([a, b, c])

    assert keyed(0).hash_key() == keyed(0).hash_key() != keyed(1).hash_key()
    assert names(keyed(0).layout_free) == ["A"] and names(keyed(1).layout_free) == ["B"]


def test_shared_parts_are_hashed_once():
    x = te.placeholder((4,), name="X")

    def doubled(i):
        e: Any = x[i]
        for _ in range(200):
            e = e + e
        return e

    y = te.compute((4,), doubled, name="Y")
    z = te.compute((4,), doubled, name="Z")
    assert ComputeDAG([x, y]).hash_key() == ComputeDAG([x, z]).hash_key()


def test_parts_that_are_equal_hash_alike_whether_shared_or_not():
    x = te.placeholder((4,), name="X")

    def shared(i):
        e = x[i] * 2.0
        return e + e

    y = te.compute((4,), shared)
    z = te.compute((4,), lambda i: x[i] * 2.0 + x[i] * 2.0)
    assert ComputeDAG([x, y]).hash_key() == ComputeDAG([x, z]).hash_key()


def test_deep_graphs_and_deep_expressions():
    dag = ComputeDAG(C.chain(3000, 2))
    assert len(dag.ops) == 3001 and dag.flop_ct == 3000 * 4
    assert len(dag.hash_key()) == 32
    x = te.placeholder((4,), name="X")

    def long(i):
        e: Any = x[i]
        for n in range(20000):
            e = e + x[n % 4]
        return e

    assert len(ComputeDAG([x, te.compute((4,), long)]).hash_key()) == 32


def test_the_hash_holds_in_other_processes():
    program = (
        "from tests.unit.auto_scheduler import computations as C\n"
        "from tilewright.auto_scheduler.dag import ComputeDAG\n"
        "for make in (C.matmul, C.conv2d_bn_relu, C.softmax, C.scan, C.extern):\n"
        "    print(ComputeDAG(make()).hash_key())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    mine = [
        ComputeDAG(make()).hash_key()
        for make in (C.matmul, C.conv2d_bn_relu, C.softmax, C.scan, C.extern)
    ]
    assert result.stdout.split() == mine
    assert len(set(mine)) == 5


def test_workload_keys():
    dag = ComputeDAG(C.matmul_relu(8, 4, 16))
    key = json.loads(dag.workload_key())
    assert key == [dag.hash_key(), [8, 16], [16, 4], [8, 4]]


def test_layout_free_inputs():
    a, b, c = C.matmul()
    assert ComputeDAG([a, b, c]).layout_free == []

    def free(value):
        k = te.reduce_axis((0, 16), "k")
        attrs = {"layout_free_placeholders": value}
        c = te.compute((16, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C", "", attrs)
        return ComputeDAG([a, b, c]).layout_free

    assert free([b]) == [b.op] == free([b.op]) == free(["B"]) == free(b)
    assert free([b, a]) == [a.op, b.op]
    for wrong in ([c], ["nothing"], [3]):
        with pytest.raises(TilewrightError, match="lists inputs of the computation"):
            free(wrong)


REFUSED = [
    ([], "takes a list of tensors"),
    ([3], "takes a list of tensors"),
    (7, "takes a list of tensors"),
    ([te.placeholder((4,), name="A")], "nothing is computed"),
    (C.matmul()[1:], "A is read but is not among the tensors"),
    (C.matmul()[-1], "A is read but is not among the tensors"),
    (C.matmul(0, 4, 4), "axis i of C has extent 0|dimension 0 of A has extent 0"),
    (C.matmul(4, 4, 0), "extent 0: there is nothing to compute"),
    ("no key", "is no workload key"),
]


@pytest.mark.parametrize(("given", "text"), REFUSED)
def test_what_is_refused(given, text):
    with pytest.raises(TilewrightError, match=text):
        ComputeDAG(given)


def test_sizes_that_are_not_constant_are_refused():
    n = te.var("n")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="B")
    with pytest.raises(TilewrightError, match="dimension 0 of A is n, which is not constant"):
        ComputeDAG([a, b])
    x = te.placeholder((4, 4), name="X")
    k = te.reduce_axis((0, n), "k")
    y = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="Y")
    with pytest.raises(TilewrightError, match=r"axis k of Y is n.*a workload with numbers"):
        ComputeDAG([x, y])


def test_no_dimensions_at_all():
    x = te.placeholder((), name="X")
    y = te.compute((), lambda: x() * 2.0, name="Y")
    dag = ComputeDAG([x, y])
    assert dag.flop_ct == 1.0 and json.loads(dag.workload_key())[1:] == [[], []]
    assert dag.access.is_strictly_inlineable(y.op)


def test_attributes_of_externs_without_a_form_as_data_are_named():
    tensors = C.extern(hook=tir)
    with pytest.raises(TilewrightError, match="attrs"):
        ComputeDAG(tensors).hash_key()
