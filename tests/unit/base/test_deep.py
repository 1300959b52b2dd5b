"""Recursion that no stack holds goes on in other threads, with the context, and changes nothing
of the process."""

from __future__ import annotations

import _thread
import ast
import itertools
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.deep import Recursive, deep_call, roomy
from tilewright.base.errors import TilewrightError
from tilewright.driver.build_module import c_source
from tilewright.interp.te_eval import te_eval
from tilewright.interp.tir_eval import tir_eval
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.visit import children

_seen: ContextVar[str] = ContextVar("seen", default="nothing")


class _Counter(Recursive):
    recursive = ("down",)

    def __init__(self) -> None:
        self.contexts: set[str] = set()
        self.threads: set[int] = set()

    def down(self, n: int) -> int:
        self.contexts.add(_seen.get())
        self.threads.add(threading.get_ident())
        return 0 if n == 0 else 1 + self.down(n - 1)


def test_the_context_comes_along_and_the_process_stays() -> None:
    before = sys.getrecursionlimit(), threading.stack_size()
    token = _seen.set("something")
    counter = _Counter()
    try:
        assert deep_call(counter.down, 20_000) == 20_000
    finally:
        _seen.reset(token)
    assert counter.contexts == {"something"} and len(counter.threads) > 10
    assert before == (sys.getrecursionlimit(), threading.stack_size())


def test_shallow_calls_stay_in_their_thread() -> None:
    counter = _Counter()
    assert deep_call(counter.down, 100) == 100
    assert counter.threads == {threading.get_ident()}


def test_errors_and_endless_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(_Counter):
        def down(self, n: int) -> int:
            if n == 0:
                raise KeyError("at the end")
            return self.down(n - 1)

    with pytest.raises(KeyError, match="at the end"):
        deep_call(Failing().down, 5000)
    monkeypatch.setattr("tilewright.base.deep._MOST_THREADS", 8)
    with pytest.raises(TilewrightError, match="nested too deeply"):
        deep_call(_Counter().down, -1)


def test_a_walk_takes_few_threads_and_a_deep_caller_gets_room() -> None:
    counter = _Counter()
    deep_call(counter.down, 20_000)
    assert len(counter.threads) < 100

    @roomy
    def entry() -> int:
        return threading.get_ident()

    def deep_in(n: int) -> int:
        return entry() if n == 0 else deep_in(n - 1)

    assert entry() == threading.get_ident() != deep_in(sys.getrecursionlimit() * 3 // 5)


def test_small_parts_stay_in_their_thread() -> None:
    class Leaves(Recursive):
        recursive = ("expr",)

        def __init__(self) -> None:
            self.threads: set[int] = set()
            self.leaves = 0

        def expr(self, e: Any) -> None:
            self.threads.add(_thread.get_ident())
            for part in children(e):
                self.expr(part)
            self.leaves += not children(e)

    x, e = tir.Var("x", "float32"), tir.const(1.0, "float32")
    for _ in range(3000):
        e = E.Add(e, E.Mul(x, x))
    hops = []

    def counted(*args: Any) -> int:
        hops.append(1)
        return start(*args)

    start = _thread.start_new_thread
    walker = Leaves()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", counted)
        deep_call(walker.expr, e)
    assert walker.leaves >= 6001 and len(hops) < 3000 // 100


N = 400  # nodes; each is at least two frames
KINDS = (
    "sum", "right", "select", "choice", "switch", "let", "value", "cast", "max", "call", "xor",
    "and", "divide", "least", "modulo",
)  # fmt: skip


def _chain(kind: str, leaf: Any, n: int = N) -> Any:
    e, i = leaf, leaf.indices[0]
    if kind in ("xor", "least", "modulo"):
        e = i
    if kind == "divide":
        e = leaf.astype("int32")
    if kind == "and":
        e = leaf > tir.const(-1.0, "float32")
    for k in range(n):
        number = tir.const(float(k % 7), "float32")
        if kind == "sum":
            e = e + leaf * number
        elif kind == "right":
            e = E.Add(leaf, e)
        elif kind == "select":
            e = tir.Select(leaf > tir.const(float(k + 1), "float32"), leaf * leaf, e)
        elif kind == "choice":
            e = te.if_then_else(leaf > tir.const(float(k + 1), "float32"), leaf * leaf, e)
        elif kind == "switch":
            e = te.if_then_else(i.equal(k), leaf * number, e)
        elif kind == "let":
            v = tir.Var(f"v{k}", "float32")
            e = tir.Let(v, leaf, E.Add(v, e))
        elif kind == "value":
            v = tir.Var(f"v{k}", "float32")
            e = tir.Let(v, e, E.Add(v, leaf))
        elif kind == "cast":
            e = (e + number).astype("float64").astype("float32")
        elif kind == "max":
            e = te.max(e, leaf * number)
        elif kind == "call":
            e = te.floor(e + number)
        elif kind == "xor":
            e = e ^ (i + k)
        elif kind == "and":
            e = tir.all(e, leaf > tir.const(float(k) - N, "float32"))
        elif kind == "divide":
            e = (e * 3 + leaf.astype("int32")) // 2
        elif kind == "least":
            e = te.min(e * 2, i + k)
        else:
            e = (e * 3 + i) % 7
    if kind == "and":
        return te.if_then_else(e, leaf, tir.const(0.0, "float32"))
    return e.astype("float32")


def _program(kind: str, n: int = N) -> tuple[Any, list[Any]]:
    A = te.placeholder((4,), "float32", name="A")
    B = te.compute((4,), lambda i: _chain(kind, A[i], n), name="B")
    return te.create_schedule(B.op), [A, B]


def _no_change(*_: Any) -> None:
    raise AssertionError("a setting of the whole process was changed")


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "setrecursionlimit", _no_change)
    size = threading.stack_size
    monkeypatch.setattr(threading, "stack_size", lambda *a: _no_change() if a else size())


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("kind", KINDS)
def test_deep_expressions_everywhere(kind: str) -> None:
    s, tensors = _program(kind)
    module = tvm.lower(s, tensors)
    func = module["main"]
    assert len(str(tensors[1].op.body[0])) > 1000
    assert len(str(func)) > (1000 if kind != "switch" else 200)  # most of these are never chosen
    assert tvm.ir.structural_equal(func, tvm.ir.load_json(tvm.ir.save_json(func)))
    assert tvm.ir.structural_hash(func) == tvm.ir.structural_hash(tvm.lower(s, tensors)["main"])
    assert len(c_source(module)) > 300
    if kind in ("sum", "right", "let", "value"):
        assert len(te.gradient(tensors[1], [tensors[0]])) == 1
    a, b = np.ones(4, "float32"), np.zeros(4, "float32")
    (want,) = te_eval(tensors[1], {tensors[0]: a})
    if kind not in ("choice", "switch"):  # Python has a limit for nested blocks
        tir_eval(func, a, b)
        np.testing.assert_array_equal(b, want)
    tvm.build(s, tensors, "llvm")(a, b)
    np.testing.assert_array_equal(b, want)


@pytest.mark.usefixtures("guarded")
def test_deep_programs_through_every_pass() -> None:
    """Schedules that make the passes do what they are for."""
    A = te.placeholder((12,), "float32", name="A")
    C = te.compute((12,), lambda i: A[i] * 2.0, name="C")
    B = te.compute((12,), lambda i: _chain("sum", C[i], 1100), name="B")
    k = te.reduce_axis((0, 3), name="k")
    D = te.compute((4,), lambda i: te.sum(_chain("sum", B[i * 3 + k], 1100), axis=k), name="D")
    s = te.create_schedule(D.op)
    outer, inner = s[B].split(B.op.axis[0], factor=8)  # a guard, and a loop that is partitioned
    s[B].vectorize(inner)
    s[C].compute_at(s[B], outer)
    s[C].double_buffer()
    s[C].unroll(C.op.axis[0])
    s[D].bind(s[D].split(D.op.axis[0], nparts=2)[0], te.thread_axis("vthread"))
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        assert len(c_source(tvm.lower(s, [A, D]))) > 60_000

    for target in ("cuda", "opencl", "opencl -device=mali"):
        s = te.create_schedule(D.op)
        s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
        shared = s.cache_read(B, "shared", [D])
        s[shared].compute_at(s[D], D.op.axis[0])
        s[D].bind(D.op.axis[0], te.thread_axis("blockIdx.x"))
        s[D].bind(k, te.thread_axis("threadIdx.x"))
        s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
        source = tvm.build(s, [A, D], target).imported_modules[0].get_source()
        assert len(source) > 50_000


@pytest.mark.usefixtures("guarded")
def test_deep_statements() -> None:
    buffer = tir.decl_buffer((4,), "float32", name="A")
    x = tir.Var("x", "int32")
    body: Any = S.BufferStore(buffer, tir.const(1.0, "float32"), (x % 4,))
    for n in range(500):
        v = tir.Var(f"v{n}", "int32")
        if n % 4 == 0:
            body = S.LetStmt(
                v, x * n, S.seq(S.BufferStore(buffer, v.astype("float32"), (0,)), body)
            )
        elif n % 4 == 1:
            body = S.IfThenElse((x + n) % 7 < 6, body, S.Evaluate(tir.call_extern("int32", "f")))
        elif n % 4 == 2:
            body = S.For(v, tir.const(0), x, S.ForKind.SERIAL, body)
        else:
            body = S.AssertStmt(x > n, tir.StringImm("small"), body)
    data = tir.Var("a", "handle")
    func = S.PrimFunc((data, x), body, None, {data: buffer})
    lowered = tvm.lower(func)
    assert len(c_source(lowered)) > 10_000 and len(str(lowered)) > 10_000
    assert tvm.ir.structural_equal(lowered, tvm.ir.load_json(tvm.ir.save_json(lowered)))
    assert tir.stmt_functor.substitute(body, {x: tir.const(3)}) is not body


@pytest.mark.parametrize("kind", ["sum", "select", "choice", "switch"])
def test_work_grows_with_the_depth_only(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    def start(function: Any, args: Any) -> int:
        def run() -> None:
            sys.setprofile(count)
            function(*args)

        return begin(run, ())

    def cost(n: int) -> int:
        nonlocal calls
        program, calls = _program(kind, n), 0
        sys.setprofile(count)
        try:
            tvm.lower(*program)
        finally:
            sys.setprofile(None)
        return calls

    begin = _thread.start_new_thread
    monkeypatch.setattr(_thread, "start_new_thread", start)
    cost(2)
    assert cost(800) < 6 * cost(200)


def test_stages_in_the_loops_of_others() -> None:
    stages = [te.placeholder((8,), name="A")]
    for k in range(250):
        stages.append(te.compute((8,), lambda i, t=stages[-1]: t[i] + 1, name=f"S{k}"))
    s = te.create_schedule(stages[-1].op)
    for t, reader in itertools.pairwise(stages[1:]):
        s[t].compute_at(s[reader], reader.op.axis[0])
    text = str(tvm.lower(s, [stages[0], stages[-1]]))
    assert text.count("allocate") == 249


def test_options_hold_for_deep_programs() -> None:
    calls: list[str] = []

    def own_pass(func: Any, *_: Any) -> Any:
        calls.append(func.name)
        return func

    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: _chain("sum", A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[0])
    config = {"tir.disable_vectorize": True, "tir.add_lower_pass": [(0, own_pass)]}
    with tvm.transform.PassContext(config=config):
        func = tvm.lower(s, [A, B])["main"]
    assert calls == ["main"]
    assert "T.Ramp" not in str(func) and "0:64" not in str(func)


# Functions that call themselves, or each other, but no oftener than is said here
BOUNDED = {
    "arith.analyzer._lanes_bound": "for the lanes of a vector",
    "arith.context._with_parts": "over parts, by way of marked tables",
    "arith.decide._by_cases": "as often as its steps",
    "arith.decide._for_values": "once for each of few variables",
    "arith.deduce._both": "as often as its steps",
    "arith.int_set.eval_set": "for the ends of a vector",
    "arith.interval.div_bound": "for each sign of a divisor",
    "arith.interval.mod_bound": "for each sign of a divisor",
    "arith.iter_affine_map.mark": "over fused iterators",
    "arith.linear.gaps_of": "for what a negation is pushed into",
    "arith.simplify.divmod.divide": "for the opposite divisor",
    "arith.simplify.divmod.modulo": "for the opposite divisor",
    "arith.prove._by_branches": "as often as its steps",
    "arith.prove.lowest": "as often as its steps",
    "arith.simplify.add._join_alike": "for what two digits are taken of, which holds fewer digits",
    "codegen.llvm.convert.cast": "from type to type",
    "codegen.c_preamble.add": "over helpers that need helpers",
    "codegen.cuda_preamble.add": "over helpers that need helpers",
    "codegen.opencl_preamble.add": "over helpers that need helpers",
    "codegen.cuda.cast": "from type to type",
    "codegen.opencl._convert": "from type to type",
    "codegen.llvm.index.index": "for the lanes of a vector",
    "interp.simt_calls.pointer": "for the address of a load",
    "loopir.construct.cast": "from type to type",
    "loopir.containers.convert": "over what the user nests",
    "loopir.print_expr.any": "over lists and maps of an attribute",
    "loopir.schema.variables_in": "over a tuple",
    "loopir.schema.classes": "over subclasses",
    "loopir.serial.field": "over a field's tuples; nodes are numbered",
    "loopir.serial.any": "over attributes, not nodes",
    "loopir.stmt.add": "over lists of statements",
    "tensor.arguments.as_attrs": "over what the user nests",
    "tensor.serial.value": "over attributes, not nodes",
    "loopir.verify.buffer": "for the sizes of a buffer; expressions are walked without recursion",
    "loopir.verify.verify": "over the functions of a module",
    "loopir.visit.free_vars": "for the extents of an allocation",
    "lowering.flatten_buffers.buffer": "for the owner of a memory",
    "lowering.loop_nest._scan": "for the initial values of a scan",
    "lowering.partition_loops._branch": "for the parts of a loop",
    "lowering.lower_thread_allreduce._launched": "over thread axes",
    "lowering.software_pipeline.pipelined": "over pragmas",
    "lowering.split_host_device._with_code": "over thread axes",
    "lowering.turn_loads.interleaved": "as often as lanes can be halved",
    "lowering.vectorize_loops._strips": "for the last strip",
    "lowering.thread_accesses._conflict": "once, for accesses of one size",
}


def test_functions_that_call_themselves_are_walkers() -> None:
    root = Path(tvm.__file__).parent
    found = set()
    for room in ("arith", "loopir", "lowering", "codegen", "interp", "tensor"):
        for path in (root / room).rglob("*.py"):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            found |= {f"{name}.{f}" for f in _unmarked(ast.parse(path.read_text()))}
    assert found == set(BOUNDED), "mark new ones `recursive`: see base/deep.py"


def _unmarked(tree: Any) -> Iterator[str]:
    """Names of functions of a module, or methods of a class, that call themselves, by way of others
    too; of those that call each other the first."""
    scopes = [
        n for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef))
    ]
    for scope in scopes:
        prefix, marked = "", set()
        if isinstance(scope, ast.ClassDef):
            prefix, marked = "self.", {scope.name}
            for x in scope.body:
                if isinstance(x, ast.Assign) and ast.unparse(x.targets[0]) == "recursive":
                    marked |= set(ast.literal_eval(x.value))
        calls: dict[str, set[str]] = {}
        for f in scope.body:
            if not isinstance(f, ast.FunctionDef) or f.name in marked:
                continue
            if not any(ast.unparse(d) == "recursive" for d in f.decorator_list):
                texts = {ast.unparse(x.func) for x in ast.walk(f) if isinstance(x, ast.Call)}
                calls[f.name] = {c.removeprefix(prefix) for c in texts if c.startswith(prefix)}
        below = {name: _reached(name, calls) for name in calls}
        for name in calls:
            circle = {other for other in below[name] if name in below[other]}
            if name in circle and name == min(circle):
                yield name


def _reached(name: str, calls: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = list(calls[name])
    while todo:
        other = todo.pop()
        if other in calls and other not in found:
            found.add(other)
            todo.extend(calls[other])
    return found
