"""A slice of the fuzzer of threads for every run."""

from .test_fuzz_slice import fresh_seed
from .threads import run


def test_eight_threads_build_call_and_drop():
    counts, findings = run(10, fresh_seed(), quiet=True)
    assert not findings, "\n".join(findings)
    assert counts["build"] and counts["call"] and counts["callbacks"]
