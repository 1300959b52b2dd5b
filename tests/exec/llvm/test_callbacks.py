"""Python functions that compiled code calls: exceptions, arrays that outlive the call, signals."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.exec.llvm.in_child import run_in_child
from tilewright import te, tir
from tilewright.base.errors import ArgumentError, TilewrightError
from tilewright.rt import packed, threads

NAME = "t.callback"


@pytest.fixture
def register() -> Iterator[Callable[[Any], None]]:
    yield lambda f: tvm.register_func(NAME, f, override=True)
    packed.remove_global_func(NAME)


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = threads.num_threads()
    threads.set_num_threads(4)
    yield
    threads.set_num_threads(before)


def loop(kind: str = "serial", steps: int = 4) -> Any:
    """A function that calls the callback with each step of a loop."""
    a = te.placeholder((4,), name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        with ib.for_range(0, steps, name="i", kind=kind) as i:
            ib.emit(tir.call_packed(NAME, i))
        return ib.get()

    c = te.extern((4,), [a], body, name="C")
    return tvm.build(te.create_schedule(c.op), [a, c], "llvm")


def lending(count: int) -> Any:
    """A function that computes T in memory of its own and calls the callback with T and C."""
    t = te.compute((count,), lambda i: te.sqrt(i.astype("float32")), name="T")
    c = te.extern((count,), [t], lambda i, o: tir.call_packed(NAME, i[0], o[0]), name="C")
    return tvm.build(te.create_schedule(c.op), [c], "llvm")


def call(f: Any) -> None:
    f(np.ones(4, np.float32), np.zeros(4, np.float32))


@pytest.mark.usefixtures("four_threads")
def test_each_call_raises_what_its_own_callbacks_raised(register: Any) -> None:
    state: dict[str, Any] = {}

    def function(i: int) -> None:
        if state["only"] in (None, i):
            raise ValueError((state["call"], i))

    register(function)
    f = loop("parallel")
    for number, only in enumerate([None, 3, 2, None, 0, 1] * 5):
        state.update(call=number, only=only)
        with pytest.raises(ValueError) as caught:
            call(f)
        assert caught.value.args[0][0] == number
        assert only in (None, caught.value.args[0][1])
    assert not packed._pending


@pytest.mark.usefixtures("four_threads")
def test_each_thread_raises_what_its_own_callbacks_raised(register: Any) -> None:
    """Several threads call at once; callbacks know theirs by the step."""

    def function(i: int) -> None:
        raise ValueError(i // 10)

    register(function)
    a = te.placeholder((1,), "int32", name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        with ib.for_range(0, 8, name="i", kind="parallel") as i:
            ib.emit(tir.call_packed(NAME, ins[0].vload([0]) * 10 + i))
        return ib.get()

    c = te.extern((1,), [a], body, name="C", dtype="int32")
    f = tvm.build(te.create_schedule(c.op), [a, c], "llvm")
    wrong: list[Any] = []

    def work(mine: int) -> None:
        for _ in range(50):
            try:
                f(np.array([mine], np.int32), np.zeros(1, np.int32))
                wrong.append("nothing raised")
            except ValueError as error:
                if error.args[0] != mine:
                    wrong.append((mine, error))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_a_callback_may_call_compiled_code_that_raises(register: Any) -> None:
    inner = loop(steps=1)
    depth = []

    def function(i: int) -> None:
        depth.append(i)
        if len(depth) < 5:
            try:
                call(inner)
            except ValueError as error:
                raise ValueError(error.args[0] + 1) from error
        raise ValueError(0)

    register(function)
    with pytest.raises(ValueError) as caught:
        call(loop())
    assert caught.value.args[0] == 4


def test_an_interrupt_reaches_the_call() -> None:
    """Also where the signal comes while native code runs, so that its handler raises before the
    first line of the callback: Python tells nobody of that but stderr."""
    run_in_child(
        """
        import signal
        tvm.register_func("t.nothing", lambda i: None)
        def body(ins, outs):
            ib = tir.ir_builder.create()
            with ib.for_range(0, 1 << 30, name="i") as i:
                ib.emit(tir.call_packed("t.nothing", i))
            return ib.get()
        a = te.placeholder((4,), name="A")
        c = te.extern((4,), [a], body, name="C")
        f = tvm.build(te.create_schedule(c.op), [a, c], "llvm")
        def interrupt(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        for turn in range(40):
            signal.setitimer(signal.ITIMER_REAL, 0.01 + turn * 1.1e-5)
            try:
                f(np.ones(4, "f4"), np.zeros(4, "f4"))
                raise SystemExit("not interrupted")
            except KeyboardInterrupt:
                pass
        """
    )


def test_timing_raises_what_a_later_run_raises(register: Any) -> None:
    calls = []

    def function(i: int) -> None:
        calls.append(i)
        if len(calls) > 9:
            raise ValueError("late")

    register(function)
    f = loop()
    with pytest.raises(ValueError, match="late"):
        f.time_evaluator(f.entry_name, tvm.cpu(), number=10)(
            np.ones(4, np.float32), np.zeros(4, np.float32)
        )


@pytest.mark.parametrize("count", [100, 1 << 16])
def test_an_array_that_outlives_the_call_refuses_every_use(register: Any, count: int) -> None:
    kept: list[Any] = []

    def function(a: Any, c: Any) -> None:
        kept.append(a)
        c.copyfrom(a)

    register(function)
    g = lending(count)
    out = np.zeros(count, np.float32)
    g(out)
    assert out[4] == 2
    uses: list[Callable[[Any], Any]] = [
        lambda a: a.numpy(),
        np.asarray,
        lambda a: a[0],
        lambda a: a[1:],
        lambda a: a.reshape(-1),
        lambda a: a.__dlpack__(),
        lambda a: a.copyfrom(out),
        lambda a: out.__setitem__(slice(None), a),
        lambda a: tvm.nd.array(out).copyfrom(a),
        g,
    ]
    for use in uses:
        with pytest.raises(ArgumentError, match=r"lent to a Python function.*keep a copy"):
            use(kept[0])
    assert "given back" in repr(kept[0])


@pytest.mark.parametrize(
    "view", [np.asarray, lambda a: a[1:3], lambda a: np.from_dlpack(a)[2:], lambda a: a.view((4,))]
)
def test_a_view_that_outlives_the_call_is_an_error(register: Any, view: Any) -> None:
    kept: list[Any] = []
    register(lambda a, c: kept.append(view(a)))
    g = lending(1 << 16)
    for _ in range(3):
        with pytest.raises(TilewrightError, match=r"'t.callback' keeps a view.*keep a copy"):
            g(np.zeros(1 << 16, np.float32))
    gc.collect()
    for array in kept:  # its memory has been left in place
        np.asarray(array).sum()


def test_views_that_end_with_the_call_are_fine(register: Any) -> None:
    def function(a: Any, c: Any) -> None:
        cycle: list[Any] = [np.asarray(a)]
        cycle.append(cycle)
        np.from_dlpack(c)[:] = np.asarray(a)[:] * 2

    register(function)
    out = np.zeros(100, np.float32)
    lending(100)(out)
    assert out[9] == 6


def test_views_in_the_frames_of_an_exception_go(register: Any) -> None:
    """An exception keeps the frames that it came through; the memory under their arrays is gone."""

    def function(a: Any, c: Any) -> None:
        view = np.asarray(a)
        raise ValueError(view.size)

    register(function)
    with pytest.raises(ValueError) as caught:
        lending(1 << 16)(np.zeros(1 << 16, np.float32))
    frame = caught.value.__traceback__
    while frame is not None:
        assert "view" not in frame.tb_frame.f_locals
        frame = frame.tb_next


def test_memory_does_not_grow_with_calls_that_raise() -> None:
    grown = run_in_child(
        """
        def function(a, c):
            view = np.asarray(a)
            raise ValueError
        tvm.register_func("t.grow", function)
        t = te.compute((1 << 16,), lambda i: te.sqrt(i.astype("float32")), name="T")
        c = te.extern((1 << 16,), [t], lambda i, o: tir.call_packed("t.grow", i[0], o[0]), name="C")
        g, out = tvm.build(te.create_schedule(c.op), [c], "llvm"), np.zeros(1 << 16, "f4")
        def many(n):
            for _ in range(n):
                try:
                    g(out)
                except ValueError:
                    pass
        many(20); before = rss(); many(200); print(rss() - before)
        """
    )
    assert int(grown) < 2000
