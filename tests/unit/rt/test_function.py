"""Calls of native functions: what the slots hold, and every kind of argument."""

from __future__ import annotations

import ctypes
import importlib.util
import threading

import ml_dtypes
import numpy as np
import pytest

from tests.unit.rt.kernels import DUMP, add_function, array, checked, info_of, make, scalar
from tilewright.base.errors import ArgumentError, InternalError, TilewrightError
from tilewright.rt import array as nd
from tilewright.rt.signature import FunctionInfo, dims_text

ADD = add_function()


def vectors(n: int = 8) -> list[np.ndarray]:
    return [np.arange(n, dtype=np.float32), np.full(n, 2, np.float32), np.zeros(n, np.float32)]


def dump(args: list[dict], slots: int, **rest: object):
    """A function that writes its slots to its first argument."""
    first = array("out", "int64", [slots], is_output=True)
    return make(DUMP.format(nbytes=slots * 8), info_of("dump", [first, *args], **rest))


def test_numpy_arrays_are_read_and_written_in_place():
    a, b, c = vectors()
    assert ADD(a, b, c) is None  # type: ignore[func-returns-value]
    np.testing.assert_array_equal(c, a + b)


def test_arrays_of_the_runtime_mix_with_numpy():
    a, b, _ = vectors()
    out = nd.empty((8,))
    ADD(nd.array(a), b, out)
    np.testing.assert_array_equal(out.numpy(), a + b)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_the_symbol_follows_the_shape(n):
    a, b, c = vectors(n)
    ADD(a, b, c)
    np.testing.assert_array_equal(c, a + b)


def test_numpy_subclasses_and_array_protocols_share_memory():
    a, b, c = vectors()

    class Interface:
        def __init__(self, x):
            self.__array_interface__ = x.__array_interface__
            self.keep = x

    class Convertible:
        def __init__(self, x):
            self.x = x

        def __array__(self, dtype=None, copy=None):
            return self.x

    ADD(a.view(np.recarray), Interface(b), Convertible(c))
    np.testing.assert_array_equal(c, a + b)


def test_an_output_that_would_be_a_copy_is_refused():
    a, b, _ = vectors()

    class Copies:
        def __array__(self, dtype=None, copy=None):
            return np.zeros(8, np.float32)

    ADD(Copies(), b, np.empty(8, np.float32))
    with pytest.raises(ArgumentError, match=r"argument 2 \(C\).*hands out copies"):
        ADD(a, b, Copies())


def test_what_lends_no_memory_is_refused():
    a, b, c = vectors()

    class Refuses:
        def __dlpack__(self, max_version=None):
            raise BufferError("it needs a gradient")

        def __dlpack_device__(self):
            return 1, 0

    class Old:
        """Speaks the first version of DLPack only, without telling its device."""

        def __init__(self, x):
            self.x = x

        def __dlpack__(self):
            return self.x.__dlpack__()

    ADD(Old(a), Old(b), Old(c))
    assert c[3] == a[3] + b[3]
    with pytest.raises(ArgumentError, match=r"\(A\): Refuses does not lend its memory: it needs"):
        ADD(Refuses(), b, c)
    Refuses.__array_interface__ = a.__array_interface__  # type: ignore[attr-defined]
    ADD(Refuses(), b, c)


if importlib.util.find_spec("torch") is not None:

    def test_torch_tensors_share_memory():
        import torch

        out = torch.zeros(4)
        ADD(torch.ones(4), torch.full((4,), 3.0), out)
        assert out.tolist() == [4.0] * 4
        with pytest.raises(
            ArgumentError, match=r"argument 0 \(A\): Tensor does not lend its memory"
        ):
            ADD(torch.ones(4, requires_grad=True), out, torch.zeros(4))


def test_scalars_fill_their_slots():
    args = [
        scalar("i", "int32"),
        scalar("b", "bool"),
        scalar("f", "float32"),
        scalar("u", "uint64"),
    ]
    f = dump(args, 5)
    out = np.zeros(5, np.int64)
    f(out, -7, True, 0.5, (1 << 64) - 1)
    assert out[0] == out.__array_interface__["data"][0]
    assert out[1:3].tolist() == [-7, 1]
    assert out[3:4].view(np.float64)[0] == 0.5
    assert out[4:].view(np.uint64)[0] == (1 << 64) - 1


def test_scalars_come_from_numpy_and_from_what_has_index_or_float():
    f = dump([scalar("i", "int8"), scalar("b", "bool"), scalar("f", "float16")], 4)
    out = np.zeros(4, np.int64)

    class Index:
        def __index__(self):
            return -128

    f(out, Index(), np.bool_(False), np.float16(1.5))
    assert out[1:3].tolist() == [-128, 0]
    f(out, np.uint8(127), 1, 3)
    assert out[1:3].tolist() == [127, 1]
    assert out[3:].view(np.float64)[0] == 3.0


def test_handles_are_addresses():
    f = dump([scalar("h", "handle"), scalar("g", "handle")], 3)
    out = np.zeros(3, np.int64)
    f(out, ctypes.c_void_p(1234), ctypes.c_void_p(None))
    assert out[1:].tolist() == [1234, 0]
    f(out, np.uint64((1 << 64) - 1), 5)
    assert out[1:].tolist() == [-1, 5]
    with pytest.raises(ArgumentError, match="expected an integer"):
        f(out, -1, 5)


def test_the_address_is_that_of_the_native_function():
    f = add_function()
    assert f.address == f.address > 0
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(f.address)(bytes(32)) == 0


def test_symbols_come_from_shapes_strides_scalars_and_constants():
    symbols = [
        {"name": "s", "source": ["stride", 1, 0]},
        {"name": "n", "source": ["shape", 1, 1]},
        {"name": "k", "source": ["scalar", 2]},
        {"name": "z", "source": ["const", 0]},
    ]
    args = [array("A", "float32", [3, "n"], strides=["s", 1]), scalar("k", "int32")]
    f = dump(args, 7, symbols=symbols)
    out = np.ones(7, np.int64)
    big = np.zeros((3, 16), np.float32)
    f(out, big[:, :5], 9)
    assert out[3:].tolist() == [16, 5, 9, 0]
    f(out, nd.from_dlpack(big[:, 2:7]), 9)
    assert out[3:].tolist() == [16, 5, 9, 0]
    f(out, nd.array(big[:, :5]), 9)
    assert out[3:].tolist() == [5, 5, 9, 0]


def test_strides_of_compact_arrays_of_every_rank():
    strides = [f"s{j}" for j in range(4)]
    args = [
        array("Z", "float64", [], strides=[]),
        array("A", "int8", ["a", 3, "b", 2], strides=strides),
    ]
    symbols = [{"name": s, "source": ["stride", 2, j]} for j, s in enumerate(strides)]
    f = dump(args, 7, symbols=symbols)
    out = np.zeros(7, np.int64)
    for values in (np.zeros((5, 3, 4, 2), np.int8), np.zeros((0, 3, 4, 2), np.int8)):
        f(out, np.zeros(()), values)
        assert out[3:].tolist() == [24, 8, 2, 1]
        f(out, nd.empty((), "float64"), nd.array(values))
        assert out[3:].tolist() == [24, 8, 2, 1]
    f(out, np.zeros(()), np.zeros((5, 3, 4, 8), np.int8)[:, :, ::2, ::-4])
    assert out[3:].tolist() == [96, 32, 16, -4]


def test_a_symbol_of_a_fixed_shape_has_its_value():
    symbols = [{"name": "n", "source": ["shape", 1, 0]}, {"name": "t", "source": ["stride", 1, 0]}]
    f = dump([array("A", "float32", [3, 4])], 4, symbols=symbols)
    out = np.zeros(4, np.int64)
    f(out, np.zeros((3, 4), np.float32))
    assert out[2:].tolist() == [3, 4]


def test_shapes_may_be_expressions_of_symbols_bound_later():
    args = [
        array("C", "float32", [["sub", "n", 2], ["floordiv", "m", 2]], is_output=True),
        array("A", "float32", ["n", ["max", "m", 1]]),
        array(
            "B", "float32", ["m", ["floormod", "n", 4], ["add", ["mul", "n", 2], ["min", 1, "m"]]]
        ),
    ]
    f = checked(args)
    f(*(np.zeros(s, np.float32) for s in ((4, 2), (6, 5), (5, 2, 13))))
    with pytest.raises(ArgumentError, match=r"\(n - 2, m // 2\) with n = 6, m = 5, got \(5, 2\)"):
        f(*(np.zeros(s, np.float32) for s in ((5, 2), (6, 5), (5, 2, 13))))


def test_a_shape_may_name_a_scalar_argument():
    f = checked([array("A", "float32", ["n", ["add", "n", 1]]), scalar("n", "int32")])
    f(np.zeros((3, 4), np.float32), 3)
    with pytest.raises(ArgumentError, match=r"\(n, n \+ 1\) with n = 4, got \(3, 4\)"):
        f(np.zeros((3, 4), np.float32), 4)


def test_arrays_of_vectors_have_the_lanes_as_a_dimension():
    symbols = [{"name": "s", "source": ["stride", 1, 0]}, {"name": "n", "source": ["shape", 1, 0]}]
    f = dump([array("A", "float32x4", ["n", 3], strides=["s", 1])], 4, symbols=symbols)
    out = np.zeros(4, np.int64)
    f(out, nd.empty((5, 3), "float32x4"))
    assert out[2:].tolist() == [3, 5]
    f(out, np.zeros((2, 3, 4), np.float32))
    assert out[2:].tolist() == [3, 2]
    assert FunctionInfo.from_json(f.info.to_json()) == f.info
    with pytest.raises(ArgumentError, match=r"shape \(n, 3, 4\) with n = 5, got \(5, 3, 3\)"):
        f(out, np.zeros((5, 3, 3), np.float32))


def test_strides_of_extent_one_do_not_matter():
    f = checked([array("A", "float32", [1, 4]), array("B", "float32", [1, 4], strides=[4, 1])])
    wide = np.zeros((8, 4), np.float32)
    f(wide[::3][:1], wide[::3][:1])


def test_fixed_strides_are_compared_in_elements():
    f = checked([array("A", "int16", [2, 3], strides=[8, 2])])
    big = np.zeros((2, 8), np.int16)
    f(big[:, :6:2])
    with pytest.raises(ArgumentError, match=r"expected strides \(8, 2\), got \(8, 1\)"):
        f(big[:, :3])


def test_strides_of_no_whole_elements_are_refused():
    f = checked([array("A", "float32", [2], strides=["s"])])
    odd = np.ndarray((2,), np.float32, np.zeros(32, np.uint8).data, 0, (6,))
    with pytest.raises(ArgumentError, match="strides of whole elements"):
        f(odd)


def test_outputs_may_lie_side_by_side_but_not_overlap():
    buffer = np.zeros(24, np.float32)
    ADD(buffer[:8], buffer[8:16], buffer[16:])
    ADD(buffer[:8], buffer[:8], buffer[8:16])
    with pytest.raises(ArgumentError, match=r"argument 2 \(C\).*overlaps that of argument 1 \(B\)"):
        ADD(buffer[:8], buffer[8:16], buffer[15:23])


def test_strided_views_that_interleave_count_as_overlapping():
    sizes = {"strides": ["s"]}
    f = checked(
        [
            array("A", "float32", [3], **sizes),
            array("C", "float32", [3], strides=["t"], is_output=True),
        ]
    )
    buffer = np.zeros(12, np.float32)
    f(buffer[:3], buffer[3:6])
    f(buffer[5:2:-1], buffer[:3])
    with pytest.raises(ArgumentError, match="overlaps"):
        f(buffer[:6:2], buffer[1:7:2])
    with pytest.raises(ArgumentError, match="overlaps"):
        f(buffer[5:2:-1], buffer[3:6])


def test_empty_arrays_overlap_nothing():
    f = checked([array("A", "float32", ["n"]), array("C", "float32", ["m"], is_output=True)])
    buffer = np.zeros(8, np.float32)
    f(buffer[2:2], buffer)
    f(buffer, buffer[2:2])
    g = checked([array("A", "float32", [0]), array("C", "float32", [8], is_output=True)])
    g(buffer[2:2], buffer)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float64", "bfloat16"]
)
def test_dtypes_match_exactly(dtype):
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    f = checked([array("A", dtype, [3])])
    f(np.zeros(3, kind))
    f(nd.empty((3,), dtype))
    with pytest.raises(ArgumentError, match=f"expected dtype {dtype}, got uint32"):
        f(np.zeros(3, np.uint32))


def test_foreign_byte_order_is_another_dtype():
    f = checked([array("A", "float32", [3])])
    with pytest.raises(ArgumentError, match=r"expected dtype float32, got >f4"):
        f(np.zeros(3, ">f4"))


def test_alignment_beyond_an_element_is_checked_where_the_signature_asks():
    f = checked([array("A", "float32", [4], align=64)])
    f(nd.empty((4,)))
    raw = nd.empty((8,))
    with pytest.raises(ArgumentError, match=r"aligned to 64 bytes, got an address that is 4 bytes"):
        f(np.asarray(raw)[1:5])


def test_elements_have_to_be_aligned():
    f = checked([array("A", "float64", [4])])
    shifted = np.zeros(33 + 8, np.uint8)[1:33].view(np.float64)
    off = shifted.__array_interface__["data"][0] % 8
    with pytest.raises(ArgumentError, match=f"aligned to 8 bytes, got an address that is {off}"):
        f(shifted)


def test_prepare_checks_once_and_keeps_the_arrays():
    a, b, c = vectors()
    run = ADD.prepare(a, b, c)
    expected = a + b
    del a, b
    run()
    np.testing.assert_array_equal(c, expected)
    with pytest.raises(ArgumentError, match="expected 3 arguments"):
        ADD.prepare(c)
    with pytest.raises(ArgumentError, match="expected shape"):
        ADD.prepare(c, c[:3], np.zeros(8, np.float32))


def test_a_failed_check_of_the_program_raises_its_message():
    ir = "define i32 @g(ptr %slots) { ret i32 2 }"
    f = make(ir, info_of("g", [], messages=["first", "index out of bounds: i < n"]))
    with pytest.raises(TilewrightError, match=r"^g: index out of bounds: i < n$"):
        f()
    with pytest.raises(TilewrightError, match="index out of bounds"):
        f.prepare()()


def test_calls_from_many_threads_do_not_mix_their_slots():
    failures: list[int] = []

    def work(seed: int) -> None:
        a, b, c = (np.full(5 + seed, seed, np.float32) for _ in range(3))
        for _ in range(300):
            c[:] = 0
            ADD(a, b, c)
            if not (c == 2 * seed).all():
                failures.append(seed)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []


def test_signatures_read_back_from_json():
    import json

    info = info_of(
        "f",
        [
            array("A", "float32", ["n", ["sub", "n", ["mul", 2, "m"]]], strides=["s", 1], align=64),
            scalar("x", "float16"),
        ],
        symbols=[{"name": "n", "source": ["shape", 0, 0]}],
        messages=["no"],
        attrs={"flops": 3},
    )
    back = FunctionInfo.from_json(json.loads(json.dumps(info.to_json())))
    assert back == info
    assert hash(back) == hash(info)
    assert dims_text(back.args[0].shape) == "(n, n - (2 * m))"


@pytest.mark.parametrize(
    "bad",
    [
        {"args": [{"name": "A", "kind": "tensor", "dtype": "float32"}]},
        {"args": [array("A", "float32", [["pow", "n", 2]])]},
        {"args": [], "symbols": [{"name": "n", "source": ["register", 0]}]},
    ],
)
def test_a_malformed_signature_is_a_bug_of_the_compiler(bad):
    with pytest.raises(InternalError):
        FunctionInfo.from_json({"name": "f", **bad})
