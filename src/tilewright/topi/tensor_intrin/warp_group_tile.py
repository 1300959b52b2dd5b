"""The tile of a product that a block of Hopper's warp groups makes: its sizes, and how blocks of a
cluster, or one block's tiles, belong together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

from ...base.dtype import parse
from ...base.errors import ScheduleError
from ...base.tensor_map import Pixels, TensorMap, most_offset
from ...loopir.expr import PrimExpr

GROUP = 128  # threads
GROUP_ROWS = 64
SPAN = 128  # bytes of a row of a tile in shared memory, and of its swizzle
_DEPTH = 32  # bytes of the reduction in an instruction
_COPIED = 256  # rows that a copy takes at most
_MOST_COLUMNS = 256
KINDS = {"float16": "fp16", "bfloat16": "bf16", "int8": "int8"}
SUMS = {"float16": "float32", "bfloat16": "float32", "int8": "int32"}
"""The types of sums by those of operands."""


@dataclass(frozen=True)
class ImageWindows:
    """Images (N[[, D], H], W, C), whose channels are neighbours, and their windows, which are the
    rows of an operand: those of the first image line by line, then those of the next; the steps of
    a row are its taps, of each `deep` of which the channels are the first, and zeros the rest.

    Of W[, H[, D]], in this order: `sizes` of images, `results` (how many windows), `taps`,
    `strides`, `dilation`, and `before`, the zeros in front of an image. How many `images` there are
    may be known when it runs only."""

    images: int | PrimExpr
    channels: int
    deep: int
    sizes: tuple[int, ...]
    results: tuple[int, ...]
    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]

    @property
    def rows(self) -> int | PrimExpr:
        return self.images * prod(self.results)

    @property
    def steps(self) -> int:
        return prod(self.taps) * self.deep

    @property
    def dims(self) -> tuple[Any, ...]:
        """Of the array, innermost first."""
        return (self.channels, *self.sizes, self.images)

    @property
    def pixels(self) -> Pixels:
        """The box that the first taps of all windows are in."""
        each = zip(self.results, self.strides, self.before, self.sizes)
        upper = tuple((n - 1) * step - low - (size - 1) for n, step, low, size in each)
        return Pixels(tuple(-low for low in self.before), upper, self.strides)

    def map_of(self, dtype: str, lines: int) -> TensorMap:
        """Of columns of so many windows, a step of the reduction each, of images that lie side by
        side; of one image where it is not known how many there are."""
        nbytes = parse(dtype).nbytes
        strides = tuple(nbytes * n for n in accumulate(self.dims[:-1], mul))
        dims = (*self.dims[:-1], self.images if isinstance(self.images, int) else 1)
        return TensorMap(dtype, dims, strides, (SPAN // nbytes, lines), SPAN, self.pixels)

    def problem(self, dtype: str) -> str:
        """Why there are no such copies; empty where there are."""
        reach = max((n - 1) * far for n, far in zip(self.taps, self.dilation))
        most = most_offset(len(self.dims))
        if reach > most:
            return f"the last tap is {reach} pixels behind the first, more than {most}"
        if self.deep * parse(dtype).nbytes % SPAN:
            return f"{self.deep} steps of a tap are no multiple of {SPAN} bytes"
        return self.map_of(dtype, GROUP_ROWS).problem()


@dataclass(frozen=True)
class WarpGroupTile:
    """A tile of `rows` x `columns` of a product of arrays of `dtype`, sums as `SUMS` has them.

    `extents`: rows, columns and steps of the whole product, which arrays have; rows may be known
    when it runs only, if the reduction runs along those of its operand. `along`: of each
    operand, whether the reduction runs along its rows in memory (A[i, k], B[j, k]), or not
    (A[k, i], B[k, j]). `stages`: steps that have room in shared memory at once. `specialized`: see
    the head. `batch`: how many matrices the array of each operand has, of which one is read (its
    first dimension); none: the array is a matrix, as is that of the product. `length`: steps of the
    part of the reduction that is the tile's, where it is cut in parts; the last one reaches over
    its end. `cluster`: blocks of a cluster, which follow each other along blockIdx.x, below and
    beside each other; there are several of one kind alone. `joined`: so many blocks beside each
    other are a cluster that cuts the reduction. `persistent`: the block may make several tiles,
    `stream`: parts of them. `windows`: what rows of A are, which is an array of images then.
    `fours`: in shared memory, rows of sums are a dimension of fours and one of the rows of each, so
    that all fours may begin elsewhere.
    Raises ScheduleError where a warp group has no such tile.
    """

    dtype: str
    rows: int
    columns: int
    extents: tuple[int | PrimExpr, int, int]
    along: tuple[bool, bool] = (True, False)
    stages: int = 4
    specialized: bool = True
    batch: tuple[int, int] | None = None
    length: int | None = None
    cluster: tuple[int, int] = (1, 1)
    joined: int = 1
    persistent: bool = False
    stream: bool = False
    windows: ImageWindows | None = None
    fours: bool = False

    def __post_init__(self) -> None:
        wrong = self._wrong()
        if wrong:
            raise ScheduleError(f"wgmma_tile: {wrong}")

    def _wrong(self) -> str:
        if self.dtype not in KINDS:
            return f"operands are of {', '.join(KINDS)}, not {self.dtype}"
        if self.rows % GROUP_ROWS or not 0 < self.rows <= _COPIED:
            return f"a tile has 64, 128, 192 or 256 rows, not {self.rows}"
        most = 8 if self.along[1] else SPAN // self.nbytes
        if self.columns % 8 or self.wide % most or not 0 < self.wide <= _MOST_COLUMNS:
            return f"columns are a multiple of {most}, up to 256, not {self.wide}"
        if self.nbytes == 1 and not all(self.along):
            return f"operands of {self.dtype} are A[i, k] and B[j, k]"
        if self.stages < 2:
            return "there are two stages or more"
        if self.length is not None and self.length % self.step:
            return f"a part of the reduction is a multiple of {self.step}, not {self.length}"
        wrong = self._wrong_cluster(self.cluster) or self._wrong_joined()
        if wrong:
            return wrong
        if self.stream and not self.persistent:
            return "blocks that share all steps make several tiles (persistent)"
        if self.persistent and (not self.specialized or self.joined > 1):
            return "blocks that make several tiles have a warp group that copies, and join no sums"
        m, n, k = self.extents
        if self.windows is not None:
            wrong = self._wrong_windows(self.windows)
            if wrong:
                return wrong
        for name, row in (("A", k if self.along[0] else m), ("B", k if self.along[1] else n)):
            if not isinstance(row, int):
                return f"a row of {name} has {row} elements, which has to be known"
            if row * self.nbytes % 16:
                return f"a row of {name} has {row * self.nbytes} bytes, no multiple of 16"
        return ""

    def _wrong_cluster(self, cluster: tuple[int, int]) -> str:
        blocks = max(cluster)
        if cluster == (1, 1):
            return ""
        if min(cluster) != 1 or blocks not in (2, 4, 8):
            return f"a cluster is of 2, 4 or 8 blocks below or beside each other, not {cluster}"
        if not self.specialized:
            return "blocks of a cluster have a warp group that copies (specialized)"
        side = common_side(cluster)
        lines = (self.rows, self.columns)[side]
        if lines % (blocks * (8 if self.along[side] else self.step)):
            return f"{lines} lines of {'AB'[side]} are not copied in {blocks} parts"
        return ""

    def _wrong_windows(self, windows: ImageWindows) -> str:
        if self.batch is not None or not self.along[0]:
            return "windows are the rows of a matrix A[i, k]"
        m, _, k = self.extents
        known = isinstance(m, int) and isinstance(windows.rows, int)
        if windows.steps != k or (known and windows.rows != m):
            return f"{windows.rows} windows of {windows.steps} steps are no operand of this product"
        return windows.problem(self.dtype)

    def _wrong_joined(self) -> str:
        if self.joined == 1:
            return ""
        if self.joined not in (2, 4, 8):
            return f"a cluster is of 2, 4 or 8 blocks, not {self.joined}"
        if not self.specialized or self.length is not None or max(self.cluster) > 1:
            return "blocks that join their sums have no parts, and no other cluster (specialized)"
        return ""

    def takes(self, cluster: tuple[int, int]) -> bool:
        """Whether blocks of such a cluster may make these tiles."""
        return not self._wrong_cluster(cluster)

    @property
    def blocks(self) -> int:
        """Of a cluster."""
        return max(*self.cluster, self.joined)

    @property
    def wide(self) -> int:
        """Columns that a block multiplies: those of all whose sums are joined."""
        return self.columns * self.joined

    @property
    def nbytes(self) -> int:
        """Bytes of an element."""
        return parse(self.dtype).nbytes

    @property
    def there(self) -> int:
        """Rows that the product has of a tile."""
        rows = self.extents[0]
        return min(self.rows, rows) if isinstance(rows, int) else self.rows

    @property
    def held(self) -> int:
        """Those that are stored: whole fours, if rows are stored so."""
        return min(self.rows, self.there + -self.there % 4) if self.fours else self.there

    @property
    def step(self) -> int:
        """Steps of the reduction in a stage."""
        return SPAN // self.nbytes

    @property
    def depth(self) -> int:
        """Steps of the reduction in an instruction."""
        return _DEPTH // self.nbytes

    @property
    def parts(self) -> int:
        """Into how many parts the reduction is cut."""
        return 1 if self.length is None else -(-self.extents[2] // self.length)

    @property
    def threads(self) -> int:
        """Those that multiply."""
        return self.rows // GROUP_ROWS * GROUP

    @property
    def block_threads(self) -> int:
        return self.threads + (GROUP if self.specialized else 0)

    @property
    def stage_bytes(self) -> int:
        return (self.rows + self.wide) * SPAN

    @property
    def exchange_bytes(self) -> int:
        """Of the sums that blocks read of each other."""
        return self.rows * self.wide * 4 if self.joined > 1 else 0


def common_side(cluster: tuple[int, int]) -> int:
    """The operand of which all blocks of a cluster read the same lines: A (0) where they lie beside
    each other, B (1) where they lie below each other."""
    return 0 if cluster[1] > 1 else 1
