# %% [markdown]
# # Networks from ONNX and from PyTorch
#
# For readers who have a trained model and want it fast on a CPU, and no schedule at all: compile,
# run, see where the time goes, tune. [Networks](../networks.md) and [PyTorch](../pytorch.md) have
# the details.

# %%
import os
import tempfile

import numpy as np
import onnx
import onnx.reference
import show

import tilewright as tvm
from tilewright import auto_scheduler

rng = np.random.default_rng(0)
folder = tempfile.TemporaryDirectory()


def path(name):
    return os.path.join(folder.name, name)


# %% [markdown]
# ## A model
#
# Any ONNX file whose operators are supported will do. To have one without a download, this page
# writes a small network of two convolutions in ONNX's own text form, with weights at random.

# %%
TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
classify (float[N, 3, 32, 32] image) => (float[N, 10] scores)
<float[16, 3, 3, 3] w1, float[16] b1, float[32, 16, 3, 3] w2, float[32] b2, float[32, 10] w3>
{
    c1 = Conv <pads = [1, 1, 1, 1]> (image, w1, b1)
    r1 = Relu (c1)
    p1 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r1)
    c2 = Conv <pads = [1, 1, 1, 1]> (p1, w2, b2)
    r2 = Relu (c2)
    pooled = GlobalAveragePool (r2)
    flat = Flatten (pooled)
    scores = MatMul (flat, w3)
}
"""
model = onnx.parser.parse_model(TEXT)
shapes = {"w1": (16, 3, 3, 3), "b1": (16,), "w2": (32, 16, 3, 3), "b2": (32,), "w3": (32, 10)}
for name, shape in shapes.items():
    weights = rng.standard_normal(shape, dtype="float32") * 0.2
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
onnx.save(model, path("model.onnx"))

# %% [markdown]
# ## Compile and run
#
# `tilewright.compile` takes a path, bytes, or an `onnx.ModelProto`. The first dimension is open
# here (`N`): one compilation serves all batches. The result is compared with ONNX's reference
# evaluator.

# %%
net = tvm.compile(path("model.onnx"))
print(net)
reference = onnx.reference.ReferenceEvaluator(model)
for batch in (1, 3):
    image = rng.standard_normal((batch, 3, 32, 32), dtype="float32")
    scores = net(image)
    (want,) = reference.run(None, {"image": image})
    np.testing.assert_allclose(scores, want, rtol=1e-3, atol=1e-4)
assert scores.shape == (3, 10)

# %% [markdown]
# Where all shapes are known, schedules are made for exactly them:

# %%
image = rng.standard_normal((1, 3, 32, 32), dtype="float32")
fixed = tvm.compile(path("model.onnx"), shapes={"image": (1, 3, 32, 32)})
print(fixed)
(want,) = reference.run(None, {"image": image})
np.testing.assert_allclose(fixed(image), want, rtol=1e-3, atol=1e-4)
assert fixed.tuned == 0

# %% [markdown]
# What the importer made of the file is a graph. A notebook draws it; `print` lists its operators.

# %%
from tilewright import graph

loaded = graph.load_onnx(path("model.onnx"), shapes={"image": (1, 3, 32, 32)})
loaded

# %% [markdown]
# ## Where the time goes
#
# `profile` times each kernel in its place in the network. On the command line,
# `tilewright run MODEL.onnx --profile` adds what limits it, memory or arithmetic.

# %%
rows = fixed.profile({"image": image})
show.bars("Time of each kernel", {name[:26]: 1e6 * seconds for name, seconds in rows}, "us")

# %% [markdown]
# ## Tuning
#
# The tasks of a network are its distinct kernels that are worth a search. Twelve trials are for
# show: hundreds for each task are common. Records go to a file, which `compile` reads. A kernel
# for which nothing faster than its default schedule was found keeps that; the network says how
# many are tuned.

# %%
tasks, counts = auto_scheduler.extract_tasks(loaded)
for task, count in zip(tasks, counts):
    print(f"{count} x {task.compute_dag.flop_ct / 1e6:.2f} million operations")
auto_scheduler.tune_tasks(tasks, counts, trials=12, records=path("records.db"), verbose=0)
tuned = tvm.compile(
    path("model.onnx"), shapes={"image": (1, 3, 32, 32)}, records=path("records.db")
)
np.testing.assert_allclose(tuned(image), want, rtol=1e-3, atol=1e-4)
print(tuned)
assert len(list(auto_scheduler.load_records(path("records.db")))) >= len(tasks)

# %% [markdown]
# The same without Python: `tilewright tune MODEL.onnx --trials 1000 --records FILE`, then
# `tilewright run MODEL.onnx --records FILE`.
#
# ## What is not supported
#
# One error lists all nodes that are in the way, before any work is done:

# %%
strange = onnx.parser.parse_model(
    """
    <ir_version: 8, opset_import: ["" : 17, "my.domain" : 1]>
    strange (float[4] x) => (float[4] y) { t = my.domain.Wobble (x)  y = Relu (t) }
    """
)
try:
    tvm.compile(strange)
except tvm.TilewrightError as error:
    print(type(error).__name__, error, sep=": ")
    assert "Wobble" in str(error)
else:
    raise AssertionError("an unknown operator must be refused")

# %% [markdown]
# ## PyTorch
#
# Two ways. `torch.compile(module, backend="tilewright")` gives a module that is called as before:
# operators that tilewright knows run as networks, others stay with PyTorch.
# `tilewright.compile(module, args=...)` makes a network of its own, which needs no PyTorch when
# it runs. (PyTorch is an extra; this part is skipped without it.)

# %%
try:
    import torch
except ImportError:
    print("PyTorch is not installed: this part is left out")
    torch = None

if torch is not None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 4),
    ).eval()
    x = torch.rand(1, 3, 16, 16)
    own = tvm.compile(module, args=(x,))
    with torch.no_grad():
        np.testing.assert_allclose(own(x.numpy()), module(x), rtol=1e-4, atol=1e-5)
    print(tvm.from_torch(module, (x,)))

# %% [markdown]
# ```python
# fast = torch.compile(module, backend="tilewright")
# with torch.no_grad():
#     y = fast(x)
# ```
#
# ## Exercises
#
# 1. Compile the model for a batch of 8 and compare with eight calls of the fixed one. Which is
#    faster for one image?
# 2. Compile with `dtype="float16"` and look at how far the scores are off.
# 3. Break the model: remove the initializer `b2`, and read the error.

# %% tags=["solution"]
# 1
import time

eight = tvm.compile(path("model.onnx"), shapes={"image": (8, 3, 32, 32)})
images = rng.standard_normal((8, 3, 32, 32), dtype="float32")
np.testing.assert_allclose(
    eight(images), np.concatenate([fixed(x[None]) for x in images]), rtol=1e-3, atol=1e-4
)
for name, call in (("batch of 8", lambda: eight(images)), ("one by one", lambda: fixed(image))):
    begin = time.perf_counter()
    for _ in range(20):
        call()
    per_call = (time.perf_counter() - begin) / 20
    print(f"{name}: {1e6 * per_call / (8 if name == 'batch of 8' else 1):.0f} us an image")

# %% tags=["solution"]
# 2
half = tvm.compile(path("model.onnx"), shapes={"image": (1, 3, 32, 32)}, dtype="float16")
print("off by", float(np.abs(half(image) - want).max()), "of", float(np.abs(want).max()))
np.testing.assert_allclose(half(image), want, rtol=0.05, atol=0.05)

# %% tags=["solution"]
# 3
broken = onnx.ModelProto()
broken.CopyFrom(model)
kept = [tensor for tensor in broken.graph.initializer if tensor.name != "b2"]
del broken.graph.initializer[:]
broken.graph.initializer.extend(kept)
try:
    tvm.compile(broken, shapes={"image": (1, 3, 32, 32)})
except tvm.TilewrightError as error:
    print(error)
else:
    raise AssertionError("a missing value must be refused")
folder.cleanup()
