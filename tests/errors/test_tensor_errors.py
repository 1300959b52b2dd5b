"""What users are told when a tensor program is put together wrongly."""

import pytest

import tilewright
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.op import call_packed


def message(make):
    with pytest.raises(TilewrightError) as caught:
        make()
    return str(caught.value)


def matrix():
    return te.placeholder((4, 5), name="A"), te.reduce_axis((0, 5), "k")


def test_reduction_inside_an_expression():
    a, k = matrix()
    text = message(lambda: te.compute((4,), lambda i: te.sum(a[i, k], axis=k) + 1.0))
    assert (
        "Reductions are only allowed at the top level of compute. "
        "Please create another tensor for further composition." in text
    )


def test_reduction_inside_a_reduction():
    a, k = matrix()
    j = te.reduce_axis((0, 4), "j")
    text = message(lambda: te.compute((), lambda: te.sum(te.max(a[j, k], axis=k), axis=j)))
    assert "Reductions are only allowed at the top level of compute" in text
    text = message(lambda: te.compute((), lambda: a[te.max(j.var, axis=j), 0]))
    assert "Reductions are only allowed at the top level of compute" in text


def test_outputs_of_which_some_reduce():
    a, k = matrix()
    text = message(lambda: te.compute((4,), lambda i: (te.sum(a[i, k], axis=k), a[i, 0]), name="m"))
    assert "All ComputeOp should be consistent with being Reduce operation or not." in text
    assert "'m'" in text


def test_outputs_that_reduce_different_things():
    a, k = matrix()
    text = message(
        lambda: te.compute((4,), lambda i: (te.sum(a[i, k], axis=k), te.sum(a[i, k] * 2, axis=k)))
    )
    assert "should have the same attribute except value_index" in text


@pytest.mark.parametrize(
    ("read", "size"),
    [
        (lambda a: a[1] + 1, 1),
        (lambda a: a(1), 1),
        (lambda a: a[1, 2, 3] * 2.0, 3),
        (lambda a: te.compute((2,), lambda i: a[i]), 1),
    ],
)
def test_wrong_number_of_indices(read, size):
    a, _ = matrix()
    text = message(lambda: read(a))
    assert f"Tensor dimension mismatch in read ndim = 2, indices.size={size}" in text
    assert "op.name=A" in text


def test_a_whole_tensor_where_an_element_is_needed():
    a, _ = matrix()
    text = message(lambda: te.exp(a))
    assert "stands where one element is needed" in text and "A[i, j]" in text


def test_indices_that_are_no_integers():
    a, _ = matrix()
    assert "indices must be integers" in message(lambda: te.compute((2,), lambda i: a[i, 1.5]))
    assert "only arguments of tensor intrinsics take ranges" in message(lambda: a[0, 1:3] + 1)
    with pytest.raises(TypeError, match="cannot be iterated"):
        iter(a)
    with pytest.raises(TypeError, match="symbolic"):
        len(te.placeholder((te.var("n"),)))


def test_shapes():
    assert "zero or more, got -1" in message(lambda: te.placeholder((3, -1)))
    assert "holds integers, got 2.5" in message(lambda: te.placeholder((2.5,)))
    assert "holds integers, got 'n'" in message(lambda: te.placeholder(("n",)))
    assert "float32" in message(lambda: te.placeholder((te.var("n", "float32"),)))
    assert "unknown data type 'float33'" in message(lambda: te.placeholder((3,), "float33"))


def test_parameters_of_fcompute():
    assert "Number of args to fcompute does not match dimension, args=2, dimension=1" in message(
        lambda: te.compute((3,), lambda i, j: 0.0)
    )
    assert "Variable keyword arguments" in message(lambda: te.compute((3,), lambda i, **kw: 0.0))
    assert "Keyword arguments are not supported" in message(
        lambda: te.compute((3,), lambda i, *, j: 0.0)
    )
    assert "2 remaining dimensions" in message(
        lambda: te.compute((3, 4, 5), lambda i, *j: 0.0, varargs_names=["x"])
    )
    assert "fcompute must give expressions" in message(lambda: te.compute((3,), lambda i: None))
    assert "gave no value" in message(lambda: te.compute((3,), lambda i: ()))


def test_nested_tags():
    def nested():
        with te.tag_scope("outer"), te.tag_scope("inner"):
            raise AssertionError("unreachable")

    assert "nested tag is not allowed for now: 'inner' inside 'outer'" in message(nested)

    def tagged():
        with te.tag_scope("outer"):
            te.compute((3,), lambda i: i, tag="own")

    assert "nested tag is not allowed for now: 'own' inside 'outer'" in message(tagged)
    assert te.compute((3,), lambda i: i).op.tag == ""


def scan_parts(init=(1, 3), update=(6, 3), state=(6, 3), dtypes=("float32",) * 3):
    def zeros(shape, dtype):
        return te.compute(shape, lambda *i: te.const(0, dtype))

    return (
        zeros(init, dtypes[0]),
        zeros(update, dtypes[1]),
        te.placeholder(state, dtypes[2], name="state"),
    )


def test_scan():
    i, u, s = scan_parts()
    assert "init, update, state_placeholder must have same length" in message(
        lambda: te.scan([i, i], u, s)
    )
    assert "must have same length" in message(lambda: te.scan([], [], []))
    assert "The dimension of init need to match state_placeholder" in message(
        lambda: te.scan(*scan_parts(init=(1,)))
    )
    assert "The update.ndim need to be" in message(lambda: te.scan(*scan_parts(update=(6, 3, 1))))
    assert "state_placeholder.shape[0] need to match scan_axis.dom.min + scan_axis.dom.extent" in (
        message(lambda: te.scan(*scan_parts(update=(5, 3))))
    )
    assert "update and state_placeholder" in message(lambda: te.scan(*scan_parts(update=(6, 4))))
    assert "init and state_placeholder" in message(lambda: te.scan(*scan_parts(init=(1, 4))))
    assert "is int32, but state_placeholder" in message(
        lambda: te.scan(*scan_parts(dtypes=("float32", "int32", "float32")))
    )
    assert "must be made by te.placeholder" in message(lambda: te.scan(i, u, u))
    early, r = te.compute((1, 3), lambda t, j: s[t, j]), scan_parts()[2]
    assert "must not read it" in message(lambda: te.scan(early, u, s))
    assert "must not read it" in message(lambda: te.scan([i, early], [u, u], [r, s]))
    assert "scan works on tensors" in message(lambda: te.scan(i, u, 3))
    assert "needs a dimension" in message(lambda: te.scan(*scan_parts((), (), ())))


def test_extern():
    a, b = te.placeholder((4,), name="A"), te.placeholder((4,), "int32", name="B")

    def call(ins, outs):
        return call_packed("f", *ins, *outs)

    text = message(lambda: te.extern((4,), [a, b], call))
    assert "Cannot infer output type, please provide dtype argument" in text
    assert "float32, int32" in text
    assert "Cannot infer output type" in message(lambda: te.extern((4,), [], call))
    assert "expect inputs to be tensor" in message(lambda: te.extern((4,), [3], call))
    one = decl_buffer((4,))
    assert "Number of inputs and in_buffers mismatch: 1 vs 2." in message(
        lambda: te.extern((4,), [a], call, in_buffers=[one, one])
    )
    assert "Number of outputs and out_buffers mismatch: 2 vs 1." in message(
        lambda: te.extern([(4,), (4,)], [a], call, out_buffers=one)
    )
    assert "Function '<lambda>' should return PrimExpr or Stmt, but it returned 'int'" in message(
        lambda: te.extern((4,), [a], lambda ins, outs: 3)
    )
    assert "2 shapes, but 3 dtypes" in message(
        lambda: te.extern([(4,), (4,)], [a], call, dtype=["int8"] * 3)
    )


def test_tensor_intrinsics():
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + 1)
    z = te.compute((8,), lambda i: y[i] + 1, name="z")

    def call(ins, outs):
        return call_packed("f", *ins, *outs)

    assert "Do not yet support composition op" in message(lambda: te.decl_tensor_intrin(z.op, call))
    assert "expect Operation" in message(lambda: te.decl_tensor_intrin(y, call))
    assert "must give 1 to 3 statements" in message(
        lambda: te.decl_tensor_intrin(y.op, lambda ins, outs: ())
    )
    assert "should return PrimExpr or Stmt" in message(
        lambda: te.decl_tensor_intrin(y.op, lambda ins, outs: "text")
    )
    plus = te.decl_tensor_intrin(y.op, call, name="plus")
    a = te.placeholder((4, 8), name="A")
    assert "plus takes 1 tensors and 0 scalars, got 2 and 0" in message(
        lambda: te.compute((4, 8), lambda i: plus(a[i, 0:8], a[i, 0:8]))
    )
    assert "a region has no steps" in message(
        lambda: te.compute((4, 8), lambda i: plus(a[i, 0:8:2]))
    )
    assert "Tensor dimension mismatch in read" in message(
        lambda: te.compute((4, 8), lambda i: plus(a[i, 0, 0:8]))
    )


def test_reads_out_of_bounds_stop_lowering():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n,), lambda i: te.if_then_else(i > 0, b[i + 1], 0.0), name="C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    text = message(lambda: tilewright.lower(s, [a, c]))
    assert "out of bounds: C reads B[i + 1], and index 0, i + 1, is n at i = n - 1" in text
    assert "dimension 0 of B has the range [0, n)" in text and "te.if_then_else" in text


def test_axes():
    assert "tag must be given as Positional or keyword argument" in message(
        lambda: te.thread_axis((0, 4))
    )
    assert "the domain of an axis is (begin, end)" in message(lambda: te.reduce_axis((0, 1, 2)))
    assert "a comparison" in message(lambda: te.SpecializedCondition([te.var("n") + 1]))


def test_extern_primfunc():
    from tilewright.loopir.expr import Var
    from tilewright.loopir.stmt import BufferStore, PrimFunc

    x, y = decl_buffer((4,), name="x"), decl_buffer((4,), name="y")
    p, q = Var("p", "handle"), Var("q", "handle")
    copy = PrimFunc([p, q], BufferStore(y, x[0], [0]), None, {p: x, q: y})
    nothing = PrimFunc([p], BufferStore(x, 1.0, [0]), None, {})
    a, b = te.placeholder((4,), name="A"), te.placeholder((5,), name="B")
    assert "number of provided input" in message(lambda: te.extern_primfunc([a, b], copy))
    assert "do not match the input buffers" in message(lambda: te.extern_primfunc([b], copy))
    assert "no output buffers" in message(lambda: te.extern_primfunc([], nothing))
