"""Texts as the documents of TVM's users print them."""

import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import TilewrightError


def rows() -> tuple[te.Tensor, te.Tensor, te.Schedule]:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    return a, b, te.create_schedule(b.op)


def test_arrays_with_strides() -> None:
    a, b, s = rows()
    text = str(tvm.lower(s, [a, b], simple_mode=True))
    for line in (
        'A_1 = T.match_buffer(A, (n, m), strides=("stride", "stride"), buffer_type="auto")',
        'B_1 = T.match_buffer(B, (n,), strides=("stride",), buffer_type="auto")',
        'A_2 = T.Buffer((A_1.strides[0] * n,), data=A_1.data, buffer_type="auto")',
    ):
        assert line in text


def test_bodies_are_lists() -> None:
    _, b, s = rows()
    s.rfactor(b, s[b].split(b.op.reduce_axis[0], factor=16)[1])
    body = s[b].op.body
    assert len(body) == 1 and body[0].source[0] is not None
    assert (
        str(body)
        == repr(body)
        == (
            "[T.reduce(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), source=[B.rf[k_inner_v, "
            'ax0]], init=[], axis=[T.iter_var(k_inner_v, T.Range(0, 16), "CommReduce", "")], '
            "condition=T.bool(True), value_index=0)]"
        )
    )


def test_types_of_buffers() -> None:
    assert tir.decl_buffer((4,), buffer_type="auto").buffer_type == 2
    assert tir.decl_buffer((4,), buffer_type="default").buffer_type == 1
    with pytest.raises(TilewrightError, match="buffer_type is"):
        tir.decl_buffer((4,), buffer_type="some")
