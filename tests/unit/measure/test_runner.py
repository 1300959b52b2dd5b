"""Candidates are built and timed; a crash, a hang or nonsense costs that candidate alone."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.forget import collect
from tests.fuzz.tensorize import intrin_for
from tests.unit.measure.runner_kit import FAST, LLVM, calls, measured, product
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.measure.process import WorkerProcess
from tilewright.measure.program import construct, describe
from tilewright.measure.result import MeasureErrorNo as No
from tilewright.measure.runner import Measurer, Timing


def test_candidates_travel_as_data_and_run() -> None:
    found = measured([product(2), product(4)], repeat=2, check=True)
    for result in found:
        assert result.ok and len(result.costs) == 2 and result.cost > 0
        assert result.seconds > 0 and result.timestamp <= time.time()


def test_a_described_candidate_is_the_same_function() -> None:
    program = product(4)
    assert "trace" in program and "ir" not in program
    a, b = (np.random.default_rng(i).random((16, 16), "float32") for i in range(2))
    c = np.zeros((16, 16), "float32")
    construct(program)(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_layouts_travel_as_data() -> None:
    A = te.placeholder((8, 4), name="A")
    B = te.compute((8, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 4), lambda i, j: B[i, j] * A[i, j], name="C")
    s = te.create_schedule(C.op)
    s[B].transform_layout(lambda i, j: [j // 2, i, te.AXIS_SEPARATOR, j % 2])
    s[A].transform_layout(lambda i, j: [j, i])
    program = describe(s, [A, C], LLVM)
    assert "trace" in program and "ir" not in program
    a, c = np.random.default_rng(0).random((4, 8), "float32"), np.zeros((8, 4), "float32")
    construct(program)(a, c)
    np.testing.assert_array_equal(c, (a.T + 1) * a.T)
    (result,) = measured([program])
    assert result.ok


def test_a_schedule_with_a_tensor_intrinsic_travels_as_loops() -> None:
    A = te.placeholder((8, 4), name="A")
    B = te.compute((8, 4), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].tensorize(B.op.axis[1], intrin_for(B.op, B.op.axis[1], 4, False))
    program = describe(s, [A, B], LLVM)
    assert "ir" in program
    (result,) = measured([program])
    assert result.ok


def test_users_rules_hold_in_workers() -> None:
    """A rule is a function of this process, so what it makes travels."""
    from tilewright.loopir.intrin_rules import register_intrin_lowering, remove_rule

    register_intrin_lowering("tir.exp", "llvm", lambda e: e.args[0] + 41.0, level=99)
    try:
        A = te.placeholder((4,), name="A")
        B = te.compute((4,), lambda i: te.exp(A[i]), name="B")
        program = describe(te.create_schedule(B.op), [A, B], LLVM)
    finally:
        remove_rule("tir.exp", "llvm")
    out = np.zeros(4, "float32")
    construct(program)(np.ones(4, "float32"), out)
    assert out.tolist() == [42.0] * 4


def test_a_crash_costs_that_candidate_alone() -> None:
    """`abort` ends the process that calls it: what it had built besides is built again."""
    found = measured([product(2), calls("abort"), product(4)])
    assert [r.error_no for r in found] == [No.NO_ERROR, No.RUNTIME_DEVICE, No.NO_ERROR]
    assert "SIGABRT" in found[1].message


@pytest.mark.parametrize(
    ("name", "argument", "reason"),
    [("raise", 11, "SIGSEGV"), ("raise", 9, "SIGKILL"), ("exit", 3, "status 3"),
     ("_exit", 0, "status 0")],
)  # fmt: skip
def test_workers_that_end_are_survived(name: str, argument: int, reason: str) -> None:
    found = measured([calls(name, argument=argument), product(2)])
    assert found[0].error_no == No.RUNTIME_DEVICE and reason in found[0].message
    assert found[1].ok


def test_a_division_by_zero_is_a_candidate_like_others() -> None:
    A = te.placeholder((64,), "int32", name="A")
    B = te.compute((64,), lambda i: tvm.tir.truncdiv(i, A[i]), name="B")
    found = measured([describe(te.create_schedule(B.op), [A, B], LLVM), product(2)])
    assert [r.error_no for r in found] == [No.NO_ERROR, No.NO_ERROR]


def test_too_much_memory_costs_that_candidate_alone() -> None:
    """Within the kernel (16 GiB for a stage of its own), or for its arguments."""
    n = 1 << 16
    A = te.placeholder((n,), name="A")
    B = te.compute((n, n), lambda i, j: A[i] + A[j], name="B")
    k, j = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "j")
    C = te.compute((n,), lambda i: te.sum(B[i, k], axis=k), name="C")
    D = te.compute((1,), lambda i: te.sum(C[j] + B[j, j], axis=j), name="D")
    inside = describe(te.create_schedule(D.op), [A, D], LLVM)
    arguments = describe(te.create_schedule(B.op), [A, B], LLVM)
    found = measured([inside, arguments, product(2)], memory=1 << 30)
    assert [r.error_no for r in found] == [No.RUNTIME_DEVICE, No.RUNTIME_DEVICE, No.NO_ERROR]


def test_a_hang_costs_that_candidate_alone() -> None:
    """`pause` never returns."""
    found = measured([product(2), calls("pause"), product(4)], run_timeout=3.0)
    assert [r.error_no for r in found] == [No.NO_ERROR, No.RUN_TIMEOUT, No.NO_ERROR]
    assert "more than 3 s" in found[1].message


def test_a_crash_that_takes_built_ones_along_in_two_workers() -> None:
    programs = [calls("abort"), product(2), calls("abort"), product(4), calls("abort"), product(8)]
    found = measured(programs, n_parallel=2)
    assert [r.ok for r in found] == [False, True] * 3


def test_a_build_that_takes_too_long_is_given_up() -> None:
    n = 1 << 12
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0 + te.exp(A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].unroll(B.op.axis[0])
    slow = describe(s, [A, B], LLVM)
    found = measured([slow, product(2)], build_timeout=0.01)
    assert found[0].error_no == No.BUILD_TIMEOUT
    assert "more than 0.01 s" in found[0].message


def test_damaged_candidates_are_errors_of_their_own() -> None:
    unfit = {**product(2), "trace": product(2)["trace"].replace('"split"', '"spilt"')}
    other = {**product(2), "tensors": "{}"}
    missing = {"target": LLVM.export(), "ir": "nonsense"}
    found = measured([unfit, other, missing, product(2)])
    assert all(r.error_no in (No.INSTANTIATION_ERROR, No.COMPILE_HOST) for r in found[:3])
    assert found[3].ok
    assert "saved as JSON" in found[1].message


def test_a_missing_external_function_is_an_error_with_its_name() -> None:
    (result,) = measured([calls("no_such_function_anywhere")])
    assert not result.ok and "no_such_function_anywhere" in result.message


def test_a_symbolic_shape_cannot_be_measured() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    (result,) = measured([describe(te.create_schedule(B.op), [A, B], LLVM)])
    assert result.error_no == No.RUNTIME_DEVICE and "constant shapes" in result.message


def test_a_clearly_slower_candidate_is_run_but_once() -> None:
    program = product(2, n=256)
    with Measurer(Timing(**{**FAST, "repeat": 3})) as measurer:
        ((_, slow),) = measurer.measure([program], best=1e-9)
        ((_, alone),) = measurer.measure([program])
    assert slow.early and len(slow.costs) == 1
    assert not alone.early and len(alone.costs) == 3
    (patient,) = measured([program], repeat=3, stop_early=False)
    assert not patient.early


def test_options_of_this_process_hold_in_workers() -> None:
    """A pass that does not exist is refused where the candidate is lowered: in the worker."""
    program = product(2)
    with tvm.transform.PassContext(disabled_pass=["no_such_pass"]):
        (result,) = measured([program])
    assert result.error_no == No.COMPILE_HOST and "no_such_pass" in result.message
    (result,) = measured([program])
    assert result.ok


def test_unknown_requests_are_answered() -> None:
    worker = WorkerProcess()
    try:
        while not worker.ready:
            worker.receive()
        worker.send({"op": "dance", "id": 7}, 7, 60.0)
        while not worker.replies:
            assert worker.receive()
        assert worker.replies[0]["error"] == No.UNKNOWN_ERROR
        assert "dance" in worker.replies[0]["message"]
    finally:
        worker.close()


def test_what_a_candidate_prints_does_not_reach_the_messages() -> None:
    found = measured([calls("putchar"), product(2)])
    assert [r.ok for r in found] == [True, True]


def test_workers_end_with_the_search() -> None:
    measurer = Measurer(Timing(**FAST))
    running = measurer.measure([product(2), product(4)])
    next(running)
    (worker,) = measurer._pool.workers
    pid = worker._process.pid
    running.close()
    measurer.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(TilewrightError, match="at least 1"):
        Timing(number=0)
    with pytest.raises(TilewrightError, match="timeouts"):
        Timing(run_timeout=0)


@pytest.mark.parametrize("target", ["opencl", "opencl -device=mali"])
def test_devices_are_measured_and_checked(target: str) -> None:
    device = tvm.opencl(0)
    if not device.exist:
        pytest.skip(device.why_missing())
    programs = []
    for threads in (8, 4096, 32):
        A = te.placeholder((8192,), name="A")
        B = te.compute((8192,), lambda i, A=A: A[i] * 2.0, name="B")
        s = te.create_schedule(B.op)
        outer, inner = s[B].split(B.op.axis[0], factor=threads)
        s[B].bind(outer, te.thread_axis("blockIdx.x"))
        s[B].bind(inner, te.thread_axis("threadIdx.x"))
        programs.append(describe(s, [A, B], tvm.target.Target(target)))
    found = measured(programs, check=True, stop_early=False)
    assert [r.error_no for r in found] == [No.NO_ERROR, No.COMPILE_DEVICE, No.NO_ERROR]
    assert "too many threads" in found[1].message


def test_users_rules_hold_on_devices() -> None:
    from tilewright.loopir.intrin_rules import register_intrin_lowering, remove_rule

    device = tvm.opencl(0)
    if not device.exist:
        pytest.skip(device.why_missing())
    register_intrin_lowering("tir.exp", "opencl", lambda e: e.args[0] + 41.0, level=99)
    try:
        A = te.placeholder((4,), name="A")
        B = te.compute((4,), lambda i: te.exp(A[i]), name="B")
        s = te.create_schedule(B.op)
        s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
        program = describe(s, [A, B], tvm.target.Target("opencl"))
    finally:
        remove_rule("tir.exp", "opencl")
    out = tvm.nd.array(np.zeros(4, "float32"), device)
    construct(program)(tvm.nd.array(np.ones(4, "float32"), device), out)
    assert out.numpy().tolist() == [42.0] * 4
    (result,) = measured([program])
    assert result.ok, result.message


def test_workers_do_not_outlive_a_killed_search() -> None:
    """Also one that hangs in a candidate, and so does not see that nobody listens any more."""
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from runner_kit import FAST, Measurer, Timing, calls
import threading, time
measurer = Measurer(Timing(**{**FAST, "run_timeout": 600.0}))
threading.Thread(target=lambda: list(measurer.measure([calls("pause")])), daemon=True).start()
while 0 not in measurer._pool.seconds:  # not built yet
    time.sleep(0.05)
time.sleep(0.2)
print(measurer._pool.workers[0]._process.pid, flush=True)
time.sleep(600)
"""
    here = str(Path(__file__).parent)
    search = subprocess.Popen([sys.executable, "-c", code, here], stdout=subprocess.PIPE)
    with search:
        assert search.stdout is not None
        worker = int(search.stdout.readline())
        os.kill(worker, 0)
        search.kill()
    for _ in range(600):
        if _is_gone(worker):
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker goes on without its search")


def _is_gone(pid: int) -> bool:
    """Ended, whether or not whoever inherited the process has noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_candidates_are_built_while_the_search_goes_on() -> None:
    with Measurer(Timing(**FAST)) as measurer:
        measurer.warm()
        tickets = [measurer.submit(product(f)) for f in (2, 4, 8)]
        while len(measurer._pool.seconds) < 3:
            time.sleep(0.01)  # nobody waits for the workers
        later = measurer.submit(product(16))
        found = dict(measurer.run([tickets[2], tickets[0]]))
        assert list(found) == [tickets[2], tickets[0]] and all(r.ok for r in found.values())
        found = dict(measurer.run([tickets[1], later]))
        assert len(found) == 2 and all(r.ok for r in found.values())
        assert not measurer._pool.seconds and not measurer._pool._requests


def test_what_was_built_ahead_survives_a_crash_of_another() -> None:
    with Measurer(Timing(**FAST)) as measurer:
        first, crash = measurer.submit(product(2)), measurer.submit(calls("abort"))
        ahead = measurer.submit(product(4))
        found = dict(measurer.run([first, crash]))
        assert found[first].ok and found[crash].error_no == No.RUNTIME_DEVICE
        assert dict(measurer.run([ahead]))[ahead].ok


def test_candidates_that_are_forgotten_leave_nothing() -> None:
    with Measurer(Timing(**FAST)) as measurer:
        tickets = [measurer.submit(product(2)) for _ in range(3)]
        measurer.forget(tickets)
        assert not measurer._pool.seconds and not measurer._pool._requests
        (result,) = dict(measurer.measure([product(4)])).values()
        assert result.ok


def test_a_measurer_that_is_dropped_ends_its_workers() -> None:
    measurer = Measurer(Timing(**FAST))
    assert dict(measurer.measure([product(2)]))[0].ok
    pid = measurer._pool.workers[0]._process.pid
    del measurer
    collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_adaptive_repetitions_stop_for_what_is_slow() -> None:
    quick, slow = product(8, n=96), product(8, n=256)
    how = {**FAST, "adaptive": True, "min_repeat_ms": 20.0}
    with Measurer(Timing(**how)) as measurer:
        found = dict(measurer.measure([quick, slow, quick]))
    assert all(r.ok for r in found.values())
    assert not found[0].early and len(found[0].costs) > 1 and found[0].noise >= 0
    assert found[1].early and len(found[1].costs) < len(found[0].costs)
    with pytest.raises(TilewrightError, match="min_repeat_ms above 0"):
        Timing(adaptive=True)


def test_a_run_that_is_abandoned_costs_what_was_built_ahead_nothing() -> None:
    """Its worker is in the middle of a candidate that hangs, and holds another."""
    with Measurer(Timing(**{**FAST, "run_timeout": 600.0})) as measurer:
        hang, ahead = measurer.submit(calls("pause")), measurer.submit(product(4))
        running = measurer.run([hang])
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, 5.0)
        with pytest.raises(InterruptedError):
            next(running)
        running.close()
        assert dict(measurer.run([ahead]))[ahead].ok


def test_a_wait_that_is_interrupted_loses_nothing_that_is_being_built() -> None:
    """The thread that speaks with the workers is in the middle of a build then."""
    with Measurer(Timing(**{**FAST, "n_parallel": 1})) as measurer:
        first = measurer.submit(product(2))
        assert dict(measurer.run([first]))[first].ok
        (worker,) = measurer._pool.workers
        os.kill(worker._process.pid, signal.SIGSTOP)
        ahead, wanted = measurer.submit(product(4)), measurer.submit(product(8))
        timer = threading.Timer(1.5, os.kill, (worker._process.pid, signal.SIGCONT))
        timer.start()
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(InterruptedError):
            next(measurer.run([wanted]))
        timer.join()
        assert dict(measurer.run([ahead]))[ahead].ok


def _interrupt(*_: Any) -> None:
    raise InterruptedError


def test_what_was_not_submitted_cannot_be_run() -> None:
    with Measurer(Timing(**FAST)) as measurer:
        ticket = measurer.submit(product(2))
        measurer.close()
        with pytest.raises(TilewrightError, match="not submitted"):
            next(measurer.run([ticket]))
