"""Python functions that compiled code calls."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from tests.unit.rt.kernels import array, info_of, make
from tilewright.base.errors import InternalError, TilewrightError
from tilewright.rt import packed

# Calls "t.func" with (7, -2.5, array of argument 0, "text", handle 64, none), then stores the
# result's code and payload to argument 1.
CALL = """
declare i32 @tw_call_packed(ptr, ptr, i32)
@name = constant [7 x i8] c"t.func\\00"
@text = constant [5 x i8] c"text\\00"
@shape = constant [2 x i64] [i64 2, i64 3]
define i32 @caller(ptr %slots) {
  %data = load ptr, ptr %slots
  %p1 = getelementptr i64, ptr %slots, i64 1
  %out = load ptr, ptr %p1
  %args = alloca [7 x {i64, i64}]
  %h = alloca {ptr, i32, i32, i32, i32, ptr, ptr}
  store {ptr, i32, i32, i32, i32, ptr, ptr}
    {ptr null, i32 2, i32 2, i32 32, i32 1, ptr @shape, ptr null}, ptr %h
  store ptr %data, ptr %h
  store {i64, i64} {i64 0, i64 7}, ptr %args
  %a1 = getelementptr {i64, i64}, ptr %args, i64 1
  store {i64, i64} {i64 1, i64 -4610560118520545280}, ptr %a1
  %hi = ptrtoint ptr %h to i64
  %v2 = insertvalue {i64, i64} {i64 2, i64 0}, i64 %hi, 1
  %a2 = getelementptr {i64, i64}, ptr %args, i64 2
  store {i64, i64} %v2, ptr %a2
  %ti = ptrtoint ptr @text to i64
  %v3 = insertvalue {i64, i64} {i64 3, i64 0}, i64 %ti, 1
  %a3 = getelementptr {i64, i64}, ptr %args, i64 3
  store {i64, i64} %v3, ptr %a3
  %a4 = getelementptr {i64, i64}, ptr %args, i64 4
  store {i64, i64} {i64 4, i64 64}, ptr %a4
  %a5 = getelementptr {i64, i64}, ptr %args, i64 5
  store {i64, i64} {i64 -1, i64 0}, ptr %a5
  %status = call i32 @tw_call_packed(ptr @name, ptr %args, i32 6)
  %a6 = getelementptr {i64, i64}, ptr %args, i64 6
  %r = load {i64, i64}, ptr %a6
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %bad, label %good
good:
  store {i64, i64} %r, ptr %out
  ret i32 0
bad:
  ret i32 %status
}
"""


@pytest.fixture(scope="module")
def caller():
    args = [
        array("A", "float32", [2, 3], is_output=True),
        array("R", "int64", [2], is_output=True),
    ]
    return make(CALL, info_of("caller", args))


@pytest.fixture
def registered():
    def register(function):
        packed.register_func("t.func", function, override=True)

    yield register
    packed.remove_global_func("t.func")


def call(caller):
    data, result = np.arange(6, dtype=np.float32).reshape(2, 3), np.full(2, 99)
    caller(data, result)
    return data, result.tolist()


def test_arguments_arrive_and_arrays_are_views(caller, registered):
    seen = []

    def function(i, f, a, text, handle, none):
        seen.append((i, f, a.shape, a.dtype, text, handle, none))
        a[1, 2] = 50

    registered(function)
    data, result = call(caller)
    assert seen == [(7, -2.5, (2, 3), "float32", "text", 64, None)]
    assert data[1, 2] == 50
    assert result == [-1, 0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, [0, 5]),
        (True, [0, 1]),
        (np.int8(-3), [0, -3]),
        (2.5, [1, struct.unpack("q", struct.pack("d", 2.5))[0]]),
        (np.float32(2.5), [1, struct.unpack("q", struct.pack("d", 2.5))[0]]),
        (None, [-1, 0]),
    ],
)
def test_results(caller, registered, value, expected):
    registered(lambda *args: value)
    assert call(caller)[1] == expected


def test_an_exception_crosses_the_native_code(caller, registered):
    error = KeyError("lost")

    def function(*args):
        raise error

    registered(function)
    with pytest.raises(KeyError) as caught:
        call(caller)
    assert caught.value is error
    registered(lambda *args: None)
    call(caller)


def test_a_result_that_is_no_number_is_an_error(caller, registered):
    registered(lambda *args: "text")
    with pytest.raises(TilewrightError, match=r"'t.func': it returned str, not a number"):
        call(caller)


def test_a_missing_function_is_an_error(caller):
    with pytest.raises(TilewrightError, match=r"registered under the name 't\.func'"):
        call(caller)


def test_a_negative_status_without_an_exception_is_a_bug():
    f = make("define i32 @m(ptr %s) { ret i32 -1 }", info_of("m", []))
    with pytest.raises(InternalError, match="nobody kept"):
        f()


def test_registration():
    @packed.register_func("t.named")
    def first():
        return 1

    @packed.register_func
    def t_own_name():
        return 2

    try:
        assert packed.get_global_func("t.named") is first
        assert packed.get_global_func("t_own_name") is t_own_name
        assert "t.named" in packed.list_global_func_names()
        with pytest.raises(TilewrightError, match="registered already; pass override=True"):
            packed.register_func("t.named", t_own_name)
        packed.register_func("t.named", t_own_name, override=True)
        assert packed.get_global_func("t.named")() == 2
    finally:
        packed.remove_global_func("t.named")
        packed.remove_global_func("t_own_name")
    assert packed.get_global_func("t.named", allow_missing=True) is None
    with pytest.raises(TilewrightError, match="Cannot find global function"):
        packed.get_global_func("t.named")


# Calls "t.func" with each step of a loop of 2, shared by two threads.
PARALLEL = """
declare i32 @tw_parallel(ptr, ptr, i64, i32, i32, ptr)
declare i32 @tw_call_packed(ptr, ptr, i32)
@name = constant [7 x i8] c"t.func\\00"
@time = global double 0.0
define internal i32 @body(ptr %unused, i64 %begin, i64 %end, i32 %thread) {
entry:
  %args = alloca [2 x {i64, i64}]
  br label %step
step:
  %i = phi i64 [%begin, %entry], [%next, %fine]
  %v = insertvalue {i64, i64} {i64 0, i64 0}, i64 %i, 1
  store {i64, i64} %v, ptr %args
  %status = call i32 @tw_call_packed(ptr @name, ptr %args, i32 1)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %fine
failed:
  ret i32 %status
fine:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %step, label %done
done:
  ret i32 0
}
define i32 @region(ptr %slots) {
  %r = call i32 @tw_parallel(ptr @body, ptr null, i64 2, i32 2, i32 0, ptr @time)
  ret i32 %r
}
"""


def test_threads_of_a_parallel_loop_may_call_too(registered):
    f = make(PARALLEL, info_of("region", []))
    seen: list[Any] = []
    registered(seen.append)
    f()
    assert sorted(seen) == [0, 1]

    def fail(step):
        if step == 1:
            raise KeyError(step)

    registered(fail)
    for _ in range(3):
        with pytest.raises(KeyError):
            f()
