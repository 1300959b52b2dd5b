"""Functions of tir, arith and script that were drawn by chance raise what their docstrings say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.errors.drawn import NOTHING, O, Row, T, U, check, lanes, t, tables, x
from tilewright import arith, tir
from tilewright.base.errors import CompileError
from tilewright.error import DiagnosticError
from tilewright.ir import IRModule, Range
from tilewright.script import frames
from tilewright.script import tir as Ts
from tilewright.target import Target

OBJECT = "of type object"
B = "script.ir_builder.tir"
UNARY = ("round", "trunc", "ceil", "floor", "rsqrt", "tan", "tanh", "cbrt", "asinh", "exp", "clz")
BINARY = ("GT", "LT", "Sub", "And", "max", "floormod", "copysign")
NUMBERS = ("round", "trunc", "ceil", "floor")


def two(f: Any) -> Any:
    """Something that is no comparison of two lengths."""
    return f(lanes(2), lanes(4))


VAR = x()
ROWS: list[Row] = [
    *((f"{B}.{name}", O, OBJECT, lambda f: f(NOTHING)) for name in UNARY),
    *((f"{B}.{name}", T, "handle", lambda f: f(x("handle"))) for name in NUMBERS),
    *((f"{B}.{name}", O, OBJECT, lambda f: f(1, NOTHING)) for name in BINARY),
    *((f"{B}.{name}", T, "lanes", two) for name in BINARY[4:]),
    *((f"{B}.{name}", T, "handle", lambda f: f(x("handle"), 1)) for name in BINARY[:5]),
    (f"{B}.floormod", T, "float", lambda f: f(x("float32"), 2)),
    (f"{B}.floormod", T, "0|zero", lambda f: f(x(), 0)),
    (f"{B}.clz", T, "integer", lambda f: f(x("float32"))),
    (f"{B}.ProducerLoad", O, OBJECT, lambda f: f(t(2), [NOTHING])),
    (f"{B}.call_llvm_pure_intrin", T, "name of an intrinsic", lambda f: f("float32", 3, 1.0)),
    (f"{B}.call_llvm_pure_intrin", T, "argument",
     lambda f: f("float32", "llvm.fma", tir.const(2, "uint32"), x())),
    (f"{B}.unroll", O, OBJECT, lambda f: f(NOTHING)),
    (f"{B}.serial", O, OBJECT, lambda f: f(NOTHING)),
    (f"{B}.grid", O, OBJECT, lambda f: f(4, NOTHING)),
    (f"{B}.grid", U, "extent", lambda f: f()),
    (f"{B}.large_uint_imm", T, "unknown data type", lambda f: f(NOTHING, 0, 0)),
    (f"{B}.var", T, "float3", lambda f: f("float3")),
    (f"{B}.tvm_stack_make_shape", O, OBJECT, lambda f: f(1, NOTHING)),
    (f"{B}.max_value", T, "float3", lambda f: f("float3")),
    (f"{B}.infinity", T, "infinity", lambda f: f("int32")),
    (f"{B}.infinity", T, "float3", lambda f: f("float3")),
    (f"{B}.start_profile_intrinsic", O, "constant of <object", lambda f: f(NOTHING)),
    (f"{B}.BufferLoad", O, OBJECT, lambda f: f(tir.decl_buffer((4,)), [NOTHING])),
    (f"{B}.BufferLoad", O, "predicate|bool", lambda f: f(tir.decl_buffer((4,)), [x()], x())),
    (f"{B}.tensor_map", T, "swizzle", lambda f: f(x("handle"), [64, 64], [128], [64, 64], 5)),
    (f"{B}.tensor_map", T, "box|dims|dimensions",
     lambda f: f(x("handle"), [64, 64], [128], [64], 0)),
    (f"{B}.tensor_map", T, "images have 3 to 5 dims",
     lambda f: f(x("handle"), [64, 9], [128], [64, 9], 0, tir.Pixels((), (), ()))),
    (f"{B}.anylist_getitem", O, OBJECT, lambda f: f(NOTHING, 0)),
    (f"{B}.anylist_getitem", O, OBJECT, lambda f: f(x("handle"), NOTHING)),
    (f"{B}.If", O, OBJECT, lambda f: f(NOTHING)),
    (f"{B}.FloatImm", O, "does not fit float16", lambda f: f("float16", 1e9)),
    (f"{B}.FloatImm", T, "float3", lambda f: f("float3", 1.0)),
    ("script.frames.IfFrame", O, OBJECT, lambda f: f(NOTHING)),
    ("script.frames.WhileFrame", O, OBJECT, lambda f: f(NOTHING)),
    ("script.frames.ForFrame", O, OBJECT, lambda f: f([(0, NOTHING)], 0)),
    ("script.frames.ForFrame", T, "handle", lambda f: f([(0, x("handle"))], 0)),
    ("script.frames.PrimFuncFrame.arg", U, "buffer", lambda f: f(frames.PrimFuncFrame(), "a", 3)),
    ("script.frames.IfFrame.made", U, "T.Then", lambda f: f(frames.IfFrame(x("bool")))),
    ("script.entry.prim_func", DiagnosticError, "", lambda f: f(unreadable)),
    ("script.buffers.buffer", U, "buffer_type", lambda f: f((4,), buffer_type="odd")),
    ("script.buffers.buffer", T, "float3", lambda f: f((4,), "float3")),
    ("tir.AssertStmt", O, OBJECT, lambda f: f(NOTHING, "no", tir.Evaluate(0))),
    ("tir.AssertStmt", O, OBJECT, lambda f: f(x("bool"), NOTHING, tir.Evaluate(0))),
    ("tir.BlockDependenceInfo", U, "", lambda f: f()),
    ("tir.TensorIntrin", U, "", lambda f: f()),
    ("tir.TensorIntrin.get", U, "", lambda f: f("dot")),
    ("tir.BijectiveLayout.forward_shape", U, "axes|dimensions",
     lambda f: f(tir.bijective_layout("NCHW", "NHWC"), (1, 2))),
    ("tir.ir_builder.IRBuilder.scope_attr", O, OBJECT,
     lambda f: f(tir.ir_builder.create(), None, "k", NOTHING)),
    ("tir.ir_builder.IRBuilder.allocate", T, "float3",
     lambda f: f(tir.ir_builder.create(), "float3", 4)),
    ("tir.op.logical_and", O, OBJECT, lambda f: f(NOTHING, x("bool"))),
    ("tir.op.logical_and", T, "lanes", lambda f: f(lanes(2) > 0, lanes(4) > 0)),
    ("tir.op.logical_and", T, "handle", lambda f: f(x("handle"), x("bool"))),
    ("tir.op.binary", O, OBJECT, lambda f: f(tir.Add, 1, NOTHING)),
    ("tir.op.binary", T, "0|zero", lambda f: f(tir.FloorDiv, x(), 0)),
    ("tir.op.binary", T, "lanes", lambda f: f(tir.Add, lanes(2), lanes(4))),
    ("tir.generic.cast", T, "float3", lambda f: f(1, "float3")),
    ("tir.generic.cast", O, OBJECT, lambda f: f(NOTHING, "int8")),
    ("tir.Evaluate", O, OBJECT, lambda f: f(NOTHING)),
    ("tir.transform.HoistIfThenElse", U, "basic", lambda f: f("advanced")),
    ("tir.transform.VerifyMemory", CompileError, "memory", lambda f: f()(module_of(on_the_host()))),
    ("tir.transform.RemoveStoreUndef", CompileError, "undef|index",
     lambda f: f()(module_of(undefined_index()))),
    ("tir.transform.VerifyVTCMLimit", CompileError, "vtcm", lambda f: f(8)(module_of(with_vtcm()))),
    ("tir.analysis.verify_gpu_code", CompileError, "max_no",
     lambda f: f(undefined_index(), {"max_no": 1})),
    ("arith.Analyzer.int_set", O, OBJECT, lambda f: f(arith.Analyzer(), NOTHING)),
    ("arith.Analyzer.can_prove_less_equal", T, "lanes",
     lambda f: f(arith.Analyzer(), lanes(2), lanes(4))),
    ("arith.Analyzer.can_prove_less_equal", T, "handle",
     lambda f: f(arith.Analyzer(), x("handle"), 4)),
    ("arith.Analyzer.can_prove_equal", O, OBJECT, lambda f: f(arith.Analyzer(), 1, NOTHING)),
    ("arith.Analyzer.can_prove_equal", T, "lanes",
     lambda f: f(arith.Analyzer(), lanes(2), lanes(4))),
    ("arith.Analyzer.can_prove_equal", T, "handle", lambda f: f(arith.Analyzer(), x("handle"), 4)),
    ("arith.Analyzer.can_prove", O, OBJECT, lambda f: f(arith.Analyzer(), NOTHING)),
    ("arith.Analyzer.bind", O, OBJECT, lambda f: f(arith.Analyzer(), x(), NOTHING)),
    ("arith.eval_set", O, OBJECT, lambda f: f(NOTHING, {})),
    ("arith.IterMark", O, OBJECT, lambda f: f(x(), NOTHING)),
    ("arith.IterMark", O, OBJECT, lambda f: f(NOTHING, 4)),
    ("arith.IntConstraints", O, OBJECT, lambda f: f([x()], {}, [NOTHING])),
    ("arith.detect_linear_equation", O, OBJECT, lambda f: f(NOTHING, [x()])),
    ("arith.detect_iter_map", O, OBJECT, lambda f: f([VAR], {VAR: Range(0, 4)}, NOTHING)),
    ("arith.detect_iter_map", U, "level", lambda f: f([VAR], {VAR: Range(0, 4)}, True, "halfway")),
    ("arith.inverse_index_map", T, "",
     lambda f: f([VAR], {VAR: Range(0, 4)}, [VAR * VAR], [x()], [4])),
    ("arith.IndexMap.from_func", T, "separator",
     lambda f: f(lambda i, j: (i, tir.IndexMap.AXIS_SEPARATOR, j))),
    ("arith.IndexMap.from_func", T, "ndim", lambda f: f(lambda *i: i)),
    ("arith.IndexMap.map_indices", T, "2|indices",
     lambda f: f(tir.IndexMap.from_func(lambda i: [i]), [1, 2])),
    ("arith.IndexMap.map_shape", T, "2|indices",
     lambda f: f(tir.IndexMap.from_func(lambda i: [i]), [1, 2])),
    ("arith.IndexMap.map_shape", T, "limit",
     lambda f: f(tir.IndexMap.from_func(lambda i: [i * tir.Var("k", "int32")]), [4])),
]  # fmt: skip


def unreadable(a: Ts.handle) -> None:
    import os  # noqa: F401


def on_the_host() -> tir.PrimFunc:
    a = tir.decl_buffer((4,), name="a")
    i = x()
    return tir.PrimFunc([a], tir.For(i, 0, 4, tir.ForKind.SERIAL, tir.BufferStore(a, 1.0, [i])))


def module_of(func: tir.PrimFunc) -> Any:
    """The function as the host's part of a program for CUDA."""
    target = Target("cuda", host="llvm")
    return IRModule({"main": func.with_attr({"target": target, "global_symbol": "main"})})


def undefined_index() -> tir.PrimFunc:
    """A store at an index that is not defined."""
    a = tir.decl_buffer((4,), name="a")
    return tir.PrimFunc([a], tir.BufferStore(a, 1.0, [tir.undef()]))


def with_vtcm() -> tir.PrimFunc:
    """Sixteen bytes of a scope of Hexagon's."""
    a = tir.decl_buffer((4,), name="a", scope="global.vtcm")
    return tir.PrimFunc([], tir.Allocate(a, tir.BufferStore(a, 1.0, [0])))


@tables(ROWS)
def test_programs_raise_what_is_said(
    path: str, error: type[BaseException], reason: str, call: Callable[[Any], object]
) -> None:
    check(path, error, reason, call)
