"""The importer against onnx's own backend tests: what passed once must pass."""

from pathlib import Path

import pytest

from tests.graph.conformance import conformance_cases, different, run_case

PASSES = Path(__file__).with_name("conformance.txt")
"""Names of cases that passed, one a line; `python -m tests.graph.test_conformance` adds to it."""
PARTS = 48


def passes() -> set[str]:
    return set(PASSES.read_text().split())


@pytest.mark.parametrize("part", range(PARTS))
def test_cases_that_passed(part: int) -> None:
    found = conformance_cases()
    names = sorted(passes() & set(found))[part::PARTS]
    assert names
    failures = []
    for name in names:
        try:
            run_case(found[name])
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


def test_every_case_passes_or_has_a_reason() -> None:
    found, passed = conformance_cases(), passes()
    assert len(passed & set(found)) >= 1980
    left = sorted(n for n in found if n not in passed and different(n) is None)
    assert not left, f"neither in {PASSES.name} nor in DIFFERENT: {left}"


def main() -> None:
    """Run what is not in the list, and add what passes."""
    known = passes() if PASSES.exists() else set()
    for name, case in conformance_cases().items():
        if name in known:
            continue
        try:
            run_case(case)
            known.add(name)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    PASSES.write_text("\n".join(sorted(known)) + "\n")
    print(len(known), "pass")


if __name__ == "__main__":
    main()
