"""What a user meets before the first line of code: imports, metadata, the README's commands."""

import re
import subprocess
import sys
from importlib.metadata import entry_points, metadata
from pathlib import Path

import pytest

import tilewright

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
HEAVY = ("onnx", "torch", "rich", "click", "xgboost", "scipy", "llvmlite", "onnxruntime")


def command_after(mark: str) -> list[str]:
    """Lines of the fenced block that follows <!-- mark --> in the README."""
    found = re.search(rf"<!-- {mark} -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert found, f"README.md lacks the block marked {mark!r}"
    return found.group(1).splitlines()


def run_python(code: str, folder: Path | None = None) -> str:
    """What a fresh Python prints for ``code``, with warnings as errors."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, tilewright; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run_python(code).strip() == "[]"


def test_everything_the_face_promises_is_there() -> None:
    missing = [name for name in dir(tilewright) if getattr(tilewright, name, None) is None]
    assert missing == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = tilewright.no_such_thing  # type: ignore[attr-defined]


def test_metadata() -> None:
    about = metadata("tilewright")
    assert about["Version"] == tilewright.__version__
    assert about["Requires-Python"] == ">=3.10"
    assert "Apache-2.0" in (about["License-Expression"] or "")
    assert (ROOT / "LICENSE").read_text().lstrip().startswith("Apache License")


def test_the_command_line_is_installed() -> None:
    scripts = {e.name: e.value for e in entry_points(group="console_scripts")}
    assert scripts["tilewright"] == "tilewright.cli.main:main"


@pytest.mark.parametrize("mark", ["quick start", "tests"])
def test_readme_commands_are_one_line_and_make_their_own_environment(mark: str) -> None:
    (command,) = command_after(mark)
    first, *rest = command.split(" && ")
    assert first == "python3 -m venv .venv"
    assert rest and all(part.startswith(".venv/bin/python ") for part in rest)
    for path in re.findall(r"\S+\.py\b", command):
        assert (ROOT / path).is_file()


def test_the_first_schedule_of_the_readme_runs() -> None:
    program, _ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    lines = [
        line for line in program.splitlines() if line and not line.startswith(("import", "from"))
    ]
    assert len(lines) <= 15
    assert run_python(program).splitlines()[-1].startswith("True ")


def test_the_search_of_the_readme_runs(tmp_path: Path) -> None:
    first, search = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    imports = [line for line in first.splitlines() if line.startswith(("import", "from"))]
    assert len([line for line in search.splitlines() if line]) <= 12
    check = "c = np.zeros((512, 512), 'float32')\nf(c + 1, c + 1, c)\nprint((c == 512).all())"
    program = "\n".join([*imports, search.replace("trials=8", "trials=2"), check])
    assert run_python(program, tmp_path).splitlines()[-1] == "True"
    assert (tmp_path / "matmul.db").is_file()


def test_readme_links_lead_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert (ROOT / target).exists(), f"{document.name} links to {target}"


def test_the_version_stands_in_one_place() -> None:
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
    for name in ("pyproject.toml", "CITATION.cff", "mkdocs.yml"):
        lines = (ROOT / name).read_text().splitlines()
        assert not [line for line in lines if re.match(r"version\b.*\d", line)], name


def test_the_source_distribution_has_tests_docs_and_examples() -> None:
    lines = (ROOT / "MANIFEST.in").read_text().splitlines()
    whole = {line.split()[1] for line in lines if line.startswith("graft ")}
    assert {"tests", "docs", "examples", "benchmarks", "tools"} <= whole
    named = [name for line in lines if line.startswith("include ") for name in line.split()[1:]]
    assert [path for path in (*whole, *named) if not (ROOT / path).exists()] == []


def test_xgboost_is_not_needed_but_by_who_trains() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    plain = re.findall(
        r'^  "([a-z_]+)', text.partition("\ndependencies = [")[2].partition("\n]")[0], re.M
    )
    assert plain == ["numpy", "ml_dtypes", "llvmlite", "onnx", "jinja", "rich", "click"]
    assert re.search(r'^train = \["xgboost-cpu', text, re.M)


def test_the_changelog_knows_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## {tilewright.__version__}" in text and "## Unreleased" in text


def test_issue_templates_are_forms() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert {"bug.yml", "slow.yml", "tvm.yml", "idea.yml"} <= {p.name for p in forms}
    for path in forms:
        text = path.read_text()
        assert "\t" not in text
        if path.name != "config.yml":
            assert re.search(r"^name: \S", text) and "\nbody:\n" in text
