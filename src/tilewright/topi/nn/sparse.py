"""Products with sparse matrices: rows of values and their columns (CSR), or of dense blocks
(BSR)."""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...loopir.ir_builder import create
from ...tensor.compute import compute
from ...tensor.extern import extern
from ...tensor.tensor import Tensor
from ..lines import bisected, each, on_device
from ..sorting import argsort
from ..transform import transpose
from ..utils import get_const_int, of_rank, simplify


def _product(dense: Tensor, data: Tensor, indices: Tensor, indptr: Tensor) -> Tensor:
    """dense (M, K) times the transpose of a sparse matrix (N, K): (M, N). One row of the sparse
    matrix after another, for each of which threads share the rows of the dense one."""
    m, _ = dense.shape
    blocks = simplify(indptr.shape[0] - 1)
    br, bc = (get_const_int(d) for d in data.shape[1:]) if data.ndim == 3 else (1, 1)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, values, columns, starts, out = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with each(ib, m * blocks, 1 << 14) as n:
            row, block = n // blocks, n % blocks
            total = ib.allocate(dense.dtype, br, name="total", scope="local")
            with ib.for_range(0, br, name="r") as r:
                total[r] = const(0, dense.dtype)
            count = starts[block + 1] - starts[block]
            with ib.for_range(0, count, name="k") as k:
                place = ib.let("place", starts[block] + k)
                column = ib.let("column", columns[place])
                with ib.for_range(0, br, name="r") as r, ib.for_range(0, bc, name="c") as c:
                    at = (place, r, c) if data.ndim == 3 else (place,)
                    value = cast(dense.dtype, values[at]) * x[row, column * bc + c]
                    total[r] = total[r] + value
            with ib.for_range(0, br, name="r") as r:
                out[row, block * br + r] = total[r]
        return ib.get()

    inputs = [dense, data, indices, indptr]
    shape = (m, simplify(blocks * br))
    tag = "sparse_dense_sp_rhs_bsrmm" if data.ndim == 3 else "sparse_dense_sp_rhs_csrmm"
    result: Tensor = extern(shape, inputs, body, tag, dense.dtype, tag=tag)
    return result


@of_rank(data=2)
def sparse_dense_sp_rhs(
    data: Tensor, weight_data: Tensor, weight_indices: Tensor, weight_indptr: Tensor
) -> Tensor:
    """data (M, K) times the transpose of a sparse matrix (N, K). Returns (M, N).

    weight_data (elements,), weight_indices (elements,): their columns, weight_indptr (N + 1,):
    where each row begins; or blocks, weight_data (blocks, BR, BC), weight_indptr (N / BR + 1,). The
    result has the type that arithmetic brings both to; columns and starts are integers. Raises
    TilewrightError where the values, columns and starts of rows are not of a sparse matrix.
    """
    _check(weight_data, weight_indices, weight_indptr)
    return _product(data, weight_data, weight_indices, weight_indptr)


@of_rank(weight=2)
def sparse_dense_sp_lhs(
    data_data: Tensor, data_indices: Tensor, data_indptr: Tensor, weight: Tensor
) -> Tensor:
    """A sparse matrix (M, K), as in sparse_dense_sp_rhs, times the transpose of weight (N, K).
    Returns (M, N). The result has the type that arithmetic brings both to; columns and starts are
    integers. Raises TilewrightError where the values, columns and starts of rows are not of a
    sparse matrix."""
    _check(data_data, data_indices, data_indptr)
    return transpose(_product(weight, data_data, data_indices, data_indptr))


def _check(data: Tensor, indices: Tensor, indptr: Tensor) -> None:
    if data.ndim not in (1, 3) or indices.ndim != 1 or indptr.ndim != 1:
        raise TilewrightError(
            "a sparse matrix is values (n,) or blocks (n, rows, columns), columns (n,) and starts "
            f"of rows, got {data!r}, {indices!r}, {indptr!r}"
        )


def sparse_dense(
    dense_data: Tensor,
    sparse_data: Tensor,
    sparse_indices: Tensor,
    sparse_indptr: Tensor,
    sparse_lhs: bool = False,
) -> Tensor:
    """sparse_dense_sp_rhs, or sparse_dense_sp_lhs where `sparse_lhs`. Takes (M, K) and (N, K),
    gives (M, N) in the type that arithmetic brings both to. Raises TilewrightError where a tensor
    has other dimensions than those take: matrices have two, lists one."""
    if sparse_lhs:
        return sparse_dense_sp_lhs(sparse_data, sparse_indices, sparse_indptr, dense_data)
    return sparse_dense_sp_rhs(dense_data, sparse_data, sparse_indices, sparse_indptr)


def sparse_transpose(
    sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The transpose of a square sparse matrix: values, columns and starts of rows. Values keep
    their type, columns and starts are int32."""
    count = sparse_data.shape[0]
    rows = simplify(sparse_indptr.shape[0] - 1)
    if on_device():
        return _transposed_at_once(sparse_data, sparse_indices, sparse_indptr)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        values, columns, starts = (ib.buffer_ptr(b) for b in ins)
        new_values, new_columns, new_starts = (ib.buffer_ptr(b) for b in outs)
        kind, place = sparse_indptr.dtype, sparse_indices.dtype
        with each(ib, 1, 1):
            with ib.for_range(0, rows + 1, name="i") as i:
                new_starts[i] = const(0, kind)
            with ib.for_range(0, count, name="k") as k:  # how many stand before each row
                after = ib.let("after", columns[k] + 2)
                with ib.if_scope(after <= rows):
                    new_starts[after] = new_starts[after] + const(1, kind)
            with ib.for_range(0, rows, name="i") as i:
                new_starts[i + 1] = new_starts[i + 1] + new_starts[i]
            with ib.for_range(0, rows, name="row") as row:
                many = starts[row + 1] - starts[row]
                with ib.for_range(0, many, name="k") as k:
                    old = ib.let("old", starts[row] + k)
                    column = ib.let("column", columns[old])
                    new = ib.let("new", new_starts[column + 1])
                    new_values[new] = values[old]
                    new_columns[new] = cast(place, row)
                    new_starts[column + 1] = new + const(1, kind)
        return ib.get()

    inputs = [sparse_data, sparse_indices, sparse_indptr]
    found = extern(
        [x.shape for x in inputs],
        inputs,
        body,
        "sparse_transpose_csr",
        [x.dtype for x in inputs],
        tag="sparse_transpose_csr",
    )
    return found[0], found[1], found[2]


def _transposed_at_once(
    data: Tensor, indices: Tensor, starts: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As sparse_transpose, by sorting the columns."""
    count, ends = data.shape[0], starts.shape[0]
    order = argsort(indices, dtype="int32")

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        values, columns, begins, turns = (ib.buffer_ptr(b) for b in ins)
        new_values, new_columns, new_starts = (ib.buffer_ptr(b) for b in outs)
        with each(ib, count, count * 16) as n:
            old = ib.let("old", turns[n])
            new_values[n] = values[old]
            row = bisected(ib, 0, ends, lambda i: begins[i] <= cast(starts.dtype, old)) - 1
            new_columns[n] = cast(indices.dtype, row)
        with each(ib, ends, ends * 16) as i:
            column = cast(indices.dtype, i)
            first = bisected(ib, 0, count, lambda n: columns[turns[n]] < column)
            new_starts[i] = cast(starts.dtype, first)
        return ib.get()

    inputs = [data, indices, starts]
    shapes, dtypes = [x.shape for x in inputs], [x.dtype for x in inputs]
    name = "sparse_transpose_csr"
    found = extern(shapes, [*inputs, order], body, name, dtypes, tag=name)
    return found[0], found[1], found[2]


@of_rank(dense_data=2)
def sparse_add(
    dense_data: Tensor, sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor
) -> Tensor:
    """dense_data (M, N) plus a sparse matrix (M, N) of values. The result has the type that
    arithmetic brings both to."""
    m, n = dense_data.shape

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, values, columns, starts, out = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with each(ib, m, 1 << 14) as row:
            with ib.for_range(0, n, name="j") as j:
                out[row, j] = x[row, j]
            with ib.for_range(0, starts[row + 1] - starts[row], name="k") as k:
                place = ib.let("place", starts[row] + k)
                column = ib.let("column", columns[place])
                out[row, column] = out[row, column] + cast(dense_data.dtype, values[place])
        return ib.get()

    inputs = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    name = "sparse_add_csr"
    result: Tensor = extern((m, n), inputs, body, name, dense_data.dtype, tag="sparse_add_csr")
    return result


@of_rank(dense_data=4)
def sparse_conv2d(
    dense_data: Tensor,
    sparse_data: Tensor,
    sparse_indices: Tensor,
    sparse_indptr: Tensor,
    layout: str = "NHWC",
    kernel_size: int = 1,
) -> Tensor:
    """Convolution of stride 1 by sparse filters, a matrix (F, C) or, of kernel_size 3, (F, 9 * C)
    by rows and columns of the window, with padding that keeps the image's size. Data (N, H, W, C),
    or (N, C, H, W) in layout NCHW. The result has the type of `dense_data`. Raises TilewrightError
    where layout is neither NHWC nor NCHW, or kernel_size neither 1 nor 3, where axes are no
    permutation of the dimensions."""
    if layout not in ("NHWC", "NCHW") or kernel_size not in (1, 3):
        raise TilewrightError("sparse_conv2d: layout NHWC or NCHW, kernel_size 1 or 3")
    data = transpose(dense_data, (0, 2, 3, 1)) if layout == "NCHW" else dense_data
    n, h, w, _ = data.shape
    taps = kernel_size * kernel_size
    columns = _windows(data, taps) if taps > 1 else _flat(data)
    product = _product(columns, sparse_data, sparse_indices, sparse_indptr)
    filters = product.shape[1]

    def element(b: Any, y: Any, x: Any, f: Any) -> Any:
        return product((b * h + y) * w + x, f)

    result: Tensor = compute((n, h, w, filters), element, "T_sparse_conv2d", "injective")
    return transpose(result, (0, 3, 1, 2)) if layout == "NCHW" else result


def _flat(data: Tensor) -> Tensor:
    n, h, w, c = data.shape
    result: Tensor = compute(
        (simplify(n * h * w), c),
        lambda i, k: data(i // w // h, i // w % h, i % w, k),
        "T_pixels",
        "injective",
    )
    return result


def _windows(data: Tensor, taps: int) -> Tensor:
    """(N * H * W, taps * C): the windows of three rows and columns around each pixel."""
    n, h, w, c = data.shape

    def element(i: Any, k: Any) -> Any:
        tap = k // c
        y, x = i // w % h + tap // 3 - 1, i % w + tap % 3 - 1
        inside = O.all(y >= 0, y < h, x >= 0, x < w)
        return O.if_then_else(inside, data(i // w // h, y, x, k % c), const(0, data.dtype))

    shape = (simplify(n * h * w), simplify(c * taps))
    result: Tensor = compute(shape, element, "T_windows", "injective")
    return result
