"""Functions, modules and networks called from several threads at once, and what builds leave."""

from __future__ import annotations

from tests.exec.llvm.in_child import run_in_child

_FUNCTION = """
def make(n=20000, k=1.0, parallel=False):
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: te.sqrt(a[i]) + k, name="C")
    s = te.create_schedule(c.op)
    if parallel:
        s[c].parallel(s[c].split(c.op.axis[0], factor=n // 4)[0])
    return tvm.build(s, [a, c], "llvm")
"""


def test_first_calls_of_one_function_at_once() -> None:
    run_in_child(
        _FUNCTION
        + """
for turn in range(12):
    f = make(k=float(turn), parallel=turn % 2 == 1)
    def work(k):
        a, c = np.ones(20000, "f4"), np.empty(20000, "f4")
        for _ in range(30):
            c[:] = 0
            (f if k % 2 else f[f.entry_name])(a, c)
            assert (c == turn + 1).all()
    in_threads(8, work)
""",
        TILEWRIGHT_NUM_THREADS="3",
    )


def test_modules_come_and_go_while_others_run() -> None:
    """One thread drops its modules, exports, times and changes the number of threads, while others
    call theirs."""
    run_in_child(
        _FUNCTION
        + """
import os, tempfile
from tilewright.rt import threads
folder, shared = tempfile.mkdtemp(), make(parallel=True)
def work(k):
    a, c = np.ones(20000, "f4"), np.empty(20000, "f4")
    for turn in range(6):
        f = make(k=float(k + turn), parallel=k % 2 == 0)
        path = os.path.join(folder, f"{k}.two")
        f.export_library(path)
        for g in (f, tvm.runtime.load_module(path)):
            g(a, c)
            assert (c == k + turn + 1).all()
        threads.set_num_threads(turn % 4)
        for _ in range(20):
            c[:] = 0
            shared(a, c)
            assert (c == 2).all()
        shared.time_evaluator(shared.entry_name, tvm.cpu(), number=3)(a, c)
        assert "sqrt" in shared.get_source("asm")
in_threads(8, work)
"""
    )


def test_a_network_is_called_by_several_threads_at_once() -> None:
    """Each call has a workspace: results of threads do not mix, and no thread waits for another."""
    run_in_child(
        """
        import time
        from tilewright.graph.build import compile
        from tilewright.graph.ir import Graph, Node, Value
        x = Value("x", (64, 64), "float32")
        values, nodes = [x], []
        for k in range(4):
            v = Value(f"v{k}", (64, 64), "float32")
            nodes.append(Node("matmul", f"n{k}", [values[-1], x], [v], {}))
            values.append(v)
        f = compile(Graph("g", [x], [values[-1]], nodes))
        def expected(a):
            return a @ a @ a @ a @ a
        def work(k):
            a = np.eye(64, dtype="f4") * (k + 1)
            want = expected(a)
            for _ in range(100):
                (got,) = f.run({"x": a}).values()
                assert (got == want).all()
        in_threads(8, work)
        assert len(f._idle) <= 8
        """
    )


def test_a_network_on_a_device_is_called_by_several_threads_at_once() -> None:
    run_in_child(
        """
        from tilewright.graph.build import compile
        from tilewright.graph.ir import Graph, Node, Value
        from tilewright.rt.device import Device
        x, y = Value("x", (8, 8), "float32"), Value("y", (8, 8), "float32")
        z = Value("z", (8, 8), "float32")
        nodes = [Node("add", "a", [x, x], [y], {}), Node("multiply", "b", [y, x], [z], {})]
        f = compile(Graph("g", [x], [z], nodes), "cuda -arch=sm_80")
        f.device = Device("simt")
        def work(k):
            a = np.eye(8, dtype="f4") * (k + 1)
            for _ in range(3):
                (got,) = f.run({"x": a}).values()
                assert (got == 2 * a * a).all()
        in_threads(4, work)
        """
    )


def test_dropped_builds_leave_no_memory() -> None:
    grown = run_in_child(
        _FUNCTION
        + """
def many(n):
    for i in range(n):
        f = make(100 + i % 7, float(i))
        f(np.ones(100 + i % 7, "f4"), np.empty(100 + i % 7, "f4"))
many(60)
before = rss()
many(200)
print((rss() - before) / 200)
"""
    )
    assert float(grown) < 8


def test_a_library_keeps_its_code_when_its_linker_has_been_replaced() -> None:
    run_in_child(
        _FUNCTION
        + """
kept = [make(64, float(i)) for i in range(100)]
for turn in range(2):
    for i, f in enumerate(kept):
        a, c = np.ones(64, "f4"), np.empty(64, "f4")
        f(a, c)
        assert (c == 2 * i + 1 if turn else c == i + 1).all()
    kept = kept[::2]
"""
    )
