"""The modules of tvm.contrib: what works is compared with NumPy, what refuses says what instead."""

import os
import pickle
import subprocess
import time
from importlib.util import find_spec

import numpy as np
import pytest

import tilewright as tvm
from tests.narrow import some
from tilewright import te
from tilewright.base.errors import TargetError, TilewrightError, UsageError
from tilewright.contrib import (
    cblas,
    cc,
    cublas,
    cudnn,
    dnnl,
    download,
    emcc,
    mkl,
    ndk,
    nvcc,
    pickle_memoize,
    popen_pool,
    random,
    rocm,
    sparse,
    tedd,
    thrust,
    utils,
    xcode,
)

CALLS: list[int] = []


def built(tensors, out):
    return tvm.build(te.create_schedule(out.op), [*tensors, out])


@pytest.mark.parametrize("library", [cblas, mkl, dnnl])
@pytest.mark.parametrize("transa", [False, True])
@pytest.mark.parametrize("transb", [False, True])
def test_matrix_products(library, transa, transb):
    a = te.placeholder((7, 5) if transa else (5, 7), name="a")
    b = te.placeholder((3, 7) if transb else (7, 3), name="b")
    c = library.matmul(a, b, transa, transb)
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-4, 5, [int(d) for d in t.shape]).astype("float32") for t in (a, b))
    out = tvm.nd.empty((5, 3))
    built([a, b], c)(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_array_equal(out.numpy(), (x.T if transa else x) @ (y.T if transb else y))


@pytest.mark.parametrize(("left", "right"), [(4, 4), (4, 1), (1, 4)])
def test_stacks_of_products(left, right):
    a = te.placeholder((left, 5, 7), name="a")
    b = te.placeholder((right, 3, 7), name="b")
    c = cblas.batch_matmul(a, b, transb=True)
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-4, 5, [int(d) for d in t.shape]).astype("float32") for t in (a, b))
    out = tvm.nd.empty((4, 5, 3))
    built([a, b], c)(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_array_equal(out.numpy(), x @ y.transpose(0, 2, 1))


def test_products_of_bytes_add_up_in_int32():
    a = te.placeholder((3, 9), "uint8", "a")
    b = te.placeholder((9, 2), "int8", "b")
    c = mkl.matmul_u8s8s32(a, b)
    x = np.full((3, 9), 255, "uint8")
    y = np.full((9, 2), -128, "int8")
    out = tvm.nd.empty((3, 2), "int32")
    built([a, b], c)(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_array_equal(out.numpy(), x.astype("int32") @ y.astype("int32"))


def test_random_numbers_are_in_range_and_repeat_after_a_seed():
    tensors = [random.uniform(2, 3, (50,)), random.normal(10, 0.5, (50,))]
    tensors.append(random.randint(-3, 4, (50,)))
    calls = [built([], t) for t in tensors]
    runs = []
    for _ in range(2):
        tvm.get_global_func("tvm.contrib.random.seed")(7)
        arrays = [tvm.nd.empty((50,), t.dtype) for t in tensors]
        for call, array in zip(calls, arrays):
            call(array)
        runs.append([a.numpy() for a in arrays])
    uniform, normal, whole = runs[0]
    assert ((uniform >= 2) & (uniform < 3)).all() and len(np.unique(uniform)) > 40
    assert abs(normal.mean() - 10) < 0.5 and 0.2 < normal.std() < 1
    assert set(whole) == set(range(-3, 4))
    for first, second in zip(*runs):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_random_fill(dtype):
    array = tvm.nd.empty((100,), dtype)
    tvm.get_global_func("tvm.contrib.random.random_fill")(array)
    assert np.isfinite(array.numpy().astype("float64")).all()
    assert len(np.unique(array.numpy())) > 1


def test_sparse_matrices():
    full = np.array([[0, 1.5, 0], [0, 0, 0], [-2, 0, 4]], "float32")
    made = sparse.array(full)
    assert made.shape == (3, 3) and made.stype == "csr" and made.dtype == "float32"
    np.testing.assert_array_equal(made.indptr.numpy(), [0, 1, 1, 3])
    np.testing.assert_array_equal(made.indices.numpy(), [1, 0, 2])
    np.testing.assert_array_equal(made.numpy(), full)
    again = sparse.array((made.data, made.indices, made.indptr), shape=(3, 3))
    np.testing.assert_array_equal(again.numpy(), full)
    held = sparse.placeholder((3, 3), nonzeros=2, name="m")
    assert [str(p.op.name) for p in (held.data, held.indices)] == ["m_data", "m_indices"]
    assert int(held.indptr.shape[0]) == 4
    with pytest.raises(UsageError, match="can't handle type list"):
        sparse.array([[1]])
    with pytest.raises(NotImplementedError, match="'csr'"):
        sparse.array(full, stype="bsr")


def test_results_are_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    CALLS.clear()
    scale = 3

    @pickle_memoize.memoize("key-of-a-test", save_at_exit=True)
    def slow(x, shape=(1, 2)):
        CALLS.append(x)
        return np.full(shape, x * scale)

    assert slow(2).tolist() == slow(2).tolist() == [[6, 6]]
    assert slow(2, shape=(1, 1)).tolist() == [[6]]
    assert len(CALLS) == 2
    name = "key-of-a-test.slow.pkl"
    cache = pickle_memoize.Cache.cache_by_key.pop(name)
    assert not list(tmp_path.iterdir())  # nothing is written before there is something to keep
    cache.save()
    kept = pickle.loads((tmp_path / "tvm" / "pkl_memoize_py3" / name).read_bytes())
    assert len(kept) == 2
    assert len(pickle_memoize.Cache(name, False).cache) == 2
    del pickle_memoize.Cache.cache_by_key[name]


def test_objects_are_linked_into_one_module(tmp_path):
    a = te.placeholder((4,), name="A")
    for number, name in enumerate(("first", "second")):
        b = te.compute((4,), lambda i, n=number: a[i] + (n + 1.0), name="B")
        s = te.create_schedule(b.op)
        if number:
            s[b].parallel(b.op.axis[0])
        tvm.build(s, [a, b], "llvm", name=name).save(str(tmp_path / f"{name}.o"))
    cc.create_shared("both.so", ["first.o", "second.o"], cwd=tmp_path)
    both = tvm.runtime.load_module(tmp_path / "both.so")
    y = np.zeros(4, "float32")
    for number, name in enumerate(("first", "second")):
        both[name](np.zeros(4, "float32"), y)
        assert y.tolist() == [number + 1.0] * 4


def test_ccache_is_used_where_its_variables_are_given(tmp_path, monkeypatch):
    (tmp_path / "ccache").write_text('#!/bin/sh\necho "$OF_CCACHE $@" > said\n')
    (tmp_path / "ccache").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    cc.create_executable("a", ["a.cpp"], ["-O1"], "gcc", tmp_path, {"OF_CCACHE": "yes"})
    assert (tmp_path / "said").read_text() == "yes gcc -o a a.cpp -O1\n"
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(TilewrightError, match="ccache not found"):
        cc.create_executable("a", ["a.cpp"], None, "gcc", tmp_path, {})


def test_files_are_fetched_once(tmp_path, monkeypatch):
    source = tmp_path / "source.txt"
    source.write_text("one")
    place = tmp_path / "below" / "copy.txt"
    download.download(source.as_uri(), place)
    assert place.read_text() == "one"
    source.write_text("three")
    download.download(source.as_uri(), place)
    assert place.read_text() == "one"
    download.download(source.as_uri(), place, size_compare=True)
    assert place.read_text() == "three"
    monkeypatch.setenv("TEST_DATA_ROOT_PATH", str(tmp_path / "root"))
    found = download.download_testdata(source.as_uri(), "x.txt", module=["a", "b"])
    assert found == str(tmp_path / "root" / "a" / "b" / "x.txt")
    with pytest.raises(TilewrightError, match=r"cannot download file:.*nothing"):
        download.download((tmp_path / "nothing").as_uri(), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_locks_and_sources(tmp_path):
    with utils.filelock(tmp_path / "lock") as lock:
        assert not lock.lock_file.closed
    assert lock.lock_file.closed
    assert utils.is_source_path(__file__)
    assert not utils.is_source_path("int main() {}\n") and not utils.is_source_path("")
    assert utils.is_source_path("code.cc") and not utils.is_source_path("a = b. c")
    assert utils.which("sh") and utils.which("no-such-program") is None
    with utils.TempDirectory.set_keep_for_debug():
        kept = utils.tempdir()
    path = kept.path
    kept.remove()
    assert os.path.isdir(path)
    os.rmdir(path)


def test_static_libraries_and_symbols(tmp_path):
    a = te.placeholder((5,), name="a")
    b = te.compute((5,), lambda i: a[i] + 1)
    module = tvm.build(te.create_schedule(b.op), [a, b], name="add_one")
    module.save(tmp_path / "code.o")
    cc.create_staticlib(tmp_path / "code.a", [str(tmp_path / "code.o")])
    listed = subprocess.run(["ar", "t", tmp_path / "code.a"], capture_output=True, text=True)
    assert listed.stdout.split() == ["code.o"]
    cc.create_shared(tmp_path / "code.so", str(tmp_path / "code.o"))
    assert cc.get_global_symbol_section_map(str(tmp_path / "code.so"))["add_one"] == "T"
    link = cc.cross_compiler(some(cc.get_cc()))
    module.export_library(str(tmp_path / "cross.so"), fcompile=link)
    loaded = tvm.runtime.load_module(tmp_path / "cross.so")
    out = tvm.nd.empty((5,))
    loaded["add_one"](tvm.nd.array(np.arange(5, dtype="float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.arange(1, 6))
    assert "-" in some(cc.get_target_by_dump_machine(some(cc.get_cc()))())
    assert cc.get_target_by_dump_machine("no-such-compiler")() is None


def test_workers_run_functions_elsewhere(monkeypatch):
    worker = popen_pool.PopenWorker()
    worker.send(os.getpid)
    first = worker.recv()
    assert first != os.getpid() and worker.is_alive()
    worker.send(int, ("x",))
    with pytest.raises(ValueError, match="invalid literal"):
        worker.recv()
    worker.send(time.sleep, (60,), timeout=0.2)
    with pytest.raises(TimeoutError):
        worker.recv()
    assert not worker.is_alive()
    worker.send(os._exit, (3,))
    with pytest.raises(ChildProcessError):
        worker.recv()
    worker.send(os.getpid)
    assert worker.recv() != first
    if find_spec("cloudpickle"):
        worker.send(lambda: 1)
        assert worker.recv() == 1
    worker.kill()
    monkeypatch.setattr(popen_pool, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="install cloudpickle"):
        worker.send(lambda: 1)


def test_the_time_of_a_task_begins_with_it():
    worker = popen_pool.PopenWorker()
    worker.send(pow, (2, 3), timeout=0.2)  # a process takes longer to start
    assert worker.recv() == 8
    worker.kill()


SIZES = np.array([[1, 2, 3], [4, 5, 5]], "int32")
VALUES = np.array(
    [[[1, 2, 3], [2, 4.5, 3.5], [1.1, 0.5, 1], [3.2, -5, 0.5], [1.5, 0, 0]]] * 2, "float32"
)
VALUES[1] = np.arange(15).reshape(5, 3) // 4  # some are equal


@pytest.mark.parametrize("up", [False, True])
def test_sorting(up):
    def call(name, *args):
        tvm.get_global_func(f"tvm.contrib.sort.{name}")(*args)

    def arrays(count, length=5):
        return [tvm.nd.array(np.zeros((2, length, 3), "float32")) for _ in range(count)]

    x, sign = tvm.nd.array(VALUES), 1 if up else -1
    order = np.argsort(sign * VALUES, axis=1, kind="stable")
    ordered = np.take_along_axis(VALUES, order, 1)
    for name, expected in (("argsort", order), ("sort", ordered)):
        (out,) = arrays(1)
        call(name, x, out, 1, up)
        np.testing.assert_array_equal(out.numpy(), expected)
    values, places = arrays(2, 2)
    call("topk", x, values, places, 2, 1, "both", up)
    np.testing.assert_array_equal(values.numpy(), ordered[:, :2])
    np.testing.assert_array_equal(places.numpy(), order[:, :2])
    (out,) = arrays(1)
    call("argsort_nms", x, tvm.nd.array(SIZES), out, -2, up)
    for i, j in np.ndindex(2, 3):
        n = SIZES[i, j]
        line = [*np.argsort(sign * VALUES[i, :n, j], kind="stable"), *range(n, 5)]
        assert out.numpy()[i, :, j].tolist() == line


def test_pools_of_workers():
    pool = popen_pool.PopenPoolExecutor(max_workers=2, timeout=30)
    assert [pool.submit(pow, 2, n).result() for n in range(5)] == [1, 2, 4, 8, 16]
    found = list(pool.map_with_error_catching(float, ["1.5", "x"]))
    pool.shutdown()
    assert found[0] == (popen_pool.StatusKind.COMPLETE, 1.5)
    assert found[1].status == popen_pool.StatusKind.EXCEPTION
    assert isinstance(found[1].value, ValueError)


def test_pictures_of_schedules(tmp_path):
    a = te.placeholder((32, 32), name="a")
    b = te.compute((32, 32), lambda i, j: a[i, j] * 2, name="b")
    c = te.compute((32, 32), lambda i, j: b[i, j] + 1, name="c")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 8)
    s[b].compute_at(s[c], outer)
    s[c].vectorize(inner)
    tree = some(tedd.viz_schedule_tree(s, output_dot_string=True))
    assert '"Stage_1":stage -> "Stage_2":"i.outer_' in tree
    assert "i.inner(Vectorized)" in tree and '"Stage_0":stage -> "ROOT"' in tree
    relations = some(tedd.viz_itervar_relationship_graph(s, output_dot_string=True))
    assert 'label="Split factor=8"' in relations
    path = tmp_path / "flow.dot"
    assert tedd.viz_dataflow_graph(s, dot_file_path=str(path)) is None
    assert '"Stage_0_T0" -> "Stage_1":"I_0"' in path.read_text()
    with pytest.raises(UsageError, match=r"not a tvm\.te\.schedule\.Schedule"):
        tedd.viz_schedule_tree(a)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: cublas.matmul(1, 2), "topi.matmul"),
        (lambda: cudnn.conv_forward(), "topi.nn.conv2d"),
        (lambda: emcc.create_tvmjs_wasm("x", []), "wasm32"),
        (lambda: xcode.compile_metal("x"), "contrib.cc"),
        (lambda: rocm.find_lld(), "'opencl'"),
    ],
)
def test_libraries_that_are_not_called_say_what_to_use(call, text):
    with pytest.raises(TargetError, match=text):
        call()


def test_what_is_not_there_says_so(monkeypatch):
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    with pytest.raises(TilewrightError, match="TVM_NDK_CC"):
        ndk.create_shared("x.so", [])
    assert not cudnn.exists() and not thrust.can_use_thrust("cuda", "tvm.contrib.thrust.sort")
    assert nvcc.have_tensorcore("7.5") and not nvcc.have_tensorcore("6.1")
    assert nvcc.have_fp8("9.0") and not nvcc.have_fp8("8.0")
