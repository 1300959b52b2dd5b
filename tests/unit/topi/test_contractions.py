"""Default schedules of sums of products and of reductions, known by their structure: every form, at
sizes that divide nothing, against te_eval."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir, topi
from tilewright.interp.te_eval import te_eval
from tilewright.schedule.state import INLINE
from tilewright.topi.schedules.contraction import contraction_of
from tilewright.topi.schedules.decisions import Decisions
from tilewright.topi.schedules.machine import Machine
from tilewright.topi.schedules.matmul import PACKED, schedule_matmul
from tilewright.topi.schedules.register_tile import crowded_rows, register_tiles
from tilewright.topi.schedules.window_tile import Tile

TARGETS = ["llvm", "llvm -mcpu=x86-64-v2"]


# its caches are those of the machine where tests run on one, else of any CPU
ZEN5 = (
    "llvm -mcpu=znver5 -l1_cache_size_bytes=49152 -l2_cache_size_bytes=1048576 "
    "-l3_cache_size_bytes=33554432"
)


def agree(out: Any, *inputs: Any, target: str = "llvm", steps: int = 100, given: Any = None) -> Any:
    """The schedule, which computes what te_eval says."""
    rng = np.random.default_rng(5)
    arrays = []
    for t in inputs:
        shape = tuple(map(int, t.shape))
        drawn = rng.integers(-4, 5, shape) if t.dtype == "int32" else rng.standard_normal(shape)
        arrays.append(drawn.astype(t.dtype))
    (want,) = te_eval(out, dict(zip(inputs, arrays)))
    s = topi.schedules.default_schedule([out], target, given)
    own = [tvm.nd.array(x) for x in (*arrays, np.full_like(want, 7))]
    tvm.build(s, [*inputs, out], target)(*own)
    got = own[-1].numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * steps)
    return s


def conv(
    n: int, h: int, w: int, ci: int, co: int, k: int, stride: int = 1, pad: int = 0,
    dilation: int = 1, groups: int = 1,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Channels last; a padded copy where there is padding."""
    x = te.placeholder((n, h, w, ci), name="x")
    f = te.placeholder((k, k, ci // groups, co), name="f")
    padded = topi.nn.pad(x, (0, pad, pad, 0), (0, pad, pad, 0)) if pad else x
    ry, rx = te.reduce_axis((0, k), "ry"), te.reduce_axis((0, k), "rx")
    rc = te.reduce_axis((0, ci // groups), "rc")
    per, size = co // groups, ci // groups
    oh, ow = ((d + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for d in (h, w))
    y = te.compute(
        (n, oh, ow, co),
        lambda b, i, j, c: te.sum(
            padded[
                b, i * stride + ry * dilation, j * stride + rx * dilation,
                (c // per * size + rc) if groups > 1 else rc,
            ] * f[ry, rx, rc, c],
            axis=[ry, rx, rc],
        ),
        name="y",
    )  # fmt: skip
    return x, f, y


CONVS = {
    "3x3": (1, 13, 11, 5, 13, 3, 1, 1),
    "many images": (3, 7, 9, 4, 17, 3, 2, 1),
    "1x1": (1, 9, 23, 31, 30, 1),
    "one column of channels": (1, 9, 9, 7, 1, 3, 1, 1),
    "dilated": (1, 15, 14, 6, 19, 3, 1, 2, 2),
    "few rows": (1, 3, 3, 40, 33, 3),
    "a long reduction": (1, 7, 6, 256, 17, 3, 1, 1),
    "groups of 4": (1, 8, 8, 12, 12, 3, 1, 1, 1, 3),
    "groups of 7": (1, 9, 8, 6, 21, 3, 1, 1, 1, 3),
    "groups of 11": (1, 9, 8, 6, 22, 3, 2, 1, 1, 2),
    "groups of 16": (1, 9, 8, 8, 64, 3, 1, 1, 1, 4),
    "groups of 53": (1, 5, 6, 4, 106, 3, 1, 1, 1, 2),
    "groups of 2": (1, 8, 8, 6, 6, 3, 1, 1, 1, 3),
    "groups of 3": (1, 9, 7, 14, 6, 3, 2, 1, 1, 2),
    "one channel of many": (1, 9, 5, 131, 1, 1),
    "as wide as its tile": (1, 7, 7, 20, 70, 3, 1, 1),
    "dilated, as wide as its tile": (1, 9, 11, 20, 33, 3, 1, 2, 2),
    "a long reduction, as wide as its tile": (1, 7, 7, 300, 70, 3, 1, 1),
    **{
        f"{co} filters of {ci} channels": (n, h, w, ci, co, k, stride, pad)
        for co, ci, n, h, w, k, stride, pad in (
            (1, 37, 1, 9, 11, 3, 1, 1),
            (2, 16, 2, 7, 13, 4, 2, 1),
            (3, 97, 1, 11, 10, 5, 2, 2),
            (5, 33, 1, 6, 17, 1, 1, 0),
            (7, 67, 1, 9, 31, 3, 1, 1),
            (3, 64, 1, 8, 8, 3, 1, 1),
        )
    },
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CONVS)
def test_convolutions(name: str, target: str) -> None:
    x, f, y = conv(*CONVS[name])
    steps = max(100, int(np.prod(f.shape[:3])))
    agree(y, x, f, target=target, steps=steps)
    bias = te.placeholder((int(y.shape[-1]),), name="bias")
    z = te.compute(y.shape, lambda b, i, j, c: te.max(y[b, i, j, c] + bias[c], 0.0), name="z")
    agree(z, x, f, bias, target=target, steps=steps)


@pytest.mark.parametrize(
    "channels, filters, along", [(64, 3, True), (64, 1, True), (7, 3, False), (64, 4, False)]
)
def test_vectors_of_few_columns_run_along_the_reduction(
    channels: int, filters: int, along: bool
) -> None:
    _, _, y = conv(1, 16, 16, channels, filters, 3, 1, 1)
    s = topi.schedules.default_schedule([y], "llvm -mcpu=haswell")  # vectors of 8
    parts = [stage for stage in s.stages if stage.op.name.endswith(".rf")]
    assert len(parts) == along
    assert (s[y.op.input_tensors[0]].attach_type == INLINE) or not along
    lanes = [a for p in parts for a in p.leaf_iter_vars if p.kind_of(a) == tir.IterVar.Vectorized]
    assert [int(a.dom.extent) for a in lanes] == [8] * along


@pytest.mark.parametrize("n", [1, 3])
def test_products_of_few_columns(n: int) -> None:
    a, b = te.placeholder((70, 131), name="a"), te.placeholder((131, n), name="b")
    k = te.reduce_axis((0, 131), "k")
    c = te.compute((70, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    agree(c, a, b)
    d = te.compute((70, n), lambda i, j: te.max(c[i, j], 0.0), name="d")
    agree(d, a, b)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [(1, 9, 13, 30, 3, 1), (2, 8, 7, 5, 5, 2), (1, 31, 7, 50, 7, 2)])
def test_depthwise(size: tuple[int, ...], target: str) -> None:
    n, h, w, c, k, stride = size
    x, f = te.placeholder((n, h, w, c), name="x"), te.placeholder((k, k, c), name="f")
    p = k // 2
    padded = topi.nn.pad(x, (0, p, p, 0), (0, p, p, 0))
    ry, rx = te.reduce_axis((0, k), "ry"), te.reduce_axis((0, k), "rx")
    y = te.compute(
        (n, (h - 1) // stride + 1, (w - 1) // stride + 1, c),
        lambda b, i, j, q: te.sum(
            padded[b, i * stride + ry, j * stride + rx, q] * f[ry, rx, q], axis=[ry, rx]
        ),
    )
    form = contraction_of(y.op)
    assert form is not None and form.both and form.rows == (0, 1, 2)
    s = agree(y, x, f, target=target)
    assert s[padded].attach_type == INLINE


def matrices() -> dict[str, Callable[[], tuple[Any, ...]]]:
    k, q = te.reduce_axis((0, 29), "k"), te.reduce_axis((0, 5), "q")
    p = te.reduce_axis((0, 3001), "p")

    def tensors(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
        return [te.placeholder(s, dtype, f"t{n}") for n, s in enumerate(shapes)]

    def of(shape: Any, body: Any, *given: Any) -> tuple[Any, ...]:
        return te.compute(shape, lambda *i: body(*given, *i)), *given

    return {
        "vector": lambda: of(
            (37,), lambda a, x, i: te.sum(a[i, k] * x[k], axis=k), *tensors((37, 29), (29,))
        ),
        "vector from the left": lambda: of(
            (37,), lambda a, x, j: te.sum(a[k, j] * x[k], axis=k), *tensors((29, 37), (29,))
        ),
        "two steps": lambda: of(
            (31, 23), lambda a, b, i, j: te.sum(a[i, k, q] * b[q, k, j], axis=[k, q]),
            *tensors((31, 29, 5), (5, 29, 23)),
        ),
        "weights by columns": lambda: of(
            (31, 23), lambda a, b, i, j: te.sum(a[i, q, k] * b[j, q, k], axis=[q, k]),
            *tensors((31, 5, 29), (23, 5, 29)),
        ),
        "a very long prime sum": lambda: of(
            (41, 19), lambda a, b, i, j: te.sum(a[i, p] * b[p, j], axis=p),
            *tensors((41, 3001), (3001, 19)),
        ),
        "many rows and columns": lambda: of(
            (3, 5, 7, 11), lambda a, b, i, j, m, n: te.sum(a[i, m, k] * b[k, j, n], axis=k),
            *tensors((3, 7, 29), (29, 5, 11)),
        ),
        "batches in the middle": lambda: of(
            (30, 4, 19), lambda a, b, i, z, j: te.sum(a[i, z, k] * b[z, k, j], axis=k),
            *tensors((30, 4, 29), (4, 29, 19)),
        ),
        "an axis of neither": lambda: of(
            (30, 4, 19), lambda a, b, i, z, j: te.sum(a[i, k] * b[k, j], axis=k),
            *tensors((30, 29), (29, 19)),
        ),
        "channels first": lambda: of(
            (2, 9, 8, 13),
            lambda a, b, n, f, i, j: te.sum(a[n, k, i + q, j] * b[f, k, q], axis=[k, q]),
            *tensors((2, 29, 12, 13), (9, 29, 5)),
        ),
        "capsules": lambda: of(
            (6, 4, 4, 9),
            lambda a, b, w, i, j, c: te.sum(a[w + q, i, k] * b[q, k, j, c], axis=[q, k]),
            *tensors((10, 4, 29), (5, 29, 4, 9)),
        ),
        "integers": lambda: of(
            (31, 23), lambda a, b, i, j: te.sum(a[i, k] * b[k, j], axis=k),
            *tensors((31, 29), (29, 23), dtype="int32"),
        ),
        "diagonal": lambda: of(
            (29,), lambda a, b, i: te.sum(a[i, k] * b[k, i], axis=k), *tensors((29, 29), (29, 29))
        ),
    }  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", matrices())
def test_products_of_all_forms(name: str, target: str) -> None:
    out, *given = matrices()[name]()
    agree(out, *given, target=target)


def test_of_a_long_reduction_a_part_serves_all_rows() -> None:
    """A panel of 2,304 steps is not read whole for each register tile."""
    x, f, y = conv(1, 9, 8, 256, 32, 3, 1, 1)
    s = topi.schedules.default_schedule([y], "llvm -mcpu=haswell")
    (inner,) = [stage for stage in s.stages if getattr(stage.op, "reduce_axis", ())]
    names = [leaf.var.name for leaf in inner.leaf_iter_vars]
    assert names.index("ry") < names.index("j.c.outer") < names.index("rc")
    agree(y, x, f)


@pytest.mark.parametrize("k, whole", [(768, True), (3072, False)])
def test_pieces_are_large_where_panels_come_from_afar(k: int, whole: bool) -> None:
    """Each piece of rows reads all panels again, so that two threads have a few of them, though the
    rows of one exceed the second-level cache; a panel stays whole where that holds it easily."""
    a, b = te.placeholder((384, k)), te.placeholder((k, 768))
    axis = te.reduce_axis((0, k))
    c = te.compute((384, 768), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis))
    decisions = Decisions()
    machine = Machine(64, 32, 32 << 10, 1 << 20, 2, decisions, load_rates=(128, 35))
    s = te.create_schedule(c.op)
    schedule_matmul(s, c, c, machine)
    (cut,) = (v for name, v in decisions.taken.items() if name.endswith(".cut"))
    (part,) = (v[0] for name, v in decisions.taken.items() if name.endswith(".parts"))
    rows, _, panels = next(v for name, v in decisions.taken.items() if name.endswith(".tile"))
    assert rows >= 4 and (cut[1] == 0 or cut[1] >= 96)
    assert (part == 0) == whole and part * panels * 64 <= machine.l2_bytes // 4


def test_sides() -> None:
    _, _, y = conv(1, 9, 9, 4, 8, 3, 1, 1)
    form = contraction_of(y.op)
    assert form is not None and form.vector_side is not None and form.row_side is not None
    assert form.vector_side.producer.op.name == "f" and form.in_order
    assert (form.batch, form.rows, form.columns) == ((), (0, 1, 2), ())
    _, _, y = conv(1, 9, 9, 8, 32, 3, groups=2)
    form = contraction_of(y.op)
    assert form is not None and form.group == 16
    a, b = te.placeholder((9, 9), name="a"), te.placeholder((9, 9), name="b")
    k = te.reduce_axis((0, 9), "k")
    for body in (
        lambda i, j: te.sum(a[i, k] + b[k, j], axis=k),
        lambda i, j: te.max(a[i, k] * b[k, j], axis=k),
        lambda i, j: te.sum(a[i, k] * b[i, k], axis=k),
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=k, where=k < i),
    ):
        assert contraction_of(te.compute((9, 9), body).op) is None


def test_edges_are_computed_whole() -> None:
    """13 channels and 11 columns divide nothing: the reduction reads under no condition."""
    x, f, y = conv(1, 13, 11, 5, 13, 3, 1, 1)
    s = topi.schedules.default_schedule([y], "llvm")
    body = tvm.lower(s, [x, f, y])["main"].body
    masked = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferStore) and "local" in node.buffer.name:
            masked.append(node.predicate is not None)

    tir.stmt_functor.post_order_visit(body, visit)
    assert masked and not any(masked)


def test_padding_of_bytes_is_copied_where_an_instruction_reads_it() -> None:
    """Whatever else is chosen: a dot product reads memory, no condition."""
    target = tvm.target.Target("llvm -mcpu=icelake-server")
    x = te.placeholder((5, 5, 6), "int8", name="x")
    w = te.placeholder((3, 3, 6, 29), "int8", name="w")
    padded = topi.nn.pad(x, (1, 1, 0), (1, 1, 0), name="pad")
    ry, rx, rc = (te.reduce_axis((0, n), s) for n, s in ((3, "ry"), (3, "rx"), (6, "rc")))

    def value(i: Any, j: Any, f: Any) -> Any:
        read = padded[i + ry, j + rx, rc].astype("int32") * w[ry, rx, rc, f].astype("int32")
        return te.sum(read, axis=[ry, rx, rc])

    y = te.compute((5, 5, 29), value, name="y")
    asked = Decisions()
    topi.schedules.default_schedule([y], target, asked)
    answers = asked.asked["pad.rows.pad"]
    assert len(answers) > 0
    for answer in answers:
        s = topi.schedules.default_schedule([y], target, Decisions({"pad.rows.pad": answer}))
        assert "vpdpbusd" in str(tvm.lower(s, [x, w, y], simple_mode=True))


def test_register_tiles_follow_the_target() -> None:
    assert register_tiles([196], 256, 8, 16)[0] in (Tile(6, 1, 2), Tile(4, 1, 3))
    wide = register_tiles([196], 256, 16, 32)[0]
    assert 16 <= wide.rows * wide.panels <= 28
    assert register_tiles([7, 7], 64, 8, 16)[0].rows in (4, 7)
    for size in ((1,), (3, 5), (1000, 1), (7,)):
        for tile in register_tiles(size, 509, 8, 16):
            assert tile.rows * tile.lines * tile.panels + tile.panels + 1 <= 16


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((509, 251), (0, 1)), ((509, 251), (1,)), ((509, 251), (0,)), ((3, 997), (1,)),
        ((3, 21101), (1,)), ((70001, 5), (0,)), ((70001, 65), (0,)), ((7, 11, 13), (0, 2)),
        ((2, 61, 53, 31), (1, 2, 3)), ((40000,), (0,)), ((5, 300, 200), (2,)), ((3,), (0,)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["sum", "max", "squares"])
def test_reductions(shape: tuple[int, ...], axes: tuple[int, ...], kind: str, target: str) -> None:
    x = te.placeholder(shape, name="x")
    if kind == "squares":
        ks = [te.reduce_axis((0, shape[d]), f"k{d}") for d in axes]
        kept = [d for d in range(len(shape)) if d not in axes]

        def element(*data: Any) -> Any:
            at: list[Any] = [None] * len(shape)
            for d, v in (*zip(kept, data), *zip(axes, ks)):
                at[d] = v
            return te.sum(x[tuple(at)] * x[tuple(at)], axis=ks)

        total = te.compute([shape[d] for d in kept], element)
        y = te.compute(total.shape, lambda *i: te.sqrt(total[i]) if i else te.sqrt(total()))
    else:
        y = getattr(topi, kind)(x, axis=axes)
    agree(y, x, target=target, steps=int(np.prod([shape[d] for d in axes])))


@pytest.mark.parametrize("size", [(2, 17, 3, 10), (1, 97, 2, 50), (3, 5, 1, 64), (1, 64, 2, 8)])
def test_scores_of_an_attention(size: tuple[int, ...]) -> None:
    n, seq, heads, dim = size
    q, k = (te.placeholder((n, seq, heads, dim), name=name) for name in "qk")
    qt = te.compute((n, heads, seq, dim), lambda b, h, i, d: q[b, i, h, d] * 0.25, name="qt")
    kt = te.compute((n, heads, dim, seq), lambda b, h, d, i: k[b, i, h, d], name="kt")
    d = te.reduce_axis((0, dim), "d")
    product = te.compute(
        (n, heads, seq, seq),
        lambda b, h, i, j: te.sum(qt[b, h, i, d] * kt[b, h, d, j], axis=d),
        name="product",
    )
    agree(topi.nn.softmax(product, axis=-1), q, k)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(40, 64, 24, 16), (7, 197, 33, 32), (1, 50, 9, 12)], ids=str)
def test_a_side_in_panels_is_read_as_it_lies(sizes: tuple[int, ...], target: str) -> None:
    """(N / w, K, w), as programs pack it themselves, the last panel filled up: nothing is copied,
    and products at the edge are computed whole."""
    m, n, k, w = sizes
    a = te.placeholder((m, k), name="a")
    b = te.placeholder((-(-n // w), k, w), name="b")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[j // w, r, j % w], axis=r), name="c")
    form = contraction_of(c.op)
    assert form is not None
    assert form.panel == w
    s = agree(c, a, b, target=target, steps=k)
    assert sorted(x.op.name for x in s.stages) == ["a", "b", "c", "c.local"]


@pytest.mark.parametrize(("sizes", "by_rows"), [((128, 128, 128), 1), ((197, 3072, 768), 0)])
def test_panels_that_come_from_afar_serve_all_rows(
    sizes: tuple[int, int, int], by_rows: int
) -> None:
    """Each piece of rows would read all of them anew, which only those that stay near may be."""
    m, n, k = sizes
    a, b = te.placeholder((m, k), name="a"), te.placeholder((n // 64, k, 64), name="b")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[j // 64, r, j % 64], axis=r), name="c")
    asked = Decisions()
    topi.schedules.default_schedule([c], "llvm -mcpu=skylake-avx512", asked)
    assert asked.taken["c.cut"][2] == by_rows


def test_a_tile_of_what_is_read_in_vectors_ends_with_the_columns() -> None:
    x, f = te.placeholder((1, 30, 30, 72), name="x"), te.placeholder((5, 5, 72), name="f")
    ry, rx = te.reduce_axis((0, 5), "ry"), te.reduce_axis((0, 5), "rx")
    y = te.compute(
        (1, 26, 26, 72),
        lambda b, i, j, q: te.sum(x[b, i + ry, j + rx, q] * f[ry, rx, q], axis=[ry, rx]),
        name="y",
    )
    asked = Decisions()
    topi.schedules.default_schedule([y], "llvm -mcpu=skylake-avx512", asked)
    assert all(panels * 16 <= 72 for _, _, panels in asked.asked["y.tile"])


def test_what_lies_in_no_panels() -> None:
    """Parts of unlike sizes, or with the place within a panel first."""
    a, b = te.placeholder((8, 9), name="a"), te.placeholder((8, 9, 8), name="b")
    r = te.reduce_axis((0, 9), "r")
    for place in (lambda j: (j // 4, r, j % 8), lambda j: (j % 8, r, j // 8)):
        c = te.compute((8, 32), lambda i, j, p=place: te.sum(a[i, r] * b[p(j)], axis=r), name="c")
        form = contraction_of(c.op)
        assert form is not None
        assert form.panel == 0
        agree(c, a, b)


def test_rows_a_way_of_the_cache_apart_are_taken_few_at_a_time() -> None:
    """13 rows of 1024 floats share one set of the first-level cache, which holds 8 lines."""
    machine = Machine.of(tvm.target.Target("llvm -mcpu=haswell"))
    for depth, most in ((1024, 6), (2048, 6), (512, 12), (1000, 99)):
        a, b = te.placeholder((13, depth), name="a"), te.placeholder((depth, 255), name="b")
        r = te.reduce_axis((0, depth), "r")
        c = te.compute((13, 255), lambda i, j, a=a, b=b, r=r: te.sum(a[i, r] * b[r, j], axis=r))
        form = contraction_of(c.op)
        assert form is not None
        crowded = crowded_rows(form, c.op, machine)
        assert [n for n in range(1, 14) if crowded(n, 1)] == list(range(most + 1, 14))
        assert register_tiles([13], 255, 8, 16, 0, crowded)[0].rows <= most


@pytest.mark.parametrize("cpu", ["haswell", "znver5"])
@pytest.mark.parametrize(("per", "ci"), [(67, 30), (45, 30), (30, 50), (13, 11), (23, 11)])
def test_vectors_of_odd_groups_are_not_spilled(per: int, ci: int, cpu: str) -> None:
    x, f, y = conv(1, 9, 11, 2 * ci, 2 * per, 3, 1, 1, 1, 2)
    target, register = f"llvm -mcpu={cpu}", "ymm" if cpu == "haswell" else "zmm"
    s = topi.schedules.default_schedule([y], target)
    lines = tvm.build(s, [x, f, y], target).get_source("asm").splitlines()
    assert sum("vfmadd" in line and register in line for line in lines) >= per // 8
    spilled = [line for line in lines if "vmov" in line and register in line and "(%rsp)" in line]
    assert not spilled


def test_vectors_of_odd_groups_are_read_whole() -> None:
    """In vectors of 8, 4 and 1, 13 floats took three loads and two shuffles a step, and counted as
    three registers: 9 rows, 0.75 of the rate."""
    x, f, y = conv(1, 11, 53, 33, 39, 3, 1, 1, 1, 3)
    decisions = Decisions()
    s = topi.schedules.default_schedule([y], ZEN5, decisions)
    assert Tile(*decisions.taken["y.tile"]) == Tile(27, 1, 1)
    lines = tvm.build(s, [x, f, y], ZEN5).get_source("asm").splitlines()
    assert [line for line in lines if "zmm" in line and "{%k" in line]


@pytest.mark.parametrize(
    ("shape", "first"),
    [
        ((1, 56, 56, 64, 128, 3, 2, 1), 0),  # a short window
        ((1, 56, 56, 256, 256, 3, 1, 1), 2),  # very many products with each element
        ((1, 14, 14, 512, 512, 3, 1, 1), 0),  # a tile as wide as the image
        ((1, 17, 50, 100, 31, 5, 2, 2), 0),  # a tall tile
        ((1, 224, 224, 3, 64, 7, 2, 3), 0),  # few channels, long rows
        ((1, 27, 27, 64, 192, 5, 1, 2), 1),  # a long window on short tiles
        ((1, 13, 13, 97, 11, 7, 1, 3), 1),  # tiles of two lines
    ],
)
def test_where_padding_is_a_condition(shape: tuple[int, ...], first: int) -> None:
    """0: at each read; 1: a copy beforehand; 2: one of each piece. The times of both ways were
    measured for a hundred convolutions: up to 2.5 times as fast, and half as fast, without."""
    y = conv(*shape)[-1]
    decisions = Decisions()
    topi.schedules.default_schedule([y], ZEN5, decisions)
    assert decisions.taken["PadInput.pad"] == (first,)


def test_panels_that_stream_from_the_second_level_cache_have_tall_tiles() -> None:
    """Two rows of eight vectors asked for 128 bytes of weights a cycle: 323 GFLOP/s where 478 were
    had. Where every vector is near, they load least."""
    assert register_tiles([14], 256, 16, 32, embeds=True)[0] == Tile(2, 1, 8)
    tall = register_tiles([14], 256, 16, 32, embeds=True, load=lambda panels: 2.0)[0]
    assert tall == Tile(14, 1, 2)
    for channels, wanted in ((128, Tile(14, 1, 2)), (4, Tile(2, 1, 8))):  # of four, the steps fit
        for cpu in ("znver4", "znver5", "skylake-avx512"):
            decisions = Decisions()
            y = conv(1, 28, 28, channels, 256, 1, 2)[-1]
            target = f"llvm -mcpu={cpu} -l1_cache_size_bytes=32768"
            topi.schedules.default_schedule([y], target, decisions)
            assert Tile(*decisions.taken["y.tile"]) == wanted


@pytest.mark.parametrize(
    ("cpu", "afar", "most"),
    [("znver5", 2, 50), ("znver4", 2, 25), ("znver3", 2, 25), ("haswell", 1, 25),
     ("cascadelake", 128 / 35, 50), ("x86-64-v2", 1, 20)],
)  # fmt: skip
def test_what_loads_cost_decides_about_copies(cpu: str, afar: float, most: int) -> None:
    """A copy of the weights for 49 rows took up to a fifth of the time of the sums."""
    target = f"llvm -mcpu={cpu}"
    assert Machine.of(tvm.target.Target(target)).afar == afar

    def copies(m: int, n: int) -> bool:
        a, b = te.placeholder((m, 300), name="a"), te.placeholder((300, n), name="b")
        decisions = Decisions()
        topi.schedules.default_schedule([topi.matmul(a, b)], target, decisions)
        (way,) = (v for k, v in decisions.taken.items() if k.endswith(".way"))
        return way == (PACKED,)

    assert [m for m in range(18, 60) if not copies(m, 528)] == list(range(18, most + 1))
    assert copies(21, 1024)  # the rows of which share their sets
    assert copies(21, 521)  # the last vector of which has one column


def test_a_product_that_a_second_instruction_adds_has_a_register() -> None:
    """Without it LLVM copied the sums about: 54 GFLOP/s where 71 were had. A row of many vectors
    copies none at all."""
    target = "llvm -mcpu=x86-64-v2"
    a, b = te.placeholder((120, 80), name="a"), te.placeholder((80, 120), name="b")
    y = topi.matmul(a, b)
    s = topi.schedules.default_schedule([y], target)
    text = tvm.build(s, [a, b, y], target).get_source("asm")
    loop = max(re.split(r"^\.LBB.*\n|\sj\w+\s.*\n", text, flags=re.MULTILINE), key=_products)
    assert _products(loop) == loop.count("addps") == 10
    assert loop.count("shufps") == 1 and not re.findall(r"movaps\s%xmm\d+, %xmm\d+", loop)
    assert not re.findall(r"ps\s%xmm\d+, [-\d]*\(%rsp", loop)


@pytest.mark.parametrize(
    ("shape", "k", "stride", "rows", "panels"),
    [
        ((56, 56, 72), 5, 2, (6, 12), (1,)),  # 4.5 vectors: two at a time were 4 of 6
        ((28, 28, 120), 5, 1, (7,), (1,)),
        ((14, 14, 480), 3, 1, (14,), (1,)),  # as wide as the image: nothing to ask for
        ((14, 14, 512), 3, 1, (3, 4), (4,)),  # pixels 2 KiB apart share two sets of a cache
        ((56, 56, 128), 3, 1, (3, 4), (3, 4)),  # three lines of pixels exceed their sets
        ((112, 112, 32), 3, 1, (7, 8, 9, 14), (1,)),
    ],
)
def test_windows_over_channels_have_a_tile_by_what_they_load(
    shape: tuple[int, int, int], k: int, stride: int, rows: tuple[int, ...], panels: tuple[int, ...]
) -> None:
    h, w, c = shape
    x, y = te.placeholder((1, h, w, c), name="x"), te.placeholder((k, k, c, 1), name="y")
    out = topi.nn.depthwise_conv2d_nhwc(x, y, stride, k // 2, 1)
    decisions = Decisions()
    topi.schedules.default_schedule([out], ZEN5, decisions)
    (tile,) = (Tile(*v) for key, v in decisions.taken.items() if key.endswith(".tile"))
    assert min(rows) <= tile.rows <= max(rows) and tile.panels in panels and tile.lines == 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("c", "h", "w", "times", "k", "stride"),
    [(6, 28, 28, 1, 3, 1), (5, 19, 37, 1, 3, 2), (3, 9, 50, 2, 3, 1), (4, 7, 7, 1, 3, 1)],
)
def test_windows_over_images_have_rows_of_vectors(
    target: str, c: int, h: int, w: int, times: int, k: int, stride: int
) -> None:
    """Each sum was a chain of its own: vectors along lines had no second axis to serve."""
    x, f = te.placeholder((2, c, h, w), name="x"), te.placeholder((c, times, k, k), name="f")
    y = topi.nn.depthwise_conv2d_nchw(x, f, stride, k // 2, 1)
    form = contraction_of(y.op)
    assert form is not None and form.both and form.rows == (0, 2) and form.batch == (1,)
    agree(y, x, f, target=target)
    decisions = Decisions()
    topi.schedules.default_schedule([y], target, decisions)
    (tile,) = (Tile(*v) for key, v in decisions.taken.items() if key.endswith(".tile"))
    assert tile.rows > 1


@pytest.mark.parametrize("m", [3, 40, 300])
def test_layers_of_a_perceptron_are_scheduled_together(m: int) -> None:
    """The end of one sum is no padded copy of the next: it has its loops."""
    shapes = {"a": (m, 30), "b": (30, 50), "c": (50, 20)}
    a, b, c = (te.placeholder(n, name=x) for x, n in shapes.items())
    y = topi.matmul(topi.nn.relu(topi.matmul(a, b)), c)
    s = topi.schedules.default_schedule([y], "llvm")
    rng = np.random.default_rng(0)
    x = [rng.standard_normal(n, np.float32) for n in shapes.values()]
    got = tvm.nd.array(np.zeros((m, 20), np.float32))
    tvm.build(s, [a, b, c, y], "llvm")(*map(tvm.nd.array, x), got)
    np.testing.assert_allclose(got.numpy(), np.maximum(x[0] @ x[1], 0) @ x[2], rtol=1e-4, atol=1e-4)


def test_windows_of_any_size_have_a_tile() -> None:
    k, c = te.var("k"), te.var("c")
    x, f = te.placeholder((9, 11, c), name="x"), te.placeholder((k, c), name="f")
    r = te.reduce_axis((0, k), "r")
    y = te.compute(
        (9, 12 - k, c), lambda i, j, q: te.sum(x[i, j + r, q] * f[r, q], axis=r), name="y"
    )
    decisions = Decisions()
    s = topi.schedules.default_schedule([y], "llvm", decisions)
    assert Tile(*decisions.taken["y.tile"]).rows >= 1
    a, b = (np.random.default_rng(0).standard_normal(n, np.float32) for n in ((9, 11, 5), (3, 5)))
    got = tvm.nd.array(np.zeros((9, 9, 5), np.float32))
    tvm.build(s, [x, f, y], "llvm")(tvm.nd.array(a), tvm.nd.array(b), got)
    want = sum(a[:, i : i + 9] * b[i] for i in range(3))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


def test_channels_of_a_group_are_no_windows_over_an_image() -> None:
    x, y = te.placeholder((1, 64, 14, 14), name="x"), te.placeholder((64, 16, 3, 3), name="y")
    form = contraction_of(topi.nn.group_conv2d_nchw(x, y, 1, 1, 1, 4).op)
    assert form is not None and not form.both


def _products(text: str) -> int:
    return text.count("mulps")


def test_a_tile_over_the_edge_is_one_of_whole_vectors() -> None:
    """67 columns are five vectors of 16, not two tiles of three; they are added without masks."""
    assert register_tiles([691], 67, 16, 32)[0].panels == 5
    assert register_tiles([691], 83, 16, 32)[0].panels == 3  # six vectors in any case
    assert register_tiles([691], 13, 8, 32)[0].panels == 1
    a, b = te.placeholder((60, 40), name="a"), te.placeholder((1, 40, 80), name="b")
    k = te.reduce_axis((0, 40), "k")
    y = te.compute((60, 67), lambda i, j: te.sum(a[i, k] * b[j // 80, k, j % 80], axis=k), name="y")
    target = "llvm -mcpu=skylake-avx512"
    with tvm.target.Target(target):
        s = topi.schedules.default_schedule([y], target)
        text = str(tvm.lower(s, [a, b, y], simple_mode=True))
    sums = [line for line in text.splitlines() if " + T.Broadcast(" in line]
    assert sums
    assert not [line for line in sums if "predicate" in line or "T.likely" in line]
    agree(y, a, b)


@pytest.mark.parametrize("size", [(7, 7, 20), (9, 30, 5), (7, 7, 300)])
def test_zeros_of_padding_are_not_multiplied(size: tuple[int, int, int]) -> None:
    """Infinite weights of the first row of taps, where the first row of results finds padding; and
    at the ends of a row, where it is as wide as a tile."""
    h, w, ci = size
    x, f, y = conv(1, h, w, ci, 64, 3, 1, 1)
    given, weights = np.ones((1, h, w, ci), "float32"), np.ones((3, 3, ci, 64), "float32")
    weights[0] = np.inf
    s = topi.schedules.default_schedule([y], "llvm")
    own = [tvm.nd.array(v) for v in (given, weights, np.zeros((1, h, w, 64), "float32"))]
    tvm.build(s, [x, f, y], "llvm")(*own)
    got = own[-1].numpy()[0, :, 0 if w == 7 else 1 : w if w == 7 else -1]
    assert np.isfinite(got[0]).all()
    assert np.isposinf(got[1:]).all()


@pytest.mark.parametrize("name", ["by columns", "moved"])
def test_copies_of_columns_are_turned_in_registers(name: str) -> None:
    a, b = te.placeholder((50, 64), name="a"), te.placeholder((70, 64), name="b")
    k = te.reduce_axis((0, 64), "k")
    if name == "moved":
        t = te.compute((64, 70), lambda i, j: b[j, i], name="t", tag="injective")
        y = te.compute((50, 70), lambda i, j: te.sum(a[i, k] * t[k, j], axis=k), name="y")
    else:
        y = te.compute((50, 70), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="y")
    s = agree(y, a, b)
    (copy,) = [x for x in s.stages if x.op.name.endswith(".global")]
    kinds = [copy.kind_of(x) for x in copy.leaf_iter_vars]
    assert kinds[-2:] == [tir.IterVar.Unrolled, tir.IterVar.Vectorized]
    assert "shufflevector" in tvm.build(s, [a, b, y], "llvm").get_source("ll")


def test_a_few_columns_are_one_vector_filled_up() -> None:
    """Eleven were two vectors of 8: 147 GFLOP/s where 272 were had."""
    for n, lanes in ((11, 16), (9, 16), (8, 8), (5, 8), (16, 16)):
        a, b = te.placeholder((60, 40), name="a"), te.placeholder((40, n), name="b")
        y = topi.matmul(a, b)
        decisions = Decisions()
        topi.schedules.default_schedule([y], "llvm -mcpu=skylake-avx512", decisions)
        (tile,) = (v for k, v in decisions.asked.items() if k.endswith(".tile"))
        assert {t[2] for t in tile} == {1}
        target = "llvm -mcpu=skylake-avx512"
        s = topi.schedules.default_schedule([y], target)
        text = str(tvm.lower(s, [a, b, y], simple_mode=True))
        assert " + T.Broadcast(a_1[" in text and f", {lanes}) * b_global" in text
        agree(y, a, b)


def test_a_padded_copy_that_neighbours_share_is_made_once() -> None:
    """With a window of 7 rows, pieces of 6 copied 12 each: it took as long as the sums."""
    for kernel, way in ((7, 1), (3, 2)):
        decisions = Decisions()
        y = conv(1, 13, 13, 97, 11, kernel, 1, kernel // 2)[-1]
        topi.schedules.default_schedule([y], f"{ZEN5} -num-cores=2", decisions)
        assert decisions.taken["PadInput.pad"] == (way,)


def ahead(out: Any, target: str) -> Decisions:
    """The answers with which the panels of a product are packed beforehand; a tile over the edge
    has a copy of its own."""
    asked = Decisions()
    topi.schedules.default_schedule([out], target, asked)
    (name,) = [n for n in asked.asked if n.endswith(".tile")]
    lanes = Machine.of(tvm.target.Target(target)).lanes(out.dtype)
    tile = next(t for t in asked.asked[name] if t[2] * lanes <= int(out.shape[-1]) or t[2] == 1)
    again = Decisions({name: tile})
    topi.schedules.default_schedule([out], target, again)
    (cut,) = [n for n in again.asked if n.endswith(".cut")]
    return Decisions({name: tile, cut: next(c for c in again.asked[cut] if c[2] == 2)})


def turned(n: int, m: int, k: int) -> tuple[Any, Any, Any]:
    a, b = te.placeholder((2, n, k), name="a"), te.placeholder((2, m, k), name="b")
    r = te.reduce_axis((0, k), "r")
    return a, b, te.compute((2, n, m), lambda g, i, j: te.sum(a[g, i, r] * b[g, j, r], axis=r))


@pytest.mark.parametrize("target", TARGETS)
def test_panels_of_batches_that_are_neighbours(target: str) -> None:
    """Neither columns nor steps of the reduction lie one behind the other."""
    a, b = te.placeholder((4, 200, 48), name="a"), te.placeholder((48, 96, 4), name="b")
    r = te.reduce_axis((0, 48), "r")
    y = te.compute((4, 200, 96), lambda g, i, j: te.sum(a[g, i, r] * b[r, j, g], axis=r), name="y")
    agree(y, a, b, target=target)
    agree(y, a, b, target=target, given=ahead(y, target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["product", "turned", "convolution", "few columns"])
def test_panels_that_are_packed_beforehand(name: str, target: str) -> None:
    if name == "convolution":
        x, f, y = conv(1, 15, 14, 5, 37, 3, 1, 1)
    elif name == "product":
        x, f = te.placeholder((67, 29), name="x"), te.placeholder((29, 101), name="f")
        y = topi.nn.relu(topi.matmul(x, f))
    else:
        x, f, y = turned(97, 8 if name == "few columns" else 53, 31)
    s = agree(y, x, f, target=target, given=ahead(y, target))
    text = str(tvm.lower(s, [x, f, y]))
    copy = text.index(f"{f.op.name}_global = T.allocate")
    assert copy < text.index("for "), "it is made once"
