"""Atomic operations and asynchronous copies."""

from typing import Any

import numpy as np
import pytest

from tests.unit.interp.simt_kernels import kinds, make_kernel, numbers, problems, sync, zeros
from tilewright import tir
from tilewright.base.errors import TilewrightError
from tilewright.interp.simt import run_kernel
from tilewright.loopir import stmt as S
from tilewright.loopir.calls import address_of, call_extern, call_intrin


def atomic(name, k_array, index, *values, dtype="int32"):
    pointer = address_of(k_array[index])
    if name.startswith("tir."):
        return call_intrin(dtype, name, pointer, *values)
    return call_extern(dtype, name, pointer, *values)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "float32", "float64", "float16"])
@pytest.mark.parametrize("name", ["tir.atomic_add", "atomicAdd", "atomic_add"])
def test_a_histogram(name, dtype):
    def write(ib, k):
        at = k.A[k.bx * 32 + k.tx]
        ib.emit(atomic(name, k.H, at, tir.const(2, dtype), dtype=dtype))

    a = (numbers(128, "int32") ** 2 % 7).astype("int32")
    h = zeros(7, dtype)
    kernel = make_kernel(write, {"A": ("int32", 128), "H": (dtype, 7)}, (32,), (4,))
    report = run_kernel(kernel, None, [a, h])
    np.testing.assert_array_equal(h, np.bincount(a, minlength=7) * 2)
    assert report.scope("global").atomics == 128


CASES: dict[str, tuple[Any, int]] = {
    "atomicSub": (lambda v: -v.sum(), 1),
    "atomicMax": (lambda v: v.max(), 1),
    "tir.atomic_max": (lambda v: v.max(), 1),
    "atomicMin": (lambda v: min(v.min(), 0), 1),
    "atomicAnd": (lambda v: 0, 1),
    "atomicOr": (np.bitwise_or.reduce, 1),
    "atom_xor": (np.bitwise_xor.reduce, 1),
    "atomicExch": (lambda v: v[-1], 1),
    "atomic_inc": (lambda v: len(v), 0),
    "atomic_dec": (lambda v: -len(v), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_operations(name):
    expected, values = CASES[name]

    def write(ib, k):
        ib.emit(atomic(name, k.R, 0, *[k.A[k.tx]][:values]))

    a, r = numbers(32, "int32") - 5, zeros(1, "int32")
    kernel = make_kernel(write, {"A": ("int32", 32), "R": ("int32", 1)})
    run_kernel(kernel, None, [a, r])
    assert r[0] == expected(a)


def test_what_was_there_before():
    """Each thread gets another place of a queue; a lock that one thread gets."""

    def write(ib, k):
        with ib.if_scope(k.tx % 2 == 0):
            k.Q[atomic("atomicAdd", k.N, 0, 1)] = k.tx
        k.W[k.tx] = atomic("atomicCAS", k.N, 1, 0, k.tx + 1)
        k.C[k.tx] = atomic("atomicInc", k.N, 2, 4)
        k.D[k.tx] = atomic("atomicDec", k.N, 3, 4)

    names = {"Q": 16, "N": 4, "W": 32, "C": 32, "D": 32}
    q, n, w, c, d = [zeros(size, "int32") for size in names.values()]
    kernel = make_kernel(write, {name: ("int32", size) for name, size in names.items()})
    run_kernel(kernel, None, [q, n, w, c, d])
    np.testing.assert_array_equal(q, np.arange(0, 32, 2))
    np.testing.assert_array_equal(w, [0] + [1] * 31)
    np.testing.assert_array_equal(c, np.arange(32) % 5)
    np.testing.assert_array_equal(d, -np.arange(32) % 5)
    assert list(n) == [16, 1, 32 % 5, -32 % 5]


def test_in_shared_memory_with_barriers():
    def write(barrier):
        def body(ib, k):
            s = ib.allocate("int32", (1,), "s", scope="shared")
            with ib.if_scope(k.tx == 0):
                s[0] = 0
            sync(ib)
            ib.emit(atomic("atomicAdd", s, 0, k.tx))
            if barrier:
                sync(ib)
            k.A[k.tx] = s[0]

        return make_kernel(body, {"A": ("int32", 32)})

    a = zeros(32, "int32")
    run_kernel(write(True), None, [a])
    assert (a == 496).all()
    (found,) = problems(write(False), a).findings
    assert found.kind == "race" and "wrote atomically" in found.message


def test_atomics_and_plain_writes():
    def write(ib, k):
        with ib.if_scope(k.tx == 3):
            k.A[0] = 7
        ib.emit(atomic("atomicAdd", k.A, 0, 1))

    assert kinds(make_kernel(write, {"A": ("int32", 1)}), zeros(1, "int32")) == ["race"]


def test_atomics_of_unwritten_memory_and_out_of_bounds():
    def write(ib, k):
        s = ib.allocate("int32", (1,), "s", scope="shared")
        ib.emit(atomic("atomicAdd", s, 0, 1))
        sync(ib)
        k.A[k.tx] = s[0]
        ib.emit(atomic("atomicAdd", k.A, k.tx + 1, 1))

    found = kinds(make_kernel(write, {"A": ("int32", 32)}), zeros(32, "int32"))
    assert found[:2] == ["unwritten memory", "out of bounds"]


def test_undefined_operands():
    def write(ib, k):
        v = ib.allocate("int32", (1,), "v", scope="local")
        ib.emit(atomic("atomicAdd", k.A, 0, v[0]))

    (found,) = problems(make_kernel(write, {"A": ("int32", 1)}), zeros(1, "int32")).findings
    assert found.kind == "unwritten memory" and "atomic operation" in found.message


def test_operands_that_lack():
    def write(ib, k):
        ib.emit(atomic("atomicAdd", k.A, 0))

    with pytest.raises(TilewrightError, match="takes an address and 1 values"):
        kinds(make_kernel(write, {"A": ("int32", 1)}), zeros(1, "int32"))


# -- asynchronous copies


def cp_async(to, at, source, from_, size, *predicate):
    args = (to.asobject().data, at, source.asobject().data, from_, size, *predicate)
    return call_intrin("float32", "tir.ptx_cp_async", *args)


def pipeline(wait, barrier=True):
    """Two stages: copy the next tile while the present one is used."""

    def write(ib, k):
        s = ib.allocate("float32", (2, 128), "s", scope="shared")

        def start(tile):
            ib.emit(cp_async(s, (tile % 2) * 128 + k.tx * 4, k.A, tile * 128 + k.tx * 4, 16))
            ib.emit(call_intrin("int32", "tir.ptx_commit_group"))

        start(tir.const(0))
        with ib.for_range(0, 4, name="i") as i:
            with ib.if_scope(i < 3):
                start(i + 1)
            with ib.else_scope():
                ib.emit(call_intrin("int32", "tir.ptx_commit_group"))
            if wait is not None:
                ib.emit(call_intrin("int32", "tir.ptx_wait_group", wait))
            if barrier:
                sync(ib)
            with ib.for_range(0, 4, name="j") as j:
                k.B[i * 128 + j * 32 + k.tx] = s[i % 2, 127 - (j * 32 + k.tx)]
            sync(ib)

    return make_kernel(write, {"A": ("float32", 512), "B": ("float32", 512)})


def test_a_pipeline_of_async_copies():
    a, b = numbers(512), zeros(512)
    report = run_kernel(pipeline(1), None, [a, b])
    np.testing.assert_array_equal(b, a.reshape(4, 128)[:, ::-1].reshape(-1))
    assert report.async_copies == 512
    run_kernel(pipeline(0), None, [a, b])


@pytest.mark.parametrize(("step", "turns"), [(1, 1), (8, 8), (33, 1)])
def test_copies_that_meet_in_banks_are_counted(step, turns):
    def write(ib, k):
        s = ib.allocate("float32", (33 * 32,), "s", scope="shared")
        ib.emit(cp_async(s, k.tx * step, k.A, k.tx, 4))
        ib.emit(call_intrin("int32", "tir.ptx_commit_group"))
        ib.emit(call_intrin("int32", "tir.ptx_wait_group", 0))
        sync(ib)
        k.B[k.tx] = s[k.tx * step]

    kernel = make_kernel(write, {"A": ("float32", 32), "B": ("float32", 32)})
    assert run_kernel(kernel, None, [numbers(32), zeros(32)]).bank_conflicts == turns


def test_copies_not_waited_for():
    a, b = numbers(512), zeros(512)
    for wait in (None, 2):
        findings = problems(pipeline(wait), a, b).findings
        assert {f.kind for f in findings} == {"async copy not waited for"}
        assert findings[0].buffer == "s" and "ptx_cp_async" in findings[0].other_line
    # the wait is the thread's own: others need a barrier
    assert kinds(pipeline(1, barrier=False), a, b) == ["race"]


@pytest.mark.parametrize("group", [True, False])
def test_a_group_has_to_be_closed(group):
    def write(ib, k):
        s = ib.allocate("float32", (32,), "s", scope="shared")
        ib.emit(cp_async(s, k.tx, k.A, k.tx, 4))
        if group:
            ib.emit(call_intrin("int32", "tir.ptx_commit_group"))
        ib.emit(call_intrin("int32", "tir.ptx_wait_group", 0))
        k.B[k.tx] = s[k.tx]

    kernel = make_kernel(write, {"A": ("float32", 32), "B": ("float32", 32)})
    assert kinds(kernel, numbers(32), zeros(32)) == ([] if group else ["async copy not waited for"])


def test_copies_with_a_predicate_write_zeros():
    def write(ib, k):
        s = ib.allocate("float32", (32,), "s", scope="shared")
        ib.emit(cp_async(s, k.tx, k.A, k.tx, 4, k.tx < 20))
        ib.emit(call_intrin("int32", "tir.ptx_commit_group"))
        ib.emit(call_intrin("int32", "tir.ptx_wait_group", 0))
        k.B[k.tx] = s[k.tx]

    b = zeros(32)
    kernel = make_kernel(write, {"A": ("float32", 20), "B": ("float32", 32)})
    run_kernel(kernel, None, [numbers(20), b])
    np.testing.assert_array_equal(b, np.concatenate([numbers(20), zeros(12)]))


@pytest.mark.parametrize("waits", [True, False])
def test_copies_by_attributes(waits):
    def write(ib, k):
        s = ib.allocate("float32", (32,), "s", scope="shared")
        buffer = s[0].buffer
        store = S.BufferStore(buffer, k.A[k.tx], [k.tx])
        scope = S.AttrStmt(tir.const(0), "async_scope", 1, store)
        ib.emit(S.AttrStmt(tir.const(0), "async_commit_queue_scope", 0, scope))
        if waits:
            ib.scope_attr(tir.const(0), "async_wait_queue_scope", 0)
            ib.scope_attr(tir.const(0), "async_wait_inflight_count", 0)
        k.B[k.tx] = s[k.tx]

    b = zeros(32)
    kernel = make_kernel(write, {"A": ("float32", 32), "B": ("float32", 32)})
    assert kinds(kernel, numbers(32), b) == ([] if waits else ["async copy not waited for"])
    np.testing.assert_array_equal(b, numbers(32))


def test_copies_go_to_shared_memory():
    def write(ib, k):
        ib.emit(cp_async(k.B, k.tx, k.A, k.tx, 4))

    kernel = make_kernel(write, {"A": ("float32", 32), "B": ("float32", 32)})
    with pytest.raises(TilewrightError, match="async copies go to shared memory, not to B"):
        kinds(kernel, numbers(32), zeros(32))


@pytest.mark.parametrize("shift", [0, 2])
def test_copies_start_at_multiples_of_their_size(shift):
    def write(ib, k):
        s = ib.allocate("float32", (136,), "s", scope="shared")
        ib.emit(cp_async(s, k.tx * 4, k.A, k.tx * 4 + shift, 16))

    found = kinds(make_kernel(write, {"A": ("float32", 136)}), numbers(136))
    assert found == (["misaligned address"] if shift else [])
