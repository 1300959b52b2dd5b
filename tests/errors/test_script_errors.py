"""What is said of scripts that cannot be read, and where it points."""

from __future__ import annotations

import pytest

from tilewright.base.errors import DiagnosticError, UsageError
from tilewright.script import from_source
from tilewright.script import tir as T

HEAD = '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), n: T.int32):\n'
CASES = [
    ("A[0] = A[0] + missing", "<text>:3:19: undefined variable: missing"),
    ('with T.block("b"):\n        A[0] = 1', "schedules are written on tensors"),
    ("A[0, 1] = 1", "A has 1 dimensions, got 2 indices"),
    ("A[0:4] = T.Broadcast(1.0, 8)", "holds float32x4, but the value is float32x8"),
    ("A[A[0]] = 1", "an index of A is float32, not an integer"),
    ("A[0:n] = 1.0", "no constant length, [0:n]"),
    ("for i in [1, 2]:\n        A[i] = 1", "a for loop runs over range, T.serial"),
    ("for i in range(0, 8, 2):\n        A[i] = 1", "and no step"),
    ("a = b = n", "a = b = c is not supported"),
    ("import os", "import has no place in a T.prim_func"),
    ("def g():\n        pass", "function has no place in a T.prim_func"),
    ("x: T.float32 = n\n    A[0] = x", 'x is float32, but its value is int32: cast it'),
    ("B = T.match_buffer(n, (3,))\n    T.evaluate(missing)", "undefined variable: missing"),
    ("A[0] = n / 2", "floordiv/floormod"),
    ("A[0] = T.ldexp(n, 1)", "ldexp takes a float, got int32"),
    ("A[0] = T.nothing(n)", "has no attribute 'nothing'"),
    ("m = T.allocate([4], 'float32')\n    m[0] = 1.0", "declare a buffer: T.Buffer(..., data=)"),
    ('x, y = n, n, n', "2 names for 3 values"),
    ("m = T.int32()\n    A[m] = 1", "nothing in f defines m"),
    ("A[1] = yield_()\n    yield 1", "undefined variable: yield_"),
    ("yield 1", "Yield has no meaning in a script"),
    ("try:\n        pass\n    except E:\n        pass", "Try has no meaning in a script"),
    ('x: T.int32 = 1.5 if', "invalid syntax"),
    ('c = T.allocate_const([1.0], "float32", [3])', "give as many values as elements"),
    ("T.launch_thread(n, 3)", 'takes an axis such as "threadIdx.x"'),
    ("T.axis.spatial(4, n)", "T.axis.spatial belongs to TensorIR's blocks"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), CASES, ids=[t for t, _ in CASES])
def test_mistake(text: str, said: str) -> None:
    with pytest.raises(DiagnosticError) as error:
        from_source(f"{HEAD}    {text}\n")
    assert said in str(error.value)
    assert str(error.value).startswith("<text>:") and "^" in str(error.value)


def test_the_file_and_the_line_are_those_of_the_user() -> None:
    with pytest.raises(DiagnosticError) as error:

        @T.prim_func
        def f(A: T.Buffer((4,), "float32")):
            A[0] = A[0] + unknown_name  # type: ignore[name-defined]  # noqa: F821

    first, line, mark = str(error.value).splitlines()
    assert "test_script_errors.py:" in first and first.endswith("undefined variable: unknown_name")
    number, column = (int(part) for part in first.split(": ")[0].split(":")[-2:])
    with open(__file__) as file:
        shown = file.readlines()[number - 1].rstrip("\n")
    assert line == f"{number:6} | {shown}"
    assert shown[
        column - 1 :
    ] == "unknown_name  # type: ignore[name-defined]  # noqa: F821" and mark.count("^") == len(
        "unknown_name"
    )
    assert mark.index("^") == line.index("unknown_name")


def test_parameters_and_texts() -> None:
    with pytest.raises(DiagnosticError, match="parameter a needs a type"):
        from_source("@T.prim_func\ndef f(a):\n    pass")
    with pytest.raises(DiagnosticError, match="one function or one class, got 0"):
        from_source("")
    with pytest.raises(DiagnosticError, match=r"f stands under no @T.prim_func"):
        from_source("def f():\n    pass")
    with pytest.raises(DiagnosticError, match="private"):
        from_source('@T.prim_func(private=True)\ndef f():\n    T.func_attr({"global_symbol": "x"})')
    with pytest.raises(DiagnosticError, match="made by exec have none"):
        made: dict[str, object] = {}
        exec("def f():\n    pass", made)
        T.prim_func(made["f"])
    with pytest.raises(UsageError, match="decorates a function"):
        T.prim_func(3)
    with pytest.raises(DiagnosticError, match="too many nested parentheses"):
        from_source("@T.prim_func\ndef f():\n    T.evaluate(" + "(" * 300 + "1" + ")" * 300 + ")")
