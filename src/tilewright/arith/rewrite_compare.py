"""Identities of comparisons and conditions, for rewrite.py."""

from __future__ import annotations

RULES = """
bc(x, l) < bc(y, l) => bc(x < y, l)
ramp(b1, s1, l) < ramp(b2, s1, l) => bc(b1 < b2, l)
ramp(b1, s1, l) <= ramp(b2, s1, l) => bc(b1 <= b2, l)
bc(x, l) <= bc(y, l) => bc(x <= y, l)
bc(x, l) == bc(y, l) => bc(x == y, l)
bc(x, l) != bc(y, l) => bc(x != y, l)
And(bc(x, l), bc(y, l)) => bc(And(x, y), l)
Or(bc(x, l), bc(y, l)) => bc(Or(x, y), l)
x + y < x + z => y < z
x + y < z + x => y < z
y + x < x + z => y < z
y + x < z + x => y < z
y - x < z - x => y < z
x - y < x - z => z < y
x < x + z -> 0 < z
x < z + x -> 0 < z
c1 < x + c2 => c1 - c2 < x
c1 < c2 - x => x < c2 - c1
x + c1 < c2 => x < c2 - c1
c1 - x < c2 => c1 - c2 < x
x + c1 < y + c2 => x <= y | c2 - c1 == 1
x + c1 < y + c2 => x < y + (c2 - c1) | c2 >= c1
x + c1 < y + c2 => x + (c1 - c2) < y | c2 < c1
x < y + c1 -> x <= y | c1 == 1
x + c1 < y -> x <= y | c1 == 0 - 1
x < y + c1 => x + (0 - c1) < y | c1 < 0
x + c1 < y => x < y + (0 - c1) | c1 < 0
x * c1 < y * c1 => x < y | c1 > 0
x * c1 < y * c1 => y < x | c1 < 0
x * c1 < c2 => x < 0 - (0 - c2) // c1 | c1 > 0
x * c1 < c2 => c2 // c1 < x | c1 < 0
c1 < x * c2 => c1 // c2 < x | c2 > 0
c1 < x * c2 => x < 0 - (0 - c1) // c2 | c2 < 0
tdiv(x, c1) * c1 < x => 0 < tmod(x, c1) | c1 > 0
tdiv(x, c1) * c1 < x + y => 0 < tmod(x, c1) + y | c1 > 0
tdiv(x, c1) * c1 < x - y => y < tmod(x, c1) | c1 > 0
(x // c1) * c1 < x => 0 < x % c1 | c1 > 0
(x // c1) * c1 < x + y => 0 < x % c1 + y | c1 > 0
(x // c1) * c1 < x - y => y < x % c1 | c1 > 0
x // c1 < c2 => x < c1 * c2 | c1 > 0
c1 < x // c2 => (c1 + 1) * c2 - 1 < x | c2 > 0
tdiv(x, c1) < c2 => x < c1 * c2 | c1 > 0 and c2 > 0
c1 < tdiv(x, c2) => (c1 + 1) * c2 - 1 < x | c2 > 0 and c1 >= 0
min(x, c1) < c2 => x < c2 | c1 >= c2
c1 < max(x, c2) => c1 < x | c2 <= c1
max(x, c1) < c2 => x < c2 | c1 < c2
c1 < min(x, c2) => c1 < x | c1 < c2
x + c1 < max(x, c2) => x < c2 - c1 | c1 > 0
x + c1 < max(c2, x) => x < c2 - c1 | c1 > 0
x + y <= x + z => y <= z
x + y <= z + x => y <= z
y + x <= x + z => y <= z
y + x <= z + x => y <= z
y - x <= z - x => y <= z
x - y <= x - z => z <= y
x <= x + z -> 0 <= z
c1 <= x + c2 => c1 - c2 <= x
c1 <= c2 - x => x <= c2 - c1
x + c1 <= c2 => x <= c2 - c1
c1 - x <= c2 => c1 - c2 <= x
x <= y + c1 -> x < y | c1 == 0 - 1
x + c1 <= y -> x < y | c1 == 1
x + c1 <= y + c2 => x < y | c2 - c1 == 0 - 1
x + c1 <= y + c2 => x <= y + (c2 - c1) | c2 >= c1
x + c1 <= y + c2 => x + (c1 - c2) <= y | c2 < c1
x <= y + c1 => x + (0 - c1) <= y | c1 < 0
x + c1 <= y => x <= y + (0 - c1) | c1 < 0
x * c1 <= y * c1 => x <= y | c1 > 0
x * c1 <= y * c1 => y <= x | c1 < 0
x * c1 <= c2 => x <= c2 // c1 | c1 > 0
x * c1 <= c2 => 0 - c2 // (0 - c1) <= x | c1 < 0
c1 <= x * c2 => 0 - (0 - c1) // c2 <= x | c2 > 0
c1 <= x * c2 => x <= c1 // c2 | c2 < 0
x <= tdiv(x, c1) * c1 => tmod(x, c1) <= 0 | c1 > 0
x <= tdiv(x + c2, c1) * c1 => tmod(x + c2, c1) <= c2 | c1 > 0
x + y <= tdiv(x, c1) * c1 => tmod(x, c1) + y <= 0 | c1 > 0
x + y <= tdiv(x + c2, c1) * c1 => tmod(x + c2, c1) + y <= c2 | c1 > 0
x - y <= tdiv(x + c2, c1) * c1 => tmod(x + c2, c1) <= y + c2 | c1 > 0
x <= (x // c1) * c1 => x % c1 == 0 | c1 > 0
x <= ((x + c2) // c1) * c1 => (x + c2) % c1 <= c2 | c1 > 0
x + y <= ((x + c2) // c1) * c1 => (x + c2) % c1 + y <= c2 | c1 > 0
x - y <= ((x + c2) // c1) * c1 => (x + c2) % c1 <= y + c2 | c1 > 0
x // c1 <= c2 => x <= (c2 + 1) * c1 - 1 | c1 > 0
c1 <= x // c2 => c1 * c2 <= x | c2 > 0
tdiv(x, c1) <= c2 => x <= (c2 + 1) * c1 - 1 | c1 > 0 and c2 >= 0
tdiv(x, c1) <= c2 => x <= c2 * c1 | c1 > 0 and c2 < 0
c1 <= tdiv(x, c2) => c1 * c2 <= x | c2 > 0 and c1 > 0
c1 <= tdiv(x, c2) => (c1 - 1) * c2 + 1 <= x | c2 > 0 and c1 <= 0
x + c1 == c2 => x == c2 - c1
c1 - x == c2 => x == c1 - c2
x * y == 0 => Or(x == 0, y == 0)
x + c1 != c2 => x != c2 - c1
Or(x, x) -> x
And(x, x) -> x
Or(Or(x, y), x) -> Or(x, y)
Or(Or(x, y), y) -> Or(x, y)
And(And(x, y), x) -> And(x, y)
And(And(x, y), y) -> And(x, y)
Or(x, Or(x, y)) -> Or(x, y)
Or(x, Or(y, x)) -> Or(y, x)
And(x, And(x, y)) -> And(x, y)
And(x, And(y, x)) -> And(y, x)
Or(x, Or(y, z)) -> Or(Or(x, y), z)
And(x, And(y, z)) -> And(And(x, y), z)
And(x // c1 == c2, x % c1 == c3) => x == c1 * c2 + c3 | c1 > 0 and 0 <= c3 < c1
And(x % c1 == c3, x // c1 == c2) => x == c1 * c2 + c3 | c1 > 0 and 0 <= c3 < c1
And(0 <= x - y * c1, x - y * c1 < c1) => y == x // c1 | c1 > 0
And(x - y * c1 < c1, 0 <= x - y * c1) => y == x // c1 | c1 > 0
And(x < c1, x % c2 < c3) -> And(x < (c1 - 1) // c2 * c2 + c3, x % c2 < c3) \
| c2 > 0 and 0 < c3 < c2 and (c1 - 1) // c2 * c2 + c3 < c1
And(x <= c1, x % c2 < c3) -> And(x < c1 // c2 * c2 + c3, x % c2 < c3) \
| c2 > 0 and 0 < c3 < c2 and c1 // c2 * c2 + c3 < c1 + 1
And(x // c1 == c2, x % c1 < c3) -> And(c1 * c2 <= x, x < c1 * c2 + c3) | c1 > 0 and 0 < c3 < c1
And(x // c1 == c2, x % c1 <= c3) -> And(c1 * c2 <= x, x <= c1 * c2 + c3) | c1 > 0 and 0 <= c3 < c1
And(x // c1 == c2, c3 < x % c1) -> And(c1 * c2 + c3 < x, x < c1 * c2 + c1) \
| c1 > 0 and 0 <= c3 < c1
And(x // c1 == c2, c3 <= x % c1) -> And(c1 * c2 + c3 <= x, x < c1 * c2 + c1) \
| c1 > 0 and 0 <= c3 < c1
And(x == c1, x != c2) -> x == c1 | c1 != c2
And(x != c2, x == c1) -> x == c1 | c1 != c2
Or(x != c1, x == c2) -> x != c1 | c1 != c2
Or(x == c2, x != c1) -> x != c1 | c1 != c2
Sel(x, y, y) -> y
Not(x < y) => y <= x | whole(x)
Not(x <= y) => y < x | whole(x)
Not(Not(x)) -> x
Not(x == y) => x != y
Not(x != y) => x == y
Not(And(x, y)) => Or(Not(x), Not(y))
Not(Or(x, y)) => And(Not(x), Not(y))
"""
