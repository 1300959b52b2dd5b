"""What programs do around their GPU kernels: targets, guards, sources, time, files, limits."""

from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm.testing
from gpu_kit import rand, run_everywhere
from tvm import te
from tvm._ffi.registry import remove_global_func
from tvm.contrib import nvcc, utils


def scheduled(n=1024, num_thread=64, f=lambda x: x + 1.0, dtype="float32"):
    A = te.placeholder((n,), name="A", dtype=dtype)
    B = te.compute((n,), lambda i: f(A[i]), name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=num_thread)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    return s, A, B


def test_vector_add_of_the_first_tutorial():
    tgt_host, tgt = "llvm", "cuda"
    n = te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    bx, tx = s[C].split(C.op.axis[0], factor=64)
    if tgt == "cuda" or tgt.startswith("opencl"):
        s[C].bind(bx, te.thread_axis("blockIdx.x"))
        s[C].bind(tx, te.thread_axis("threadIdx.x"))
    fadd = tvm.build(s, [A, B, C], tgt, target_host=tgt_host, name="myadd")
    dev = tvm.device(tgt, 0)
    if dev.exist:
        a, b = (tvm.nd.array(rand(1024), dev) for _ in range(2))
        c = tvm.nd.array(np.zeros(1024, dtype=C.dtype), dev)
        fadd(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    dev_module = fadd.imported_modules[0]
    assert "myadd_kernel" in dev_module.get_source()
    temp = utils.tempdir()
    fadd.export_library(temp.relpath("myadd.so"))
    again = tvm.runtime.load_module(temp.relpath("myadd.so"))
    assert again.imported_modules[0].get_source() == dev_module.get_source()
    assert again.entry_name in ("myadd", "__tvm_main__")


def test_targets_of_all_forms():
    s, A, B = scheduled()
    a = rand(1024)
    run_everywhere(s, [A, B], [a], [a + 1])
    for target in (
        "cuda",
        tvm.target.cuda(),
        tvm.target.cuda(arch="sm_80"),
        tvm.target.Target("cuda -arch=sm_90"),
        tvm.target.Target("cuda", host="llvm"),
        tvm.target.Target({"kind": "cuda", "arch": "sm_80", "max_num_threads": 512}),
        tvm.target.Target('{"kind": "opencl", "device": "mali"}'),
        tvm.target.mali(),
        "opencl -device=adreno",
    ):
        assert tvm.build(s, [A, B], target).imported_modules[0].get_source()
    with tvm.target.Target("cuda"):
        current = tvm.target.Target.current()
        assert current.kind.name == "cuda" and current.max_num_threads == 1024
        assert current.thread_warp_size == 32
        assert "__global__" in tvm.build(s, [A, B]).imported_modules[0].get_source()
    assert tvm.target.Target.current(allow_none=True) is None


def test_sources_of_a_module():
    s, A, B = scheduled()
    with tvm.transform.PassContext(opt_level=3):
        f = tvm.build(s, [A, B], "cuda -arch=sm_80", name="fused")
    dev_mod = f.imported_modules[0]
    assert 'extern "C" __global__ void __launch_bounds__(64) fused_kernel(' in dev_mod.get_source()
    ptx = dev_mod.get_source("ptx")
    assert ".target sm_80" in ptx and ".entry fused_kernel" in ptx
    assert "rt.launch" in f.get_source()
    assert nvcc.have_fp16("8.0") and nvcc.have_int8("6.1") and nvcc.parse_compute_version("9.0")
    assert b"fused_kernel" in bytes(nvcc.compile_cuda(dev_mod.get_source(), "ptx", arch="sm_80"))


def test_callbacks_on_the_source():
    seen = []

    @tvm.register_func("tvm_callback_cuda_postproc", override=True)
    def postproc(code, target=None):
        seen.append(code)
        return code.replace("+ 1.0f", "+ 2.0f")

    try:
        s, A, B = scheduled()
        f = tvm.build(s, [A, B], "cuda")
    finally:
        remove_global_func("tvm_callback_cuda_postproc")
    assert len(seen) == 1 and "+ 2.0f" in f.imported_modules[0].get_source()


def test_files_of_gpu_modules():
    s, A, B = scheduled()
    temp = utils.tempdir()
    a = rand(1024)
    for target, kind in (("cuda", "cuda"), ("opencl", "cl")):
        f = tvm.build(s, [A, B], target, name="f")
        for suffix in ("tar", "so", "two"):
            path = temp.relpath(f"{target}.{suffix}")
            f.export_library(path)
            g = tvm.runtime.load_module(path)
            assert g.type_key and g.imported_modules[0].get_source()
            dev = tvm.device(target, 0)
            if dev.exist:
                x, y = tvm.nd.array(a, dev), tvm.nd.empty((1024,), "float32", dev)
                g(x, y)
                tvm.testing.assert_allclose(y.numpy(), a + 1)
        path = temp.relpath(f"kernels.{kind}")
        f.imported_modules[0].save(path, kind)
        assert "f_kernel" in Path(path).read_text()


def test_time_on_the_device():
    s, A, B = scheduled(4096)
    dev = tvm.opencl(0)
    if not dev.exist:
        print("skip because opencl is not enabled..")
        return
    f = tvm.build(s, [A, B], "opencl")
    x, y = tvm.nd.array(rand(4096), dev), tvm.nd.array(np.zeros(4096, "float32"), dev)
    timer = f.time_evaluator(f.entry_name, dev, number=3, repeat=2, min_repeat_ms=1)
    result = timer(x, y)
    assert len(result.results) == 2 and result.mean > 0
    dev.sync()


def test_lowered_text():
    s, A, B = scheduled(100)
    module = tvm.lower(s, [A, B], simple_mode=True)
    text = str(module)
    assert 'T.launch_thread("blockIdx.x", 2)' in text and "if " in text
    assert module["main"].attrs["global_symbol"] == "main"
    assert str(tvm.lower(s, [A, B])) != text


def test_limits_by_verify_gpu_code():
    s, A, B = scheduled(4096, 256)
    module = tvm.lower(s, [A, B])
    verify = tvm.tir.analysis.verify_gpu_code
    assert verify(module["main"], {"max_threads_per_block": 256})
    assert not verify(module["main"], {"max_threads_per_block": 255})
    valid = [None]

    def get_verify_pass(valid, **kwargs):
        def _fverify(f, *_):
            valid[0] = tvm.tir.analysis.verify_gpu_code(f, kwargs)
            return f

        return tvm.tir.transform.prim_func_pass(_fverify, opt_level=0)

    for limit, fine in ((128, False), (256, True)):
        checked = get_verify_pass(
            valid,
            max_shared_memory_per_block=48 * 1024,
            max_threads_per_block=limit,
        )
        with tvm.transform.PassContext(config={"tir.add_lower_pass": [(2, checked)]}):
            tvm.build(s, [A, B], "cuda")
        assert valid[0] is fine
    with pytest.raises(RuntimeError):
        tvm.build(scheduled(4096, 2048)[0], list(scheduled(4096, 2048)[1:]), "cuda")


def test_devices():
    for name in ("cuda", "opencl", "metal", "rocm", "vulkan", "gpu"):
        if name in ("cuda", "opencl", "gpu"):
            assert tvm.device(name, 0).device_type in (2, 4)
        if not tvm.testing.device_enabled(name):
            print(f"skip because {name} is not enabled..")
    dev = tvm.opencl(0)
    assert str(dev) == "opencl(0)" and dev.device_type == 4 and dev.device_id == 0
    if dev.exist:
        assert dev.max_threads_per_block >= 64 and dev.warp_size >= 1
        x = tvm.nd.array(np.arange(4, dtype="float32"), dev)
        y = tvm.nd.array(np.zeros(4, "float32"), tvm.opencl(0))
        x.copyto(y)
        tvm.testing.assert_allclose(y.numpy(), [0, 1, 2, 3])
        assert x.device == dev and y.copyto(tvm.cpu()).device == tvm.cpu()


def test_user_pass_on_lowered_kernels():
    seen = []

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def note(f, mod, ctx):
        def visit(node):
            if isinstance(node, tvm.tir.AttrStmt) and node.attr_key == "thread_extent":
                seen.append(node.node.thread_tag)

        tvm.tir.stmt_functor.post_order_visit(f.body, visit)
        return f

    s, A, B = scheduled()
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, note)]}):
        tvm.build(s, [A, B], "cuda")
    assert set(seen) == {"blockIdx.x", "threadIdx.x"}


if __name__ == "__main__":
    tvm.testing.main()
