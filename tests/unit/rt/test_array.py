"""Arrays of the runtime: alignment, copies, views, and the exchange with other libraries."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

import tilewright.nd as public
from tests.forget import collect
from tilewright.base.errors import ArgumentError, TilewrightError
from tilewright.rt import array as nd
from tilewright.rt import dlpack
from tilewright.rt.device import Device, cpu, cuda, device, enabled, opencl

DTYPES = ["bool", "int8", "uint8", "int32", "uint64", "float16", "bfloat16", "float32", "float64"]


def kind(dtype: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def address(x: object) -> int:
    return np.asarray(x).__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 0, 4)])
def test_memory_is_aligned_and_values_survive(dtype, shape):
    values = np.arange(int(np.prod(shape))).reshape(shape).astype(kind(dtype))
    a = nd.array(values)
    assert (a.shape, a.dtype, a.ndim, a.device) == (shape, dtype, len(shape), cpu(0))
    assert address(a) % 64 == 0
    assert a.numpy().dtype == values.dtype
    np.testing.assert_array_equal(a.numpy(), values)
    assert a.size == values.size
    assert a.nbytes == values.nbytes


def test_array_copies_and_numpy_copies():
    values = np.zeros(3)
    a = nd.array(values)
    values[0] = 1
    out = a.numpy()
    out[1] = 1
    assert a.asnumpy().tolist() == [0, 0, 0]
    assert nd.array(a).copyfrom([1, 2, 3]).numpy().tolist() == [1, 2, 3]
    assert a.numpy().tolist() == [0, 0, 0]


def test_lists_and_scalars_have_numpys_dtype():
    assert nd.array([1.5]).dtype == "float64"
    assert nd.array(np.float32(1)).dtype == "float32"
    assert nd.array([[1, 2]]).shape == (1, 2)
    assert nd.array([True]).dtype == "bool"


def test_arrays_of_foreign_types_are_refused():
    for bad in (["a"], np.zeros(2, complex), np.zeros(2, "M8[s]"), np.zeros(2, ">i4")):
        with pytest.raises(ArgumentError, match="are not supported"):
            nd.array(bad)


def test_empty_takes_dtypes_of_every_spelling():
    assert nd.empty(3).shape == (3,)
    assert nd.empty((2, 3), np.float16).dtype == "float16"
    assert nd.empty([2], "bfloat16", cpu(0)).dtype == "bfloat16"
    with pytest.raises(ArgumentError, match=r"cannot have shape \(-1,\)"):
        nd.empty((-1,))
    with pytest.raises(ArgumentError, match="memory scope 'texture'"):
        nd.empty((1,), mem_scope="texture")


def test_asarray_shares_memory():
    a = nd.array(np.zeros(4, np.float32))
    np.asarray(a)[2] = 5
    assert a.numpy().tolist() == [0, 0, 5, 0]
    assert np.asarray(a, np.float64).dtype == np.float64
    b = nd.array(np.zeros(4, ml_dtypes.bfloat16))
    np.asarray(b)[1] = 3
    assert np.asarray(b).dtype == kind("bfloat16")
    assert b.numpy().astype(float).tolist() == [0, 3, 0, 0]
    with pytest.raises(ValueError, match="needs a copy"):
        a.__array__(np.int8, copy=False)
    assert address(a.__array__(copy=True)) != address(a)


def test_indexing_gives_views_and_elements():
    a = nd.array(np.arange(12, dtype=np.int32).reshape(3, 4))
    assert a[1, 2] == 6
    row = a[1]
    row[:] = 0
    assert a.numpy()[1].tolist() == [0] * 4
    column = a[:, 1]
    assert column.strides == (4,)
    a[:] = nd.array(np.ones((3, 4), np.int32))
    assert column.numpy().tolist() == [1, 1, 1]
    assert len(a) == 3
    assert "int32" in repr(a)


def test_views_share_memory_under_another_shape_and_dtype():
    a = nd.array(np.arange(6, dtype=np.float32))
    assert a.reshape(2, 3)[1, 0] == 3
    assert a.reshape((3, 2)).shape == (3, 2)
    bits = a.view((6,), "int32")
    bits[0] = 0x3F800000
    assert a[0] == 1
    assert a._create_view((2, 2)).numpy().tolist() == [[1, 1], [2, 3]]
    with pytest.raises(ArgumentError, match="cannot view"):
        a.view((7,))
    with pytest.raises(ArgumentError, match="cannot reshape"):
        a.reshape(4)
    with pytest.raises(ArgumentError, match="cannot view"):
        a[::2].view((3,))


def test_copies_convert_and_check_shapes():
    a = nd.empty((2, 2), "int32").copyfrom(np.array([[1.9, 2], [3, 4]]))
    assert a.numpy().tolist() == [[1, 2], [3, 4]]
    b = nd.empty((2, 2), "float64")
    assert a.copyto(b) is b
    assert b.numpy().tolist() == [[1, 2], [3, 4]]
    c = a.copyto(cpu(0))
    assert c is not a
    assert c.numpy().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ArgumentError, match=r"expected shape \(2, 2\), got \(4,\)"):
        a.copyfrom(np.zeros(4))


def test_devices_compare_by_value():
    assert device("cpu") == device("llvm -mcpu=native", 0) == device(1) == cpu(0) == Device("c")
    assert len({cpu(0), cpu(0), cpu(1)}) == 2
    assert (str(cuda(2)), str(opencl()), Device(99).kind) == (
        "cuda(2)",
        "opencl(0)",
        "device_type_99",
    )
    assert cpu(0).exist
    assert not Device("vulkan").exist
    assert not cuda(99).exist
    cpu(0).sync()
    with pytest.raises(TilewrightError, match="does not exist here"):
        opencl(99).sync()
    assert device(cuda(1)) == cuda(1)
    assert [enabled(x) for x in ("llvm -mcpu=native", "c", "vulkan", "tpu", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert cpu(0) != "cpu(0)"


def test_the_public_module_has_the_same_names():
    assert public.array is nd.array
    assert public.cpu is cpu
    assert "NDArray" in dir(public)
    with pytest.raises(AttributeError, match="no attribute 'sparse'"):
        _ = public.sparse  # type: ignore[attr-defined]


# -- DLPack


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
def test_dlpack_from_numpy_and_back(dtype):
    values = np.zeros((2, 3), kind(dtype))
    a = nd.from_dlpack(values)
    a[0, 1] = 1
    assert values[0, 1] == 1
    back = np.from_dlpack(a)
    assert (back.dtype, address(back)) == (values.dtype, address(values))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_with_ourselves(dtype):
    a = nd.array(np.ones((2, 3), kind(dtype)))
    b = nd.from_dlpack(a)
    assert (b.dtype, b.shape, b._address) == (dtype, (2, 3), a._address)
    c = nd.from_dlpack(a.to_dlpack())
    assert c._address == a._address


def test_dlpack_keeps_strides_of_either_sign():
    values = np.arange(24.0).reshape(4, 6)
    for view in (values[::2, 1::3], values[::-1], values[:, ::-2], values.T):
        a = nd.from_dlpack(view)
        assert a.strides == tuple(s // 8 for s in view.strides)
        np.testing.assert_array_equal(a.numpy(), view)
        np.testing.assert_array_equal(np.from_dlpack(a), view)
        np.testing.assert_array_equal(nd.from_dlpack(a).numpy(), view)


def test_dlpack_lends_for_as_long_as_the_taker_lives():
    a = nd.array(np.arange(3))
    alive = weakref.ref(a)
    other = nd.from_dlpack(a)
    view = other[1:]
    del a, other
    collect()
    assert alive() is not None
    assert view.numpy().tolist() == [1, 2]
    del view
    collect()
    assert alive() is None


def test_a_capsule_that_nobody_takes_gives_the_memory_back():
    for version in (None, (1, 0)):
        a = nd.array(np.arange(3))
        alive = weakref.ref(a)
        capsule = a.__dlpack__(max_version=version)
        del a
        collect()
        assert alive() is not None
        del capsule
        collect()
        assert alive() is None


def test_a_capsule_is_taken_once():
    capsule = nd.array([1]).to_dlpack()
    nd.from_dlpack(capsule)
    with pytest.raises(BufferError, match="consumed already"):
        nd.from_dlpack(capsule)


def test_read_only_memory_stays_so():
    values = np.arange(3.0)
    values.flags.writeable = False
    a = nd.NDArray(values)
    for b in (a, nd.from_dlpack(a)):
        assert b._readonly
        with pytest.raises(ArgumentError, match="read-only"):
            b[:] = 0
        with pytest.raises(ArgumentError, match="read-only"):
            b.copyfrom(np.zeros(3))
    with pytest.raises(BufferError, match="read-only"):
        a.__dlpack__()
    assert not nd.from_dlpack(a.__dlpack__(copy=True))._readonly


def test_dlpack_of_other_devices_is_refused():
    a = nd.array([1.0])
    with pytest.raises(BufferError, match="not on device"):
        a.__dlpack__(dl_device=(2, 0))
    assert a.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="code 5"):
        dlpack.dtype_text(5, 64, 1)


if importlib.util.find_spec("torch") is not None:

    def test_torch_both_ways():
        import torch

        t = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
        a = nd.from_dlpack(t)
        assert (a.dtype, a._address) == ("bfloat16", t.data_ptr())
        a[0, 0] = 9
        assert t[0, 0] == 9
        back = torch.from_dlpack(a)
        assert (back.dtype, back.data_ptr()) == (torch.bfloat16, t.data_ptr())
        assert nd.array(t).numpy().astype(float).tolist() == [[9, 1, 2], [3, 4, 5]]


def test_memory_lent_at_exit_does_no_harm():
    code = (
        "import sys, numpy as np, tilewright.nd as nd\n"
        "a = nd.array(np.ones(4)); b = np.from_dlpack(a); sys.keep = nd.from_dlpack(b)\n"
        "print(sys.keep.numpy().sum())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("4.0\n", "", 0)
