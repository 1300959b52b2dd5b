# %% [markdown]
# # Deploying
#
# For readers who have a function or a network that is fast enough, and now want it to run
# elsewhere: in a program without the compiler, in a program in C, on another kind of machine.
# [Deployment](../deployment.md) has the details.

# %%
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import tilewright as tvm
from tilewright import te

rng = np.random.default_rng(0)
folder = tempfile.TemporaryDirectory()


def path(name):
    return os.path.join(folder.name, name)


# %% [markdown]
# ## One function
#
# `export_library` writes what `tvm.build` made; `tvm.runtime.load_module` reads it. Loading needs
# NumPy and neither LLVM nor the program that made it.

# %%
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2 + 1, name="B")
f = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="scale")
f.export_library(path("scale.so"))
loaded = tvm.runtime.load_module(path("scale.so"))
a = rng.random(10, dtype="float32")
b = np.empty(10, "float32")
loaded["scale"](a, b)
np.testing.assert_allclose(b, 2 * a + 1, rtol=1e-6)

# %% [markdown]
# ## A network as one file
#
# `save` writes code, weights and signature; `load_network` maps the file, so that its weights are
# shared by all processes that use it.

# %%
model = onnx.parser.parse_model(
    """
    <ir_version: 8, opset_import: ["" : 17]>
    layer (float[1, 64] x) => (float[1, 8] y) <float[64, 8] w> { t = MatMul (x, w)  y = Relu (t) }
    """
)
weights = rng.standard_normal((64, 8), dtype="float32")
model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
net = tvm.compile(model)
net.save(path("layer.net"))
x = rng.standard_normal((1, 64), dtype="float32")
np.testing.assert_allclose(net(x), np.maximum(x @ weights, 0), rtol=1e-4, atol=1e-5)

# %% [markdown]
# In a process of its own, which says what it has imported: no compiler.

# %%
np.save(path("x.npy"), x)
PROGRAM = """
import sys
import numpy as np
import tilewright

net = tilewright.load_network("layer.net")
np.save("y.npy", net(np.load("x.npy")))
print("LLVM loaded:", "llvmlite" in sys.modules, " onnx loaded:", "onnx" in sys.modules)
"""
done = subprocess.run(
    [sys.executable, "-c", PROGRAM], cwd=folder.name, capture_output=True, text=True, check=True
)
print(done.stdout)
assert done.stdout.split() == ["LLVM", "loaded:", "False", "onnx", "loaded:", "False"]
np.testing.assert_array_equal(np.load(path("y.npy")), net(x))

# %% [markdown]
# ## A library for C
#
# The command line compiles a model to a shared object with the weights inside, and a header:


# %%
def tilewright(*arguments):
    """Run the command line tool, and show what it says."""
    command = [sys.executable, "-m", "tilewright", *arguments]
    done = subprocess.run(command, cwd=folder.name, capture_output=True, text=True)
    print(f"$ tilewright {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    assert done.returncode == 0
    return done.stdout


onnx.save(model, path("layer.onnx"))
tilewright("compile", "layer.onnx", "-o", "liblayer.so", "--format", "so")
with open(path("liblayer.h")) as header:
    lines = header.read().splitlines()
print("\n".join(line for line in lines if "layer_" in line and "(" in line))

# %% [markdown]
# A program in C includes the header and calls `layer_run` with its inputs and outputs in order:

# %%
MAIN = """
#include "liblayer.h"
#include <stdio.h>

int main(void) {
  float x[64], y[8];
  for (int i = 0; i < 64; ++i) x[i] = i / 64.0f;
  if (layer_run(x, y) != 0) return 1;
  for (int i = 0; i < 8; ++i) printf("%.5f ", y[i]);
  return 0;
}
"""
with open(path("main.c"), "w") as source:
    source.write(MAIN)
ramp = np.arange(64, dtype="float32")[None] / 64
want = net(ramp)[0]


def from_c(command):
    out = subprocess.run(command, cwd=folder.name, capture_output=True, text=True, check=True)
    values = np.array(out.stdout.split(), dtype="float32")
    print(" ".join(command), values, sep="\n")
    np.testing.assert_allclose(values, want, atol=2e-5)


if shutil.which("cc"):
    build = ["cc", "main.c", "-L.", "-llayer", "-lm", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(build, cwd=folder.name, check=True)
    from_c(["./main"])
else:
    print("no C compiler here: the program is not built")

# %% [markdown]
# ## Another kind of machine
#
# A target names the machine: its triple and CPU. LLVM makes its code, and tilewright's own linker
# the library; no cross compiler is needed for that (the C program needs one, or the machine
# itself). Here the result is run in an emulator, if there is one.

# %%
arm = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"
tilewright("compile", "layer.onnx", "-o", "libarm.so", "--format", "so", "--target", arm)
with open(path("libarm.so"), "rb") as file:
    head = file.read(20)
assert head[:4] == b"\x7fELF" and head[18] == 183  # the number of AArch64 in ELF
if shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64"):
    with open(path("main.c"), "w") as source:
        source.write(MAIN.replace("liblayer.h", "libarm.h").replace("layer_run", "arm_run"))
    cross = ["aarch64-linux-gnu-gcc", "main.c", "-L.", "-larm", "-lm", "-o", "main_arm"]
    subprocess.run(cross, cwd=folder.name, check=True)
    from_c(["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-E", "LD_LIBRARY_PATH=.", "main_arm"])
else:
    print("no cross compiler or emulator here: the library is made, but not run")

# %% [markdown]
# A network that was compiled for another machine is refused when it is called here, and the error
# says what is missing. For several kinds of x86 machines, compile for what they share: `--target
# "llvm -mcpu=x86-64-v3"`.
#
# ## Exercises
#
# 1. Damage `layer.net` by one byte near its beginning, and load it.
# 2. Call the function of the first section with arrays of two types, and of two shapes. Who
#    checks them?
# 3. Write the library with `--threads none`, and compare the header.

# %% tags=["solution"]
# 1: all but the weights has a checksum; `load_network(path, verify=True)` checks these too.
with open(path("layer.net"), "rb") as file:
    content = bytearray(file.read())
content[40] ^= 1
with open(path("bad.net"), "wb") as file:
    file.write(content)
try:
    tvm.load_network(path("bad.net"))
except tvm.TilewrightError as error:
    print(str(error).replace(folder.name, "..."))
else:
    raise AssertionError("damage must be noticed")

# %% tags=["solution"]
# 2: the compiled function itself, before it touches any memory.
for x, y in (
    (a.astype("float64"), b),
    (a, np.empty(9, "float32")),
):
    try:
        loaded["scale"](x, y)
    except tvm.TilewrightError as error:
        print(error)
    else:
        raise AssertionError("arguments that do not fit must be refused")

# %% tags=["solution"]
# 3
tilewright("compile", "layer.onnx", "-o", "libone.so", "--format", "so", "--threads", "none")
with open(path("libone.h")) as header:
    text = header.read()
assert "set_threads" in "\n".join(lines) and "set_threads" not in text
folder.cleanup()
