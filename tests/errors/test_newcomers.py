"""What people do in their first hour, and that the message of each says what to do instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import auto_scheduler, autotvm, te, tir, topi
from tilewright.base.errors import TilewrightError

CASES: list[Any] = []


def mistake(*parts: str) -> Callable[[Callable[[], object]], None]:
    """A mistake, and parts of what is said of it: what is wrong, and what would be right."""

    def add(make: Callable[[], object]) -> None:
        CASES.append(pytest.param(make, parts, id=make.__name__))

    return add


def vector(dtype: str = "float32") -> Any:
    return te.placeholder((8,), dtype, name="A")


def matrix() -> Any:
    return te.placeholder((8, 8), name="A")


def of_vector(formula: Callable[[Any, Any], Any], dtype: str = "float32") -> Any:
    a = vector(dtype)
    return te.compute((8,), lambda i: formula(a, i), name="B")


def product() -> Any:
    a, b = matrix(), te.placeholder((8, 8), name="B")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_schedule(c.op), c, [a, b, c]


def chain() -> Any:
    """Two outputs, C and D; D does not read B."""
    a = matrix()
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((8, 8), lambda i, j: a[i, j] * 3.0, name="D")
    return te.create_schedule([c.op, d.op]), b, c, d


def built() -> Any:
    s, _, args = product()
    return tvm.build(s, args, "llvm")


def zeros(dtype: str = "float32") -> Any:
    return np.zeros((8, 8), dtype)


@mistake("unknown data type 'flaot32'", "did you mean 'float32'?")
def misspelt_dtype() -> object:
    return te.placeholder((8,), "flaot32")


@mistake("unknown data type 'double'", "did you mean 'float64'?")
def dtype_of_c() -> object:
    return te.placeholder((8,), "double")


@mistake("has no attribute 'placholder'; did you mean placeholder?")
def misspelt_name() -> object:
    return getattr(te, "placholder")  # noqa: B009


@mistake("has no attribute 'conv2'; did you mean conv2d?")
def misspelt_operator() -> object:
    return getattr(topi.nn, "conv2")  # noqa: B009


@mistake("Cannot use and / or / not / if on an expression", "te.if_then_else")
def python_if() -> object:
    return of_vector(lambda a, i: a[i] if a[i] > 0 else 0.0)


@mistake("Cannot use and / or", "tvm.tir.all")
def python_and() -> object:
    return of_vector(lambda a, i: te.if_then_else(a[i] > 0 and a[i] < 1, a[i], 0.0))


@mistake("chained comparisons", "tvm.tir.all")
def python_chain() -> object:
    return of_vector(lambda a, i: te.if_then_else(0 < i < 3, a[i], 0.0))


@mistake("te.max / te.min")
def python_max() -> object:
    return of_vector(lambda a, i: max(a[i], 0.0))


@mistake("cannot be iterated over", "te.sum(..., axis=te.reduce_axis")
def python_sum() -> object:
    a = matrix()
    return te.compute((8,), lambda i: sum(a[i]))


@mistake("Tensor(shape=[8, 8], op.name=A) cannot be iterated over", "te.compute goes over them")
def loop_over_a_tensor() -> object:
    return list(matrix())


@mistake("an expression has no value yet", "Loops are axes of te.compute")
def loop_over_a_size() -> object:
    return range(te.var("n"))


@mistake("an expression has no value yet", "x.astype(dtype) converts")
def int_of_an_expression() -> object:
    return int(te.var("n") * 2)


@mistake("an expression has no value yet", "functions are te.exp")
def math_of_an_element() -> object:
    return of_vector(lambda a, i: math.exp(a[i]))


@mistake("an expression has no value yet", "a table is read as a te.placeholder")
def look_up_in_a_list() -> object:
    return of_vector(lambda a, i: [1, 2, 3, 4, 5, 6, 7, 8][i])


@mistake("A) is a formula, and cannot be assigned to", "te.compute makes another")
def assignment() -> None:
    vector()[0] = 1.0


@mistake("a constant is one number, got an array of shape (8,)", "te.placeholder stands for one")
def array_as_an_operand() -> object:
    return topi.add(np.zeros(8), np.zeros(8))


@mistake("please call div", "a // b is floordiv", "a.astype('float32') / b")
def quotient_of_integers() -> object:
    return of_vector(lambda a, i: a[i] / 2, "int32")


@mistake("ldexp takes a float, got int32", 'x.astype("float32")')
def ldexp_of_integers() -> object:
    return of_vector(lambda a, i: te.ldexp(a[i], 1), "int32")


@mistake("ndim = 2, indices.size=1", "give one index for each dimension")
def row_of_a_matrix() -> object:
    a = matrix()
    return te.compute((8,), lambda i: a[i] + 1.0)


@mistake("index 0, i + 1, is 8 at i = 7", "Guard the read with te.if_then_else")
def read_past_the_end() -> object:
    a = vector()
    b = te.compute((8,), lambda i: a[i + 1], name="B")
    return tvm.build(te.create_schedule(b.op), [a, b])(np.zeros(8, "f4"), np.zeros(8, "f4"))


@mistake("nothing gives the value of k", "te.sum(..., axis=k)")
def reduction_axis_without_a_reduction() -> object:
    a, k = matrix(), te.reduce_axis((0, 8), "k")
    b = te.compute((8,), lambda i: a[i, k], name="B")
    return tvm.lower(te.create_schedule(b.op), [a, b])


@mistake("only allowed at the top level of compute", "create another tensor")
def reduction_within_an_expression() -> object:
    a, k = matrix(), te.reduce_axis((0, 8), "k")
    return te.compute((8,), lambda i: te.sum(a[i, k], axis=k) + 1.0)


@mistake("nothing gives the value of m", "pass it as an argument")
def free_variable() -> object:
    a, m = vector(), te.var("m")
    b = te.compute((8,), lambda i: a[i] + m.astype("float32"), name="B")
    return tvm.build(te.create_schedule(b.op), [a, b])


@mistake("tensor A is neither computed nor an argument", "add it to the arguments")
def missing_argument() -> object:
    s, c, _ = product()
    return tvm.lower(s, [c])


@mistake("argument A is given twice", "name each tensor once")
def argument_given_twice() -> object:
    s, c, (a, b, _) = product()
    return tvm.lower(s, [a, a, b, c])


@mistake("got Tensor", "te.create_schedule(C.op)")
def build_of_a_tensor() -> object:
    _, c, args = product()
    return tvm.build(c, args)


@mistake("iter var i", "has already been split or fused", "use the axes that the split")
def axis_that_was_split() -> object:
    s, c, _ = product()
    s[c].split(c.op.axis[0], 4)
    return s[c].split(c.op.axis[0], 4)


@mistake("rfactor or cache_write has replaced", "s[C].op.axis")
def axis_from_before_rfactor() -> object:
    s, c, _ = product()
    s.rfactor(c, s[c].split(c.op.reduce_axis[0], 4)[1])
    return s[c].parallel(c.op.axis[0])


@mistake("not part of the schedule of stage D", "the axes of D are s[D].op.axis")
def axis_of_another_stage() -> object:
    s, b, _, d = chain()
    return s[d].split(b.op.axis[0], 4)


@mistake("factor must be positive, got 0", "a factor of 1 or more")
def factor_of_zero() -> object:
    s, c, _ = product()
    return s[c].split(c.op.axis[0], factor=0)


@mistake("B is computed at D, axis i, but C reads it", "a loop around all that read it")
def compute_at_what_does_not_read_it() -> object:
    s, b, c, d = chain()
    s[b].compute_at(s[d], d.op.axis[0])
    return tvm.lower(s, [*b.op.input_tensors, c, d])


@mistake("cannot compute B at itself", "a stage that reads B")
def compute_at_itself() -> object:
    s, b, _, _ = chain()
    return s[b].compute_at(s[b], b.op.axis[0])


@mistake("Cannot vectorize on CommReduce", "rfactor")
def vector_of_a_reduction() -> object:
    s, c, _ = product()
    return s[c].vectorize(c.op.reduce_axis[0])


@mistake("bound twice: to threadIdx.x and now to blockIdx.x", "split the axis")
def two_threads_for_an_axis() -> object:
    s, c, _ = product()
    s[c].bind(c.op.axis[0], te.thread_axis("threadIdx.x"))
    return s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))


@mistake("only thread axis is allowed", 'te.thread_axis("threadIdx.x")')
def name_for_a_thread() -> object:
    s, c, _ = product()
    return s[c].bind(c.op.axis[0], "threadIdx.x")


@mistake("cannot have the tag 'thread.x'", "threadIdx.x")
def misspelt_thread() -> object:
    s, c, args = product()
    s[c].bind(c.op.axis[0], te.thread_axis("thread.x"))
    return tvm.build(s, args, "cuda")


@mistake("the target is a CPU", "parallel(axis)", "build for a GPU target")
def threads_on_a_cpu() -> object:
    s, c, args = product()
    s[c].bind(c.op.axis[0], te.thread_axis("threadIdx.x"))
    return tvm.build(s, args, "llvm")


@mistake("Did you forget to bind?", 'te.thread_axis("blockIdx.x")')
def gpu_without_threads() -> object:
    s, _, args = product()
    return tvm.build(s, args, "cuda")


@mistake("Tensorize failed", "tensor_intrin")
def intrinsic_that_does_something_else() -> object:
    s, c, args = product()
    x, y = te.placeholder((4,), name="x"), te.placeholder((4,), name="y")
    z = te.compute((4,), lambda i: x[i] + y[i], name="z")
    call = te.decl_tensor_intrin(z.op, lambda ins, outs: tir.call_extern("int32", "f"))
    s[c].tensorize(s[c].split(c.op.axis[1], 4)[1], call)
    return tvm.lower(s, args)


@mistake("unknown target kind 'cpu' (did you mean 'llvm'?)")
def cpu_as_a_target() -> object:
    return tvm.target.Target("cpu")


@mistake("unknown target kind 'gpu' (did you mean 'cuda'?)", "opencl")
def gpu_as_a_target() -> object:
    s, _, args = product()
    return tvm.build(s, args, "gpu")


@mistake("expected 3 arguments (A, B, C), got 2", "arrays for the results are arguments, too")
def call_without_the_result() -> object:
    return built()(zeros(), zeros())


@mistake("argument 0 (A): expected dtype float32, got float64", "x.astype('float32')")
def call_with_doubles() -> object:
    return built()(zeros("float64"), zeros(), zeros())


@mistake("argument 1 (B): expected an array of float32, got list", "numpy.asarray(x, 'float32')")
def call_with_a_list() -> object:
    return built()(zeros(), [[1.0] * 8] * 8, zeros())


@mistake("argument 1 (B): expected shape (8, 8), got (8, 7)")
def call_with_another_shape() -> object:
    return built()(zeros(), np.zeros((8, 7), "f4"), zeros())


@mistake("expected a compact row-major array", "numpy.ascontiguousarray(x)")
def call_with_a_transpose() -> object:
    return built()(zeros().T, zeros(), zeros())


@mistake("axis 2 is out of range for a tensor of 2 dimensions: it is -2 to 1")
def softmax_along_no_dimension() -> object:
    return topi.nn.softmax(matrix(), axis=2)


@mistake("concatenate takes tensors of one shape, but for dimension 0", "shape=[8, 8]", "[3, 5]")
def concatenation_of_other_widths() -> object:
    return topi.concatenate([matrix(), te.placeholder((3, 5))], axis=0)


@mistake("the stride of a window is 1 or more, got 0")
def stride_of_zero() -> object:
    return topi.nn.conv2d(te.placeholder((1, 3, 8, 8)), te.placeholder((4, 3, 3, 3)), 0, 1, 1)


@mistake("has N, C and some of D, H, W", "got NCHX")
def misspelt_layout() -> object:
    image, filters = te.placeholder((1, 3, 8, 8)), te.placeholder((4, 3, 3, 3))
    return topi.nn.conv2d(image, filters, 1, 1, 1, "NCHX")


@mistake("args are the arguments of func, as a tuple", "(64,)")
def arguments_that_are_no_tuple() -> object:
    return auto_scheduler.SearchTask(func=matrix, args=64, target="llvm")


@mistake("there is no workload", "put @auto_scheduler.register_workload before")
def workload_that_is_not_registered() -> object:
    return auto_scheduler.SearchTask(func=matrix, args=(), target="llvm")


@mistake("there is no template 'mine/none'", "import the module that defines it")
def template_that_is_not_there() -> object:
    return autotvm.task.create("mine/none", args=(8,), target="llvm")


@mistake("cannot read nothing.onnx: No such file or directory")
def model_that_is_not_there() -> object:
    return tvm.compile("nothing.onnx")


@mistake("cannot write /nowhere/f.so: No such file or directory")
def folder_that_is_not_there() -> object:
    return built().export_library("/nowhere/f.so")


@pytest.mark.parametrize(("make", "parts"), CASES)
def test_a_mistake_is_told_with_what_would_be_right(
    make: Callable[[], object], parts: tuple[str, ...]
) -> None:
    with pytest.raises((TilewrightError, TypeError, ValueError, AttributeError)) as caught:
        make()
    for part in parts:
        assert part in str(caught.value)


def per_channel(count: int) -> list[Any]:
    return [te.placeholder((4,)) for _ in range(count)]


def batch_norm(x: Any, axis: int) -> object:
    gamma, beta, mean, variance = per_channel(4)
    return topi.nn.batch_norm(x, gamma, beta, mean, variance, axis=axis)


def layer_norm(x: Any, axis: int) -> object:
    gamma, beta = per_channel(2)
    return topi.nn.layer_norm(x, gamma, beta, [axis])


WITH_AXES: dict[str, Callable[[Any, int], object]] = {
    "argmax": topi.argmax,
    "argsort": lambda x, axis: topi.argsort(x, axis=axis),
    "batch_norm": batch_norm,
    "concatenate": lambda x, axis: topi.concatenate([x, x], axis),
    "cumsum": topi.cumsum,
    "flip": topi.flip,
    "gather": lambda x, axis: topi.gather(x, axis, te.placeholder((3, 4), "int32")),
    "layer_norm": layer_norm,
    "log_softmax": topi.nn.log_softmax,
    "prelu": lambda x, axis: topi.nn.prelu(x, te.placeholder((4,)), axis),
    "repeat": lambda x, axis: topi.repeat(x, 2, axis),
    "softmax": topi.nn.softmax,
    "sort": topi.sort,
    "split": lambda x, axis: topi.split(x, 2, axis),
    "squeeze": topi.squeeze,
    "strided_slice": lambda x, axis: topi.strided_slice(x, [0], [1], axes=[axis]),
    "sum": topi.sum,
    "take": lambda x, axis: topi.take(x, te.placeholder((4,), "int32"), axis),
    "topk": lambda x, axis: topi.topk(x, 2, axis),
    "transpose": lambda x, axis: topi.transpose(x, (0, axis)),
}


@pytest.mark.parametrize("name", WITH_AXES)
@pytest.mark.parametrize("axis", [2, -3])
def test_operators_refuse_axes_that_a_tensor_does_not_have(name: str, axis: int) -> None:
    with pytest.raises(TilewrightError, match=f"axis {axis} is out of range"):
        WITH_AXES[name](te.placeholder((3, 4)), axis)


@pytest.mark.parametrize("axis", [3, -4])
def test_new_dimensions_have_one_place_more(axis: int) -> None:
    x = te.placeholder((3, 4))
    for make in (lambda: topi.expand_dims(x, axis), lambda: topi.stack([x, x], axis)):
        with pytest.raises(TilewrightError, match=f"axis {axis} is out of range"):
            make()
    assert topi.stack([x, x], 2).ndim == topi.expand_dims(x, -3).ndim == 3
