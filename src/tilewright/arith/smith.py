"""Smith normal form of integer matrices.

A. Schrijver, Theory of Linear and Integer Programming, section 4.4; without the condition that each
entry divides the next one, which solving does not need.
"""

from __future__ import annotations

Matrix = list[list[int]]


def identity(n: int) -> Matrix:
    return [[int(i == j) for j in range(n)] for i in range(n)]


def smith_normal_form(a: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """(U, D, V) with U*a*V = D diagonal, its entries not negative, and U, V unimodular."""
    d = [list(row) for row in a]
    rows, cols = len(d), len(d[0]) if d else 0
    u, v = identity(rows), identity(cols)
    for t in range(min(rows, cols)):
        pivot = _smallest(d, t)
        while pivot is not None:
            _swap_rows(d, u, t, pivot[0])
            _swap_columns(d, v, t, pivot[1])
            for i in range(t + 1, rows):
                _add_row(d, u, i, t, -(d[i][t] // d[t][t]))
            for j in range(t + 1, cols):
                _add_column(d, v, j, t, -(d[t][j] // d[t][t]))
            left = any(d[i][t] for i in range(t + 1, rows))
            if not left and not any(d[t][j] for j in range(t + 1, cols)):
                break
            pivot = _smallest_in_cross(d, t)
        if pivot is not None and d[t][t] < 0:
            d[t] = [-x for x in d[t]]
            u[t] = [-x for x in u[t]]
    return u, d, v


def _smallest(d: Matrix, t: int) -> tuple[int, int] | None:
    """The place of the smallest entry that is not zero, from row and column t on."""
    best: tuple[int, int] | None = None
    for i in range(t, len(d)):
        for j in range(t, len(d[0])):
            if d[i][j] and (best is None or abs(d[i][j]) < abs(d[best[0]][best[1]])):
                best = i, j
    return best


def _smallest_in_cross(d: Matrix, t: int) -> tuple[int, int]:
    places = [(i, t) for i in range(t, len(d))] + [(t, j) for j in range(t, len(d[0]))]
    return min((p for p in places if d[p[0]][p[1]]), key=lambda p: abs(d[p[0]][p[1]]))


def _swap_rows(d: Matrix, u: Matrix, i: int, j: int) -> None:
    d[i], d[j] = d[j], d[i]
    u[i], u[j] = u[j], u[i]


def _swap_columns(d: Matrix, v: Matrix, i: int, j: int) -> None:
    for row in (*d, *v):
        row[i], row[j] = row[j], row[i]


def _add_row(d: Matrix, u: Matrix, i: int, t: int, k: int) -> None:
    if k:
        d[i] = [x + k * y for x, y in zip(d[i], d[t])]
        u[i] = [x + k * y for x, y in zip(u[i], u[t])]


def _add_column(d: Matrix, v: Matrix, j: int, t: int, k: int) -> None:
    if k:
        for row in (*d, *v):
            row[j] += k * row[t]


def unimodular_inverse(v: Matrix) -> Matrix:
    """The inverse of an integer matrix of determinant 1 or -1."""
    u, d, w = smith_normal_form(v)  # u*v*w = identity, so inverse(v) = w*u
    assert all(d[i][i] == 1 for i in range(len(d)))
    columns = list(zip(*u))
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in w]
