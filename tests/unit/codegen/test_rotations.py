"""Loops in which LLVM hands registers on in a ring are made anew."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tilewright as tw
from tilewright import te
from tilewright.codegen.llvm import backend, rotations
from tilewright.codegen.llvm.rotations import moves_in_rings, without_rings
from tilewright.target.target import Target

AVX512 = "llvm -mcpu=cascadelake"
RING = "".join(f"\tvmovaps\t%zmm{i + 1}, %zmm{i}\n" for i in range(24))


def full_tile() -> str:
    """LLVM IR of a 1 x 1 convolution whose 7 x 4 sums, with what they are made of, take a register
    more than there are."""
    width, lanes, panels, steps = 7, 16, 4, 512
    x = te.placeholder((14, 14, steps), name="x")
    w = te.placeholder((8, steps, panels * lanes), name="w")
    k = te.reduce_axis((0, steps), name="k")
    wide = panels * lanes
    c = te.compute(
        (14, 14, 8 * wide),
        lambda h, v, j: te.sum(x[h, v, k] * w[te.indexdiv(j, wide), k, te.indexmod(j, wide)], k),
        name="c",
    )
    s = te.create_schedule(c.op)
    sums = s.cache_write(c, "local")
    h, v, j = s[c].op.axis
    jo, ji = s[c].split(j, wide)
    ho, hi = s[c].split(h, 5)
    vo, vi = s[c].split(v, width)
    jj, lane = s[c].split(ji, lanes)
    s[c].reorder(jo, ho, hi, vo, vi, jj, lane)
    s[c].parallel(s[c].fuse(jo, ho))
    for axis in (vi, jj):
        s[c].unroll(axis)
    s[c].vectorize(lane)
    s[sums].compute_at(s[c], vo)
    h, v, j = s[sums].op.axis
    jj, lane = s[sums].split(j, lanes)
    s[sums].reorder(s[sums].op.reduce_axis[0], h, v, jj, lane)
    for axis in (h, v, jj):
        s[sums].unroll(axis)
    s[sums].vectorize(lane)
    return str(tw.build(s, [x, w, c], AVX512).get_source("ll"))


def test_rings_are_counted_in_text_and_in_code() -> None:
    source = f"""
define void @f() {{
  call void asm sideeffect "{re.sub(chr(10) + ".", "; ", RING.strip()).replace(chr(9), " ")}", ""()
  ret void
}}"""
    target = Target(AVX512)
    with backend.optimized(source, target) as (module, machine):
        assert moves_in_rings(bytes(machine.emit_object(module))) == 24
    assert moves_in_rings(RING) == 24
    assert moves_in_rings(RING.replace("zmm7\n", "zmm7\n\t.loc\t1 7 0\n.Ltmp3:\n")) == 24
    few = RING.replace("\tvmovaps\t%zmm8, %zmm7\n", "\tvaddps\t%zmm8, %zmm8, %zmm7\n")
    assert moves_in_rings(few) == 16  # 7 before it are no ring
    assert moves_in_rings("\tvmovaps\t%zmm1, 64(%rsp)\n" * 20) == 0


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(rotations, "_set_budget", found.append)
    return found


def test_code_is_made_anew_where_that_helps(budgets: list[int]) -> None:
    made = iter([RING, "better"])
    assert without_rings(lambda: next(made), "x86_64") == "better"
    assert budgets == [0, rotations._USUAL]
    made = iter([RING, RING + "\tret\n"])
    assert without_rings(lambda: next(made), "x86_64") == RING
    made = iter(["\tret\n"])
    assert without_rings(lambda: next(made), "x86_64") == "\tret\n"
    made = iter([RING])
    assert without_rings(lambda: next(made), "aarch64") == RING


def test_the_usual_limit_comes_back_after_an_error(budgets: list[int]) -> None:
    made: Iterator[str] = iter([RING])
    with pytest.raises(StopIteration):
        without_rings(lambda: next(made), "x86_64")
    assert budgets == [0, rotations._USUAL]
    assert without_rings(lambda: "after", "x86_64") == "after"


def test_nobody_makes_code_while_the_limit_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    inside: set[str] = set()
    wrong: list[set[str]] = []

    @contextmanager
    def entered(name: str) -> Iterator[None]:
        inside.add(name)
        if "alone" in inside and len(inside) > 1:
            wrong.append(set(inside))
        yield
        inside.discard(name)

    monkeypatch.setattr(rotations, "_set_budget", lambda value: None)
    gate = rotations._Gate()

    def work(name: str) -> None:
        for _ in range(200):
            with gate.shared(), entered(name):
                pass
            with gate.alone(), entered("alone"):
                pass

    threads = [threading.Thread(target=work, args=(str(i),)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong and not any(t.is_alive() for t in threads)


def test_a_tile_that_is_one_register_too_large() -> None:
    text, target = full_tile(), Target(AVX512)
    with backend.optimized(text, target) as (module, machine):
        plain = str(machine.emit_assembly(module))
    assert moves_in_rings(plain) >= 16, "LLVM no longer does this: rotations.py can go"
    assert moves_in_rings(backend.emit_assembly(text, target)) == 0
    assert moves_in_rings(backend.emit_object(text, target)) == 0
