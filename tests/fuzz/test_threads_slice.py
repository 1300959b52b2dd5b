"""A slice of the fuzzer of threads for every run."""

from .test_fuzz_slice import fresh_seed
from .threads import run


def test_eight_threads_build_call_and_drop():
    seed = fresh_seed()
    for seconds in (10, 60):  # on a busy machine little is done in ten
        counts, findings = run(seconds, seed, quiet=True)
        assert not findings, "\n".join(findings)
        if all(counts[name] for name in ("build", "call", "callbacks")):
            break
    assert counts["build"] and counts["call"] and counts["callbacks"]
