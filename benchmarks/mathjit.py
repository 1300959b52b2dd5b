"""Compile a vector math function into a loop over arrays, for the accuracy and speed benchmarks."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

from tilewright.base.dtype import parse
from tilewright.codegen.llvm import math as vector_math
from tilewright.target.target import Target

_KINDS = {
    "float16": "half",
    "bfloat16": "bfloat",
    "float32": "float",
    "float64": "double",
    "int32": "i32",
}


def numpy_type(dtype: str) -> np.dtype[Any]:
    """NumPy type of the elements."""
    element = parse(dtype).element
    return np.dtype(ml_dtypes.bfloat16) if element == "bfloat16" else np.dtype(element)


def _vector(kind: str, lanes: int) -> str:
    return kind if lanes == 1 else f"<{lanes} x {kind}>"


def _loop(body: list[str], declares: set[str], kind: str, lanes: int, args: list[str]) -> str:
    """A function run(in..., out, count of vectors, repetitions) around the body that sets %r from
    %a0 and %a1."""
    vector = _vector(kind, lanes)
    pointers = ", ".join(f"ptr noalias %p{i}" for i in range(len(args)))
    loads = []
    for i, own in enumerate(args):
        loads.append(f"  %q{i} = getelementptr {own}, ptr %p{i}, i64 %at")
        loads.append(f"  %a{i} = load {_vector(own, lanes)}, ptr %q{i}, align 2")
    return "\n".join(
        [
            *sorted(declares),
            f"define void @run({pointers}, ptr noalias %out, i64 %n, i64 %times) #0 {{",
            "entry:",
            "  %empty = icmp eq i64 %n, 0",
            "  br i1 %empty, label %end, label %again",
            "again:",
            "  %time = phi i64 [ 0, %entry ], [ %time.next, %again.end ]",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %again ], [ %next, %loop.end ]",
            f"  %at = mul i64 %i, {lanes}",
            *loads,
            "  br label %loop.body",
            "loop.body:",
            *body,
            f"  %o = getelementptr {kind}, ptr %out, i64 %at",
            f"  store {vector} %r, ptr %o, align 2",
            "  br label %loop.end",
            "loop.end:",
            "  %next = add i64 %i, 1",
            "  %done = icmp eq i64 %next, %n",
            "  br i1 %done, label %again.end, label %loop",
            "again.end:",
            "  %time.next = add i64 %time, 1",
            "  %finished = icmp eq i64 %time.next, %times",
            "  br i1 %finished, label %end, label %again",
            "end:",
            "  ret void",
            "}",
            'attributes #0 = { "prefer-vector-width"="512" }',
            "",
        ]
    )


class Compiled:
    """A compiled loop: call it with input arrays and an output array of whole vectors."""

    def __init__(self, text: str, lanes: int, cpu: str | None = None) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(text)
        module.verify()
        features = "" if cpu else llvm.get_host_cpu_features().flatten()
        self.machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=cpu or llvm.get_host_cpu_name(), features=features, opt=3, jit=True
        )
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = False
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(self.machine, options)
        builder.getModulePassManager().run(module, builder)
        self.lanes = lanes
        self.ir = str(module)
        self.assembly = self.machine.emit_assembly(module)
        self._engine = llvm.create_mcjit_compiler(module, self.machine)
        self._engine.finalize_object()
        self._address = self._engine.get_function_address("run")

    def __call__(self, *arrays: np.ndarray[Any, Any], times: int = 1) -> None:
        count, rest = divmod(arrays[0].size, self.lanes)
        if rest or any(a.size != arrays[0].size for a in arrays):
            raise ValueError(f"arrays of equal size, a multiple of {self.lanes}, are needed")
        signature = [ctypes.c_void_p] * len(arrays) + [ctypes.c_int64] * 2
        function = ctypes.CFUNCTYPE(None, *signature)(self._address)
        function(*(a.ctypes.data for a in arrays), count, times)


def compile_vector(
    name: str, dtype: str, cpu: str | None = None, fused: bool | None = None
) -> Compiled:
    """The library's function for a dtype with lanes, for the host or a named x86 CPU. `fused`:
    written with fused multiply-adds; by default where the CPU has them."""
    t = parse(dtype)
    if fused is None:
        fused = Target(f"llvm -mcpu={cpu}" if cpu else "llvm").has_fma
    text, declares = vector_math.definition(name, dtype, fused)
    kind = _KINDS[t.element]
    kinds = [_KINDS[parse(d).element] for d in vector_math.argument_dtypes(name, dtype)]
    arguments = ", ".join(f"{_vector(k, t.lanes)} %a{i}" for i, k in enumerate(kinds))
    symbol = vector_math.function_name(name, dtype)
    call = f"  %r = call {_vector(kind, t.lanes)} {symbol}({arguments})"
    return Compiled(text + _loop([call], declares, kind, t.lanes, kinds), t.lanes, cpu)


def compile_scalar(name: str, element: str) -> Compiled:
    """A loop over scalar calls of the C library; sigmoid as 1 / (1 + exp(-x)), rsqrt by sqrt."""
    kind = _KINDS[element]
    args = vector_math.arity(name)
    base = {"sigmoid": "exp", "rsqrt": "sqrt"}.get(name, name)
    symbol = base + ("f" if element == "float32" else "")
    arguments = ", ".join(f"{kind} %a{i}" for i in range(args))
    declares = {f"declare {kind} @{symbol}({', '.join([kind] * args)}) #1"}
    body = [f"  %r = call {kind} @{symbol}({arguments})"]
    if name == "sigmoid":
        body = [
            f"  %m = fneg {kind} %a0",
            f"  %c = call {kind} @{symbol}({kind} %m)",
            f"  %d = fadd {kind} %c, 1.0",
            f"  %r = fdiv {kind} 1.0, %d",
        ]
    elif name == "rsqrt":
        body = [f"  %c = call {kind} @{symbol}({kind} %a0)", f"  %r = fdiv {kind} 1.0, %c"]
    text = _loop(body, declares, kind, 1, [kind] * args) + "attributes #1 = { nobuiltin }\n"
    return Compiled(text, 1)
