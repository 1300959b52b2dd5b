"""Functions of te, the runtime and targets that were drawn by chance raise what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright
from tests.errors.drawn import NOTHING, O, Row, S, T, U, check, t, tables, x
from tests.errors.test_graph_errors import relu
from tilewright import graph, te, tir
from tilewright.base.errors import (
    ArgumentError,
    CompileError,
    MissingFunctionError,
    TargetError,
)
from tilewright.rt.open_sizes import OtherSizesError

OBJECT = "of type object"


def stage(kind: str = "compute") -> tuple[Any, Any]:
    """A stage of a computation of two axes and a sum, and one that is not its own."""
    a = t(8, 8)
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), "b")
    c = te.compute((8,), lambda i: b[i] + 1, "c")
    s = te.create_schedule(c.op)
    return s[{"compute": c, "sum": b, "input": a}[kind]], s[b].op.axis[0]


def scan() -> Any:
    n, m = 4, 3
    data = t(n, m)
    state = te.placeholder((n, m), name="state")
    first = te.compute((1, m), lambda _, i: data[0, i])
    update = te.compute((n, m), lambda k, i: state[k - 1, i] + data[k, i])
    made = te.scan(first, update, state, inputs=[data])
    return te.create_schedule(made.op)[update]


def through_scan() -> tuple[Any, Any]:
    stage = scan()
    made = stage.group.attach_stage.op
    return made.output(0), [made.inputs[0]]


def built() -> Any:
    a = t(8)
    b = te.compute((8,), lambda i: a[i] + 1)
    return tilewright.build(te.create_schedule(b.op), [a, b], "llvm", name="add")


def array(*shape: int) -> Any:
    return tilewright.nd.array(np.zeros(shape, "float32"))


ROWS: list[Row] = [
    ("te.Stage.unroll", S, "", lambda f: f(*stage())),
    ("te.Stage.storage_align", S, "axis", lambda f: f(*stage(), 4, 0)),
    ("te.Stage.storage_align", S, "factor", lambda f: f((s := stage()[0]), s.op.axis[0], 0, 0)),
    ("te.Stage.storage_align", S, "offset",
     lambda f: f((s := stage()[0]), s.op.axis[0], 4, 1 << 40)),
    ("te.Stage.reorder", S, "", lambda f: f(*stage())),
    ("te.Stage.reorder", S, "more than once",
     lambda f: f((s := stage()[0]), s.op.axis[0], s.op.axis[0])),
    ("te.Stage.rolling_buffer", S, "output", lambda f: f(stage()[0])),
    ("te.Stage.rolling_buffer", S, "input|placeholder", lambda f: f(stage("input")[0])),
    ("te.Stage.compute_root", S, "scan", lambda f: f(scan().group)),
    ("te.Stage.bind", S, "", lambda f: f(*stage(), te.thread_axis("threadIdx.x"))),
    ("te.Stage.bind", S, "thread",
     lambda f: f((s := stage()[0]), s.op.axis[0], te.reduce_axis((0, 4)))),
    ("te.Stage.tensorize", S, "decl_tensor_intrin",
     lambda f: f((s := stage()[0]), s.op.axis[0], 3)),
    ("te.Stage.tensorize", S, "", lambda f: f(*stage(), te.decl_tensor_intrin)),
    ("te.create_prim_func", U, "", lambda f: f([stage()[0].op.output(0)], "int8")),
    ("te.size_var", T, "text", lambda f: f(3)),
    ("te.trace", T, "list", lambda f: f(3)),
    ("te.trace", O, OBJECT, lambda f: f([NOTHING])),
    ("te.reduce_axis", T, "text", lambda f: f((0, 4), 3)),
    ("te.reduce_axis", U, "integers", lambda f: f((0.5, 4))),
    ("te.gradient", T, "scan|compute", lambda f: f(*through_scan())),
    ("te.ComputeOp", T, "tag", lambda f: f("c", 3, None, [], [tir.const(1)])),
    ("te.ComputeOp", T, "attrs", lambda f: f("c", "", 3, [], [tir.const(1)])),
    ("te.ScanOp", T, "tag", lambda f: f("c", 3, None, None, [], [], [], [])),
    ("te.ScanOp", T, "text",
     lambda f: f(3, "", None, te.reduce_axis((0, 4)), [t(1)], [t(4)], [t(4)], [])),
    ("te.PlaceholderOp", T, "text", lambda f: f(3, (4,), "float32")),
    ("te.const", O, "", lambda f: f(NOTHING)),
    ("te.const", T, "handle", lambda f: f(3, "handle")),
    ("te.const", T, "float3", lambda f: f(3, "float3")),
    ("te.SpecializedCondition", T, "comparison", lambda f: f([x() + 1])),
    ("te.hybrid.HybridModule.save", CompileError, "script",
     lambda f: f(te.hybrid.HybridModule(), "/nowhere")),
    ("te.hybrid.parser.HybridParser", U, "", lambda f: f(script(), [], {})),
    ("te.schedule.Buffer.access_ptr", U, "access_mask", lambda f: f(tir.decl_buffer((4,)), "x")),
    ("te.schedule.Buffer.access_ptr", O, OBJECT,
     lambda f: f(tir.decl_buffer((4,)), "r", offset=NOTHING)),
    ("te.schedule.Buffer.access_ptr", T, "float3",
     lambda f: f(tir.decl_buffer((4,)), "r", "float3")),
    ("te.schedule.Buffer.access_ptr", T, "content_lanes",
     lambda f: f(tir.decl_buffer((4,)), "r", content_lanes=NOTHING)),
    ("te.schedule.SchedulePostProcToPrimFunc", CompileError, "", lambda f: f([3], tir.Evaluate(0))),
    ("PackedFunc.prepare_raw", ArgumentError, "", lambda f: f(built()["add"], array(8))),
    ("runtime.Module.get_source", T, "format|source", lambda f: f(built(), "cobol")),
    ("runtime.Module.time_evaluator", T, "by its name", lambda f: f(built(), 3, tilewright.cpu())),
    ("runtime.Module.time_evaluator", MissingFunctionError, "mul",
     lambda f: f(built(), "mul", tilewright.cpu())),
    ("runtime.Module.save", T, "text|Path", lambda f: f(built(), 3)),
    ("runtime.Module.save", T, "no source of format", lambda f: f(built(), "/nowhere", "cobol")),
    ("NDArray", ArgumentError, "stride", lambda f: f(np.zeros(3, [("a", "i1"), ("b", "f4")])["b"])),
    ("runtime.DeviceArray.copyfrom", ArgumentError, "shape",
     lambda f: on_simt(4).copyfrom(np.zeros(5, "float32"))),
    ("runtime.DeviceArray", ArgumentError, "complex|type",
     lambda f: f(on_simt(4)._memory, (4,), np.dtype("complex64"), tilewright.simt())),
    ("load_json", T, "", lambda f: f("{")),
    ("vulkan", T, "-1", lambda f: f(-1)),
    ("rocm", T, "-1", lambda f: f(-1)),
    ("mtl", T, "-1", lambda f: f(-1)),
    ("Target", TargetError, "kind", lambda f: f("quantum")),
    ("Target", TargetError, "-mcpu|attribute", lambda f: f("llvm -colour=red")),
    ("Target", TargetError, "CPU", lambda f: f("llvm -mcpu=no-such-cpu")),
    ("target.hexagon", TargetError, "Hexagon", lambda f: f()),
    ("target.GenericFunc.set_default", TargetError, "default",
     lambda f: [f(g, str) for g in [generic()] for _ in range(2)]),
    ("target.GenericFunc.register", TargetError, "cpu",
     lambda f: [f(g, str, ["cpu"]) for g in [generic()] for _ in range(2)]),
    ("ir.EnvFunc.get", MissingFunctionError, "no.such", lambda f: f("no.such")),
    ("ir.transform.PassContext", T, "tir.NoSuch", lambda f: f(config={"tir.NoSuch": 1})),
    ("driver.build_module.build_lowered", CompileError, "no functions",
     lambda f: f(tilewright.IRModule({}), tilewright.target.Target("llvm"))),
    ("graph.Executable.at_sizes", OtherSizesError, "", lambda f: f(network(), {"n": 0})),
]  # fmt: skip


def on_simt(*shape: int) -> Any:
    return tilewright.nd.empty(shape, "float32", tilewright.simt())


def generic() -> Any:
    return tilewright.target.GenericFunc("drawn")


def script() -> Any:
    import ast

    return ast.parse("def f(a):\n    return a").body[0]


def network() -> Any:
    """A network whose extent n is open."""
    return tilewright.compile(graph.load_onnx(relu(("n", 3)), symbolic=True), "llvm")


@tables(ROWS)
def test_schedules_and_arrays_raise_what_is_said(
    path: str, error: type[BaseException], reason: str, call: Callable[[Any], object]
) -> None:
    check(path, error, reason, call)
