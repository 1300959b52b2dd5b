"""A slice of the fuzzer of damaged files for every run."""

import pytest

from .file_kinds import KINDS
from .files import run
from .test_fuzz_slice import fresh_seed

READ_BY_XGBOOST = ("model", "model-json")  # in C++, which trusts what a model says of itself


@pytest.mark.parametrize("name", [k for k in KINDS if k not in READ_BY_XGBOOST])
def test_damaged_files_are_read_or_refused(name):
    findings = run(name, 60, fresh_seed())
    assert not findings, "\n".join(findings)
