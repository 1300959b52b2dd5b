"""Which names programs use: by every way of importing them, and methods of evident objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright.vocabulary.verdict as verdict_module
from tilewright.vocabulary import find, read_entries
from tilewright.vocabulary.scan import UnreadableError, Use, scan_file, scan_text
from tilewright.vocabulary.verdict import UNLISTED, judge, verdict


def names(text: str) -> list[str]:
    return [name for name, _ in scan_text(text)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("import tvm\ntvm.build(1)", ["", "build"]),
        ("import tvm.te as t\nt.compute", ["te", "te.compute"]),
        ("import tvm.te\ntvm.te.var()", ["te", "te.var"]),
        ("from tvm import te as t, topi\nt.exp; topi.sum", ["te", "topi", "te.exp", "topi.sum"]),
        ("from tvm.te import compute\ncompute()", ["te.compute", "te.compute"]),
        ("from tvm.topi import *", ["topi"]),
        ("import tvm.relay.op as o, numpy as np\nnp.exp; o.x", ["relay.op", "relay.op.x"]),
        ("import numpy as tvm\ntvm.build", []),
        ("from .tvm import te\nte.x", []),
        ("from tilewright import te\nte.compute", []),
        ("import tvm\nx = tvm.te\nx.compute", ["", "te", "te.compute"]),
        ("def f():\n    return tvm.build\nimport tvm", ["build", ""]),
        ("def f():\n    import tvm\n    tvm.build\ntvm.nothing", ["", "build"]),
        ("from tvm import te\ndef f(te):\n    te.compute", ["te"]),
        ("from tvm import te\nfor te in x:\n    te.compute", ["te"]),
        ("from tvm import te\n[te.a for te in te.b]", ["te", "te.b"]),
        ("try:\n    from tvm import te\nexcept ImportError:\n    pass\nte.x", ["te", "te.x"]),
        ("import tvm\n@tvm.register_func\ndef f(): pass", ["", "register_func"]),
        ("import tvm\nf'{tvm.build}'", ["", "build"]),
    ],
)  # fmt: skip
def test_imports_and_aliases(text: str, want: list[str]) -> None:
    assert names(text) == want


def test_names_of_star_imports_are_those_of_the_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.vocabulary.scan.inventory", lambda: {"topi.sum": None})
    text = "from tvm.topi import *\nsum(x); abs(x)\ndef f(sum):\n    sum(x)"
    assert names(text) == ["topi", "topi.sum"]


MADE = "import tvm\nfrom tvm import te, autotvm, auto_scheduler\n"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("s = te.create_schedule(x)\ns.normalize()", "te.Schedule.normalize"),
        ("s = te.create_schedule(x)\nxo, xi = s[C].split(a)\nxi.var", "tir.IterVar.var"),
        ("st = te.create_schedule(x)[C]\nst.bind()", "te.Stage.bind"),
        ("te.create_schedule(x)[C].bind()", "te.Stage.bind"),
        ("te.compute(a, b).op.axis", "te.Operation.axis"),
        ("A, (B, C) = te.var('a'), (te.compute(a), 1)\nB.shape", "te.Tensor.shape"),
        ("def f(s: te.Schedule): s.cache_read(1)", "te.Schedule.cache_read"),
        ("s: te.Schedule = g()\ns.cache_read(1)", "te.Schedule.cache_read"),
        ("f = tvm.build(s)\nf.time_evaluator", "runtime.Module.time_evaluator"),
        ("with tvm.target.Target('llvm') as t:\n    t.kind", "target.Target.kind"),
        ("self.s = te.create_schedule(x)\nself.s.rfactor(a)", "te.Schedule.rfactor"),
        ("c = autotvm.get_config()\nc.knob()", "autotvm.task.space.ConfigSpace.knob"),
        ("t = auto_scheduler.SearchTask()\ns, args = t.apply_best(f)\ns[x].fuse", "te.Stage.fuse"),
        ("(b := tvm.nd.array(x)).numpy()", "nd.NDArray.numpy"),
    ],
)  # fmt: skip
def test_methods_of_evident_objects(text: str, want: str) -> None:
    assert want in names(MADE + text)


def test_functions_that_are_spelt_like_classes_make_no_objects() -> None:
    text = MADE + "te.schedule.SchedulePostProcToPrimFunc(x).with_attr"
    assert names(text)[4:] == ["te.schedule.SchedulePostProcToPrimFunc"]


def test_what_is_not_evident_is_not_guessed() -> None:
    text = MADE + "A = te.compute(x)\nA.shape[0].value\nA.shape.foo\nf(A).bar\nA = 3\nA.dtype"
    assert names(text)[4:] == ["te.compute", "te.Tensor.shape", "te.Tensor.shape"]


def test_classes_that_are_evident_are_there() -> None:
    from tilewright.vocabulary.evident import ATTRIBUTES, CALLS, ELSEWHERE, ITEMS
    from tilewright.vocabulary.verdict import is_there

    made = [part for v in CALLS.values() for part in (v if isinstance(v, tuple) else (v,))]
    classes = {*made, *ATTRIBUTES.values(), *ITEMS, *ITEMS.values()} - ELSEWHERE
    missing = [name for name in sorted(classes) if find(name) is None and not is_there(name)]
    assert not missing


def test_notebooks_say_cell_and_line(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "import tvm"},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip x\n", "import tvm\n"]},
        {"cell_type": "code", "source": "%%bash\nls"},
        {"cell_type": "code", "source": "if 1:\n    %time f()\ntvm.build?\ntvm.lower(s)"},
    ]  # fmt: skip
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    assert scan_file(path) == [
        Use("", f"{path}:cell 2:3"),
        Use("lower", f"{path}:cell 4:4"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.py", "print 'x'", "a.py:1: Missing parentheses"),
        ("a.py", "x = '\0'", "null bytes"),
        ("a.ipynb", "{", "no notebook"),
        ("a.ipynb", "[]", "no notebook"),
        ("a.py", "(" * 5000, "a.py"),
    ],
)
def test_what_is_no_program_is_said(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UnreadableError, match=message):
        scan_file(tmp_path / name)


def test_long_sums_are_read_and_deep_nests_refused() -> None:
    assert len(names("import tvm\nx = " + "\\\n+ ".join(["tvm.te"] * 900))) == 901
    with pytest.raises(UnreadableError, match="nested too deeply"):
        scan_text("import tvm\nx = tvm" + ".a" * 900)


def test_verdicts_by_other_paths_and_by_looking() -> None:
    assert verdict("").mark == "same"
    assert verdict("relay.op.nn.dense").mark == "absent"
    assert verdict("te.no_such_name").mark == "absent"
    assert verdict("te.create_schedule").mark in ("same", "differs", UNLISTED)
    assert verdict("te.schedule.create_schedule").mark == verdict("te.create_schedule").mark
    assert verdict("tir.Schedule.no_such_method").mark == "absent"


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An inventory of a few lines."""
    lines = [
        "te.ComputeOp.axis | same", "te.create_schedule | differs | somehow", "tir.Let | same",
        "tir.Schedule | absent | it is of blocks", "tir.all | same", "tir.exp | differs | a bit",
    ]  # fmt: skip
    known = {e.name: e for e in read_entries(lines, "f.txt")}
    monkeypatch.setattr(verdict_module, "inventory", lambda: known)
    monkeypatch.setattr(verdict_module, "find", known.get)
    verdict_module._tails.cache_clear()
    yield
    verdict_module._tails.cache_clear()


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("te.schedule.create_schedule", "differs"), ("te.Operation.axis", "same"),
        ("te.all", "same"), ("te.exp", "differs"), ("tir.Let.value", "same"),
        ("tir.Schedule.cache_read", "absent"), ("te.Schedule.cache_read", UNLISTED),
        ("topi.exp", UNLISTED), ("te.Operation.nothing", "absent"), ("tir.Let.nothing", "absent"),
    ],
)  # fmt: skip
def test_names_without_a_line_of_their_own(listed: None, name: str, mark: str) -> None:
    assert verdict(name).mark == mark


def test_what_is_absent_comes_first() -> None:
    uses = [Use("te", "a:1"), Use("relay", "a:2"), Use("te", "b:7")]
    first, second = judge(uses)
    assert (first.name, second.name, second.places) == ("relay", "te", ["a:1", "b:7"])
