"""Native functions for the tests, written in LLVM IR against the runtime's ABI."""

from __future__ import annotations

from typing import Any

from tilewright.rt.function import Function
from tilewright.rt.native import compile_ir, load_object
from tilewright.rt.signature import FunctionInfo

LOAD = "  %p{0} = getelementptr i64, ptr %slots, i64 {0}\n  %a{0} = load {1}, ptr %p{0}\n"

# C[i] = A[i] + B[i] for n elements; n is slot 3
ADD = f"""
define i32 @add(ptr %slots) {{
entry:
{LOAD.format(0, "ptr")}{LOAD.format(1, "ptr")}{LOAD.format(2, "ptr")}{LOAD.format(3, "i64")}
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %body]
  %more = icmp slt i64 %i, %a3
  br i1 %more, label %body, label %done
body:
  %pa = getelementptr float, ptr %a0, i64 %i
  %pb = getelementptr float, ptr %a1, i64 %i
  %pc = getelementptr float, ptr %a2, i64 %i
  %x = load float, ptr %pa
  %y = load float, ptr %pb
  %z = fadd float %x, %y
  store float %z, ptr %pc
  %next = add i64 %i, 1
  br label %head
done:
  ret i32 0
}}
"""

# copies the slots, as they are, to the memory of argument 0
DUMP = """
declare ptr @memcpy(ptr, ptr, i64)
define i32 @dump(ptr %slots) {{
  %out = load ptr, ptr %slots
  %r = call ptr @memcpy(ptr %out, ptr %slots, i64 {nbytes})
  ret i32 0
}}
"""

NOTHING = "define i32 @nothing(ptr %slots) { ret i32 0 }"


def array(name: str, dtype: str, shape: Any, **rest: Any) -> dict[str, Any]:
    return {"name": name, "kind": "array", "dtype": dtype, "shape": shape, **rest}


def scalar(name: str, dtype: str) -> dict[str, Any]:
    return {"name": name, "kind": "scalar", "dtype": dtype}


def info_of(name: str, args: list[dict[str, Any]], **rest: Any) -> FunctionInfo:
    return FunctionInfo.from_json({"name": name, "args": args, **rest})


def make(ir: str, info: FunctionInfo, symbol: str | None = None) -> Function:
    """The function of that IR under the signature."""
    library = load_object(compile_ir(ir))
    return Function(info, lambda: (library.address(symbol or info.name), library))


def add_function(n: Any = "n") -> Function:
    """C = A + B over float32 vectors of n elements."""
    args = [array(x, "float32", [n], is_output=x == "C") for x in "ABC"]
    symbols = [{"name": "n", "source": ["shape", 0, 0]}]
    return make(ADD, info_of("add", args, symbols=symbols))


def checked(args: list[dict[str, Any]], **rest: Any) -> Function:
    """A function that does nothing, to call for its checks."""
    return make(NOTHING, info_of("f", args, **rest), "nothing")
