"""The pool of threads: every step once, whoever comes, whoever sleeps, whoever forks."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.rt.kernels import array, info_of, make, scalar
from tilewright.base.cores import cores, quota
from tilewright.base.errors import TilewrightError
from tilewright.rt import native, threads

# each of 8 steps: out[step] = 3
REGION = """
declare i32 @tw_parallel(ptr, ptr, i64, i32, i32, ptr)
@tw_num_threads = external global i32
@time = internal global double 0.0
define internal i32 @body(ptr %out, i64 %begin, i64 %end, i32 %thread) {
entry:
  br label %step
step:
  %i = phi i64 [%begin, %entry], [%next, %step]
  %p = getelementptr i32, ptr %out, i64 %i
  store i32 3, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %step, label %done
done:
  ret i32 0
}
define i32 @region(ptr %slots) {
  %out = load ptr, ptr %slots
  %n = load i32, ptr @tw_num_threads
  %r = call i32 @tw_parallel(ptr @body, ptr %out, i64 8, i32 %n, i32 0, ptr @time)
  ret i32 %r
}
"""

# `count` loops of 1 to 64 steps: each adds 1, not atomically, to hits[step] after `work` divisions.
# busy[thread] is 1 while a thread runs; what finds it so returns 9, and step 0 returns code[0]. The
# time of a step is forgotten before each loop, so that all loops are shared.
MANY = """
declare i32 @tw_parallel(ptr, ptr, i64, i32, i32, ptr)
define internal i32 @body(ptr %slots, i64 %begin, i64 %end, i32 %thread) {
entry:
  %hits = load ptr, ptr %slots
  %busy.at = getelementptr ptr, ptr %slots, i64 1
  %busy = load ptr, ptr %busy.at
  %work.at = getelementptr i64, ptr %slots, i64 4
  %work = load i64, ptr %work.at
  %own = getelementptr i32, ptr %busy, i32 %thread
  %was = atomicrmw xchg ptr %own, i32 1 seq_cst
  %alone = icmp eq i32 %was, 0
  br i1 %alone, label %step, label %twice
twice:
  ret i32 9
step:
  %i = phi i64 [%begin, %entry], [%next, %hit]
  br label %worked
worked:
  %k = phi i64 [0, %step], [%k.next, %worked]
  %x = phi double [1.0, %step], [%y, %worked]
  %y = fdiv double %x, 3.0
  %k.next = add i64 %k, 1
  %on = icmp slt i64 %k.next, %work
  br i1 %on, label %worked, label %hit
hit:
  %p = getelementptr i32, ptr %hits, i64 %i
  %old = load i32, ptr %p
  %new = add i32 %old, 1
  store i32 %new, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %step, label %done
done:
  store atomic i32 0, ptr %own seq_cst, align 4
  %first = icmp eq i64 %begin, 0
  br i1 %first, label %zero, label %fine
zero:
  %code.at = getelementptr ptr, ptr %slots, i64 2
  %codes = load ptr, ptr %code.at
  %code = load i32, ptr %codes
  ret i32 %code
fine:
  ret i32 0
}
define i32 @many(ptr %slots) {
entry:
  %site = alloca double
  %count.at = getelementptr i64, ptr %slots, i64 3
  %count = load i64, ptr %count.at
  %threads.at = getelementptr i64, ptr %slots, i64 5
  %threads = load i32, ptr %threads.at
  %homes.at = getelementptr i64, ptr %slots, i64 6
  %homes = load i32, ptr %homes.at
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%next, %fine]
  store double 0.0, ptr %site
  %mixed = mul i64 %k, 37
  %low = and i64 %mixed, 63
  %steps = add i64 %low, 1
  %r = call i32 @tw_parallel(ptr @body, ptr %slots, i64 %steps, i32 %threads, i32 %homes, ptr %site)
  %good = icmp eq i32 %r, 0
  br i1 %good, label %fine, label %bad
bad:
  ret i32 %r
fine:
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""
MANY_INFO = info_of(
    "many",
    [
        array("hits", "int32", [64], is_output=True),
        array("busy", "int32", [1024], is_output=True),
        array("code", "int32", [1]),
        *(scalar(name, "int64") for name in ("count", "work", "threads", "homes")),
    ],
    messages=[f"code {k + 1}" for k in range(9)],
)

HEAD = f"""
import os, sys, threading
import numpy as np
sys.path.insert(0, {os.getcwd()!r})
from tests.unit.rt.kernels import add_function, array, info_of, make
from tests.unit.rt.test_threads import REGION, many
from tilewright.rt import native, threads
"""


@pytest.fixture(scope="module")
def loops() -> Any:
    return make(MANY, MANY_INFO)


@pytest.fixture(autouse=True)
def restore():
    yield
    threads.set_num_threads(0)


def many(
    count: int, work: int = 0, team: int = 2, homes: int = 0, code: int = 0, function: Any = None
) -> None:
    """Run `count` loops and check that each step ran once in each."""
    function = function or make(MANY, MANY_INFO)
    hits, busy = np.zeros(64, np.int32), np.zeros(1024, np.int32)
    function(hits, busy, np.full(1, code, np.int32), count, work, team, homes)
    lengths = (np.arange(count) * 37 & 63) + 1
    np.testing.assert_array_equal(hits, (lengths[:, None] > np.arange(64)).sum(axis=0))


# one loop of `steps`: log[n] = (begin, thread) of the piece that was begun as number n
ORDER = """
declare i32 @tw_parallel(ptr, ptr, i64, i32, i32, ptr)
@begun = internal global i64 0
define internal i32 @body(ptr %log, i64 %begin, i64 %end, i32 %thread) {
  %n = atomicrmw add ptr @begun, i64 1 seq_cst
  %p = getelementptr { i32, i32 }, ptr %log, i64 %n
  %q = getelementptr { i32, i32 }, ptr %log, i64 %n, i32 1
  %small = trunc i64 %begin to i32
  store i32 %small, ptr %p
  store i32 %thread, ptr %q
  ret i32 0
}
define i32 @order(ptr %slots) {
  %site = alloca double
  %each.at = getelementptr i64, ptr %slots, i64 3
  %each = load i64, ptr %each.at
  %known = sitofp i64 %each to double
  store double %known, ptr %site
  store i64 0, ptr @begun
  %log = load ptr, ptr %slots
  %steps.at = getelementptr i64, ptr %slots, i64 1
  %steps = load i64, ptr %steps.at
  %homes.at = getelementptr i64, ptr %slots, i64 2
  %homes = load i32, ptr %homes.at
  %r = call i32 @tw_parallel(ptr @body, ptr %log, i64 %steps, i32 2, i32 %homes, ptr %site)
  ret i32 %r
}
"""
ORDER_INFO = info_of(
    "order",
    [
        array("log", "int32", [512, 2], is_output=True),
        scalar("steps", "int64"),
        scalar("homes", "int64"),
        scalar("each", "int64"),
    ],
)


@pytest.mark.parametrize("steps", [8, 61, 64])
@pytest.mark.parametrize("homes", [0, 2])
def test_a_thread_begins_with_the_last_pieces_of_a_home(homes: int, steps: int) -> None:
    """Those that a thread takes of a home go down with 2 and up with 0; first it takes its own."""
    order, log = make(ORDER, ORDER_INFO), np.full((512, 2), -1, np.int32)
    order(log, steps, homes, 0)
    pieces = log[log[:, 1] >= 0]
    assert len({*pieces[:, 0]}) == len(pieces) > 1  # each once, and more than one
    half = sorted(pieces[:, 0])[len(pieces) // 2]  # where the second home begins
    for thread in (0, 1):
        for low, high in ((0, half), (half, steps)):
            taken = [b for b, who in pieces.tolist() if who == thread and low <= b < high]
            assert taken == sorted(taken, reverse=homes == 2)


@pytest.mark.parametrize("steps, pieces", [(3, 2), (5, 4), (64, 64), (301, 300)])
def test_threads_have_as_many_pieces_each(steps: int, pieces: int) -> None:
    """Steps that are known to take ten microseconds, for which threads are worth waking in a series
    of loops at the latest."""
    order = make(ORDER, ORDER_INFO)
    for _ in range(200):
        log = np.full((512, 2), -1, np.int32)
        order(log, steps, 0, 10_000)
        begun = log[log[:, 1] >= 0]
        if len(begun) > 1:
            break
    assert len(begun) == len({*begun[:, 0]}) == pieces


@pytest.mark.parametrize(
    "steps, rows, begins",
    [
        (24, 6, [(0, 3), (6, 9), (12, 15), (18, 21)]),
        (28, 7, [(0, 4), (7, 11), (14, 17), (21, 24)]),  # 14 steps each
        (6, 3, [(0, 2), (3, 4)]),
        (32, 16, [(0, 4, 8, 12), (16, 20, 24, 28)]),  # the rows of two blocks in two parts each
    ],
)
def test_threads_share_the_rows_of_all_blocks(steps: int, rows: int, begins: Any) -> None:
    """The steps at which pieces begin, whoever takes them."""
    order, log = make(ORDER, ORDER_INFO), np.full((512, 2), -1, np.int32)
    order(log, steps, -rows, 0)
    found = log[log[:, 1] >= 0, 0]
    assert sorted(found) == sorted(b for block in begins for b in block)


def test_steps_that_are_no_blocks_are_in_line() -> None:
    order, log = make(ORDER, ORDER_INFO), np.full((512, 2), -1, np.int32)
    order(log, 25, -6, 0)
    assert sorted(log[log[:, 1] >= 0, 0]) == [0, 4, 7, 10, 13, 16, 19, 22]


def run(code: str, head: str = HEAD, **env: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "TILEWRIGHT_NUM"))}
    done = subprocess.run(
        [sys.executable, "-c", head + code],
        capture_output=True,
        text=True,
        check=False,
        env={**clean, **env},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("team", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("homes", [0, 1, 2, -1, -2, -3, -7, -16])
@pytest.mark.parametrize("work", [0, 30])
def test_every_step_runs_once(loops: Any, team: int, homes: int, work: int) -> None:
    many(2000, work, team, homes, function=loops)


def test_a_hundred_thousand_small_loops(loops: Any) -> None:
    many(100_000, 0, 2, function=loops)


@pytest.mark.parametrize(("callers", "team"), [(2, 2), (8, 2), (8, 5), (24, 30)])
def test_several_callers_share_the_pool(loops: Any, callers: int, team: int) -> None:
    failed: list[BaseException] = []

    def call() -> None:
        try:
            many(1500, 20, team, function=loops)
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=call) for _ in range(callers)]
    for t in running:
        t.start()
    for t in running:
        t.join(60)
    assert not any(t.is_alive() for t in running) and not failed


TASK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32
)
PARALLEL = ctypes.CFUNCTYPE(
    ctypes.c_int32, TASK, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32,
    ctypes.c_void_p,
)  # fmt: skip


def test_a_loop_that_fails_at_once_learns_nothing() -> None:
    parallel = PARALLEL(native.runtime_symbols()["tw_parallel"])
    site = ctypes.c_double()
    assert parallel(TASK(lambda *_: 4), None, 8, 2, -4, ctypes.addressof(site)) == 4
    assert site.value == 0


@pytest.mark.parametrize(("callers", "shares"), [(1, True), (2, False)])
def test_callers_that_fill_the_cores_run_alone(callers: int, shares: bool) -> None:
    """Of `callers` loops on up to two threads each, the last one begins while the others run: it
    has pieces for a worker only where it is the first."""
    parallel = PARALLEL(native.runtime_symbols()["tw_parallel"])
    begun, end = threading.Semaphore(0), threading.Event()
    ranges: list[tuple[int, int]] = []

    def wait(context: Any, first: int, last: int, thread: int) -> int:
        begun.release()
        end.wait(60)
        return 0

    def note(context: Any, first: int, last: int, thread: int) -> int:
        ranges.append((first, last))
        return 0

    def call(task: Any, steps: int) -> int:
        site = ctypes.c_double(0.0)
        return parallel(TASK(task), None, steps, 2, 0, ctypes.addressof(site))

    held = [threading.Thread(target=call, args=(wait, 2)) for _ in range(callers - 1)]
    for t in held:
        t.start()
        begun.acquire(timeout=60)
    assert call(note, 64) == 0
    end.set()
    for t in held:
        t.join(60)
    assert sorted(n for r in ranges for n in range(*r)) == list(range(64))
    assert (len(ranges) > 1) == shares


WORKER = """
import ctypes, time
from tests.unit.rt.test_threads import MANY, MANY_INFO, PARALLEL, TASK
mine = os.sched_getaffinity(0)
before = {*os.listdir("/proc/self/task")}
function = make(MANY, MANY_INFO)
def rest():
    while native.pool_state()["asleep"] < native.pool_state()["workers"]:
        time.sleep(1e-3)
def loops(threads=2):
    for _ in range(20):
        many(3, 30, threads, function=function)
        rest()
    return {*os.listdir("/proc/self/task")} - before
def of_tasks():
    masks = []
    def note(context, first, last, thread):
        masks.append((thread, os.sched_getaffinity(0)))
        time.sleep(2e-3)
        return 0
    parallel, site = PARALLEL(native.runtime_symbols()["tw_parallel"]), ctypes.c_double()
    assert parallel(TASK(note), None, 2, 2, 0, ctypes.addressof(site)) == 0
    return masks
"""


def test_a_worker_that_sleeps_keeps_away_from_its_caller() -> None:
    """Where it would be woken, and wait for the caller's core while another has nothing to do."""
    out = run(f"""{WORKER}
(worker,) = loops()
allowed = os.sched_getaffinity(int(worker))
assert allowed < mine if len(mine) > 1 else allowed == mine, (allowed, mine)
assert len(allowed) >= len(mine) - 1
print("done")
""")
    assert out.strip() == "done"


def test_what_a_task_starts_may_use_all_cores() -> None:
    """A worker is kept away from its caller while it sleeps alone."""
    out = run(f"""{WORKER}
(worker,) = loops()
masks = []
for _ in range(20):
    masks += of_tasks()
    rest()
assert any(thread for thread, _ in masks) and all(mask == mine for _, mask in masks), masks
assert os.sched_getaffinity(0) == mine
print("done")
""")
    assert out.strip() == "done"


def test_threads_stay_where_the_system_puts_them() -> None:
    """Where a sandbox forbids what moves them."""
    out = run(f"""{WORKER}
(worker,) = loops()
print(os.sched_getaffinity(int(worker)) == mine)
""", TILEWRIGHT_PLACE_THREADS="0")  # fmt: skip
    assert out.strip() == "True"


def test_more_threads_than_cores_go_where_they_like() -> None:
    out = run(f"""{WORKER}
workers = loops(len(mine) + 1)
assert len(workers) == len(mine)
assert all(os.sched_getaffinity(int(w)) == mine for w in workers)
print("done")
""")
    assert out.strip() == "done"


def test_a_worker_may_use_its_cores_whatever_the_first_thread_may() -> None:
    """Which keeps to one core, while another thread calls."""
    out = run(f"""{WORKER}
(worker,) = loops()
def alone():
    os.sched_setaffinity(0, {{min(mine)}})
    for _ in range(20):
        many(3, 30, 2, function=function)
        rest()
os.sched_setaffinity(0, {{max(mine)}})
other = threading.Thread(target=alone)
other.start()
other.join()
os.sched_setaffinity(int(worker), mine)
loops()
masks = of_tasks()
assert all(mask == mine for thread, mask in masks if thread), masks
print("done")
""")
    assert out.strip() == "done"


@pytest.mark.parametrize("core", ["min", "max"])
def test_a_worker_keeps_to_the_cores_that_all_threads_are_given(core: str) -> None:
    """By the program taskset, for one."""
    out = run(f"""
import time
mine = os.sched_getaffinity(0)
many(50, 30, 2)
time.sleep(1e-3)
for thread in os.listdir("/proc/self/task"):
    os.sched_setaffinity(int(thread), {{{core}(mine)}})
for _ in range(50):
    many(3, 30, 2)
    time.sleep(1e-3)
threads = os.listdir("/proc/self/task")
assert len(threads) > 1
assert all(os.sched_getaffinity(int(t)) == {{{core}(mine)}} for t in threads)
print("done")
""")
    assert out.strip() == "done"


def test_a_task_that_fails_fails_the_loop(loops: Any) -> None:
    for team in (1, 2, 5):
        with pytest.raises(TilewrightError, match="code 4"):
            many(3, 5, team, code=4, function=loops)
        many(50, 5, team, function=loops)


def test_the_pool_measures_what_waking_and_handing_over_take(loops: Any) -> None:
    many(3000, 200, 2, function=loops)
    state = native.pool_state()
    assert state["workers"] >= 1
    assert 10 < state["handing_ns"] < 1e6 and 100 < state["waking_ns"] < 1e9


def test_threads_that_have_no_work_sleep(loops: Any) -> None:
    many(200, 200, 5, function=loops)
    for _ in range(200):
        if native.pool_state()["asleep"] == native.pool_state()["workers"]:
            return
        threading.Event().wait(0.05)
    pytest.fail(f"a worker looks for work all the time: {native.pool_state()}")


def test_loops_too_small_for_several_threads_run_on_one() -> None:
    code = """
f = make(REGION, info_of("region", [array("out", "int32", [8], is_output=True)]))
out = np.zeros(8, np.int32)
import time
f(out)
time.sleep(.1)
for _ in range(200):
    f(out)
print(out.tolist(), native.pool_state()["workers"], native.pool_state()["asleep"])
"""
    assert run(code, TILEWRIGHT_NUM_THREADS="2").strip() == "[3, 3, 3, 3, 3, 3, 3, 3] 1.0 1.0"


def test_a_system_without_threads_leaves_all_work_to_the_caller() -> None:
    code = """
import resource
from tests.unit.rt.test_threads import MANY, MANY_INFO
f = make(MANY, MANY_INFO)
many(300, 20, 1, function=f)
native.pool_state()
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20), resource.RLIM_INFINITY))
many(300, 20, 4, function=f)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
print(native.pool_state()["workers"])
"""
    assert run(code).strip() == "0.0"


@pytest.mark.parametrize("busy", [False, True])
def test_a_forked_child_has_threads_of_its_own(busy: bool) -> None:
    code = f"""
import warnings
from functools import partial
from tests.unit.rt.test_threads import MANY, MANY_INFO
warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # since Python 3.12
many = partial(many, function=make(MANY, MANY_INFO))
many(1)
def work():
    while not stop.is_set():
        many(50, 20, 3)
stop = threading.Event()
other = threading.Thread(target=work)
if {busy}:
    other.start()
for _ in range(20):
    many(100, 20, 3)
    pid = os.fork()
    if pid == 0:
        many(100, 20, 3)
        os._exit(0 if native.pool_state()["workers"] == 2 else 1)
    if os.waitpid(pid, 0)[1]:
        print("child failed", flush=True)
        os._exit(1)
stop.set()
many(100, 20, 3)
print("fine")
"""
    assert run(code).splitlines()[-1] == "fine"


def test_the_process_ends_while_threads_run() -> None:
    code = """
threading.Thread(target=lambda: many(10_000_000, 20, 3), daemon=True).start()
many(500, 20, 3)
print("end")
"""
    for _ in range(5):
        assert run(code).strip() == "end"


def test_no_signal_reaches_a_worker() -> None:
    code = """
import signal, time
many(50, 200, 3)
masks = []
for task in os.listdir("/proc/self/task"):
    status = open(f"/proc/self/task/{task}/status").read()
    blocked = int(status.split("SigBlk:")[1].split()[0], 16)
    masks.append(blocked >> (signal.SIGINT - 1) & 1)
print(sum(masks), len(masks))
"""
    blocked, all_threads = map(int, run(code).split())
    assert blocked == 2 and all_threads >= 3


def test_serial_code_starts_no_threads() -> None:
    code = """
x = np.zeros(3, np.float32)
add_function()(x, x, np.zeros(3, np.float32))
print(native._pool)
"""
    assert run(code).strip() == "{}"


def test_the_default_is_the_cores_of_the_process() -> None:
    threads.set_num_threads(3)
    assert threads.num_threads() == 3
    threads.set_num_threads(0)
    assert threads.num_threads() == cores() <= len(os.sched_getaffinity(0))
    with pytest.raises(TilewrightError, match="cannot be -1"):
        threads.set_num_threads(-1)


def test_the_environment_gives_the_number() -> None:
    assert run("print(threads.num_threads())", TILEWRIGHT_NUM_THREADS="7").strip() == "7"


@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3.0),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/gone\n", {}, float("inf")),
        (
            "3:cpu,cpuacct:/x\n2:memory:/y\n",
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "200000", "cpu,cpuacct/x/cpu.cfs_period_us": "1e5"},
            2.0,
        ),
        ("1:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "1e5"}, None),
    ],
)
def test_control_groups_limit_the_cores(
    tmp_path: Path, group: str, files: dict[str, str], cores: float | None
) -> None:
    (tmp_path / "cgroup").write_text(group)
    for name, text in files.items():
        place = tmp_path / "fs" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    found = quota(tmp_path / "cgroup", tmp_path / "fs")
    assert found == (float("inf") if cores is None else cores)
