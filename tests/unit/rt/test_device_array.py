"""Arrays on a device, on simt, whose memory is NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.narrow import as_a
from tilewright.base.errors import ArgumentError, TilewrightError
from tilewright.rt import array as nd
from tilewright.rt.array import NDArray
from tilewright.rt.device import cpu, simt
from tilewright.rt.device_array import DeviceArray

DEV = simt(0)
X = np.arange(2 * 5 * 7, dtype=np.int32).reshape(2, 5, 7)

INDICES = [
    0,
    -1,
    (1, 2),
    (slice(None), 3),
    (Ellipsis, 2),
    (Ellipsis, slice(1, 4), 2),
    (0, Ellipsis),
    slice(1, None),
    (slice(None, None, -1), slice(4, 1, -2), slice(None, None, 3)),
    (None, 1, slice(2, 2)),
    (slice(None), None, slice(-3, None), -2),
    (slice(0, 2), slice(0, 5), slice(0, 7)),
    (1, 2, Ellipsis, 3),
    slice(5, 9),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_slices_are_numpys(index):
    a = nd.array(X, DEV)
    assert np.array_equal(a[index].numpy(), X[index])
    assert a[index].shape == X[index].shape
    wanted = X.copy()
    wanted[index] = wanted[index] * 2 + 1
    a[index] = X[index] * 2 + 1
    assert np.array_equal(a.numpy(), wanted)


def test_slices_share_memory():
    a = nd.array(X, DEV)
    rows = a[1][2:4]
    rows[:] = -1
    assert (a.numpy()[1, 2:4] == -1).all() and a.numpy()[1, 1, 0] == X[1, 1, 0]
    twice = a[:, ::2, ::3][1:, 1:]
    assert np.array_equal(twice.numpy(), a.numpy()[:, ::2, ::3][1:, 1:])


def test_an_element_is_a_scalar():
    a = nd.array(X, DEV)
    assert a[1, 2, 3] == X[1, 2, 3] and isinstance(a[1, 2, 3], np.int32)
    assert nd.array(np.float32(4), DEV)[()] == 4
    assert isinstance(a[1, 2, 3, ...], NDArray)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (2, "index 2 is out of bounds for axis 0 with size 2"),
        ((0, -6), "index -6 is out of bounds for axis 1 with size 5"),
        ((0, 0, 0, 0), "4 indices for an array with 3 dimensions"),
        ((Ellipsis, Ellipsis), "only have one ellipsis"),
        ([0, 1], "takes integers and slices as indices, not list"),
        ("x", "takes integers and slices as indices, not str"),
    ],
)
def test_wrong_indices(index, text):
    with pytest.raises(IndexError, match=text):
        nd.array(X, DEV)[index]


def test_views_and_reshapes():
    a = nd.array(X, DEV)
    assert np.array_equal(a.reshape(5, 14).numpy(), X.reshape(5, 14))
    assert np.array_equal(a.view((2, 5, 28), "int8").numpy(), X.view(np.int8))
    assert a.view((4,)).numpy().tolist() == [0, 1, 2, 3]
    assert np.array_equal(a[1].view((35,)).numpy(), X[1].reshape(-1))
    with pytest.raises(ArgumentError, match="cannot view"):
        a.view((71,))
    with pytest.raises(ArgumentError, match="cannot view"):
        a[:, 1].view((14,))
    with pytest.raises(ArgumentError, match="cannot reshape"):
        a.reshape(3, 3)


def test_copies_convert_and_check():
    a = nd.empty((2, 3), "float32", DEV)
    a.copyfrom([[1, 2, 3], [4, 5, 6]])
    b = nd.array(a, DEV)
    assert b.dtype == "float32" and b._address != a._address
    c = nd.empty((2, 3), "int8", DEV).copyfrom(a)
    assert c.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    on_cpu = nd.empty((2, 3), "float64")
    a.copyto(on_cpu)
    assert on_cpu.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert a.copyto(cpu(0)).device == cpu(0)
    column = a[:, 1]
    column.copyfrom(nd.array([7.0, 8.0]))
    assert a.numpy().tolist() == [[1, 7, 3], [4, 8, 6]]
    a[:, ::2] = b[:, :2]
    assert a.numpy().tolist() == [[1, 7, 2], [4, 8, 5]]
    with pytest.raises(ArgumentError, match=r"expected shape \(2, 3\), got \(3,\)"):
        a.copyfrom(np.zeros(3))
    with pytest.raises(TypeError, match="len"):
        len(nd.array(1.0, DEV))
    with pytest.raises(ArgumentError, match="memory scope 'texture' is not supported on simt"):
        nd.empty((2,), "float32", DEV, "texture")
    with pytest.raises(ArgumentError, match="cannot have shape"):
        nd.empty((-1,), "float32", DEV)


def test_facts():
    a = nd.array(X, DEV)
    assert (a.size, a.nbytes, a.ndim, len(a), a.strides) == (70, 280, 3, 2, (35, 7, 1))
    assert a[:, ::2].strides == (35, 14, 1) and a[:, ::2].nbytes == 2 * 3 * 7 * 4
    assert "simt(0)" in repr(a) and str(X[0, 0, 1]) in str(a)
    assert np.asarray(a, np.float64).dtype == np.float64
    with pytest.raises(BufferError, match="cannot be lent"):
        a.__dlpack__()
    with pytest.raises(AttributeError):
        _ = as_a(DeviceArray, a).__cuda_array_interface__
    with pytest.raises(TilewrightError, match=r"simt\(1\) does not exist here: there is one simt"):
        nd.empty((2,), "float32", simt(1))
    assert DEV.exist and DEV.warp_size == 32 and cpu(0).warp_size is None
    assert cpu(0).why_missing() == "" and cpu(0).limits is None
    with pytest.raises(TilewrightError, match=r"cpu\(0\) has no driver"):
        cpu(0).create_stream()
    with pytest.raises(TilewrightError, match=r"no kind of target for device simt\(0\)"):
        DEV.target_attributes()
    assert nd.pinned_empty((3, 2), "int16", DEV).shape == (3, 2)
