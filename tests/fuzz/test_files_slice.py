"""A slice of the fuzzer of damaged files for every run."""

import pytest

from .file_kinds import KINDS
from .files import run
from .test_fuzz_slice import fresh_seed


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_read_or_refused(name):
    findings = run(name, 60, fresh_seed())
    assert not findings, "\n".join(findings)
