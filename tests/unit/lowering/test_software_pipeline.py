"""Loops with several tiles under way: rings of slots, their waits and barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.exec.gpu.corpus.matmul import Tiles, tiled
from tilewright import te, tir, topi
from tilewright.base.errors import CompileError
from tilewright.driver.lower import lower
from tilewright.interp.simt import SimtError, run_kernel
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.expr import const_int
from tilewright.loopir.rewrite import Rewriter, handles
from tilewright.loopir.visit import nodes
from tilewright.lowering.device_pipeline import run_device_pipeline
from tilewright.lowering.software_pipeline import period_of
from tilewright.rt.drivers import nvrtc
from tilewright.topi.schedules.decisions import Decisions

STAGES = [2, 3, 4]


def product(stages: int, depth: int = 48, **how: Any) -> tuple[Any, list[Any]]:
    return tiled(
        Tiles((32, 32, depth), tile=32, threads=8, vector=4, double=True, stages=stages, **how)
    )


def source(program: tuple[Any, list[Any]], target: str) -> str:
    text: str = tw.build(*program, target, name="f").imported_modules[0].get_source()
    return text[text.index("f_kernel") :]


def kernel(stages: int) -> S.PrimFunc:
    target = tw.Target("cuda -arch=sm_80")
    func = lower(*product(stages, late=True))["main"]
    (found,) = run_device_pipeline(func, target, check=True).kernels.values()
    return found


def inputs() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 32 * 48)).astype("float32")
    return a, b


@pytest.mark.parametrize("stages", STAGES)
def test_waits_leave_copies_under_way(stages: int) -> None:
    text = source(product(stages, late=True), "cuda -arch=sm_80")
    # two arrays: before the loop once a stage but one, and once in it
    assert text.count("tw_cp_async<16, ") == 2 * stages
    assert text.count("tw_cp_commit()") == stages
    assert text.count("__syncthreads()") == 2
    waits = [f"tw_cp_wait<{stages - 2}>()", "tw_cp_wait<0>()"]
    assert text.count("tw_cp_wait<") == 2 and all(w in text for w in waits)
    assert f"A_shared[{stages * 256}]" in text


@pytest.mark.parametrize("target", ["opencl", "cuda -arch=sm_75"])
def test_without_asynchronous_copies(target: str) -> None:
    program = product(3, late=target != "opencl")
    text = source(program, target)
    assert text.count("barrier(CLK_LOCAL" if target == "opencl" else "__syncthreads()") == 2
    assert "async" not in text and ("A_shared_next" in text) == (target != "opencl")
    plain = source(product(3), target)
    assert "async" not in plain and "_next" not in plain
    if target != "opencl" and not nvrtc.why_missing():
        whole = tw.build(*program, target).imported_modules[0].get_source()
        ptx, log = nvrtc.compile_cuda(whole, "sm_75")
        assert log == "" and b"cp.async" not in ptx


class _LongerWaits(Rewriter):
    """Every wait leaves one more group under way."""

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        if e.op.name != "tir.ptx_wait_group":
            return super()._call(e)
        return E.Call(e.dtype, e.op, (E.const((const_int(e.args[0]) or 0) + 1),))


class _NoBarriers(Rewriter):
    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        call = s.value
        gone = isinstance(call, E.Call) and call.op.name == "tir.tvm_storage_sync"
        return S.no_op() if gone else s


@pytest.mark.parametrize("stages", STAGES)
def test_simt_sees_that_waits_and_barriers_are_needed(stages: int) -> None:
    func = kernel(stages)
    a, b = inputs()
    out = np.zeros(32 * 32, "float32")
    report = run_kernel(func, None, [a, b, out])
    want = a.reshape(32, 48) @ b.reshape(48, 32)
    np.testing.assert_allclose(out.reshape(32, 32), want, rtol=1e-4, atol=1e-4)
    assert report.async_copies > 0 and report.findings == []
    for change, what in ((_LongerWaits(), "not waited for"), (_NoBarriers(), "race")):
        with pytest.raises(SimtError, match=what):
            run_kernel(func.with_body(change.stmt(func.body)), None, [a, b, out.copy()])


def test_a_step_needs_one_barrier() -> None:
    a, b = inputs()
    counts = {}
    for stages in (0, 2, 3):
        how = product(stages, late=True)
        built = tw.build(*how, "cuda -arch=sm_80", name="f")
        shaped = a.reshape(32, 48), b.reshape(48, 32), np.zeros((32, 32), "float32")
        (report,) = built.run_simt(*shaped).values()
        counts[stages] = report.barriers
    # six steps; the last stages - 1 of them share a barrier
    assert counts == {0: 6, 2: 6, 3: 5}


@pytest.mark.parametrize("depth", [8, 16, 24])
def test_fewer_steps_than_stages(depth: int) -> None:
    text = source(product(5, depth, late=True), "cuda -arch=sm_80")
    steps = depth // 8
    assert text.count("tw_cp_async<16, ") == 2 * steps
    assert f"A_shared[{steps * 256}]" in text


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_steps_are_written_out_where_tensor_cores_work(dtype: str) -> None:
    """Twice as many as there are slots: a tile of 64 by 64 has few products a step."""
    a, b = (te.placeholder((64, 2048), dtype, name=n) for n in "AB")
    target = tw.Target("cuda -arch=sm_80")
    out = topi.nn.dense(a, b, out_dtype="float32")
    whole = Decisions({"T_dense.parts": (1,)})  # else parts of the reduction are a batch
    s = topi.schedules.default.default_schedule(out, target, whole)
    text = source((s, [a, b, out]), "cuda -arch=sm_80")
    assert "tw_cp_wait<" in text
    start = text.index("  for (int k_outer")
    main = text[start : text.index("\n  }\n", start)]
    assert main.count("tw_cp_wait<") == (8 if dtype == "float16" else 1)
    assert ("  #pragma unroll 1\n  for (int k_outer" in text) == (dtype == "float16")
    assert ("k_outer & 3" in main or "k_outer & 1" in main) == (dtype == "float32")


def test_steps_that_slots_do_not_divide_are_written_out_too() -> None:
    from benchmarks.gpu_kernels import TensorTiles, tensor_matmul

    t = TensorTiles((16, 16), (16, 16), 16, 3)
    for steps in (3, 4, 6, 7, 11):
        s, args = tensor_matmul(16, 16, 16 * steps, t=t)
        built = tw.build(s, args, "cuda -arch=sm_80", name="f")
        a, b = (np.random.default_rng(n).random((16, 16 * steps)) for n in (0, 1))
        x, y = a.astype("float16"), np.ascontiguousarray(b.T).astype("float16")
        out = np.zeros((16, 16), "float32")
        (report,) = built.run_simt(x, y, out).values()
        np.testing.assert_allclose(out, x.astype("float64") @ y.astype("float64"), rtol=1e-3)
        assert not report.findings


def test_a_loop_that_fills_nothing_stays() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    plain, marked = te.create_schedule(b.op), te.create_schedule(b.op)
    marked[b].pragma(b.op.axis[0], "software_pipeline_stages", 3)
    assert str(tw.lower(plain, [a, b])) == str(tw.lower(marked, [a, b]))


@pytest.mark.parametrize("stages", [0, -1, 17])
def test_how_many_stages_there_can_be(stages: int) -> None:
    program = tiled(Tiles(double=True))
    s, args = program
    local = next(x for x in s.stages if x.op.name == "C.local")
    local.pragma(local.leaf_iter_vars[0], "software_pipeline_stages", stages)
    with pytest.raises(CompileError, match="software_pipeline_stages is 1 to 16"):
        tw.lower(s, args)


def test_pointers_to_a_slot_move_with_it() -> None:
    from benchmarks.gpu_kernels import TensorTiles, tensor_matmul

    t = TensorTiles((16, 16), (16, 16), 16, 3)
    s, args = tensor_matmul(16, 16, 96, t=t)
    func = lower(s, args)["main"]
    loads = [x for x in nodes(func.body) if isinstance(x, E.Call) and "load_matrix" in x.op.name]
    pointers: list[Any] = [x.args[5] for x in loads]
    offsets = [str(x.args[2]) for x in pointers]
    main = [str(384 * (step % 3)) for step in range(4) for _ in range(2)]
    assert offsets == [*main, *["k_outer_last * 384 + 384"] * 2]  # steps 4 and 5, in slots 1 and 2


def test_how_many_steps_quotients_repeat_after() -> None:
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")

    def period(e: Any) -> int:
        return period_of(tir.Evaluate(e), i)

    assert period(i * 5 + j) == 1
    assert period((i * 32 + j) // 224) == 7
    assert period((i * 32 + j) % 224 + (i * 4 + j) // 6) == 21
    assert period((i * 32 + j) // 64 // 3) == 6
    assert period((i * 32 + j) % 64 // 3) == 2  # the same rest each time, and what comes of it
    assert period(j // 7 + (i * i + j) // 9) == 1  # squares grow by no constant
