"""The pragma skip_zeros: sums that leave out the steps which add zeros of padding."""

import numpy as np
import pytest

import tilewright
from tilewright import te, tir
from tilewright.lowering.skip_zeros import zero_unless

SIZE, CHANNELS, FILTERS = 7, 8, 16


def padded(inlined):
    """A 3x3 convolution of a padded image (SIZE, SIZE, CHANNELS), and its parts."""
    image = te.placeholder((SIZE, SIZE, CHANNELS), name="image")
    weight = te.placeholder((3, 3, CHANNELS, FILTERS), name="weight")

    def inside(h, w):
        return te.all(h >= 1, h <= SIZE, w >= 1, w <= SIZE)

    pad = te.compute(
        (SIZE + 2, SIZE + 2, CHANNELS),
        lambda h, w, c: te.if_then_else(inside(h, w), image[h - 1, w - 1, c], 0.0),
        name="pad",
    )
    rh, rw = te.reduce_axis((0, 3), "rh"), te.reduce_axis((0, 3), "rw")
    rc = te.reduce_axis((0, CHANNELS), "rc")
    out = te.compute(
        (SIZE, SIZE, FILTERS),
        lambda h, w, f: te.sum(pad[h + rh, w + rw, rc] * weight[rh, rw, rc, f], [rh, rw, rc]),
        name="out",
    )
    s = te.create_schedule(out.op)
    if inlined:
        s[pad].compute_inline()
    return s, [image, weight, out], out, (rh, rw, rc)


def text_of(s, args):
    return str(tilewright.lower(s, args, simple_mode=True))


def result_of(s, args):
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal([int(n) for n in t.shape], np.float32) for t in args]
    given = [tilewright.nd.array(x) for x in arrays]
    tilewright.build(s, args, "llvm")(*given)
    return given[-1].numpy()


def order(s, out, loops):
    """Of padded(): h, w, rh, rw, rc, the filters as vectors."""
    h, w, f = s[out].op.axis
    s[out].reorder(h, w, *loops, f)
    s[out].vectorize(f)
    return h, w


@pytest.mark.parametrize("inlined", [False, True])
def test_tests_stand_outside_the_innermost_loop(inlined):
    s, args, out, (rh, rw, rc) = padded(inlined)
    order(s, out, (rh, rw, rc))
    plain = result_of(s, args)
    s, args, out, (rh, rw, rc) = padded(inlined)
    h, _ = order(s, out, (rh, rw, rc))
    s[out].pragma(h, "skip_zeros")
    text = text_of(s, args)
    before, after = text.split("for rc in range(8)", 1)
    for condition in ("1 <= h + rh", "h + rh <= 7", "1 <= w + rw", "w + rw <= 7"):
        assert f"if {condition}" in before
        assert f"if {condition}" not in after
    assert before.index("h + rh <= 7") < before.index("for rw in range(3)")
    assert "skip_zeros" not in text  # done: nothing is left to say
    if inlined:
        assert "if_then_else" not in text
    np.testing.assert_array_equal(result_of(s, args), plain)


def test_without_the_pragma_all_steps_are_made():
    s, args, out, (rh, rw, rc) = padded(False)
    order(s, out, (rh, rw, rc))
    assert "if " not in text_of(s, args).split("for rh", 1)[1]


def test_conditions_of_the_register_tile_are_left_alone():
    s, args, out, (rh, rw, rc) = padded(False)
    h, w, f = s[out].op.axis
    s[out].reorder(h, rh, rw, rc, w, f)
    s[out].unroll(w)
    s[out].vectorize(f)
    s[out].pragma(h, "skip_zeros")
    text = text_of(s, args)
    assert "if 1 <= h + rh" in text
    assert "w + rw <= 7" not in text.split("for rh", 1)[1]


def test_conditions_of_the_innermost_loop_are_left_alone():
    s, args, out, (rh, rw, rc) = padded(False)
    h, _ = order(s, out, (rc, rh, rw))
    s[out].pragma(h, "skip_zeros")
    text = text_of(s, args).split("for rc", 1)[1]
    assert "if h + rh <= 7" in text
    assert "w + rw <= 7" not in text


def test_copies_of_a_padded_input_are_seen_through():
    s, args, out, (rh, rw, rc) = padded(False)
    pad = next(t for t in out.op.input_tensors if t.op.name == "pad")
    copy = s.cache_read(pad, "global", [out])
    h, _ = order(s, out, (rh, rw, rc))
    s[copy].compute_at(s[out], h)
    s[out].pragma(h, "skip_zeros")
    assert "if h + rh <= 7" in text_of(s, args)


def test_only_sums_are_cut():
    image = te.placeholder((8,), name="image")
    pad = te.compute((10,), lambda i: te.if_then_else(te.all(i >= 1, i < 9), image[i - 1], 0.0))
    k = te.reduce_axis((0, 3), "k")
    most = te.compute((8,), lambda i: te.max(pad[i + k], k), name="most")
    s = te.create_schedule(most.op)
    s[most].pragma(most.op.axis[0], "skip_zeros")
    assert "if " not in text_of(s, [image, most]).split("for k", 1)[1]


def test_what_is_zero_and_when():
    x = te.placeholder((4,), name="x")
    i = te.var("i")
    cut = te.if_then_else(te.all(i >= 0, i < 4), x[i], 0.0)
    assert [str(c) for c in zero_unless(cut * 2.0)] == ["i >= 0", "i < 4"]
    assert [str(c) for c in zero_unless(tir.Select(i < 4, x[i], te.const(0.0, "float32")))] == [
        "i < 4"
    ]
    assert zero_unless(cut + x[i]) == []
    assert zero_unless(te.if_then_else(i < 4, x[i], 1.0)) == []
    assert zero_unless(te.if_then_else(i < 4, 0.0, x[i])) == []


@pytest.mark.parametrize("inlined", [False, True])
def test_steps_of_unrolled_elements_on_zeros_are_not_written(inlined):
    s, args, out, (rh, rw, rc) = padded(inlined)
    order(s, out, (rh, rw, rc))
    plain = result_of(s, args)
    s, args, out, (rh, rw, rc) = padded(inlined)
    h, w, f = s[out].op.axis
    s[out].reorder(h, rh, rw, rc, w, f)
    s[out].vectorize(f)
    s[out].unroll(w)
    s[out].unroll(rw)
    s[out].pragma(h, "skip_zeros")
    text = text_of(s, args)
    steps = [line for line in text.splitlines() if "weight" in line and " + " in line]
    assert len(steps) == 3 * SIZE - 2  # the first column has no left neighbour, the last no right
    assert "1 <= w" not in text.split("weight", 2)[2]
    np.testing.assert_array_equal(result_of(s, args), plain)
