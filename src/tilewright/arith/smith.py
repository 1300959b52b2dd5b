"""Smith normal form of integer matrices.

A. Schrijver, Theory of Linear and Integer Programming, section 4.4; without the condition that each
entry divides the next one, which solving does not need.
"""

from __future__ import annotations

Matrix = list[list[int]]


def identity(n: int) -> Matrix:
    return [[int(i == j) for j in range(n)] for i in range(n)]


def smith_normal_form(a: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """(U, D, V) with U*a*V = D diagonal, its entries not negative, and U, V unimodular.

    Pivots come from the column at hand where it has any, so that the first variables of a system
    are those which the others determine.
    """
    d = [list(row) for row in a]
    rows, cols = len(d), len(d[0]) if d else 0
    u, v = identity(rows), identity(cols)
    for t in range(min(rows, cols)):
        again = True
        while again:
            again = False
            _find_pivot(d, u, v, t)
            if not d[t][t]:
                break
            for i in range(t + 1, rows):
                k = _factors(d[t][t], d[i][t])
                for m in (d, u):
                    m[t], m[i] = _mixed(k, m[t], m[i])
            for j in range(t + 1, cols):
                again |= d[t][j] % d[t][t] != 0
                k = _factors(d[t][t], d[t][j])
                for row in (*d, *v):
                    (row[t],), (row[j],) = _mixed(k, [row[t]], [row[j]])
        if d[t][t] < 0:
            d[t] = [-x for x in d[t]]
            u[t] = [-x for x in u[t]]
    return u, d, v


def _find_pivot(d: Matrix, u: Matrix, v: Matrix, t: int) -> None:
    """Bring a nonzero entry to (t, t): the smallest of the column, else one of the row."""
    places = [i for i in range(t, len(d)) if d[i][t]]
    if places:
        i = min(places, key=lambda i: abs(d[i][t]))
        for m in (d, u):
            m[t], m[i] = m[i], m[t]
        return
    for j in range(t + 1, len(d[0])):
        if d[t][j]:
            for row in (*d, *v):
                row[t], row[j] = row[j], row[t]
            return


def _factors(x: int, y: int) -> tuple[int, int, int, int] | None:
    """(a, b, c, e) with a*x + b*y = gcd, c*x - e*y = 0 and determinant -1; None where y is 0."""
    if not y:
        return None
    g, a, b = (x, 1, 0) if y % x == 0 else _euclid(x, y)
    return a, b, y // g, x // g


def _euclid(x: int, y: int) -> tuple[int, int, int]:
    """(g, a, b) with a*x + b*y = g, the greatest common divisor up to its sign."""
    (r, a, b), (s, c, e) = (x, 1, 0), (y, 0, 1)
    while s:
        q = r // s
        (r, a, b), (s, c, e) = (s, c, e), (r - q * s, a - q * c, b - q * e)
    return r, a, b


def _mixed(
    k: tuple[int, int, int, int] | None, x: list[int], y: list[int]
) -> tuple[list[int], list[int]]:
    if k is None:
        return x, y
    a, b, c, e = k
    return [a * p + b * q for p, q in zip(x, y)], [c * p - e * q for p, q in zip(x, y)]


def unimodular_inverse(v: Matrix) -> Matrix:
    """The inverse of an integer matrix of determinant 1 or -1."""
    u, d, w = smith_normal_form(v)  # u*v*w = identity, so inverse(v) = w*u
    assert all(d[i][i] == 1 for i in range(len(d)))
    columns = list(zip(*u))
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in w]
