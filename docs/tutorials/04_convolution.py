# %% [markdown]
# # A convolution
#
# For readers who have worked through the [matrix product](02_matmul.py): stages that feed each
# other, padding that costs little, and where each stage is computed.
#
# A convolution is a sum of products with more axes. For an image in the layout CHW (channel, row,
# column), with 3x3 filters and a border of zeros:

# %%
import numpy as np
import show

import tilewright as tvm
from tilewright import te, tir

CI, CO, H, W = 32, 32, 40, 48
target = tvm.target.Target("llvm")
LANES = target.vector_bytes // 4


def convolution():
    """data, weight, and three stages: the padded image, the sum, its negative elements set to 0."""
    data = te.placeholder((CI, H, W), name="data")
    weight = te.placeholder((CO, CI, 3, 3), name="weight")
    padded = te.compute(
        (CI, H + 2, W + 2),
        lambda c, y, x: tir.if_then_else(
            tir.all(y >= 1, y < H + 1, x >= 1, x < W + 1), data[c, y - 1, x - 1], 0.0
        ),
        name="padded",
    )
    c = te.reduce_axis((0, CI), name="c")
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    conv = te.compute(
        (CO, H, W),
        lambda o, y, x: te.sum(padded[c, y + dy, x + dx] * weight[o, c, dy, dx], axis=[c, dy, dx]),
        name="conv",
    )
    relu = te.compute((CO, H, W), lambda o, y, x: tir.max(conv[o, y, x], 0.0), name="relu")
    return data, weight, padded, conv, relu


# %% [markdown]
# The oracle is a few lines of NumPy: nine shifted products.

# %%
rng = np.random.default_rng(0)
image = rng.standard_normal((CI, H, W), dtype="float32")
filters = rng.standard_normal((CO, CI, 3, 3), dtype="float32")
border = np.pad(image, ((0, 0), (1, 1), (1, 1)))
want = np.zeros((CO, H, W))
for dy in range(3):
    for dx in range(3):
        shifted = border[:, dy : dy + H, dx : dx + W]
        want += np.einsum("oc,cyx->oyx", filters[:, :, dy, dx], shifted)
want = np.maximum(want, 0)
rates, programs = {}, {}


def measure(name, s, args):
    f = tvm.build(s, args, target, name="conv")
    result = np.empty((CO, H, W), "float32")
    f(image, filters, result)
    np.testing.assert_allclose(result, want, rtol=1e-3, atol=1e-3)
    times = f.time_evaluator("conv", tvm.cpu(0), number=1, repeat=15)(image, filters, result)
    rates[name] = 2 * CO * CI * H * W * 9 / min(times.results) / 1e9
    programs[name] = show.loops(s, args)
    print(programs[name])
    print(f"\n{name}: {rates[name]:.1f} GFLOP/s")


# %% [markdown]
# ## As written
#
# Every stage is computed whole, one after another, each into memory of its own.

# %%
data, weight, padded, conv, relu = convolution()
s = te.create_schedule(relu.op)
measure("as written", s, [data, weight, relu])

# %% [markdown]
# ## compute_inline: padding without a copy
#
# `compute_inline` puts a stage's formula where it is read. The copy is gone; the condition is
# asked for each product instead, 9 x 32 times as often. Here, where every addition waits for the
# one before, that is hardly seen. Below it will be.

# %%
s = te.create_schedule(relu.op)
s[padded].compute_inline()
measure("padding inlined", s, [data, weight, relu])

# %% [markdown]
# ## compute_at: the sum where its result is used
#
# As for the matrix product, a tile of results is held in registers: of `relu`, 4 channels by a
# few vectors of a row. `conv` is computed at the tile's loop, so that its buffer is as large as
# the tile, and `relu` reads it from registers.

# %%
CHANNELS, COLUMNS = 4, 2 * LANES


def tiled():
    data, weight, padded, conv, relu = convolution()
    s = te.create_schedule(relu.op)
    o, y, x = relu.op.axis
    oo, oi = s[relu].split(o, factor=CHANNELS)
    xo, xi = s[relu].split(x, factor=COLUMNS)
    s[relu].reorder(oo, y, xo, oi, xi)
    s[relu].vectorize(xi)
    s[conv].compute_at(s[relu], xo)
    o, y_, x = s[conv].op.axis
    c, dy, dx = s[conv].op.reduce_axis
    s[conv].reorder(c, dy, dx, y_, o, x)
    s[conv].unroll(o)
    s[conv].vectorize(x)
    return s, [data, weight, relu], padded, conv, (oo, y, xo, c)


s, args, _, _, _ = tiled()
measure("tile in registers", s, args)
assert f"conv = T.allocate([{CHANNELS * COLUMNS}]" in programs["tile in registers"]

# %% [markdown]
# ## Where the border is made
#
# The padded image may be made once for all (at the root), once for each row of tiles, or for each
# tile. Later means less memory and more of the same work again: three rows of the image for every
# row of the result. The compiler works out how large the piece is that a place needs; look at the
# allocations.

# %%
for place in ("block of channels", "row"):
    s, args, padded, conv, (oo, y, xo, c) = tiled()
    s[padded].compute_at(s[args[2]], {"block of channels": oo, "row": y}[place])
    measure(f"padded per {place}", s, args)

s, args, padded, _, _ = tiled()
s[padded].compute_inline()
measure("tile, padding inlined", s, args)
assert "padded = " not in programs["tile, padding inlined"]

# %% [markdown]
# ## In parallel
#
# Blocks of channels are independent. The padded image is made once, in parallel too.

# %%
s, args, padded, conv, (oo, y, xo, c) = tiled()
s[args[2]].parallel(s[args[2]].fuse(oo, y))
s[padded].parallel(padded.op.axis[0])
measure("parallel", s, args)
show.bars(f"3x3 convolution, {CI} to {CO} channels, {H} x {W}", rates, "GFLOP/s")

# %% [markdown]
# ## Exercises
#
# 1. Write it with stride 2 (the result is 20 x 24), and check it against every second row and
#    column of `want`.
# 2. Change the layout: `data[y, x, c]` with the channels innermost (NHWC), filters `[dy, dx, c,
#    o]`. Which axis is vectorised now?
# 3. A *depthwise* convolution has one filter for each channel. Why does a tile of 4 channels no
#    longer read the image less often?

# %% tags=["solution"]
# 1: `padded[c, 2 * y + dy, 2 * x + dx]`.
data, weight, padded, conv, relu = convolution()
c, dy, dx = conv.op.reduce_axis
half = te.compute(
    (CO, H // 2, W // 2),
    lambda o, y, x: te.sum(
        padded[c, 2 * y + dy, 2 * x + dx] * weight[o, c, dy, dx], axis=[c, dy, dx]
    ),
    name="half",
)
cut = te.compute(half.shape, lambda o, y, x: tir.max(half[o, y, x], 0.0), name="cut")
f = tvm.build(te.create_schedule(cut.op), [data, weight, cut], target)
result = np.empty((CO, H // 2, W // 2), "float32")
f(image, filters, result)
np.testing.assert_allclose(result, want[:, ::2, ::2], rtol=1e-3, atol=1e-3)

# %% tags=["solution"]
# 2: the output's channels `o`: neighbours in memory of the filters and of the result.
data = te.placeholder((H + 2, W + 2, CI), name="data")
weight = te.placeholder((3, 3, CI, CO), name="weight")
c, dy, dx = (te.reduce_axis((0, n), name=x) for n, x in ((CI, "c"), (3, "dy"), (3, "dx")))
nhwc = te.compute(
    (H, W, CO),
    lambda y, x, o: te.sum(data[y + dy, x + dx, c] * weight[dy, dx, c, o], axis=[dy, dx, c]),
    name="nhwc",
)
s = te.create_schedule(nhwc.op)
y, x, o = nhwc.op.axis
s[nhwc].reorder(y, x, dy, dx, c, o)
oo, oi = s[nhwc].split(o, factor=LANES)
s[nhwc].vectorize(oi)
f = tvm.build(s, [data, weight, nhwc], target)
result = np.empty((H, W, CO), "float32")
f(
    np.ascontiguousarray(border.transpose(1, 2, 0)),
    np.ascontiguousarray(filters.transpose(2, 3, 1, 0)),
    result,
)
np.testing.assert_allclose(np.maximum(result, 0).transpose(2, 0, 1), want, rtol=1e-3, atol=1e-3)

# %% [markdown] tags=["solution"]
# 3: In a convolution all filters read the same image, so a tile of 4 channels uses each piece of
# it four times. In a depthwise one each channel of the result reads its own channel of the image:
# nothing is shared between channels, and only neighbouring rows and columns use the same elements
# again.
