"""The operator library's schedules as a space: what they ask, relatives, records of these."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.narrow import some
from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import COMPUTATIONS, Formula, policy_of, task_of
from tilewright import auto_scheduler as A
from tilewright import build, te, topi
from tilewright.auto_scheduler.library import LEARNED, Family, Library
from tilewright.auto_scheduler.transform import LayoutRewriteOption
from tilewright.base.errors import ScheduleError
from tilewright.topi.schedules.decisions import Decisions, NotOffered

AHEAD = LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED


def product(n: int = 37, m: int = 53, k: int = 41) -> list[Any]:
    """With a constant side."""
    a, b = te.placeholder((n, k), name="a"), te.placeholder((k, m), name="b")
    r = te.reduce_axis((0, k), "k")
    attrs = {"layout_free_placeholders": [b]}
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c", attrs=attrs)
    return [a, b, c]


def test_the_first_option_is_taken_unless_another_is_given() -> None:
    decisions = Decisions({"c.tile": (2, 2)})
    assert decisions.choose("c", "tile", [(1, 1), (2, 2), (2, 2)]) == (2, 2)
    assert decisions.choose("c", "way", [(3,), (4,)]) == (3,)
    assert decisions.asked == {"c.tile": ((1, 1), (2, 2)), "c.way": ((3,), (4,))}
    assert decisions.taken == {"c.tile": (2, 2), "c.way": (3,)}
    with pytest.raises(NotOffered, match=r"c\.tile is \[2, 2\], and .* one of \[1, 3\]"):
        decisions.choose("c", "tile", [(1, 3)])


def test_answers_change_the_program_and_make_it_again() -> None:
    task = task_of(product())
    plain = A.State.default(task)
    taken = plain.chosen.taken
    assert {q.rpartition(".")[2] for q in taken} >= {"way", "tile", "cut", "steps"}
    same = A.State.default(task, None, taken)
    assert str(same.schedule.normalize().as_python()) == str(plain.schedule.normalize().as_python())
    tile = next(t for t in plain.chosen.asked["c.tile"] if t != taken["c.tile"])
    other = A.State.default(task, None, {"c.tile": tile})
    assert other.schedule.as_python() != plain.schedule.as_python()
    again = A.State.from_rows(task.compute_dag, other.rows)
    assert again.schedule.as_python() == other.schedule.as_python()
    assert again.decisions == {"c.tile": tile}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("DD", "c.tile", (99, 1, 1)), ("DS", "llvm")], r"c\.tile is \[99, 1, 1\]"),
        ([("DD", "d.tile", (6, 1, 2)), ("DS", "llvm")], "no such operation"),
        ([("DD", "c.way", (0,)), ("DD", "c.way", (1,)), ("DS", "llvm")], "twice"),
        ([("DS", "llvm"), ("DD", "c.way", (0,)), ("DS", "llvm")], "only step"),
    ],
)
def test_answers_to_nothing_are_refused(rows: Any, says: str) -> None:
    with pytest.raises(ScheduleError, match=says):
        A.State.from_rows(task_of(product()).compute_dag, rows)


@pytest.mark.parametrize("option", [0, 2])
@pytest.mark.parametrize("kind", ["product", "few rows", "reduction", "convolution", "softmax"])
def test_relatives_compute_the_same(kind: str, option: int) -> None:
    """Drawn at random, far from the default, each of another program."""
    makers = {
        "product": product,
        "few rows": lambda: product(3, 301, 97),
        "reduction": lambda: C.norm(3, 211),
        "convolution": lambda: C.conv2d(9, 5, 13),
        "softmax": lambda: C.softmax(5, 403),
    }
    task = task_of(makers[kind](), layout_rewrite_option=option)
    family, rng = Family(task, None), np.random.default_rng(5)
    family.begin()
    assert family.ahead == (option == AHEAD)
    *inputs, out = task.compute_dag.tensors
    arrays = [rng.integers(-2, 3, [int(d) for d in t.shape]).astype("float32") for t in inputs]
    wanted: Any = None
    seen = set()
    for _ in range(12):
        answers = family.plain
        for _ in range(3):
            answers = family.related(answers, family.plain, rng)
        state, taken = some(family.state(answers))
        seen.add(tuple(sorted(taken.items())))
        sch, args, moved = A.apply_state(state, option)
        given = list(arrays)
        for one in moved:
            given[one.index] = one.apply(given[one.index])
        result = np.full([int(d) for d in out.shape], 77, "float32")
        build(sch, args, "llvm")(*given, result)
        wanted = result if wanted is None else wanted
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    plain = np.zeros_like(wanted)
    build(topi.default_schedule(out, "llvm"), [*inputs, out], "llvm")(*arrays, plain)
    np.testing.assert_allclose(wanted, plain, rtol=1e-5, atol=1e-5)
    assert len(seen) > (2 if kind in ("softmax", "reduction") else 4)


def test_what_does_not_fit_another_tile_is_left_out() -> None:
    """Pieces are multiples of a tile: those of one are none of another."""
    family = Family(task_of(product(97, 64, 48)), None)
    family.begin()
    first = some(family.state({"c.way": (0,), "c.tile": (6, 1, 2)}))[1]
    both = {**first, "c.tile": (5, 1, 2)}
    taken = some(family.state(both))[1]
    assert taken["c.tile"] == (5, 1, 2) and taken["c.cut"] != first["c.cut"]
    assert taken["c.way"] == (0,)


@pytest.mark.parametrize("cpu", ["x86-64", "haswell", "znver4"])
def test_relatives_are_new_and_come_from_the_best(cpu: str) -> None:
    task = task_of(product(), f"llvm -mcpu={cpu}")
    library, rng = Library(task, 0.0), np.random.default_rng(0)
    plain = library.due(64)
    assert [s.rows for s in plain] == [(("DS", f"llvm -mcpu={cpu}"),)]
    library.learn(plain[0].rows, 1.0)
    assert library.due(64) == []
    met: dict[Any, dict[str, Any]] = {}
    for n in range(6):
        for state in library.propose(4, rng, lambda _: None):
            assert state.rows not in met and state.is_default
            met[state.rows] = state.decisions
            library.learn(state.rows, 2.0 + n)
    assert len(met) > 12
    liked, wanted = max(met.items(), key=lambda one: len(one[1]))
    library.learn(liked, 1e-3)
    family, best = library._parents()[0]
    assert best == wanted

    def distance(parent: dict[str, Any]) -> float:
        """How many answers of the best one, relatives of this one have otherwise."""
        related = [some(family.state(family.related(parent, parent, rng)))[1] for _ in range(40)]
        return float(np.mean([sum(r.get(q) != v for q, v in best.items()) for r in related]))

    far = max(met.values(), key=lambda d: sum(d.get(q) != v for q, v in best.items()))
    assert distance(best) < distance(far) - 0.5


def test_what_was_drawn_and_not_chosen_may_come_later() -> None:
    library, rng = Library(task_of(product()), 0.0), np.random.default_rng(0)
    library.learn(library.due(1)[0].rows, 1.0)
    for n in range(6):
        for state in library.propose(4, rng, lambda _: None):
            library.learn(state.rows, 2.0 + n)
    barred = len(library._met)
    assert len(library.costs) >= LEARNED
    assert len(library.propose(2, rng, lambda _: None)) == 2
    assert len(library._met) == barred + 2


def test_a_relative_answers_what_its_parent_was_asked() -> None:
    family, rng = Family(task_of(product(97, 64, 48)), None), np.random.default_rng(1)
    family.begin()
    for parent in (family.plain, some(family.state({"c.way": (1,)}))[1]):
        asked = family.asked(parent)
        assert parent.keys() == asked.keys()
        for _ in range(30):
            answers = family.related(parent, parent, rng)
            changed = [q for q, v in answers.items() if q in parent and v != parent[q]]
            assert changed and all(answers[q] in asked[q] for q in changed)


def test_where_nothing_is_asked_there_are_no_relatives() -> None:
    x = te.placeholder((5, 7), name="x")
    task = task_of([x, te.compute(x.shape, lambda i, j: x[i, j] + 1.0, name="y")])
    assert Library(task, 0.0).propose(8, np.random.default_rng(0), lambda _: None) == []


def test_a_part_of_each_round_are_relatives_by_what_they_were_worth() -> None:
    library = Library(task_of(product()), 0.0)
    assert library.part_of(8, float("inf")) == 4
    library.learn((("DS", "llvm"),), 1e-3)
    assert library.part_of(10, 1e-3) == 5
    assert library.part_of(10, 2e-3) == 8  # they are ahead
    assert library.part_of(10, 1e-4) == 2


def test_records_keep_answers(tmp_path: Path) -> None:
    path = str(tmp_path / "r.json")
    tensors = COMPUTATIONS["matmul_relu"]()
    policy = policy_of(tensors, evolutionary_search_population=32)
    inputs, results = policy.continue_search_one_round(8, Formula())
    relatives = [i for i in inputs if i.state.decisions]
    assert relatives
    A.save_records(path, inputs, results)
    for (found, _), item in zip(A.load_records(path), inputs):
        assert found.state.rows == item.state.rows
    again = policy_of(tensors, callbacks=[A.PreloadMeasuredStates(path)])
    assert again.library.costs == policy.library.costs
    assert again.best_cost == policy.best_cost
    text = Path(path).read_text().replace("C.", "Z.")
    Path(path).write_text(text)
    other = policy_of(tensors, callbacks=[A.PreloadMeasuredStates(path)])
    assert set(other.library.costs) == {(("DS", "llvm"),)}
