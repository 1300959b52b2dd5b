"""Tutorials as notebooks and pages: cells, what they show, and the pictures of tutorials."""

import json
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools import tutorials
from tools.tutorials import PICTURE, TEXT, Cell, cells, execute, notebook, page

PROGRAM = """\
# ---
# jupyter: {}
# ---
# %% [markdown]
# # Title
#
# For the test.

# %%
x = 6
print("printed")
x * 7

# %% tags=["solution"]
class Drawn:
    def _repr_svg_(self):
        return "<svg><title>drawn</title></svg>"


Drawn()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "01_program.py"
    path.write_text(PROGRAM)
    return path


def test_cells_are_told_apart_and_know_their_lines() -> None:
    first, second, third = cells(PROGRAM)
    assert first == Cell(True, "# Title\n\nFor the test.", 5)
    assert second == Cell(False, 'x = 6\nprint("printed")\nx * 7', 10)
    assert third.solution and third.source.startswith("class Drawn")


def test_what_cells_print_and_end_with_is_shown(program: Path) -> None:
    _, second, third = execute(program)
    assert second.outputs == [(TEXT, "printed"), (TEXT, "42")]
    assert third.outputs == [(PICTURE, "<svg><title>drawn</title></svg>")]


def test_a_page_has_outputs_folded_solutions_and_where_it_ran(program: Path) -> None:
    text = page(program, execute(program), "a machine")
    assert text.startswith("# Title\n\nFor the test.\n")
    assert "```text\nprinted\n```\n\n```text\n42\n```" in text
    assert '??? success "Solution"\n\n    ```python\n    class Drawn' in text
    assert "    <figure>\n    <svg><title>drawn</title></svg>\n    </figure>" in text
    assert "from a run on a machine" in text
    assert "without running" in page(program, cells(PROGRAM), "")


def test_a_notebook_has_the_same_cells_and_outputs(program: Path) -> None:
    made = json.loads(notebook(execute(program)))
    assert (made["nbformat"], [c["cell_type"] for c in made["cells"]]) == (
        4,
        ["markdown", "code", "code"],
    )
    assert made["cells"][1]["outputs"][0] == {
        "output_type": "stream",
        "name": "stdout",
        "text": "printed\n",
    }
    assert made["cells"][2]["outputs"][0]["data"] == {
        PICTURE: "<svg><title>drawn</title></svg>",
        TEXT: "drawn",
    }


def test_a_mistake_in_a_tutorial_is_told_with_its_line(program: Path) -> None:
    program.write_text(PROGRAM + "\n\n# %%\nx = 1\nraise KeyError(x)\n")
    with pytest.raises(KeyError) as caught:
        execute(program)
    assert caught.traceback[-1].lineno == len(PROGRAM.splitlines()) + 4
    assert str(caught.traceback[-1].path) == str(program)


def test_a_failing_tutorial_fails_the_page(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write_text("# %% [markdown]\n# # T\n# %%\nassert False, 'no'\n")
    monkeypatch.setattr(tutorials, "KEPT", program.parent / "kept")
    with pytest.raises(RuntimeError, match=r"01_program\.py fails:(.|\n)*no"):
        tutorials.rendered(program)


def test_pictures_are_well_formed_and_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tutorials.FOLDER))
    show = import_module("show")
    bars = show.bars("Speed", {"a <b>": 1.0, "c": 4.0}, "GFLOP/s", ("peak", 8.0))
    root = ElementTree.fromstring(bars._repr_svg_())
    space = "{http://www.w3.org/2000/svg}"
    widths = [float(rect.attrib["width"]) for rect in root.iter(f"{space}rect")]
    assert widths[1] == pytest.approx(4 * widths[0], rel=0.01)
    assert root.attrib["aria-label"] == "Speed in GFLOP/s: a <b> 1, c 4; peak 8"
    curves = show.curves("Best", {"x": [1, 2, 3], "y": [2, 2, 2]}, "trials", "GFLOP/s")
    lines = list(ElementTree.fromstring(curves._repr_svg_()).iter(f"{space}polyline"))
    assert [len(line.attrib["points"].split()) for line in lines] == [3, 3]


ASM = """\
f:
\tmovq\t%rdi, %rax
.LBB0_1:
\tvaddps\t%ymm0, %ymm1, %ymm1
.LBB0_2:
\tvfmadd231ps\t(%rax), %ymm0, %ymm1
\taddq\t$32, %rax
\tjne\t.LBB0_2
\tjne\t.LBB0_1
.LBB0_3:
\taddq\t$1, %rcx
\tjne\t.LBB0_3
\tretq
"""


def test_the_hot_loop_is_the_innermost_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tutorials.FOLDER))
    show = import_module("show")
    assert show.hot_loop(ASM) == (
        ".LBB0_2:\n\tvfmadd231ps\t(%rax), %ymm0, %ymm1\n\taddq\t$32, %rax\n\tjne\t.LBB0_2"
    )
