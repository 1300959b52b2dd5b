"""transform_layout with maps that start anywhere, run backwards or leave gaps; of every tensor."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import ScheduleError

N, M = 10, 3
MAPS: dict[str, Callable[..., Any]] = {
    "backwards": lambda i, j: [-i, j],
    "both backwards": lambda i, j: [-j, 5 - i],
    "from four": lambda i, j: [i + 4, j],
    "from below": lambda i, j: [j - 7, i - 3],
    "gaps": lambda i, j: [2 * i, 3 * j],
    "backward gaps": lambda i, j: [5 - 2 * i, j],
    "blocks": lambda i, j: [i // 4, j, i % 4],
    "backward blocks": lambda i, j: [-i // 4, j, (-i) % 4],
    "shifted blocks": lambda i, j: [(i + 2) // 4, j, (i + 2) % 4],
    "blocks with room": lambda i, j: [i // 4 * 3, j, i % 4],
    "digits backwards": lambda i, j: [i // 4, j, -(i % 4)],
    "fused": lambda i, j: [i * 3 + j],
    "fused and cut": lambda i, j: [(i * 3 + j + 1) // 7, (i * 3 + j + 1) % 7],
    "skewed": lambda i, j: [i, j + i],
    "backward skew": lambda i, j: [2 * i - j, 3 * j - 1],
    "twice": lambda i, j: [i, j, -i],
    "constants": lambda i, j: [-5, i, 2, j],
    "separated": lambda i, j: [-(i // 4), te.AXIS_SEPARATOR, i % 4, j],
}


def program(n: Any = N) -> tuple[Any, ...]:
    """B[i, j] = 2 * P[n - 1 - i, j] + P[i, 0], where P sums A over k."""
    a = te.placeholder((n, M, 4), "int32", name="A")
    k = te.reduce_axis((0, 4), "k")
    p = te.compute((n, M), lambda i, j: te.sum(a[i, j, k], axis=k), name="P")
    b = te.compute((n, M), lambda i, j: p[n - 1 - i, j] * 2 + p[i, 0], name="B")
    return a, p, b, k


def check(s: Any, args: list[Any], target: str = "llvm") -> None:
    a = np.random.default_rng(3).integers(-9, 10, (N, M, 4)).astype("int32")
    out = np.full((N, M), -99, "int32")
    if target == "cuda":
        tvm.build(s, args, target).run_simt(a, out)
    else:
        with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
            tvm.build(s, args, target)(a, out)
    p = a.sum(2)
    np.testing.assert_array_equal(out, p[::-1] * 2 + p[:, :1])


@pytest.mark.parametrize("name", MAPS)
def test_loops_in_any_order(name: str) -> None:
    a, p, b, k = program()
    s = te.create_schedule(b.op)
    axes = s[p].transform_layout(MAPS[name])
    s[p].reorder(k, *reversed(axes))  # nothing may be added twice
    s[p].split(axes[-1], factor=2)
    check(s, [a, b])


@pytest.mark.parametrize("factor", [3, 4, 7])
@pytest.mark.parametrize("name", MAPS)
def test_loops_that_tiles_do_not_divide(name: str, factor: int) -> None:
    a, p, b, _ = program()
    s = te.create_schedule(b.op)
    axes = s[p].transform_layout(MAPS[name])
    for axis in axes:
        s[p].split(axis, factor=factor)
    check(s, [a, b])


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", MAPS)
def test_parts_of_one_row_or_column(name: str, place: int) -> None:
    """Whatever has an inverse over the whole has one over the part that a loop needs."""
    a, p, b, _ = program()
    s = te.create_schedule(b.op)
    copy = s.cache_write(b, "global")
    for t in (p, copy):
        s[t].transform_layout(MAPS[name])
        s[t].compute_at(s[b], b.op.axis[place])
    check(s, [a, b])


@pytest.mark.parametrize("name", MAPS)
def test_inside_of_loops_and_threads(name: str) -> None:
    a, p, b, _ = program()
    s = te.create_schedule(b.op)
    block, i = s[b].split(b.op.axis[0], factor=4)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(i, te.thread_axis("threadIdx.x"))
    axes = s[p].transform_layout(MAPS[name])
    s[p].compute_at(s[b], block)
    s[p].set_scope("shared")
    _, inner = s[p].split(s[p].fuse(*axes), factor=4)
    s[p].bind(inner, te.thread_axis("threadIdx.x"))
    check(s, [a, b], "cuda")


@pytest.mark.parametrize("name", ["backwards", "from below", "blocks", "fused", "separated"])
def test_symbolic_shapes(name: str) -> None:
    a, p, b, _ = program(te.var("n"))
    s = te.create_schedule(b.op)
    s[p].transform_layout(MAPS[name])
    check(s, [a, b])


@pytest.mark.parametrize("name", ["backwards", "gaps", "shifted blocks", "digits backwards"])
@pytest.mark.parametrize("kind", ["cache_write", "cache_read", "rfactor", "double_buffer"])
def test_beside_other_primitives(kind: str, name: str) -> None:
    a, p, b, k = program()
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], factor=3)
    s[p].transform_layout(MAPS[name])
    if kind == "cache_write":
        s[s.cache_write(p, "local")].compute_at(s[p], s[p].leaf_iter_vars[0])
    elif kind == "cache_read":
        copy = s.cache_read(p, "local", [b])
        s[copy].transform_layout(MAPS[name])
        s[copy].compute_at(s[b], outer)
    elif kind == "rfactor":
        s[s.rfactor(p, s[p].split(k, factor=2)[1])].transform_layout(lambda r, i, j: [-j, r, i + 1])
    else:
        s[p].compute_at(s[b], outer)
        s[p].double_buffer()
    check(s, [a, b])


def test_arguments_keep_the_order_of_the_map() -> None:
    a = te.placeholder((N,), "int32", name="A")
    b = te.compute((N,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[a].transform_layout(lambda i: [-i])
    s[b].transform_layout(lambda i: [i + 2])
    f = tvm.build(s, [a, b], "llvm")
    x, out = np.arange(N, dtype="int32"), np.full(N + 2, -1, "int32")
    f(x, out)
    np.testing.assert_array_equal(out, [-1, -1, *(x[::-1] + 1)])


@pytest.mark.parametrize(
    "mapping, why",
    [
        (lambda i, j: [i * i, j], "no sum of quotients and remainders"),
        (lambda i, j: [i, j // 2], "a digit of j is not used"),
        (lambda i, j: [i + j], "overlap"),
        (lambda i, j: [i + j, 2 * i + 2 * j], "overlap"),
        (lambda i, j: [i, i], "not used|used twice"),
    ],
)
def test_what_is_no_layout(mapping: Any, why: str) -> None:
    _, p, b, _ = program()
    s = te.create_schedule(b.op)
    with pytest.raises(ScheduleError, match=why):
        s[p].transform_layout(mapping)


def extern_of(body: Callable[[Any, Any], Any], n: Any = N) -> tuple[Any, ...]:
    a = te.placeholder((n, M), "int32", name="A")
    p = te.compute((n, M), lambda i, j: a[i, j] + 1, name="P")
    x = te.extern([(n, M)], [p], lambda ins, outs: body(ins[0], outs[0]), name="X", dtype="int32")
    return a, p, x, te.create_schedule(x.op)


def tripled(n: Any) -> Callable[[Any, Any], Any]:
    def body(src: Any, dst: Any) -> Any:
        ib = tir.ir_builder.create()
        with ib.for_range(0, n, name="i") as i, ib.for_range(0, M, name="j") as j:
            ib.emit(dst.vstore([i, j], src.vload([i, j]) * 3))
        return ib.get()

    return body


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", MAPS)
def test_bodies_of_the_users_own_read_elements(name: str, symbolic: bool) -> None:
    n = te.var("n") if symbolic else N
    a, p, x, s = extern_of(tripled(n), n)
    s[p].transform_layout(MAPS[name])
    values = np.arange(N * M, dtype="int32").reshape(N, M)
    out = np.zeros_like(values)
    tvm.build(s, [a, x], "llvm")(values, out)
    np.testing.assert_array_equal(out, (values + 1) * 3)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        lambda a, b: tir.call_extern("int32", "f", b.access_ptr("w"), a.access_ptr("r")),
        lambda a, b: tir.call_extern("int32", "f", b.data, tir.address_of(a[0, 0])),
        lambda a, b: tir.call_packed("f", a, b),
        lambda a, b: tir.BufferStore(b, a.vload([0, 0], "int32x2"), [0, tir.Ramp(0, 1, 2)]),
    ],
    ids=["pointer", "address", "packed", "vector"],
)
def test_bodies_that_take_pointers_are_refused(body: Any, given: bool) -> None:
    a, p, x, s = extern_of(body)
    if given:
        p = a
        x = te.extern([(N, M)], [a], lambda i, o: body(i[0], o[0]), name="X", dtype="int32")
        s = te.create_schedule(x.op)
    s[p].transform_layout(lambda i, j: [j, i])
    with pytest.raises(ScheduleError, match=f"the body of X takes {p.op.name} by pointer"):
        tvm.lower(s, [a, x])


def test_strides_that_a_pointer_does_not_know() -> None:
    def body(src: Any, dst: Any) -> Any:
        return tir.call_extern("int32", "f", dst.access_ptr("w"), src.access_ptr("r"))

    a, p, x, s = extern_of(body)
    s[p].storage_align(p.op.axis[0], 8, 1)
    with pytest.raises(ScheduleError, match="passes the address of P on"):
        tvm.lower(s, [a, x])
    a, p, x, s = extern_of(tripled(N))
    s[p].storage_align(p.op.axis[0], 8, 1)
    values = np.arange(N * M, dtype="int32").reshape(N, M)
    out = np.zeros_like(values)
    tvm.build(s, [a, x], "llvm")(values, out)
    np.testing.assert_array_equal(out, (values + 1) * 3)
