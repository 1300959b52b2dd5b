"""Identities of sums, products, quotients, minima and choices, for rewrite.py."""

from __future__ import annotations


def _both(rules: str) -> str:
    """Rules about min, and the same about max."""
    swapped = rules.replace("min", "MAX").replace("max", "min").replace("MAX", "max")
    return rules + swapped


_ADD = """
ramp(b1, s1, l) + ramp(b2, s2, l) => ramp(b1 + b2, s1 + s2, l)
ramp(b1, s1, l) + bc(x, l) => ramp(b1 + x, s1, l)
bc(x, l) + ramp(b1, s1, l) => ramp(x + b1, s1, l)
bc(x, l) + bc(y, l) => bc(x + y, l)
c1 + x -> x + c1
(x - y) + y -> x
x + (y - x) -> y
(x + c1) + (c2 - y) => (x - y) + (c1 + c2)
(x - y) + (y - z) => x - z
(x - y) + (z - x) => z - y
tdiv(x, c1) * c1 + tmod(x, c1) -> x
tmod(x, c1) + tdiv(x, c1) * c1 -> x
(x // c1) * c1 + x % c1 -> x
x % c1 + (x // c1) * c1 -> x
(x % 2 + c1) // 2 + x // 2 => (x + c1) // 2
x // 2 + (x % 2 + c1) // 2 => (x + c1) // 2
x % 2 + (x + c1) % 2 -> 1 | c1 % 2 == 1
(x + c1) % 2 + x % 2 -> 1 | c1 % 2 == 1
x // 2 + x % 2 => (x + 1) // 2
x % 2 + x // 2 => (x + 1) // 2
(x % 2 + c1) + x // 2 => (x + (2 * c1 + 1)) // 2
x // 2 + (x % 2 + c1) => (x + (2 * c1 + 1)) // 2
Sel(x, b, d) + Sel(x, y, z) => Sel(x, b + y, d + z)
(x + c1) + c2 => x + (c1 + c2)
(c1 - x) + c2 -> (c1 + c2) - x
(c1 - y) + x => (x - y) + c1
x + (c1 - y) => (x - y) + c1
x + x -> x * 2
x * y + x => x * (y + 1)
y * x + x => x * (y + 1)
x + y * x => x * (y + 1)
x + x * y => x * (y + 1)
x * y + x * z => x * (y + z)
y * x + x * z => x * (y + z)
x * y + z * x => x * (y + z)
y * x + z * x => x * (y + z)
(x + c1) + y => (x + y) + c1
x + (y + c1) => (x + y) + c1
min(x, y) + max(x, y) => x + y
min(x, y) + max(y, x) => x + y
max(x, y) + min(x, y) => x + y
max(x, y) + min(y, x) => x + y
"""
_ADD_EXTREMES = """
min(x, y - z) + z => min(x + z, y)
min(x - z, y) + z => min(x, y + z)
z + min(x, y - z) => min(x + z, y)
z + min(x - z, y) => min(x, y + z)
min(x, y + c1) + c2 => min(x + c2, y) | c1 == -c2
min(x + c1, y) + c2 => min(x, y + c2) | c1 == -c2
min(x + c1, y + c2) + c3 => min(x, y + (c2 + c3)) | c1 == -c3
min(c1 - z, c2) + z => min(z + c2, c1)
min(c2, c1 - z) + z => min(z + c2, c1)
min(c1 - z * c3, c2) + z * c3 => min(z * c3 + c2, c1)
"""
_SUB = """
ramp(b1, s1, l) - ramp(b2, s2, l) => ramp(b1 - b2, s1 - s2, l)
ramp(b1, s1, l) - bc(x, l) => ramp(b1 - x, s1, l)
bc(x, l) - ramp(b1, s1, l) => ramp(x - b1, 0 - s1, l)
bc(x, l) - bc(y, l) => bc(x - y, l)
x - x -> 0
x - c1 => x + (0 - c1)
0 - x * c1 -> x * (0 - c1)
(x + y) - y -> x
(x + y) - x -> y
x - (y + x) -> 0 - y
x - (x + y) -> 0 - y
(x - y) - x -> 0 - y
x - (x - y) -> y
c1 - (x + c2) -> (c1 - c2) - x
Sel(x, b, d) - Sel(x, y, z) => Sel(x, b - y, d - z)
Sel(x, y, z) - y => Sel(x, 0, z - y)
Sel(x, y, z) - z => Sel(x, y - z, 0)
(x + y) - (x + z) => y - z
(y + x) - (x + z) => y - z
(x + y) - (z + x) => y - z
(y + x) - (z + x) => y - z
x * y - x => x * (y - 1)
y * x - x => x * (y - 1)
x - y * x => x * (1 - y)
x - x * y => x * (1 - y)
x * y - x * z => x * (y - z)
y * x - x * z => x * (y - z)
x * y - z * x => x * (y - z)
y * x - z * x => x * (y - z)
x - tdiv(x, c1) * c1 => tmod(x, abs(c1))
tdiv(x, c1) * c1 - x => 0 - tmod(x, abs(c1))
x - (x // c1) * c1 => x % c1
(x // c1) * c1 - x => 0 - x % c1
x // 2 - (x + c1) // 2 -> x % 2 * (0 - 1) + (0 - c1 // 2) | c1 % 2 == 1
(x + c1) // 2 - x // 2 -> x % 2 + c1 // 2 | c1 % 2 == 1
(x + c1) // 2 - x % 2 -> x // 2 + c1 // 2 | c1 % 2 == 1
(x + c1) // c2 - x // c2 -> (x % c2 + c1) // c2 | c2 > 0
tdiv(x + c1, c2) - tdiv(x, c2) -> tdiv(tmod(x, c2) + c1, c2) | c2 > 0 and c1 >= 0 and nn(x)
tdiv(x + c1, c2) - tdiv(x + c3, c2) -> tdiv(tmod(x + c3, c2) + (c1 - c3), c2) \
| c2 > 0 and c1 >= c3 and nn(x + c3)
(x + c1) - y => (x - y) + c1
x - (y + c1) => (x - y) + (0 - c1)
min(x, y) - min(z, w) -> x - z | same(x - z, y - w)
min(x, y) - min(w, z) -> x - z | same(x - z, y - w)
max(x, y) - max(z, w) -> x - z | same(x - z, y - w)
max(x, y) - max(w, z) -> x - z | same(x - z, y - w)
"""
_SUB_DIV = """
x - ((x + y) DIV c1) * c1 => ((x + y) MOD c1) - y
((x + y) DIV c1) * c1 - x => y - ((x + y) MOD c1)
x - ((x - y) DIV c1) * c1 => ((x - y) MOD c1) + y
((x - y) DIV c1) * c1 - x => 0 - ((x - y) MOD c1) - y
x * c2 - (x DIV c1) * c3 => (x MOD c1) * c2 | c3 == c1 * c2
(x DIV c1) * c3 - x * c2 => (x MOD c1) * (0 - c2) | c3 == c1 * c2
x * c2 - ((x + y) DIV c1) * c3 => (((x + y) MOD c1) - y) * c2 | c3 == c1 * c2
((x + y) DIV c1) * c3 - x * c2 => (y - ((x + y) MOD c1)) * c2 | c3 == c1 * c2
x * c2 - ((x - y) DIV c1) * c3 => (((x - y) MOD c1) + y) * c2 | c3 == c1 * c2
((x - y) DIV c1) * c3 - x * c2 => (0 - ((x - y) MOD c1) - y) * c2 | c3 == c1 * c2
"""
_SUB_EXTREMES = """
min(x, y) - x -> min(0, y - x)
min(x, y) - y -> min(x - y, 0)
x - min(x, y) -> max(0, x - y)
y - min(x, y) -> max(y - x, 0)
min(x + y, z) - x -> min(y, z - x)
min(y + x, z) - x -> min(y, z - x)
min(z, x + y) - x -> min(z - x, y)
min(z, y + x) - x -> min(z - x, y)
x - min(x + y, z) -> max(0 - y, x - z)
x - min(y + x, z) -> max(0 - y, x - z)
x - min(z, x + y) -> max(x - z, 0 - y)
x - min(z, y + x) -> max(x - z, 0 - y)
"""
_MUL = """
bc(x, l) * bc(y, l) => bc(x * y, l)
ramp(b1, s1, l) * bc(x, l) => ramp(b1 * x, s1 * x, l)
bc(x, l) * ramp(b1, s1, l) => ramp(b1 * x, s1 * x, l)
c1 * x -> x * c1
(x + c1) * c2 => x * c2 + c1 * c2
(x * c1) * c2 -> x * (c1 * c2)
min(x, y) * max(x, y) => x * y
max(x, y) * min(x, y) => x * y
(x - y) * c1 => (y - x) * (0 - c1) | c1 < 0
"""


def _division(rules: str, truncates: bool) -> str:
    """Rules of quotients and remainders: NN stands for what truncation needs."""
    text = rules.replace("NN(", "nn(" if truncates else "always(")
    lines = []
    for line in text.strip().splitlines():
        for mark, name, sign in ((" DIV ", "tdiv", "//"), (" MOD ", "tmod", "%")):
            line = _called(line, mark, name) if truncates else line.replace(mark, f" {sign} ")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _called(line: str, mark: str, name: str) -> str:
    """`a DIV b`, in parentheses each, as `tdiv(a, b)`."""
    while mark in line:
        at = line.index(mark)
        begin, depth = at, 0
        while begin > 0:
            char = line[begin - 1]
            depth += (char == ")") - (char == "(")
            if depth < 0 or (depth == 0 and char in " " and begin != at):
                break
            begin -= 1
        end, depth = at + len(mark), 0
        while end < len(line):
            char = line[end]
            depth += (char == "(") - (char == ")")
            if depth < 0 or (depth == 0 and char == " "):
                break
            end += 1
        left, right = line[begin:at], line[at + len(mark) : end]
        line = f"{line[:begin]}{name}({left}, {right}){line[end:]}"
    return line


_DIV = """
(bc(x, l) DIV bc(y, l)) => bc((x DIV y), l)
(ramp(b, c1, l) DIV bc(c2, l)) => ramp((b DIV c2), c1 // c2, l) \
| c2 > 0 and c1 % c2 == 0 and NN(b, c1)
((x DIV c1) DIV c2) => (x DIV (c1 * c2)) | c1 > 0 and c2 > 0
(((x DIV c1) + c2) DIV c3) => ((x + (c1 * c2)) DIV (c1 * c3)) \
| c1 > 0 and c3 > 0 and c2 >= 0 and NN(x)
((x * c1) DIV c2) => x * (c1 // c2) | c2 > 0 and c1 % c2 == 0
((x * c1) DIV c2) => (x DIV (c2 // c1)) | c1 > 0 and c2 > 0 and c2 % c1 == 0
((x * c1 + c2) DIV c3) => ((x + (c2 // c1)) DIV (c3 // c1)) \
| c1 > 0 and c3 > 0 and c3 % c1 == 0 and (c2 // c1) % (c3 // c1) == 0 and NN(x, x * c1 + c2)
((x * c1 + y) DIV c2) => (x DIV (c2 // c1)) \
| c1 > 0 and c2 > 0 and c2 % c1 == 0 and inr(y, c1) and NN(x)
((x * c1 + y + z) DIV c2) => (x DIV (c2 // c1)) \
| c1 > 0 and c2 > 0 and c2 % c1 == 0 and inr(y + z, c1) and NN(x)
((x * c1 + y) DIV c2) => x * (c1 // c2) + (y DIV c2) | c2 > 0 and c1 % c2 == 0 and NN(x * c1, y)
((x * c1 + y + z) DIV c2) => x * (c1 // c2) + ((y + z) DIV c2) \
| c2 > 0 and c1 % c2 == 0 and NN(x * c1, y + z)
((y + x * c1 + z) DIV c2) => x * (c1 // c2) + ((y + z) DIV c2) \
| c2 > 0 and c1 % c2 == 0 and NN(x * c1, y + z)
((x * c1 - y + z) DIV c2) => x * (c1 // c2) + ((z - y) DIV c2) \
| c2 > 0 and c1 % c2 == 0 and NN(x * c1, z - y)
((x + c1) DIV c2) => (x DIV c2) + c1 // c2 | c2 > 0 and c1 % c2 == 0 and NN(x, x + c1)
(min(x * c1, y) DIV c2) => min(x * (c1 // c2), (y DIV c2)) | c2 > 0 and c1 % c2 == 0
(max(x * c1, y) DIV c2) => max(x * (c1 // c2), (y DIV c2)) | c2 > 0 and c1 % c2 == 0
(min(y, x * c1) DIV c2) => min((y DIV c2), x * (c1 // c2)) | c2 > 0 and c1 % c2 == 0
(max(y, x * c1) DIV c2) => max((y DIV c2), x * (c1 // c2)) | c2 > 0 and c1 % c2 == 0
((x + y) DIV x) => (y DIV x) + 1 | nn(x) and NN(y)
((y + x) DIV x) => (y DIV x) + 1 | nn(x) and NN(y)
((x + y + z) DIV x) => ((y + z) DIV x) + 1 | nn(x) and NN(y + z)
((y + x + z) DIV x) => ((y + z) DIV x) + 1 | nn(x) and NN(y + z)
((y + (x + z)) DIV x) => ((y + z) DIV x) + 1 | nn(x) and NN(y + z)
((y + (z + x)) DIV x) => ((y + z) DIV x) + 1 | nn(x) and NN(y + z)
((x * y) DIV y) -> x | nn(y)
((y * x) DIV y) -> x | nn(y)
((x * z + y) DIV z) => x + (y DIV z) | nn(z) and NN(x, y)
((z * x + y) DIV z) => x + (y DIV z) | nn(z) and NN(x, y)
((y + x * z) DIV z) => (y DIV z) + x | nn(z) and NN(x, y)
((y + z * x) DIV z) => (y DIV z) + x | nn(z) and NN(x, y)
((x * z * c1 + y) DIV (z * c1)) => x + (y DIV (z * c1)) | nn(z * c1) and NN(x * z * c1, y)
"""
_FLOOR_DIV_LAST = """
(x * c1 + y) // c2 => x * (c1 // c2) | c2 > 0 and inr(x * (c1 % c2) + y, c2)
(y + x * c1) // c2 => x * (c1 // c2) + y // c2 | c2 > 0 and c1 % c2 == 0
(x * c1 + y) // c2 => x * (c1 // c2) + (x * (c1 % c2) + y) // c2 | c1 > c2 > 0
(x - x % c1) // c1 -> x // c1
(x % 2 + c1) // 2 -> x % 2 + c1 // 2 | c1 % 2 == 1
bc(x, l) // bc(y, l) => bc(x // y, l)
ramp(b * c1 + c2, c3, c4) // bc(c5, c4) => bc(b * (c1 // c5) + c2 // c5, c4) \
| c1 % c5 == 0 and c2 // c5 == (c2 + c3 * (c4 - 1)) // c5
ramp(b * c1, c3, c4) // bc(c5, c4) => bc(b * c1 // c5, c4) \
| c5 > 0 and c5 % c1 == 0 and 0 <= c3 * (c4 - 1) < c1
ramp(b * c1, c3, c4) // bc(c5, c4) => bc(b * (c1 // c5), c4) \
| c5 > 0 and c1 % c5 == 0 and 0 <= c3 * (c4 - 1) < c5
"""
_TRUNC_DIV_LAST = """
tdiv(x, x) -> 1
tdiv(y + x * c1, c2) => tdiv(y, c2) + x * (c1 // c2) | c2 > 0 and c1 % c2 == 0 and nn(x * c1, y)
tdiv(ramp(b * c1 + c2, c3, c4), bc(c5, c4)) => bc(b * (c1 // c5) + c2 // c5, c4) \
| c1 % c5 == 0 and c2 // c5 == (c2 + c3 * (c4 - 1)) // c5 and nn(b) and c2 >= 0 \
and c2 + c3 * (c4 - 1) >= 0 and c1 > 0 and c5 > 0
"""
_MOD = """
(bc(x, l) MOD bc(y, l)) => bc((x MOD y), l)
(ramp(b, c1, l) MOD bc(c2, l)) => bc((b MOD c2), l) | c2 > 0 and c1 % c2 == 0 and NN(b, c1)
((x * c1) MOD c2) -> 0 | c1 % c2 == 0
((x * c1 + y) MOD c2) => (y MOD c2) | c2 > 0 and c1 % c2 == 0 and NN(x * c1, y)
((x + c1) MOD c2) => (x MOD c2) | c2 > 0 and c1 % c2 == 0 and NN(x, x + c1)
((x + y * c1) MOD c2) => (x MOD c2) | c2 > 0 and c1 % c2 == 0 and NN(x, y * c1)
((x * y) MOD y) -> 0
((y * x) MOD y) -> 0
"""
_FLOOR_MOD_LAST = """
(x * c1) % c2 => x * (c1 % c2) % c2 | c2 > 0 and c1 % c2 != c1
(x * c1 + y) % c2 -> (x % (c2 // c1)) * c1 + y \
| c1 > 0 and c2 % c1 == 0 and inr(y, c1) and c2 > c1
(x * c1 + y) % c2 => (x * (c1 % c2) + y) % c2 | c2 > 0 and c1 % c2 != c1
(x + y * c1) % c2 => (x + y * (c1 % c2)) % c2 | c2 > 0 and c1 % c2 != c1
(x + c1) % c2 => (x + c1 % c2) % c2 | c2 > 0 and c1 % c2 != c1
(x * z * c1 + y) % (z * c1) => y % (z * c1)
(x * z + y) % z => y % z
x % c1 -> x | inr(x, c1)
(x - x % c1) % c2 -> 0 | abs(c1) == abs(c2)
(x + (0 - x) % c1) % c1 -> 0
(x + (x * c1) % c2) % c2 -> 0 | (c1 + 1) % c2 == 0
(x - x % y) % y -> 0
(x - x % (0 - y)) % y -> 0
(x + (0 - x) % y) % y -> 0
ramp(b * c1 + c2, c3, c4) % bc(c5, c4) => ramp(c2 % c5, c3, c4) \
| c1 % c5 == 0 and c2 // c5 == (c2 + c3 * (c4 - 1)) // c5
ramp(b * c1, c3, c4) % bc(c5, c4) => ramp(0, c3, c4) \
| c5 > 0 and c1 % c5 == 0 and 0 <= c3 * (c4 - 1) < c5
ramp(b * c1, c3, c4) % bc(c5, c4) => ramp(b * c1 % c5, c3, c4) \
| c5 > 0 and c5 % c1 == 0 and 0 <= c3 * (c4 - 1) < c1
ramp(b * c1 + c2, s, l) % bc(c5, l) -> ramp(c2 % c5, s, l) % bc(c5, l) | c1 % c5 == 0
ramp(b * c1, s, l) % bc(c5, l) -> ramp(0, s, l) % bc(c5, l) | c1 % c5 == 0
"""
_TRUNC_MOD_LAST = """
tmod(x, c1) => tmod(x, 0 - c1) | c1 < 0
tmod(ramp(b * c1 + c2, c3, c4), bc(c5, c4)) => ramp(c2 % c5, c3, c4) \
| c1 % c5 == 0 and c2 // c5 == (c2 + c3 * (c4 - 1)) // c5 and nn(b) and c2 >= 0 \
and c2 + c3 * (c4 - 1) >= 0 and c1 > 0 and c5 > 0
tmod(ramp(b * c1 + c2, c3, c4), bc(c5, c4)) -> tmod(ramp(c2 % c5, c3, c4), bc(c5, c4)) \
| c1 % c5 == 0 and nn(b) and c2 >= 0 and c3 >= 0 and c1 > 0 and c5 > 0
"""
_EXTREMES = """
min(bc(x, l), bc(y, l)) => bc(min(x, y), l)
min(min(x, bc(y, l)), bc(z, l)) => min(x, bc(min(y, z), l))
min(c1, x) -> min(x, c1)
min(max(x, y), min(y, x)) -> min(x, y)
min(min(x, c1), c2) => min(x, min(c1, c2))
min(max(x, y), max(x, z)) => max(min(y, z), x)
min(max(x, y), max(z, x)) => max(min(y, z), x)
min(max(y, x), max(x, z)) => max(min(y, z), x)
min(max(y, x), max(z, x)) => max(min(y, z), x)
min(y + x, z + x) => min(y, z) + x
min(y + x, x + z) => min(y, z) + x
min(x + y, z + x) => min(y, z) + x
min(x + y, x + z) => min(y, z) + x
min(x - y, x - z) => x - max(y, z)
min(y - x, z - x) => min(y, z) - x
min(x * c1, y * c1) => min(x, y) * c1 | c1 > 0
min(x * c1, y * c1) => max(x, y) * c1 | c1 < 0
min(x * c1, c2) => min(x, c2 // c1) * c1 | c1 > 0 and c2 % c1 == 0
min(x * c1, c2) => max(x, c2 // c1) * c1 | c1 < 0 and c2 % c1 == 0
min(c1 - x, c2) => c1 - max(x, c1 - c2)
min(tdiv(x, c1), tdiv(y, c1)) => tdiv(min(x, y), c1) | c1 > 0
min(tdiv(x, c1), tdiv(y, c1)) => tdiv(max(x, y), c1) | c1 < 0
min(x // c1, y // c1) => min(x, y) // c1 | c1 > 0
min(x // c1, y // c1) => max(x, y) // c1 | c1 < 0
min(Sel(x, b, d), Sel(x, y, z)) -> Sel(x, min(b, y), min(d, z))
"""
_ROUNDED = """
min(tdiv(x + c1, c2) * c2, x) -> x | c2 > 0 and c1 == c2 - 1
min(x, tdiv(x + c1, c2) * c2) -> x | c2 > 0 and c1 == c2 - 1
min(tdiv(x + c1, c2) * c2, max(x, c2)) -> max(x, c2) | c2 > 0 and c1 == c2 - 1 and nn(x - 1)
min(max(x, c2), tdiv(x + c1, c2) * c2) -> max(x, c2) | c2 > 0 and c1 == c2 - 1 and nn(x - 1)
max(tdiv(x + c1, c2) * c2, x) -> tdiv(x + c1, c2) * c2 | c2 > 0 and c1 == c2 - 1
max(x, tdiv(x + c1, c2) * c2) -> tdiv(x + c1, c2) * c2 | c2 > 0 and c1 == c2 - 1
"""

RULES = "".join(
    part.lstrip("\n")
    for part in (
        _ADD,
        _both(_ADD_EXTREMES),
        _SUB,
        _division(_SUB_DIV.replace("(x DIV c1)", "((x) DIV c1)"), False),
        _division(_SUB_DIV.replace("(x DIV c1)", "((x) DIV c1)"), True),
        _both(_SUB_EXTREMES),
        _MUL,
        _division(_DIV, False),
        _FLOOR_DIV_LAST,
        _division(_DIV, True),
        _TRUNC_DIV_LAST,
        _division(_MOD, False),
        _FLOOR_MOD_LAST,
        _division(_MOD, True),
        _TRUNC_MOD_LAST,
        _ROUNDED,
        _both(_EXTREMES),
    )
)
