"""Hybrid scripts: what they compute as Python, as tensors, in schedules and as printed scripts."""

# ruff: noqa: F821, F841
# mypy: disable-error-code="name-defined"

import ast
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import CompileError, ScheduleError, UsageError
from tilewright.interp.te_eval import te_eval
from tilewright.te.hybrid import script
from tilewright.te.hybrid.runtime import HYBRID_GLOBALS

N = 6


@script
def outer(n, m, a, b):
    """Products of all pairs."""
    c = output_tensor((n, m), a.dtype)
    for i in range(n):
        for j in range(m):
            assert i < n and j < m, "index out of range"
            c[i, j] = a[i] * b[j]
    return c


def run(outputs, args, values, sch=None, target="llvm"):
    """What a build of the outputs' schedule computes."""
    outs = outputs if isinstance(outputs, list) else [outputs]
    sch = sch or te.create_schedule([o.op for o in outs])
    module = tvm.build(sch, [*args, *outs], target=target)
    arrays = [tvm.nd.array(v) if isinstance(v, np.ndarray) else v for v in values]
    known = dict(zip(args, values))
    found = []
    for o in outs:
        shape = [
            known.get(d)
            or int(
                tvm.arith.Analyzer().simplify(
                    tir.stmt_functor.substitute(
                        d, {k: v for k, v in known.items() if isinstance(v, int)}
                    )
                )
            )
            for d in o.shape
        ]
        found.append(tvm.nd.empty(shape, o.dtype))
    module(*arrays, *found)
    return [f.numpy() for f in found]


def both(function, *args, fixed=(), seed=1):
    """A script's tensors against its run as Python on small integers; and after it was printed and
    read again."""
    rng = np.random.default_rng(seed)
    values = [rng.integers(-5, 6, [int(d) for d in t.shape]).astype(t.dtype) for t in args]
    made = function(*args, *fixed)
    outs = made if isinstance(made, list) else [made]
    expected = function(*[v.copy() for v in values], *fixed)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for found, wanted in zip(run(outs, args, values), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    again = te.hybrid.build(te.create_schedule([o.op for o in outs]), list(args), outs)
    printed = again(*[v.copy() for v in values])
    for found, wanted in zip(printed if isinstance(printed, tuple) else (printed,), expected):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    remade = again(*args)
    remade = remade if isinstance(remade, list) else [remade]
    for found, wanted in zip(run(remade, args, values), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    return made, again


def vars_of(node: Any, name: str) -> Any:
    """A field of a node."""
    return getattr(node, name)


def tensors(*shapes, dtype="float32"):
    return [te.placeholder(s, dtype, n) for s, n in zip(shapes, "abcd")]


def test_the_statement_of_an_operation():
    n, m = te.size_var("n"), te.size_var("m")
    a, b = te.placeholder((n,), name="a"), te.placeholder((m,), name="b")
    c = outer(n, m, a, b)
    loop = c.op.body
    assert isinstance(loop, tir.For) and loop.loop_var.name == "i" and loop.extent is n
    inner: Any = loop.body
    check: Any
    store: Any
    check, store = inner.body
    assert isinstance(check, tir.AssertStmt)
    assert vars_of(check, "message").value == "index out of range"
    assert isinstance(store, tir.ProducerStore) and store.producer.op.name == "c"
    assert [str(i) for i in store.indices] == ["i", "j"]
    product = vars_of(store, "value")
    assert product.a.producer is a and product.b.producer is b
    assert c.op.name == "outer" and [x.var.name for x in c.op.axis] == ["i", "j"]
    values: list[Any] = [5, 7, np.arange(5, dtype="float32"), np.arange(7, dtype="float32")]
    found = run(c, [n, m, a, b], values)[0]
    np.testing.assert_array_equal(found, np.outer(values[2], values[3]))
    np.testing.assert_array_equal(outer(*values), found)
    assert not set(HYBRID_GLOBALS) & set(globals())


def test_the_printed_script_is_read_from_a_file(tmp_path):
    n, m = te.size_var("n"), te.size_var("m")
    a, b = te.placeholder((n,), name="a"), te.placeholder((m,), name="b")
    c = outer(n, m, a, b)
    module = te.hybrid.build(te.create_schedule(c.op), [n, m, a, b], [c])
    assert module.name == "hybrid_func" and "assert" in str(module.get_source())
    module.save(tmp_path / "outer")
    again = te.hybrid.HybridModule()
    again.load(tmp_path / "outer.py")
    x, y = np.arange(4, dtype="float32"), np.arange(3, dtype="float32")
    np.testing.assert_array_equal(again(4, 3, x, y), np.outer(x, y))
    made = again(n, m, a, b)
    assert run(made, [n, m, a, b], [4, 3, x, y])[0].tolist() == np.outer(x, y).tolist()


def test_a_module_is_one_function_under_any_name(tmp_path):
    module = te.hybrid.HybridModule()
    assert (module.src_, module.name, module.func_, module.root_) == (None,) * 4
    assert module.get_source() is None
    with pytest.raises(CompileError, match="holds no script"):
        module.save(str(tmp_path / "none"))
    text = "def twice(a):\n    b = output_tensor(a.shape, a.dtype)\n"
    text += "    for i in range(a.shape[0]):\n        b[i] = a[i] * 2.0\n    return b\n"
    module = te.hybrid.HybridModule(text, name="other")
    assert module.name == "other"
    assert module.get_source() == "import tvm\n@tvm.te.hybrid.script\n" + text
    module.save(str(tmp_path / "f"))
    again = te.hybrid.HybridModule()
    again.load(str(tmp_path / "f.py"))
    assert again.name == "twice" and again.get_source() == module.get_source()
    assert again(np.arange(3.0)).tolist() == [0, 2, 4]
    with pytest.raises(CompileError, match="one function, found 2"):
        te.hybrid.HybridModule(text + text.replace("twice", "also"))


def test_parse_python_gives_what_has_read_the_script():
    text = "def twice(a, n):\n    b = output_tensor(a.shape, a.dtype)\n"
    text += "    for i in range(a.shape[0]):\n        b[i] = a[i] * n * BASE\n    return b\n"
    a = te.placeholder((5,), "int32", "a")
    parser = te.hybrid.parser.parse_python(text, [a, 3], {"BASE": 7}, {})
    assert isinstance(parser, te.hybrid.parser.HybridParser) and parser.func_name == "twice"
    loop = parser.parsed_body
    assert isinstance(loop, tir.For) and isinstance(loop.body, tir.ProducerStore)
    (b,) = parser.outputs
    assert isinstance(b, te.Tensor) and (int(b.shape[0]), b.dtype) == (5, "int32")
    assert loop.body.producer.op.name == "b"
    found = te_eval(b, {a: np.arange(5, dtype="int32")})
    assert found[0].tolist() == [0, 21, 42, 63, 84]
    tree = ast.parse(text)
    assert str(te.hybrid.parser.parse_python(tree, [a, 3], {}, {"BASE": 7}).parsed_body) == str(
        loop
    )
    with pytest.raises(UsageError, match="one function, found 0"):
        te.hybrid.parser.parse_python("x = 1", [], {}, {})


def test_variables_and_constants():
    @script
    def fanout(a):
        three = 3.0
        b = output_tensor((a.shape[0] - 3,), a.dtype)
        for i in range(a.shape[0] - 3):
            total = 0.0
            for j in range(3):
                total += a[i + j]
            total = total / three
            b[i] = total
        return b

    made, _ = both(fanout, *tensors((11,)))
    inside: Any = made.op.body.body
    assert type(inside) is tir.ProducerRealize and inside.producer.op.name == "total"
    assert int(inside.bounds[0].extent) == 1
    first: Any = inside.body
    assert isinstance(first[0], tir.ProducerStore)


def test_kinds_of_loops():
    @script
    def kinds(a):
        d = output_tensor((16,), "int32")
        e = output_tensor((16,), "int32")
        f = output_tensor((16,), "int32")
        for i in parallel(16):
            d[i] = a[i]
        for j in vectorize(16):
            e[j] = a[j] + 1
        for k in unroll(16):
            f[k] = a[k] * 2
        return d, e, f

    made, module = both(kinds, *tensors((16,), dtype="int32"))
    loops = list(made[0].op.body)
    wanted = [tir.ForKind.PARALLEL, tir.ForKind.VECTORIZED, tir.ForKind.UNROLLED]
    assert [s.kind for s in loops] == wanted
    assert "in parallel(16)" in module.get_source() and "in vectorize(16)" in module.get_source()


def test_conditions():
    @script
    def conditions(a):
        b = output_tensor((12,), "int32")
        c = output_tensor((12,), "int32")
        for i in range(12):
            b[i] = -1 if i % 2 == 0 else 1
            if 0 <= i < 5:
                c[i] = a[i]
            elif not (i > 7 and i != 9) or a[i] == 2:
                c[i] = a[i] + 1
            else:
                c[i] = b[i]
        return b, c

    both(conditions, *tensors((12,), dtype="int32"))


def test_functions():
    @script
    def functions(a):
        b = output_tensor((12,), "float32")
        for _ in range(1):
            b[0] = sqrt(abs(a[0]))
            b[1] = log(abs(a[1]) + 1.0)
            b[2] = exp(a[2])
            b[3] = sigmoid(a[3])
            b[4] = power(abs(a[4]), 2.0)
            b[5] = tanh(a[5])
            b[6] = min(a[4], a[5])
            b[7] = max(a[5], a[6])
            b[8] = rsqrt(a[7] * a[7] + 1.0)
            b[9] = float32(popcount(int32(a[8])))
            b[10] = ceil_div(7, 2) + len(a)
            b[11] = float32(int32(a[9]) // 2 + (3 << 1))
        return b

    (a,) = tensors((12,))
    values = np.array([4, 3, -1, 0.5, 3, 1, 2, 5, 7, 9, 0, 0], "float32")
    found = run(functions(a), [a], [values])[0]
    np.testing.assert_allclose(found, functions(values), rtol=1e-5)


def test_loops_that_begin_elsewhere():
    @script
    def blur(a):
        b = output_tensor((8, 8), "float32")
        for i in range(2, 10):
            for j in range(2, 10):
                s = 0.0
                for di in range(3):
                    for dj in range(3):
                        s += a[i - di, j - dj]
                b[i - 2, j - 2] = s / 4.0
        return b

    @script
    def triangle(a, b):
        c = output_tensor((7, 7), dtype="float32")
        for i in range(7):
            for j in range(7):
                c[i, j] = 0.0
        for i in range(7):
            for j in range(i, 7):
                c[i, j] = a[i] * b[j]
        return c

    both(blur, *tensors((10, 10)))
    both(triangle, *tensors((7,), (7,)))


def test_memory_and_expanded_loops():
    weights = [[1, 2, 3], [4, 5, N]]

    @script
    def sums(a, more):
        b = output_tensor((5,), "float32")
        for i in range(5):
            line = allocate((3,), "float32")
            for j in range(3):
                line[j] = a[i + j] + a[i + j + 1]
            b[i] = 0.0
            for k in const_range(len(more)):
                part = line[k] * more[k]
                part += weights[1][k]
                b[i] += part
        return b

    both(sums, *tensors((9,)), fixed=([2, 3, 4],))


def test_lists_of_tensors():
    @script
    def total(inputs):
        out = output_tensor((10,), inputs[0].dtype)
        for i in range(10):
            out[i] = 0.0
            for j in const_range(len(inputs)):
                out[i] += inputs[j][i]
        return out

    given = tensors((10,), (10,), (10,))
    made = total(tvm.runtime.convert(given))
    assert list(made.op.input_tensors) == given
    values = [np.arange(10, dtype="float32") * k for k in (1, 2, 3)]
    np.testing.assert_array_equal(run(made, given, values)[0], sum(values))


def test_scripts_call_each_other_and_write_their_inputs():
    @script
    def caller(a, b):
        for i in range(len(a)):
            a[i] = i + 1.0
        for i in range(len(b)):
            b[i] = i + 2.0
        c = outer(5, 5, a, b)
        d = output_tensor(c.shape, c.dtype)
        for i in range(5):
            for j in range(5):
                d[i, j] = c[i, j] + i * j
        return d

    both(caller, *tensors((5,), (5,)))


def test_stages_before_and_behind():
    @script
    def scaled(a):
        b = output_tensor((20,), "float32")
        for i in range(20):
            b[i] = a[i] * i
        return b

    a, b = tensors((20,), (20,))
    first = te.compute((20,), lambda i: a[i] + b[i])
    second = scaled(first)
    third = te.compute((20,), lambda i: second[i] + 1.0)
    x, y = np.arange(20, dtype="float32"), np.full(20, 3, "float32")
    expected = (x + y) * np.arange(20) + 1
    np.testing.assert_array_equal(run(third, [a, b], [x, y])[0], expected)
    oracle = te_eval(third, {a: x, b: y})
    np.testing.assert_array_equal(oracle[0], expected)
    s = te.create_schedule(third.op)
    with pytest.raises(ScheduleError, match="may read all of its inputs"):
        s[first].compute_at(s[second], second.op.axis[0])


def matrix():
    @script
    def product(a, b):
        c = output_tensor((13, 8), "float32")
        for i in range(13):
            for j in range(8):
                c[i, j] = a[i] * b[j]
        return c

    a, b = tensors((13,), (8,))
    return a, b, product(a, b)


SCHEDULES = {
    "split": lambda s, c, i, j: s[c].split(i, 4),
    "parts": lambda s, c, i, j: s[c].split(i, nparts=3),
    "fuse": lambda s, c, i, j: s[c].vectorize(s[c].split(s[c].fuse(i, j), 8)[1]),
    "reorder": lambda s, c, i, j: s[c].reorder(j, i),
    "tile": lambda s, c, i, j: s[c].unroll(s[c].tile(i, j, 4, 3)[3]),
    "parallel": lambda s, c, i, j: s[c].parallel(i),
    "twice": lambda s, c, i, j: s[c].split(s[c].split(i, 5)[1], 2),
    "pragma": lambda s, c, i, j: s[c].pragma(i, "auto_unroll_max_step", 4),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    a, b, c = matrix()
    s = te.create_schedule(c.op)
    SCHEDULES[name](s, c, *c.op.axis)
    x, y = np.arange(13, dtype="float32"), np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run(c, [a, b], [x, y], s)[0], np.outer(x, y))
    text = str(te.schedule.ScheduleOps(s.normalize(), te.schedule.InferBound(s)))
    assert text != str(te.schedule.ScheduleOps(te.create_schedule(c.op))), "nothing was done"


def test_order_of_loops():
    c = matrix()[2]
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    io, ii = s[c].split(i, 4)
    jo, ji = s[c].split(j, 4)
    s[c].parallel(ii)
    s[c].vectorize(ji)
    s[c].reorder(ii, io, jo, ji)
    names = []
    tir.stmt_functor.pre_order_visit(
        te.schedule.ScheduleOps(s),
        lambda n: names.append((n.loop_var.name, n.kind)) if isinstance(n, tir.For) else None,
    )
    kind = tir.ForKind
    assert names == [
        ("i.inner", kind.PARALLEL),
        ("i.outer", kind.SERIAL),
        ("j.outer", kind.SERIAL),
        ("j.inner", kind.VECTORIZED),
    ]


def test_loops_of_two_nests_stay_apart():
    @script
    def two(a):
        b = output_tensor((6,), "float32")
        for i in range(6):
            b[i] = a[i]
        for j in range(6):
            b[j] += a[j]
        return b

    (a,) = tensors((6,))
    b = two(a)
    s = te.create_schedule(b.op)
    s[b].reorder(b.op.axis[1], b.op.axis[0])
    with pytest.raises(ScheduleError, match="only loops directly in one another"):
        tvm.lower(s, [a, b])
    s = te.create_schedule(b.op)
    s[b].fuse(*b.op.axis)
    with pytest.raises(ScheduleError, match="cannot fuse i and j"):
        tvm.lower(s, [a, b])


def test_groups_count_what_is_in_them():
    x = te.placeholder((4,), name="x")
    x1 = te.compute((4,), lambda i: x[i] + 1, name="x1")
    x2 = te.compute((4,), lambda i: x1[i] + 2, name="x2")
    s = te.create_schedule(x2.op)
    group: Any = s.create_group(outputs=x1, inputs=x, include_inputs=True)
    assert group.group is None and group.num_child_stages == 2 and s[x1].group is group
    assert s[x2].num_child_stages == 0


def test_kernels():
    @script
    def added(a, b):
        c = output_tensor((256,), "float32")
        shared = allocate((256,), "float32", "shared")
        for i in bind("threadIdx.x", 256):
            shared[i] = a[i]
        local = allocate((1,), "float32", "local")
        for i in bind("threadIdx.x", 256):
            local[0] = b[i]
            c[i] = shared[i] + local[0]
        return c

    a, b = tensors((256,), (256,))
    c = added(a, b)
    x, y = np.arange(256, dtype="float32"), np.ones(256, "float32")
    np.testing.assert_array_equal(added(x, y), x + 1)
    module = tvm.build(te.create_schedule(c.op), [a, b, c], "opencl")
    out = np.zeros(256, "float32")
    module.run_simt(x, y, out)
    np.testing.assert_array_equal(out, x + 1)


def test_loops_are_bound_by_a_schedule():
    a, b, c = matrix()
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(c.op.axis[1], te.thread_axis("threadIdx.x"))
    module = tvm.build(s, [a, b, c], "opencl")
    x, y = np.arange(13, dtype="float32"), np.arange(8, dtype="float32")
    out = np.zeros((13, 8), "float32")
    module.run_simt(x, y, out)
    np.testing.assert_array_equal(out, np.outer(x, y))


def bad_name(a):
    b = output_tensor((2,), "float32")
    b[0] = nowhere
    return b


def bad_return(a):
    b = output_tensor((2,), "float32")
    return a


def bad_rank(a):
    b = output_tensor((2,), "float32")
    b[0, 0] = a[0]
    return b


def bad_while(a):
    b = output_tensor((2,), "float32")
    while True:
        b[0] = 1.0
    return b


def bad_loop(a):
    b = output_tensor((2,), "float32")
    for i in a:
        b[0] = i
    return b


def bad_const(a):
    b = output_tensor((2,), "float32")
    for i in range(2):
        for j in const_range(i):
            b[j] = 1.0
    return b


def no_return(a):
    b = output_tensor((2,), "float32")
    b[0] = a[0]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (bad_name, "line 3: unknown name nowhere"),
        (bad_return, "arrays of output_tensor, by their names"),
        (bad_rank, "b has 1 dimensions, got 2 indices"),
        (bad_while, "`while` has no meaning"),
        (bad_loop, "a loop runs over range, parallel"),
        (bad_const, "const_range has to be a constant"),
        (no_return, "returns nothing"),
    ],
)
def test_mistakes(function, said):
    (a,) = tensors((2,))
    with pytest.raises(UsageError, match=said):
        script(function)(a)
    with pytest.raises(UsageError, match="takes 1 arguments"):
        script(function)(a, a)
