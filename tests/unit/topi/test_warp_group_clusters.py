"""Products of warp groups by clusters of blocks, and by blocks that stay: right in simt whatever is
decided, without spills, and chosen where a model counts fewer clocks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir, topi
from tilewright.base.errors import ScheduleError
from tilewright.report.sass import compiled
from tilewright.rt.drivers import nvrtc
from tilewright.target.target import Target
from tilewright.topi.schedules import default_schedule
from tilewright.topi.schedules.decisions import Decisions
from tilewright.topi.schedules.gpu.group_plan import Work
from tilewright.topi.schedules.gpu.machine import GpuMachine
from tilewright.topi.schedules.machine import likely_sizes
from tilewright.topi.tensor_intrin import WarpGroupTile

HOPPER = "cuda -arch=sm_90a"
NUMPY = {"bfloat16": ml_dtypes.bfloat16}
MACHINE = GpuMachine.of(Target(HOPPER))
WHY = nvrtc.why_missing() or ("" if nvrtc.find_disassembler() else "no disassembler is installed")


def built(
    size: tuple[Any, int, int],
    dtype: str,
    flips: tuple[bool, bool],
    given: dict[str, tuple[int, ...]],
    out: str = "",
    target: str = HOPPER,
) -> tuple[Any, str]:
    """A (m, n) product of k steps, its bias added, by decisions; and its source."""
    m, n, k = size
    a = te.placeholder((k, m) if flips[0] else (m, k), dtype, "A")
    b = te.placeholder((n, k) if flips[1] else (k, n), dtype, "B")
    sums = "int32" if dtype == "int8" else "float32"
    c = topi.nn.matmul(a, b, out_dtype=sums, transpose_a=flips[0], transpose_b=flips[1])
    name = c.op.name
    bias = te.placeholder((n,), sums, "bias")
    y = topi.add(c, bias)
    y = topi.cast(topi.nn.relu(y), out) if out else y
    args = [a, b, bias, y]
    decisions = Decisions({f"{name}.{q}": v for q, v in given.items()})
    with likely_sizes({} if isinstance(m, int) else {m: 512}):
        s = default_schedule([y], Target(target), decisions)
    binds = {t: tir.decl_buffer(t.shape, t.dtype, t.name) for t in args}
    f = tw.build(s, args, target, name="product", binds=binds)
    for question, value in given.items():
        assert decisions.taken[f"{name}.{question}"] == value
    return f, f.imported_modules[0].get_source()


def check(f: Any, size: tuple[int, int, int], dtype: str, flips: Any, out: str = "") -> Any:
    """The report of the product's kernel, in simt."""
    m, n, k = size
    rng = np.random.default_rng(m + n + k)
    kind = NUMPY.get(dtype, np.dtype(dtype))
    sums = "int32" if dtype == "int8" else "float32"
    a, b = (rng.integers(-4, 5, shape) for shape in ((m, k), (k, n)))
    bias = rng.integers(-9, 10, n).astype(sums)
    x = np.ascontiguousarray((a.T if flips[0] else a).astype(kind))
    y = np.ascontiguousarray((b.T if flips[1] else b).astype(kind))
    found = np.zeros((m, n), NUMPY.get(out, out) if out else sums)
    *laid, report = f.run_simt(x, y, bias, found).values()
    assert report.findings == [] and all(one.findings == [] for one in laid)
    want = a @ b + bias
    want = np.maximum(want, 0).astype(found.dtype) if out else want
    np.testing.assert_array_equal(found, want)
    return report


BOTH = [(False, True), (True, False)]


@pytest.mark.parametrize("flips", BOTH)
@pytest.mark.parametrize("cluster", [(2, 1, 1), (1, 2, 1), (4, 1, 1), (1, 4, 1)])
def test_clusters_bring_what_they_have_in_common_once(
    cluster: tuple[int, int, int], flips: tuple[bool, bool]
) -> None:
    common = 128 if max(cluster) == 2 or flips[1] else 256  # lines, copied in parts
    if cluster[1] > 1:
        rows, columns = common, 64
        size = (rows + 56, columns * cluster[1] - 40, 712)
    else:
        rows, columns = 64, common
        size = (rows * cluster[0] - 24, columns + 72, 712)
    given = {"tile": (rows, columns), "cluster": cluster, "parts": (1,), "stages": (3,)}
    f, source = built(size, "float16", flips, given)
    blocks = max(cluster)
    assert f"__cluster_dims__({blocks}, 1, 1)" in source and ".multicast::cluster" in source
    report = check(f, size, "float16", flips)
    assert report.blocks == 2 * blocks and report.bank_conflicts <= 1.1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize("joined", [2, 4, 8])
def test_clusters_join_the_sums_of_parts(joined: int, dtype: str) -> None:
    columns = 16 * joined
    deep = 128 if dtype == "int8" else 64
    size = (100, 2 * columns - 8, joined * 4 * deep + 48)  # the last part reaches over the end
    given = {"tile": (64, columns), "cluster": (1, 1, joined), "parts": (1,)}
    f, source = built(size, dtype, (False, True), given)
    assert f"__cluster_dims__({joined}, 1, 1)" in source and "multicast" not in source
    report = check(f, size, dtype, (False, True))
    assert report.blocks == 2 * 2 * joined and report.bank_conflicts <= 1.1
    assert source.count('extern "C" __global__') == 1  # no kernel that adds parts up


@pytest.mark.parametrize("flips", BOTH)
@pytest.mark.parametrize(
    ("size", "cluster", "stages"),
    [
        ((400, 200, 328), (1, 1, 1), 4),  # six steps: two stages are filled twice for a tile
        ((400, 200, 72), (1, 1, 1), 3),  # fewer steps than stages
        ((512, 256, 512), (2, 1, 1), 4),
        ((200, 504, 200), (1, 2, 1), 2),
    ],
)
def test_blocks_that_stay(
    size: tuple[int, int, int], cluster: tuple[int, int, int], stages: int, flips: Any
) -> None:
    """Of three multiprocessors each makes some tiles, one of them maybe one less."""
    given = {
        "tile": (128, 128 if cluster[0] > 1 else 64), "cluster": cluster, "persistent": (1,),
        "parts": (1,), "stages": (min(stages, -(-size[2] // 64)),),
    }  # fmt: skip
    f, source = built(size, "bfloat16", flips, given, "", f"{HOPPER} -multi_processor_count=3")
    report = check(f, size, "bfloat16", flips)
    assert report.blocks == 3 // max(cluster) * max(cluster)
    main = source[source.rindex("__global__") :]
    copies, uses = main.index("turn_copied"), main.index("tw_wgmma_m64")
    assert copies < uses < main.index("tw_bar_sync(1, 256)")
    assert main.count("__syncthreads") == (max(cluster) == 1)  # when barriers are made


@pytest.mark.parametrize("dtype, out", [("bfloat16", ""), ("float16", "float16"), ("int8", "")])
@pytest.mark.parametrize(
    ("size", "tile", "cluster", "blocks"),
    [
        ((400, 200, 328), (128, 64), (1, 1, 1), 3),  # 16 tiles
        ((400, 200, 328), (128, 64), (1, 1, 1), 5),
        ((512, 256, 456), (128, 128), (2, 1, 1), 6),
        ((197, 200, 712), (64, 64), (1, 2, 1), 6),  # pairs of 16 tiles
        ((130, 64, 1040), (64, 64), (1, 1, 1), 7),  # three tiles
        ((64, 64, 1040), (64, 64), (1, 1, 1), 5),  # parts of one tile
    ],
)
def test_blocks_that_share_all_steps(
    size: tuple[int, int, int], tile: Any, cluster: Any, blocks: int, dtype: str, out: str
) -> None:
    """Sums of parts are kept, and added up in order by a second kernel."""
    flips = (False, True)
    given = {"tile": tile, "cluster": cluster, "persistent": (2,), "parts": (1,), "stages": (3,)}
    target = f"{HOPPER} -multi_processor_count={blocks}"
    f, source = built(size, dtype, flips, given, out, target)
    assert "parts +" in source  # what is kept of shares
    assert check(f, size, dtype, flips, out).blocks == blocks


def test_shares_of_whole_tiles_need_no_second_kernel() -> None:
    size = (512, 256, 512)
    given = {"tile": (128, 128), "cluster": (2, 1, 1), "persistent": (2,), "parts": (1,)}
    f, source = built(
        size, "float16", (False, True), given, "", f"{HOPPER} -multi_processor_count=4"
    )
    assert source.count('extern "C" __global__') == 1
    check(f, size, "float16", (False, True))


def test_blocks_that_stay_are_no_more_than_there_are_tiles() -> None:
    given = {"tile": (128, 64), "persistent": (1,), "cluster": (1, 1, 1), "parts": (1,)}
    size = (256, 64, 192)
    f, source = built(size, "float16", (False, True), given)
    assert check(f, size, "float16", (False, True)).blocks == 2
    assert "turn_copied" not in source[source.rindex("__global__") :]


def test_blocks_that_stay_of_rows_that_are_not_known() -> None:
    m: Any = te.var("m")
    given = {"tile": (64, 64), "persistent": (1,), "cluster": (1, 2, 1)}
    target = f"{HOPPER} -multi_processor_count=4"
    f, _ = built((m, 256, 136), "float16", (False, True), given, "", target)
    for rows, blocks in ((1, 4), (65, 4), (200, 4)):
        report = check(f, (rows, 256, 136), "float16", (False, True))
        assert report.blocks == blocks


@pytest.mark.skipif(bool(WHY), reason=WHY or "a disassembler is here")
@pytest.mark.parametrize(
    "given",
    [
        {"tile": (128, 256), "cluster": (2, 1, 1), "persistent": (1,), "parts": (1,)},
        {"tile": (128, 128), "cluster": (1, 2, 1), "persistent": (0,), "parts": (1,)},
        {"tile": (128, 256), "cluster": (2, 1, 1), "persistent": (2,), "parts": (1,)},
        {"tile": (64, 256), "cluster": (1, 1, 8), "parts": (1,)},
    ],
)
def test_registers_and_fences(given: dict[str, tuple[int, ...]]) -> None:
    """Nothing is spilled; descriptors are uniform; no step has a fence of all memory, which
    clusters have when their blocks end, and before they read each other's sums."""
    f, _ = built((4096, 4096, 4096), "float16", (False, True), given)
    k, *joining = compiled(f, "sm_90a")
    assert all(one.spills == one.stack == one.losses == 0 for one in (k, *joining))
    assert k.count("R2UR", loop=True) <= (12 if given.get("persistent") == (2,) else 4)
    assert k.count("MEMBAR", loop=True) == 0
    assert k.count("MEMBAR") > 0
    assert k.count("CCTL", loop=True) == 0


def test_what_a_tile_of_a_cluster_has_to_be() -> None:
    def tile(**changed: Any) -> WarpGroupTile:
        given = {"dtype": "float16", "rows": 64, "columns": 64, "extents": (512, 512, 512)}
        return WarpGroupTile(**{**given, **changed})

    with pytest.raises(ScheduleError, match=r"2, 4 or 8 blocks below or beside .* not \(2, 2\)"):
        tile(cluster=(2, 2))
    with pytest.raises(ScheduleError, match="have a warp group that copies"):
        tile(cluster=(2, 1), specialized=False)
    with pytest.raises(ScheduleError, match="64 lines of B are not copied in 2 parts"):
        tile(cluster=(2, 1))  # B[k, j]: boxes of 64 columns
    assert tile(cluster=(1, 2)).blocks == 2
    with pytest.raises(ScheduleError, match="2, 4 or 8 blocks, not 3"):
        tile(joined=3, columns=64)
    with pytest.raises(ScheduleError, match="up to 256, not 512"):
        tile(joined=8)
    with pytest.raises(ScheduleError, match="no parts, and no other cluster"):
        tile(joined=2, length=128)
    with pytest.raises(ScheduleError, match="make several tiles"):
        tile(joined=2, persistent=True)
    with pytest.raises(ScheduleError, match="share all steps make several tiles"):
        tile(stream=True)


@pytest.mark.parametrize(
    ("size", "cluster", "joined", "persistent"),
    [
        ((8192, 8192, 8192), (2, 1), 1, True),  # columns of 256 are read once for two blocks
        ((832, 1024, 768), (1, 2), 1, False),
        ((64, 2048, 8192), (1, 1), 8, False),
        ((64, 64, 512), (1, 1), 1, False),
    ],
)
def test_what_the_model_chooses(
    size: tuple[int, int, int], cluster: tuple[int, int], joined: int, persistent: bool
) -> None:
    m, n, k = size
    plan = Work(m, n, 1, k // 64).plans(MACHINE, 1)[0]
    assert (plan.cluster, plan.joined, bool(plan.stays)) == (cluster, joined, persistent), plan
