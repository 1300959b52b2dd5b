"""The runtime given things that are no array, shape, device, path, name or count."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.base.errors import ArgumentError, CompileError, LendError, TilewrightError
from tilewright.rt.files import write_atomically


@pytest.fixture(scope="module")
def double():
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] * 2.0, name="B")
    return tvm.build(te.create_schedule(b.op), [a, b], name="double")


def refused(action, *parts, kind=TilewrightError):
    with pytest.raises(kind) as caught:
        action()
    for part in parts:
        assert part in str(caught.value), f"{part!r} not in: {caught.value}"


def pair():
    return np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)


@pytest.mark.parametrize("value", [None, 3, "x", [1.0], {}, object(), memoryview(b"x"), len])
def test_what_is_no_array(double, value):
    x, y = pair()
    refused(
        lambda: double(value, y),
        f"argument 0 (A): expected an array of float32, got {type(value).__name__}",
    )
    refused(lambda: double(x, value), "argument 1 (B): expected an array of float32, got")
    assert not y.any(), "nothing was computed"


@pytest.mark.parametrize("dtype", [">f4", "O", "U3", "V4", "M8[s]", "f2", "c8", "?"])
def test_elements_that_no_kernel_computes_with(double, dtype):
    x, y = pair()
    odd = np.zeros((4, 8), dtype)
    refused(
        lambda: double(odd, y), "argument 0 (A): expected dtype float32, got", kind=ArgumentError
    )
    refused(
        lambda: double(x, odd), "argument 1 (B): expected dtype float32, got", kind=ArgumentError
    )


def test_memory_that_code_cannot_use(double):
    x, y = pair()
    shifted = np.frombuffer(bytearray(129), np.float32, 32, 1).reshape(4, 8)
    refused(
        lambda: double(shifted, y),
        "argument 0 (A): expected data aligned to 4 bytes, got an address that is 1 bytes off; "
        "nd.array(x) makes an aligned copy",
    )
    for view in (np.ones((8, 4), "f4").T, np.ones((4, 16), "f4")[:, ::2], x[::-1]):
        refused(lambda v=view: double(v, y), "expected a compact row-major array", "strides")
    one_row = np.lib.stride_tricks.as_strided(np.zeros(8, "f4"), (4, 8), (0, 4))
    refused(lambda: double(x, one_row), "argument 1 (B): expected a compact row-major array")


def test_outputs_in_the_memory_of_inputs(double):
    x, _ = pair()
    refused(lambda: double(x, x), "argument 1 (B): the function writes it, but its memory overlaps")
    memory = np.zeros(33, np.float32)
    ahead, behind = memory[:32].reshape(4, 8), memory[1:].reshape(4, 8)
    refused(lambda: double(ahead, behind), "overlaps that of argument 0 (A); pass separate arrays")
    lent = tvm.nd.from_dlpack(x)
    refused(lambda: double(lent, x), "overlaps that of argument 0 (A)")


def test_tensors_on_no_device(double):
    torch = pytest.importorskip("torch")
    _, y = pair()
    nowhere = torch.ones(4, 8, device="meta")
    refused(lambda: double(nowhere, y), "argument 0 (A): Tensor does not lend its memory")
    with pytest.raises(BufferError):
        tvm.nd.from_dlpack(nowhere)
    refused(lambda: tvm.nd.from_dlpack(np.zeros(3, ">f4")), "native byte order", kind=LendError)
    refused(lambda: tvm.nd.from_dlpack(np.zeros(3, "c8")), "code 5", kind=LendError)
    refused(lambda: tvm.nd.from_dlpack(3), "not a DLPack capsule", kind=LendError)
    refused(lambda: tvm.nd.array(nowhere), "meta", kind=LendError)
    graded = torch.ones(4, 8, requires_grad=True)
    refused(lambda: double(graded, y), "does not lend its memory", "use tensor.detach()")


@pytest.mark.parametrize("value", [None, 2.5, "x", [2.5], [None], object(), ("3",)])
def test_shapes_of_arrays(value):
    refused(lambda: tvm.nd.empty(value), f"a shape is integers, got {value!r}", kind=ArgumentError)


def test_arrays_that_cannot_be():
    empty = tvm.nd.empty
    refused(lambda: empty((3, -1)), "an array cannot have shape (3, -1)")
    refused(lambda: empty((2**40, 2**40)), f"an array cannot have shape ({2**40}, {2**40})")
    refused(lambda: empty((1,) * 99), "an array cannot have shape (1, 1,")
    refused(lambda: empty((3,), "float31"), "unknown data type 'float31'")
    refused(lambda: tvm.nd.array(object()), "arrays of NumPy type dtype('O')")
    refused(lambda: tvm.nd.array([[1], [2, 3]]), "list is no array")
    a = empty((2, 2))
    refused(lambda: a.copyfrom(np.zeros(3)), "expected shape (2, 2), got (3,)")
    refused(lambda: a.copyfrom([["a", "b"]] * 2), "copyfrom:", "is not float32")


@pytest.mark.parametrize("value", [None, 2.5, [1], b"cpu", object()])
def test_devices(value):
    refused(lambda: tvm.cpu(value), f"the index of a device cannot be {value!r}")
    refused(lambda: tvm.device("cpu", value), "the index of a device cannot be")
    refused(lambda: tvm.device(value), "device")


@pytest.mark.parametrize("value", [None, 3, 2.5, b"f", [], object(), "", "a\0b"])
def test_paths(double, value):
    got = f"a path is text or a pathlib.Path, got {value!r}"
    refused(lambda: double.export_library(value), got)
    refused(lambda: double.save(value), got)
    refused(lambda: tvm.runtime.load_module(value), got)


def test_names(double):
    for value in (None, 3, b"double", [], object()):
        refused(lambda v=value: double[v], f"a function is found by its name, got {value!r}")
    refused(lambda: double["triple"], "no function 'triple'; it has: double")
    for value in (3, None, []):
        refused(lambda v=value: double.get_source(v), "the format of a source is a name")
    refused(lambda: double.get_source("pdf"), "no source of format 'pdf'; it has: ll, asm, ")


@pytest.mark.parametrize("count", [0, -1, 2.5, "3", None])
def test_counts_of_runs(double, count):
    x, y = pair()
    for counts in ({"number": count}, {"repeat": count}):
        timed = double.time_evaluator("double", tvm.cpu(), **counts)
        refused(lambda t=timed: t(x, y), "have to be at least 1, and integers", repr(count))
    refused(lambda: double.time_evaluator("double", 2.5), "unknown device '2.5'")


def test_what_build_is_given():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    for args in (None, 3, "AB", a, {a: b}):
        refused(lambda x=args: tvm.build(s, x), "needs its arguments: lower(s, [A, B, C])")
    for arg in (None, 3, "A", b.op, [a]):
        refused(lambda x=arg: tvm.build(s, [a, x]), "an argument is a Tensor, Buffer or Var, got")
    foreign = te.compute((4,), lambda i: a[i] + 2.0, name="F")
    refused(lambda: tvm.build(s, [a, foreign]), "F is no tensor of this schedule", "has A, B")
    for name in (None, 3, ["f"]):
        refused(lambda n=name: tvm.build(s, [a, b], name=n), "the name of a function must be text")
    refused(lambda: tvm.transform.PassContext(config=3), "config is a dictionary of options, got 3")
    refused(lambda: tvm.build(s, [a, b], binds=[a]), "binds is a dictionary of buffers by tensor")
    for program in (None, 3, "s", b, [s]):
        refused(lambda p=program: tvm.build(p, [a, b]), "takes a Schedule, PrimFunc or IRModule")
    refused(lambda: tvm.build(s, [b]), "A", kind=CompileError)


def test_files_are_replaced_whole_or_not_at_all(tmp_path: Path):
    refused(lambda: write_atomically(tmp_path, b"x"), f"cannot write {tmp_path}")
    refused(lambda: write_atomically(tmp_path / "no" / "f", b"x"), "cannot write", "no/f")
    refused(lambda: write_atomically(tmp_path / ("n" * 300), b"x"), "cannot write", "too long")
    good = tmp_path / "good"
    write_atomically(good, b"old")
    with pytest.raises(TypeError):
        write_atomically(good, "text")
    assert good.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["good"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(monkeypatch, tmp_path: Path):
    def full(self, data):
        with open("/dev/full", "wb", buffering=0) as file:
            file.write(data)

    monkeypatch.setattr(Path, "write_bytes", full)
    refused(lambda: write_atomically(tmp_path / "f", b"x"), "cannot write", "No space left")
    assert list(tmp_path.iterdir()) == []
    assert sys.exc_info()[0] is None
