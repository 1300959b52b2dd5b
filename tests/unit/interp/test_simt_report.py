"""Reports and errors as text; kernels that come in other forms."""

import weakref

import numpy as np
import pytest

import tilewright as tvm
from tests.forget import collect
from tests.unit.interp.simt_kernels import kinds, make_kernel, numbers, problems, sync, zeros
from tilewright import te, tir
from tilewright.base.errors import TilewrightError
from tilewright.interp.simt import run_kernel
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.calls import address_of, call_extern, tvm_access_ptr, type_annotation


def test_the_text_of_a_report():
    def write(ib, k):
        s = ib.allocate("float32", (32,), "s", scope="shared")
        v = ib.allocate("float32", (1,), "v", scope="local")
        v[0] = k.A[k.tx * 2]
        s[k.tx] = v[0]
        sync(ib)
        ib.emit(call_extern("float32", "atomicAdd", address_of(k.B[0]), s[31 - k.tx]))

    kernel = make_kernel(write, {"A": ("float32", 64), "B": ("float32", 1)}, (32,))
    report = run_kernel(kernel, None, [numbers(64), zeros(1)])
    assert str(report) == (
        "kernel: 1 blocks of 32 threads, 1 barriers, 0 warp barriers, 0 shuffles, 0 async copies\n"
        "  global  32 loads, 0 stores, 32 atomics\n"
        "  local   32 loads, 32 stores\n"
        "  shared  32 loads, 32 stores\n"
        "  shared memory: 1.00 turns an access\n"
        "  global memory: 50% of the bytes moved were asked for"
    )


@pytest.mark.parametrize(("step", "turns"), [(1, 1), (2, 2), (8, 8), (32, 32), (33, 1), (0, 1)])
def test_bank_conflicts(step, turns):
    def write(ib, k):
        s = ib.allocate("float32", (32 * 33,), "s", scope="shared")
        s[k.tx * step if step else k.tx] = 1.0
        sync(ib)
        k.A[k.tx] = s[k.tx * step]

    report = run_kernel(make_kernel(write, {"A": ("float32", 32)}), None, [zeros(32)])
    assert report.bank_conflicts == turns


@pytest.mark.parametrize(("step", "share"), [(1, 1.0), (2, 0.5), (8, 0.125), (100, 0.125)])
def test_coalescing(step, share):
    def write(ib, k):
        k.B[k.tx * step] = k.A[k.tx * step]

    n = 32 * step
    kernel = make_kernel(write, {"A": ("float32", n), "B": ("float32", n)})
    assert run_kernel(kernel, None, [zeros(n), zeros(n)]).coalescing == share


@pytest.mark.parametrize("lanes", [1, 4])
def test_bytes_an_access(lanes):
    def write(ib, k):
        at = E.Ramp(k.tx * lanes, E.const(1), lanes) if lanes > 1 else k.tx
        value = E.BufferLoad(k.A_buffer, [at])
        ib.emit(S.BufferStore(k.B_buffer, value, [at]))

    n = 32 * lanes
    kernel = make_kernel(write, {"A": ("float32", n), "B": ("float32", n)})
    assert run_kernel(kernel, None, [zeros(n), zeros(n)]).bytes_an_access == 128 * lanes


def test_a_sample_is_of_one_block_and_the_first_steps():
    """So that a kernel of any size is looked at in moments, whatever its results would be."""

    def write(ib, k):
        s = ib.allocate("float32", (32 * 33,), "s", scope="shared")
        with ib.for_range(0, 2**30, name="i") as i:
            s[(k.tx * 2 + i * 64) % 1024] = k.A[k.tx]
            sync(ib)
        k.A[k.bx * 64 + k.tx * 2] = s[k.tx * 2]

    kernel = make_kernel(write, {"A": ("float32", 2**20)}, grid=(2**14,))
    data = np.zeros(2**20, np.float32)
    report = run_kernel(kernel, None, [data], sample=True)
    assert report.bank_conflicts == 2 and not report.findings
    assert report.coalescing is not None and 0.5 < report.coalescing < 1
    assert report.blocks == 2**14 and report.barriers == 8


def test_an_error_shows_eight_problems_and_all_marks():
    def write(ib, k):
        for n in range(10):
            k.A[k.tx + 32 + n] = 1.0

    error = problems(make_kernel(write, {"A": ("float32", 32)}), zeros(32))
    text = str(error)
    assert text.startswith("simt found 10 problems in kernel\n[1] out of bounds: thread (0, 0, 0)")
    assert "\n[8] " in text and "\n[9] " not in text and "... and 2 more" in text
    assert text.count("# <-- [") == 10
    assert len(error.findings) == 10 and error.report.findings is error.findings


def test_a_function_that_is_not_split_yet():
    """Arguments may be those of buffer_map, with sizes that they define."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 3.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=32)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    func = tvm.lower(s, [a, b])["main"]
    x, y = numbers(70), zeros(70)
    assert run_kernel(func, None, [x, y]).blocks == 3
    np.testing.assert_array_equal(y, x * 3)
    run_kernel(func, None, [x, y])
    assert kinds(func, x, zeros(69)) == ["out of bounds"]


def test_buffers_of_several_dimensions():
    a = tir.decl_buffer((4, 8), "float32", name="A")
    b = tir.decl_buffer((4, 8), "float32", name="B", strides=[10, 1], elem_offset=3)
    ib = tir.ir_builder.create()
    tx = te.thread_axis((0, 8), "threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 8)
    with ib.for_range(0, 4, name="i") as i:
        ib.emit(S.BufferStore(b, a[i, tx.var], [i, tx.var]))
    kernel = S.PrimFunc([a.data, b.data], ib.get(), None, {}, {"global_symbol": "k"})
    x, y = numbers(32).reshape(4, 8), zeros(41)
    run_kernel(kernel, None, [x, y])
    np.testing.assert_array_equal(y[3:].tolist() + [0, 0], np.pad(x, ((0, 0), (0, 2))).reshape(-1))
    wrong = S.PrimFunc([a.data], S.BufferStore(a, 1.0, [0]), None, {}, {"global_symbol": "k"})
    with pytest.raises(TilewrightError, match="A has 2 dimensions, got 1 indices"):
        run_kernel(wrong, None, [x])


def test_loops_and_branches_that_agree():
    def write(ib, k):
        with ib.while_loop(k.n > 100):
            k.A[k.tx] = 1.0
        with ib.if_scope(tir.all(k.n > 3, k.A[k.tx] >= 0.0)):
            k.A[k.tx] = 2.0
        with ib.if_scope(k.n > 30):
            k.A[k.tx] = 3.0
        with ib.else_scope():
            k.A[k.tx] = k.A[k.tx] + tir.if_then_else(k.n > 3, k.A[k.tx], tir.const(9, "float32"))
        count = ib.allocate("int32", (1,), "count", scope="local")
        count[0] = 0
        with ib.while_loop(count[0] < k.n):
            count[0] = count[0] + 1
            k.A[k.tx] = k.A[k.tx] + 1.0

    a = zeros(32)
    kernel = make_kernel(write, {"A": ("float32", 32)}, scalars={"n": "int32"})
    run_kernel(kernel, None, [a, 5])
    assert (a == 9).all()


def test_access_pointers_say_what_is_done():
    def write(ib, k):
        args = (type_annotation("float32"), k.A_buffer.data, k.tx, 1, 3)
        ib.emit(call_extern("float32", "atomicAdd", tvm_access_ptr(*args), k.B[k.tx]))

    a = zeros(32)
    kernel = make_kernel(write, {"A": ("float32", 32), "B": ("float32", 32)})
    run_kernel(kernel, None, [a, numbers(32)])
    np.testing.assert_array_equal(a, numbers(32))
    with pytest.raises(TilewrightError, match="is no address"):
        kinds(
            make_kernel(
                lambda ib, k: ib.emit(call_extern("float32", "atomicAdd", k.tx, k.A[0])),
                {"A": ("float32", 1)},
            ),
            zeros(1),
        )


@pytest.mark.parametrize("form", ["and", "or", "let", "select", "vector", "guard", "cast"])
def test_forms_of_undefined_values(form):
    """An undefined value in each form of expression, used and not."""

    def write(used):
        def body(ib, k):
            v = ib.allocate("int32", (4,), "v", scope="local")
            with ib.if_scope(k.tx < 16), ib.for_range(0, 4, name="i") as i:
                v[i] = i
            first, bad = k.tx < 16, v[0] > 0
            reads = k.tx < (17 if used else 16)
            if form == "and":
                with ib.if_scope(tir.all(reads, bad)):
                    k.A[k.tx] = 1
            elif form == "or":
                with ib.if_scope(tir.any(tir.Not(reads), bad)):
                    k.A[k.tx] = 1
            elif form == "let":
                x = E.Var("x", "int32")
                k.A[k.tx] = tir.if_then_else(reads, E.Let(x, v[0], x + x), k.tx)
            elif form == "select":
                k.A[k.tx] = tir.Select(reads, v[1] + 1, tir.Select(first, v[2], k.tx))
            elif form == "vector":
                lanes = tir.Ramp(0, 1, 4)
                whole = v[lanes] * v[lanes]
                part = tir.Shuffle([whole, whole], [2])
                k.A[k.tx] = tir.if_then_else(reads, part, tir.const(0, "int32"))
            elif form == "guard":
                with ib.if_scope(reads):
                    k.A[k.tx] = v[tir.max(v[3], 3)]
            else:
                with ib.if_scope(reads):
                    k.A[k.tx] = (v[0].astype("float32") * 2.0).astype("int32")

        return make_kernel(body, {"A": ("int32", 32)})

    assert kinds(write(False), zeros(32, "int32")) == []
    assert "unwritten memory" in kinds(write(True), zeros(32, "int32"))


def test_kernels_that_are_not_for_simt():
    def float_mod(ib, k):
        k.A[k.tx] = E.Mod(k.A[k.tx], k.A[k.tx])

    with pytest.raises(TilewrightError, match="Mod of floats"):
        kinds(make_kernel(float_mod, {"A": ("float32", 32)}), zeros(32))

    def free(ib, k):
        k.A[k.tx] = tir.Var("loose", "float32")

    with pytest.raises(TilewrightError, match="loose is used where it has no value"):
        kinds(make_kernel(free, {"A": ("float32", 32)}), zeros(32))

    def sizes(ib, k):
        ib.allocate("float32", (k.tx + 1,), "s", scope="local")
        k.A[k.tx] = 1.0

    with pytest.raises(TilewrightError, match="the size of s differs between threads"):
        kinds(make_kernel(sizes, {"A": ("float32", 32)}), zeros(32))

    def handle(ib, k):
        p = tir.Var("p", "handle")
        ib.emit(lambda body: S.LetStmt(p, address_of(k.A[0]), body))
        k.A[k.tx] = 1.0

    with pytest.raises(TilewrightError, match="pointers cannot be variables: p"):
        kinds(make_kernel(handle, {"A": ("float32", 32)}), zeros(32))


def test_findings_without_an_error():
    def write(ib, k):
        k.A[k.tx + 1] = 1.0

    kernel = make_kernel(write, {"A": ("float32", 32)})
    report = run_kernel(kernel, None, [zeros(32)], check=False)
    assert [f.line for f in report.findings] == ["A_1[tx + 1] = T.float32(1)"]


def test_nests_that_are_too_deep():
    def write(ib, k):
        nest: S.Stmt = S.BufferStore(k.A_buffer, 1.0, [k.tx])
        for n in range(600):
            nest = S.IfThenElse(k.A[k.tx] > float(n), nest)
        ib.emit(nest)

    kernel = make_kernel(write, {"A": ("float32", 32)})
    with pytest.raises(TilewrightError, match="of kernel are nested too deeply"):
        run_kernel(kernel, None, [np.full(32, 1e6, "float32")])


def test_kernels_are_not_kept():
    kernel = make_kernel(lambda ib, k: None, {"A": ("float32", 32)})
    run_kernel(kernel, None, [zeros(32)])
    there = weakref.ref(kernel)
    del kernel
    collect()
    assert there() is None
