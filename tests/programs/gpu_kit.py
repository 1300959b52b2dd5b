"""What the GPU programs share: run a schedule on OpenCL where a device is, and in simt always."""

import numpy as np
import tvm
import tvm.testing


def run_everywhere(s, args, inputs, expected, rtol=1e-5, atol=1e-6, simt=True, name="main"):
    """Build for CUDA and OpenCL; compare the last arguments with `expected`. Returns the CUDA
    module."""
    outs = [np.zeros(e.shape, e.dtype) for e in expected]
    cuda = tvm.build(s, args, tvm.target.Target("cuda"), name=name)
    assert "__global__" in cuda.imported_modules[0].get_source()
    if simt:
        cuda.run_simt(*inputs, *outs)
        for out, want in zip(outs, expected):
            tvm.testing.assert_allclose(out, want, rtol=rtol, atol=atol)
    dev = tvm.opencl(0)
    if dev.exist:
        opencl = tvm.build(s, args, "opencl", name=name)
        on_device = [tvm.nd.array(x, dev) if isinstance(x, np.ndarray) else x for x in inputs]
        results = [tvm.nd.empty(e.shape, str(e.dtype), dev) for e in expected]
        opencl(*on_device, *results)
        for got, want in zip(results, expected):
            tvm.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=atol)
    return cuda


def rand(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(dtype)
